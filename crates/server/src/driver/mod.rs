//! The driver: runs a member with threads, sockets and real files.
//!
//! Threads: one loop that owns the member (raft, apply, watch matching), one for the log's appends
//! and syncs, one for commits to the database, a few for long reads, catching up and compaction
//! plans; and the transport's workers, which call in here through [`Handle`]. What they share with
//! the loop is immutable views and a bounded mailbox: nobody but the loop touches the member.
//!
//! Order that is kept: a view is published before the replies that rest on it go out.

mod applied;
mod awaiting;
mod member_loop;
mod pace;
mod peer_host;
mod read_pool;
mod stages;

pub use member_loop::{Input, Settings, Started, start};
pub use pace::Pace;
pub use read_pool::ReadPool;

use crate::cluster_versions::Wakes;
use crate::metrics::{METRICS, Tally};
use crate::services::Caller;
use crate::transport::{Body, Status as GrpcStatus, WakeBatch};
use arc_swap::ArcSwap;
use prost::Message as _;
use quorate_api as api;
use quorate_api::etcdserverpb::{CompactionRequest, InternalRaftRequest, RequestHeader};
use quorate_node::ids::RequestIds;
use quorate_node::store::View;
use quorate_node::store::index::Root;
use quorate_node::store::watch::Counts;
use quorate_node::{Member, Proposal, ProposalKind, Reply, Status};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is run, on the loop, with the member's reply; it must be brief.
pub type Then = Box<dyn FnOnce(Reply, &mut WakeBatch) + Send>;

/// Who waits for the member.
pub enum Waiter {
    /// A call whose answer follows from the entry's, and what the entry will come to.
    Answer(Caller, Tally),
    /// Anything else; runs on the loop and must be brief.
    Then(Then),
}

/// A question to the member, asked on its loop.
pub type Question = Box<dyn FnOnce(&mut Member<Waiter>, &mut WakeBatch) + Send>;

/// What threads share with the loop.
pub struct Shared {
    /// The newest view.
    view: ArcSwap<View>,
    status: ArcSwap<Status>,
    reads_are_local: AtomicBool,
    term: AtomicU64,
    wakes: Arc<Wakes>,
    /// When the loop ticked last.
    ticked_ms: AtomicU64,
    watch_counts: ArcSwap<Counts>,
    stopping: AtomicBool,
    /// Peers whose servers are known to be quorate.
    kin: ArcSwap<BTreeSet<u64>>,
    ids: RequestIds,
    member_id: u64,
    cluster_id: u64,
    started: Instant,
    roots: Mutex<KeptRoots>,
}

/// The way to the member, from any thread.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    mailbox: SyncSender<Input>,
    /// For long reads.
    pub reads: Arc<ReadPool>,
}

/// What came together and goes to the member together.
struct Round {
    proposals: Vec<Proposal<Waiter>>,
    reads: Vec<Waiter>,
}

thread_local! {
    /// The round that this worker thread is in; see [`Handle::flush`].
    static ROUND: RefCell<Round> = const {
        RefCell::new(Round { proposals: Vec::new(), reads: Vec::new() })
    };
}

impl Handle {
    /// The newest view.
    pub fn view(&self) -> Arc<View> {
        self.shared.view.load_full()
    }

    /// Where the member stands.
    pub fn status(&self) -> Status {
        **self.shared.status.load()
    }

    /// Whether this member is the leader, as far as it knows.
    pub fn leads(&self) -> bool {
        self.shared.status.load().leader == self.shared.member_id
    }

    /// Raft's term.
    pub fn term(&self) -> u64 {
        self.shared.term.load(Ordering::Relaxed)
    }

    /// This member's id.
    pub fn member_id(&self) -> u64 {
        self.shared.member_id
    }

    /// The cluster's id.
    pub fn cluster_id(&self) -> u64 {
        self.shared.cluster_id
    }

    /// Milliseconds since the start.
    pub fn now_ms(&self) -> u64 {
        self.shared.now_ms()
    }

    /// Wakes whoever watches versions.
    pub fn wakes(&self) -> Arc<Wakes> {
        self.shared.wakes.clone()
    }

    /// When the member's clock ticked last, on that clock.
    pub fn ticked_ms(&self) -> u64 {
        self.shared.ticked_ms.load(Ordering::Relaxed)
    }

    /// Whether the newest view may answer a linearizable read as it is.
    pub fn reads_are_local(&self) -> bool {
        self.shared.reads_are_local.load(Ordering::Acquire)
    }

