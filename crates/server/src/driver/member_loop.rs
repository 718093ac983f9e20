//! The loop that owns the member.
//!
//! It takes what is in the mailbox, steps the member, and hands out what follows: jobs for the log
//! first (the disk is what takes longest), then messages to the other members, which go out in
//! parallel with it, then the view, then the replies.

use super::applied::Entries;
use super::peer_host::{Database, PeerHost};
use super::read_pool::ReadPool;
use super::stages::{CommitJob, WorkerJob, run_commit, run_log, run_worker};
use super::{Handle, KeptRoots, Question, Shared, Waiter};
use crate::metrics::METRICS;
use crate::peers::{Host, Transport};
use crate::transport::WakeBatch;
use arc_swap::ArcSwap;
use quorate_failpoints::fail_point;
use quorate_node::boot::{Booted, Directories};
use quorate_node::disk::Disk;
use quorate_node::ids::RequestIds;
use quorate_node::raft::Message;
use quorate_node::store::commit::Committed;
use quorate_node::store::compaction::{Batch, Planner};
use quorate_node::store::watch::Counts;
use quorate_node::store::watch::catch_up::Found;
use quorate_node::{
    CommitStage, Effects, Error, LogDone, LogJob, Member, Note, PeerChange, Proposal, Received,
    SnapshotToSend, Vacuumed,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Inputs that may wait for the loop.
const MAILBOX: usize = 16 * 1024;
/// Inputs that are taken before the member is stepped.
const ROUND: usize = 4 * 1024;

/// How long a member that was removed goes on, so that others hear of it.
const REMOVED_PAUSE: Duration = Duration::from_secs(1);

/// What reaches the loop.
pub enum Input {
    /// Requests that came together.
    Propose(Vec<Proposal<Waiter>>),
    /// Linearizable reads that came together.
    Read(Vec<Waiter>),
    /// Somebody waits for a durable commit.
    Commit(Waiter),
    /// A question.
    Ask(Question),
    /// Somebody wants the file tidied.
    Defragment(Waiter),
    /// From the log's thread.
    LogDone(Vec<LogDone>),
    /// From the database's thread.
    CommitDone(Committed),
    /// From the database's thread.
    Vacuumed(Vacuumed),
    /// The database's thread uses the database that was received.
    DatabaseReplaced,
    /// From other members, together.
    Messages(Vec<Message>),
    /// A leader's snapshot and the database that came with it.
    Snapshot(Box<(Message, Received)>),
    /// A message to this member was lost.
    Unreachable(u64),
    /// How sending a snapshot to this member ended.
    SnapshotSent(u64, bool),
    /// Whether this member is connected, as of now.
    PeerActive(u64, bool),
    /// Hand leadership over, before a stop.
    HandOver(Waiter),
    /// From a worker.
    WatchFound(Found),
    /// From a worker.
    CompactionPlanned(Box<(Planner, Batch)>),
    /// A stage failed: the member must stop.
    Fatal(Error),
    /// Stop; tell when everything is on disk.
    Stop(Sender<()>),
}

/// What the driver is told.
pub struct Settings {
    /// Threads for long reads.
    pub read_threads: usize,
    /// Wall-clock time in milliseconds, for request ids.
    pub start_ms: u64,
    /// For the log.
    pub data_dir: String,
    /// Applying that takes longer is told.
    pub slow_apply: Duration,
    /// The member's files.
    pub directories: Directories,
    /// What they are on.
    pub disk: Arc<dyn Disk>,
    /// What a received database is opened with.
    pub store: quorate_node::store::Config,
}

/// A running member.
pub struct Started {
    /// The way to it.
    pub handle: Handle,
    /// The way to the other members.
    pub peers: Transport,
    /// Its threads; they end after [`Handle::stop`].
    pub threads: Vec<JoinHandle<()>>,
    /// Tells why the member failed, if it does.
    pub failed: Receiver<Error>,
    /// Tells when requests are served.
    pub ready: Receiver<()>,
}

struct MemberLoop {
    member: Member<Waiter>,
    shared: Arc<Shared>,
    inputs: Receiver<Input>,
    /// Bounded by the proposals that may be under way.
    log: Option<Sender<Vec<LogJob>>>,
    commit: Option<SyncSender<CommitJob>>,
    worker: Option<Sender<WorkerJob>>,
    tick: Duration,
    next_tick: Instant,
    failed: Sender<Error>,
    ready: Sender<()>,
    peers: Transport,
    /// When to stop, once removed from the cluster: whoever asked for it is answered first.
    removed_at: Option<Instant>,
    stopping: Option<Sender<()>>,
    data_dir: String,
    entries: Entries,
}

/// Starts the threads of a member. `connect` starts the transport to the other members, with what
/// it is to tell about them.
pub fn start(
    booted: Booted<Waiter>,
    settings: Settings,
    connect: impl FnOnce(&Handle, Arc<dyn Host>) -> std::io::Result<Transport>,
) -> std::io::Result<Started> {
    let Booted {
        member,
        log: log_stage,
        db,
        found: _,
    } = booted;
    let config = member.config().clone();
    let shared = Arc::new(Shared {
        view: ArcSwap::from(member.view().clone()),
        status: ArcSwap::from_pointee(member.status()),
        reads_are_local: AtomicBool::new(false),
        kin: ArcSwap::default(),
        term: AtomicU64::new(member.status().term),
        wakes: Arc::default(),
        ticked_ms: AtomicU64::new(0),
        watch_counts: ArcSwap::from_pointee(Counts::default()),
        stopping: AtomicBool::new(false),
        ids: RequestIds::new(config.member_id, settings.start_ms),
        member_id: config.member_id,
        cluster_id: config.cluster_id,
        started: Instant::now(),
        roots: Mutex::new(KeptRoots::default()),
    });
    let (mailbox, inputs) = sync_channel(MAILBOX);
    let (log, log_jobs) = channel();
    let (commit, commit_jobs) = sync_channel(16);
    let (worker, worker_jobs) = channel();
    let (failed_sender, failed) = channel();
    let (ready_sender, ready) = channel();
    let mut threads = Vec::new();
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        Builder::new().name(name.to_owned()).spawn(body)
    };
    let to_loop = mailbox.clone();
    threads.push(spawn(
        "log",
        Box::new(move || run_log(log_stage, &log_jobs, &to_loop)),
    )?);
    let to_loop = mailbox.clone();
    let stage = CommitStage::new(db, member.view().applied_index);
    threads.push(spawn(
        "commit",
        Box::new(move || run_commit(stage, &commit_jobs, &to_loop)),
    )?);
    let to_loop = mailbox.clone();
    threads.push(spawn(
        "worker",
        Box::new(move || run_worker(&worker_jobs, &to_loop)),
    )?);
    let handle = Handle {
        shared: shared.clone(),
        mailbox,
        reads: Arc::new(ReadPool::new(settings.read_threads, 1024)?),
    };
    let host = PeerHost {
        shared: shared.clone(),
        mailbox: handle.mailbox.clone(),
        disk: settings.disk,
        directories: settings.directories,
        store: settings.store,
        opening: Arc::default(),
    };
    let peers = connect(&handle, Arc::new(host))?;
    let tick = Duration::from_millis(config.tick_ms);
    let member_loop = MemberLoop {
        member,
        shared,
        inputs,
        log: Some(log),
        commit: Some(commit),
        worker: Some(worker),
        tick,
        next_tick: Instant::now() + tick,
        failed: failed_sender,
        ready: ready_sender,
        peers: peers.clone(),
        removed_at: None,
        stopping: None,
        data_dir: settings.data_dir,
        entries: Entries::new(settings.slow_apply),
    };
    threads.push(spawn("member", Box::new(move || member_loop.run()))?);
    Ok(Started {
        handle,
        peers,
        threads,
        failed,
        ready,
    })
}