    /// Whether every member of the cluster, as far as this one knows it, runs quorate at this moment.
    pub fn all_are_kin(&self, view: &View) -> bool {
        let kin = self.shared.kin.load();
        let mut others = view.members.iter().filter(|m| m.id != self.member_id());
        others.all(|member| kin.contains(&member.id))
    }

    /// The pace for sending a database, from now on.
    pub fn pace(&self) -> Pace {
        Pace::new(self.shared.clone())
    }

    /// Whether the server is on its way down.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// Draws a request id.
    pub fn draw_id(&self) -> u64 {
        self.shared.ids.draw()
    }

    /// Takes a proposal into the round of this thread; it leaves with the next [`Handle::flush`].
    pub fn propose(&self, proposal: Proposal<Waiter>) {
        ROUND.with_borrow_mut(|round| round.proposals.push(proposal));
    }

    /// Sends the proposals and the reads of this thread's round on their way, together.
    pub fn flush(&self) {
        let (proposals, reads) = ROUND.with_borrow_mut(|round| {
            let Round { proposals, reads } = round;
            (std::mem::take(proposals), std::mem::take(reads))
        });
        if !proposals.is_empty() {
            self.send(Input::Propose(proposals));
        }
        if !reads.is_empty() {
            self.send(Input::Read(reads));
        }
    }

    /// Runs `then` once the newest view covers all that was acknowledged before this call. It is
    /// taken into the round of this thread, and leaves with the next [`Handle::flush`].
    pub fn linearizable(&self, then: Then) {
        let waiter = Waiter::Then(Box::new(move |reply, batch| {
            if matches!(reply, Reply::Failed(_)) {
                METRICS.read_indexes_failed.inc();
            }
            then(reply, batch);
        }));
        ROUND.with_borrow_mut(|round| round.reads.push(waiter));
    }

    /// Runs `then` once everything applied so far is durable in the database.
    pub fn commit_then(&self, then: Then) {
        self.send(Input::Commit(Waiter::Then(then)));
    }

    /// Proposes a compaction and sends it on its way; its outcome, and the time it took, go to
    /// `told`.
    pub fn compact(&self, revision: i64, told: Sender<(Result<(), api::Error>, Duration)>) {
        let began = Instant::now();
        let request = InternalRaftRequest {
            compaction: Some(CompactionRequest {
                revision,
                physical: false,
            }),
            ..Default::default()
        };
        let then = move |reply, _: &mut WakeBatch| {
            // Whoever asked may be gone with the server.
            let outcome = match reply {
                Reply::Outcome(Ok(_)) | Reply::Ready => Ok(()),
                Reply::Outcome(Err(error)) | Reply::Failed(error) => Err(error),
            };
            let _gone = told.send((outcome, began.elapsed()));
        };
        self.propose_own(request, Some(Waiter::Then(Box::new(then))));
        self.flush();
    }

    /// Proposes what no client has asked for in these words; it leaves with the next
    /// [`Handle::flush`].
    fn propose_own(&self, request: InternalRaftRequest, token: Option<Waiter>) {
        let id = self.draw_id();
        let header = Some(RequestHeader {
            id,
            ..Default::default()
        });
        let request = InternalRaftRequest { header, ..request };
        self.propose(Proposal {
            id,
            data: request.encode_to_vec().into(),
            token,
            kind: ProposalKind::Ordinary,
        });
    }

    /// Numbers about watchers, as of a moment ago.
    pub fn watch_counts(&self) -> Counts {
        **self.shared.watch_counts.load()
    }

    /// Asks the member something; an error where it cannot be asked now.
    pub fn ask(&self, question: Question) -> Result<(), api::Error> {
        self.mailbox
            .try_send(Input::Ask(question))
            .map_err(|refused| match refused {
                TrySendError::Full(_) => api::Error::RequestTooManyRequests,
                TrySendError::Disconnected(_) => api::Error::Stopped,
            })
    }

    /// Runs the vacuum until it finds nothing to do; waits for readers that are in its way.
    pub fn defragment(&self, then: Then) {
        let began = Instant::now();
        METRICS.defragmentations.fetch_add(1, Ordering::Relaxed);
        self.send(Input::Defragment(Waiter::Then(Box::new(
            move |reply, batch| {
                METRICS.defragmentations.fetch_sub(1, Ordering::Relaxed);
                METRICS.defragmentation.observe(began.elapsed());
                then(reply, batch);
            },
        ))));
    }