impl MemberLoop {
    fn run(mut self) {
        if let Err(error) = self.run_until_stopped() {
            // Nobody may be left to hear it, when the process is already going down.
            let _unheard = self.failed.send(error);
        }
    }

    fn run_until_stopped(&mut self) -> Result<(), Error> {
        self.advance()?;
        loop {
            let first = match self.inputs.recv_timeout(self.patience()) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            self.member.set_now(self.shared.now_ms());
            let mut batch = WakeBatch::new();
            let mut taken = 0;
            let mut next = first;
            while let Some(input) = next {
                self.take(input, &mut batch)?;
                taken += 1;
                next = if taken < ROUND {
                    self.inputs.try_recv().ok()
                } else {
                    None
                };
            }
            if Instant::now() >= self.next_tick {
                // Ticks that were missed (a paused process) are not made up for.
                self.next_tick = (self.next_tick + self.tick).max(Instant::now());
                self.member.tick();
                let now_ms = self.shared.now_ms();
                self.shared.ticked_ms.store(now_ms, Ordering::Relaxed);
                self.shared
                    .watch_counts
                    .store(Arc::new(self.member.hub().counts()));
            }
            drop(batch);
            self.advance()?;
            if self.removed_at.is_some_and(|at| at <= Instant::now()) {
                return Err(Error::Removed);
            }
            if self.stopping.is_some() && self.is_all_durable() {
                return self.finish();
            }
        }
    }