    /// Hands leadership over, if this member has it and another can take it, and runs `then`.
    pub fn hand_over(&self, then: Then) {
        self.send(Input::HandOver(Waiter::Then(then)));
    }

    fn send(&self, input: Input) {
        let (refused, error) = match self.mailbox.try_send(input) {
            Ok(()) => return,
            Err(TrySendError::Full(input)) => (input, api::Error::RequestTooManyRequests),
            Err(TrySendError::Disconnected(input)) => (input, api::Error::Stopped),
        };
        let waiters = match refused {
            Input::Propose(proposals) => {
                let tokens = proposals.into_iter().filter_map(|proposal| proposal.token);
                tokens.collect()
            }
            Input::Read(waiters) => waiters,
            Input::Commit(waiter) | Input::Defragment(waiter) | Input::HandOver(waiter) => {
                vec![waiter]
            }
            _ => unreachable!("nothing else is sent this way"),
        };
        let mut batch = WakeBatch::new();
        for waiter in waiters {
            self.shared.reply(waiter, Reply::Failed(error), &mut batch);
        }
    }

    /// Stops the loop; `done` is told when everything is on disk.
    pub fn stop(&self, done: Sender<()>) {
        self.shared.stopping.store(true, Ordering::Release);
        // A loop that is gone already has nothing left to stop.
        let _gone = self.mailbox.send(Input::Stop(done));
    }

    /// Keeps an answer's root for a while: the reader will come back for the next page at its
    /// revision, and will want the count again.
    pub fn keep_root(&self, view: &View) {
        let now_ms = self.now_ms();
        self.shared.roots().keep(view, now_ms);
    }

    /// The root of exactly this revision, where it was kept.
    pub fn kept_root(&self, revision: i64) -> Option<Root> {
        if revision <= 0 {
            return None;
        }
        let now_ms = self.now_ms();
        self.shared.roots().find(revision, now_ms)
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn roots(&self) -> std::sync::MutexGuard<'_, KeptRoots> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a waiter.
    fn reply(&self, waiter: Waiter, reply: Reply, batch: &mut WakeBatch) {
        match waiter {
            Waiter::Answer(responder, _) => {
                let answer = match reply {
                    Reply::Outcome(Ok(answer)) => Ok(self.encode(answer)),
                    Reply::Outcome(Err(error)) | Reply::Failed(error) => {
                        Err(GrpcStatus::from(error))
                    }
                    Reply::Ready => unreachable!("only Then waits for readiness"),
                };
                responder.respond_in(answer, batch);
            }
            Waiter::Then(then) => then(reply, batch),
        }
    }

    fn encode(&self, answer: quorate_node::store::Answer) -> Body {
        let header = crate::services::header(
            self.cluster_id,
            self.member_id,
            self.term.load(Ordering::Relaxed),
        );
        crate::services::answer::encode(answer, header, self.view.load().revision)
    }
}

/// Index roots of pages that were answered with `more`, for counting at their revisions.
#[derive(Default)]
pub struct KeptRoots {
    kept: VecDeque<(i64, u64, Root)>,
}

/// Most roots that are kept.
const ROOTS: usize = 64;
/// How long a root is kept after it was last asked for, in milliseconds.
const ROOT_MS: u64 = 60_000;
/// Memory that kept roots may hold beyond what the newest holds, in bytes.
const ROOTS_BYTES: usize = 32 * 1024 * 1024;
/// What a write after a root was kept may have copied of it at most: a leaf and its path.
const COPIED_BYTES: usize = 8 * 1024;

impl KeptRoots {
    fn keep(&mut self, view: &View, now_ms: u64) {
        self.kept
            .retain(|(revision, _, _)| *revision != view.revision);
        self.kept
            .push_back((view.revision, now_ms, view.root.clone()));
        self.expire(view.revision, now_ms);
    }

    fn find(&mut self, revision: i64, now_ms: u64) -> Option<Root> {
        let newest = self.kept.back()?.0;
        self.expire(newest, now_ms);
        let found = self
            .kept
            .iter_mut()
            .find(|(kept, _, _)| *kept == revision)?;
        found.1 = now_ms;
        Some(found.2.clone())
    }

    fn expire(&mut self, newest: i64, now_ms: u64) {
        self.kept.retain(|(revision, since, _)| {
            let held = (newest - revision).unsigned_abs() as usize * COPIED_BYTES;
            since + ROOT_MS > now_ms && held <= ROOTS_BYTES
        });
        while self.kept.len() > ROOTS {
            self.kept.pop_front();
        }
    }
}