    fn patience(&self) -> Duration {
        let until_tick = self.next_tick.saturating_duration_since(Instant::now());
        let due = self
            .member
            .next_due_ms()
            .map(|due| Duration::from_millis(due.saturating_sub(self.shared.now_ms())));
        due.map_or(until_tick, |due| due.min(until_tick))
    }

    fn take(&mut self, input: Input, batch: &mut WakeBatch) -> Result<(), Error> {
        match input {
            Input::Propose(proposals) => self.member.propose(proposals),
            Input::Read(waiters) => {
                for waiter in waiters {
                    self.member.read_index(waiter);
                }
            }
            Input::Commit(waiter) => self.member.commit_now(waiter),
            Input::Ask(question) => question(&mut self.member, batch),
            Input::Defragment(waiter) => self.member.defragment(waiter),
            Input::LogDone(done) => {
                fail_point!("raftAfterSave");
                for done in done {
                    self.member.log_done(done)?;
                }
            }
            Input::CommitDone(committed) => self.member.commit_done(committed),
            Input::Vacuumed(step) => self.member.vacuumed(step),
            Input::DatabaseReplaced => self.member.database_replaced(),
            Input::Messages(messages) => {
                for message in messages {
                    self.member.step(message)?;
                }
            }
            Input::Snapshot(snapshot) => {
                let (message, received) = *snapshot;
                self.member.step_snapshot(message, received)?;
            }
            Input::Unreachable(id) => self.member.report_unreachable(id),
            Input::SnapshotSent(id, ok) => self.member.report_snapshot(id, ok),
            Input::PeerActive(id, active) => self.member.peer_active(id, active),
            Input::HandOver(waiter) => self.member.hand_over(waiter),
            Input::WatchFound(found) => self.member.watch_found(found)?,
            Input::CompactionPlanned(planned) => {
                let (planner, plan) = *planned;
                let began = Instant::now();
                self.member.compaction_planned(planner, plan);
                METRICS.compaction_pause.observe(began.elapsed());
            }
            Input::Fatal(error) => return Err(error),
            Input::Stop(done) => {
                self.stopping = Some(done);
                // So that a restart replays nothing.
                self.member.commit_now(Waiter::Then(Box::new(|_, _| {})));
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<(), Error> {
        let (began, before) = (Instant::now(), self.member.view().clone());
        let effects = self.member.advance()?;
        let took = began.elapsed();
        let Effects {
            replaced_db,
            log,
            commit,
            vacuum,
            view,
            replies,
            peers,
            messages,
            snapshots,
            watch_steps,
            compaction,
            notes,
            removed,
        } = effects;
        self.entries.appended(&log);
        self.entries.applied(
            self.member.status().applied,
            took,
            &replies,
            &before,
            self.member.view(),
        );
        drop(before);
        if let Some(db) = replaced_db {
            let index = self.member.view().applied_index;
            self.send_commit(CommitJob::Replace(db, index));
        }
        fail_point!("raftBeforeSave", if !log.is_empty() || !messages.is_empty());
        if !log.is_empty()
            && let Some(sender) = &self.log
        {
            // The thread ends only after it has told why.
            let _ended = sender.send(log);
        }
        fail_point!("raftBeforeLeaderSend", if self.leads());
        fail_point!("raftBeforeFollowerSend", if !self.leads() && !messages.is_empty());
        self.tell_peers(peers, messages, snapshots);
        if let Some(view) = view {
            self.shared.view.store(view);
        }
        self.publish_status();
        self.member.tell_revoked();
        if !replies.is_empty() {
            let mut batch = WakeBatch::new();
            for (waiter, reply) in replies {
                self.shared.reply(waiter, reply, &mut batch);
            }
        }
        if let Some(frozen) = commit {
            self.send_commit(CommitJob::Commit(frozen));
        }
        if vacuum {
            self.send_commit(CommitJob::Vacuum);
        }
        let bounds = self.member.hub().bounds();
        let steps = watch_steps
            .into_iter()
            .map(|step| WorkerJob::CatchUp(step, bounds));
        let compaction = compaction.map(|step| WorkerJob::Compact(Box::new(step)));
        for job in steps.chain(compaction) {
            if let Some(worker) = &self.worker {
                let _ended = worker.send(job);
            }
        }
        for note in notes {
            match note {
                Note::Ready => {
                    let _unheard = self.ready.send(());
                }
                Note::ClusterVersion { .. } => self.shared.wakes.version_changed.notify_one(),
                _ => {}
            }
            crate::notes::write(&note, &self.shared, &self.data_dir);
        }
        if removed {
            self.removed_at
                .get_or_insert_with(|| Instant::now() + REMOVED_PAUSE);
        }
        Ok(())
    }

    fn tell_peers(
        &self,
        peers: Vec<PeerChange>,
        messages: Vec<Message>,
        snapshots: Vec<SnapshotToSend>,
    ) {
        for change in peers {
            match change {
                PeerChange::Set { id, peer_urls } => self.peers.set_peer(id, peer_urls),
                PeerChange::Remove { id } => self.peers.remove_peer(id),
            }
        }
        if !messages.is_empty() {
            self.peers.send(messages);
        }
        for SnapshotToSend { message, view } in snapshots {
            self.peers
                .send_snapshot(message, Box::new(Database::new(view, self.shared.clone())));
        }
    }

    /// Whether this member is the leader, for failpoints.
    fn leads(&self) -> bool {
        self.member.status().leader == self.shared.member_id
    }

    fn send_commit(&self, job: CommitJob) {
        if let Some(commit) = &self.commit {
            let _ended = commit.send(job);
        }
    }

    fn publish_status(&self) {
        let status = self.member.status();
        let before = **self.shared.status.load();
        if before != status {
            if status.leader == self.shared.member_id && before.leader != status.leader {
                self.shared.wakes.leads.notify_one();
            }
            self.shared.term.store(status.term, Ordering::Relaxed);
            self.shared
                .reads_are_local
                .store(status.reads_are_local, Ordering::Release);
            self.shared.status.store(Arc::new(status));
        }
    }

    fn is_all_durable(&self) -> bool {
        let status = self.member.status();
        status.pending == 0 && self.member.is_committed()
    }

    /// Lets the threads end, which close their files; tells who waits.
    fn finish(&mut self) -> Result<(), Error> {
        self.log = None;
        self.commit = None;
        self.worker = None;
        if let Some(done) = self.stopping.take() {
            let _unheard = done.send(());
        }
        Ok(())
    }
}

impl Shared {
    /// The cluster's id, for the log.
    pub(crate) fn cluster_id(&self) -> u64 {
        self.cluster_id
    }

    /// The member's id, for the log.
    pub(crate) fn member_id(&self) -> u64 {
        self.member_id
    }
}
