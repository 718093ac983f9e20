//! One member as a deterministic machine: raft, the store and the watch hub under one roof.
//!
//! It is stepped from one place: inputs are calls (a tick, proposals, what a stage has done), and
//! after each round [`Member::advance`] gives everything that is to be done ([`Effects`]): jobs for
//! the log and for the commit stage, steps for whoever plans compactions and catches watchers up,
//! replies, and a new view. Nothing here reads a clock, opens a socket, spawns a thread or waits.
//!
//! Invariants:
//! - a reply to a proposal, and the events of its writes, leave after the entry is durable on a
//!   quorum and the view with it is in [`Effects::view`]; the driver publishes that view first;
//! - entries are applied in order, each once; those that could not be applied yet (the commit stage
//!   lags beyond its cap) wait, and are applied before anything newer;
//! - a snapshot of the log at an index follows a durable commit that covers it;
//! - every queue is bounded: beyond the allowed gap between commit and apply, or with too many
//!   proposals under way, a proposal is refused before it reaches the log.

use crate::Error;
use crate::conf_change::{Verdict, conf_state_json, decode, judge};
use crate::legacy_tree;
use crate::log_stage::{Appended, LogDone, LogJob};
use bytes::Bytes;
use prost::Message as _;
use quorate_api as api;
use quorate_api::etcdserverpb::{InternalRaftRequest, RequestHeader};
use quorate_api::membershippb::{
    Attributes, ClusterMemberAttrSetRequest, ClusterVersionSetRequest,
};
use quorate_raft::{
    ApplyJob, ConfChange, ConfState, Entry, EntryKind, JournalLine, MemoryStorage, Message, Raft,
    Role, Snapshot, SnapshotMetadata, Storage,
};
use quorate_store::commit::{Committed, Frozen};
use quorate_store::compaction::{Batch, Planner};
use quorate_store::watch::Hub;
use quorate_store::watch::catch_up::{Found, Step};
use quorate_store::{Answer, Applied, Outcome, Store, View};
use quorate_wal::raftpb;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The version of etcd that this member speaks as.
pub const ETCD_VERSION: &str = "3.7.3";
/// The cluster version that comes with it.
pub const CLUSTER_VERSION: &str = "3.7.0";

/// Steps of catching up that may run at a time.
const WATCH_STEPS: usize = 2;
/// Leases whose revocation is proposed at once, at most.
const REVOKE_BATCH: usize = 5_000;
/// Time between two purges of old files, in milliseconds.
const PURGE_INTERVAL_MS: u64 = 30_000;

/// What a member is told once.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its id.
    pub member_id: u64,
    /// The cluster's.
    pub cluster_id: u64,
    /// Its name, to be published.
    pub name: String,
    /// Where clients reach it, to be published.
    pub client_urls: Vec<String>,
    /// Length of a tick in milliseconds.
    pub tick_ms: u64,
    /// Ticks to an election.
    pub election_ticks: u32,
    /// Entries applied since the last snapshot record that make another one due.
    pub snapshot_count: u64,
    /// Entries below a snapshot that stay in memory for slow followers.
    pub snapshot_catch_up: u64,
    /// Entries that may be committed and not applied before proposals are refused.
    pub max_apply_gap: u64,
    /// Proposals under way before more are refused.
    pub max_proposals: usize,
    /// Time after which a proposal is given up, in milliseconds.
    pub request_timeout_ms: u64,
    /// Time after which what was applied is committed, in milliseconds.
    pub commit_interval_ms: u64,
    /// Writes that make a commit due.
    pub commit_writes: usize,
    /// Bytes of rows that wait for a commit before apply waits.
    pub commit_bytes_cap: usize,
    /// Rows that a step of compaction looks at.
    pub compaction_rows: usize,
    /// Pause between two steps of compaction, in milliseconds.
    pub compaction_pause_ms: u64,
}

/// A proposal: a request's id, its encoded form, and who is to be told.
pub struct Proposal<T> {
    /// As in its header.
    pub id: u64,
    /// An encoded InternalRaftRequest.
    pub data: Bytes,
    /// Who is told; `None`: nobody.
    pub token: Option<T>,
    /// A compaction that is to be answered once its rows are gone for good.
    pub physical: bool,
}

/// What is told.
#[derive(Debug)]
pub enum Reply {
    /// The entry was applied.
    Outcome(Outcome),
    /// The read may go on with the newest view; the commit waited for is durable.
    Ready,
    /// It did not happen, or nobody knows whether it did.
    Failed(api::Error),
}

/// Where the member stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Raft's term.
    pub term: u64,
    /// The leader; 0 for none known.
    pub leader: u64,
    /// Raft's commit index.
    pub committed: u64,
    /// The last entry applied.
    pub applied: u64,
    /// Whether this member learns and does not vote.
    pub is_learner: bool,
    /// Whether the newest view is linearizable as it is: this member is the leader and the only
    /// voter, and has applied an entry of its term.
    pub reads_are_local: bool,
    /// Leaders seen since the start.
    pub leader_changes: u64,
    /// Proposals under way.
    pub pending: u64,
    /// Proposals given up or refused.
    pub failed: u64,
}

/// A step of compaction for whoever plans it.
pub struct CompactionStep {
    /// The planner; it comes back with the batch.
    pub planner: Planner,
    /// Where it reads.
    pub view: Arc<View>,
    /// Rows to look at.
    pub rows: usize,
}

/// Something an operator should read.
#[derive(Clone, Debug)]
pub enum Note {
    /// From raft.
    Raft(JournalLine),
    /// A member was added.
    MemberAdded {
        /// Its id.
        id: u64,
        /// Its peer URLs.
        peer_urls: Vec<String>,
        /// Whether it learns.
        is_learner: bool,
    },
    /// A member was removed.
    MemberRemoved {
        /// Its id.
        id: u64,
    },
    /// The cluster version was decided or changed.
    ClusterVersion {
        /// The new one.
        version: String,
        /// Whether it is the first.
        initial: bool,
    },
    /// What this member says of itself is on the log.
    Published,
    /// The first entry of a leader's term was applied: requests are served.
    Ready,
    /// A snapshot of the log was recorded.
    Snapshot {
        /// Its index.
        index: u64,
    },
    /// Files were removed.
    Purged(Vec<std::path::PathBuf>),
    /// The log has no space.
    DiskFull(String),
    /// The log has space again.
    DiskHasSpace,
    /// A compaction finished.
    Compacted {
        /// Its revision.
        revision: i64,
        /// Rows removed.
        removed: u64,
        /// The hash of what it left and removed.
        hash: u32,
        /// When it was applied, by the member's clock.
        took_ms: u64,
    },
}

/// What is to be done.
pub struct Effects<T> {
    /// For the log stage, in order.
    pub log: Vec<LogJob>,
    /// For the commit stage.
    pub commit: Option<Frozen>,
    /// To be published before the replies go out.
    pub view: Option<Arc<View>>,
    /// Who is told what.
    pub replies: Vec<(T, Reply)>,
    /// To other members.
    pub messages: Vec<Message>,
    /// For whoever catches watchers up.
    pub watch_steps: Vec<Step>,
    /// For whoever plans compactions.
    pub compaction: Option<CompactionStep>,
    /// For the log an operator reads.
    pub notes: Vec<Note>,
    /// Whether the member was removed from the cluster and must stop.
    pub removed: bool,
}

impl<T> Default for Effects<T> {
    fn default() -> Effects<T> {
        Effects {
            log: Vec::new(),
            commit: None,
            view: None,
            replies: Vec::new(),
            messages: Vec::new(),
            watch_steps: Vec::new(),
            compaction: None,
            notes: Vec::new(),
            removed: false,
        }
    }
}

struct Pending<T> {
    token: Option<T>,
    physical: bool,
}

/// A commit that was frozen: where it stands in the log.
struct Freezing {
    applied: Applied,
    conf_state: ConfState,
    members: Arc<quorate_store::membership::Membership>,
}

/// One member.
pub struct Member<T> {
    config: Config,
    raft: Raft<MemoryStorage>,
    store: Store,
    hub: Hub,
    view: Arc<View>,
    effects: Effects<T>,
    now_ms: u64,
    pending: HashMap<u64, Pending<T>>,
    deadlines: VecDeque<(u64, u64)>,
    /// Proposals that wait for a leader.
    early: VecDeque<Proposal<T>>,
    /// Linearizable reads: not yet asked, asked by round, and waiting for an index.
    reads_new: Vec<T>,
    reads_asked: HashMap<u64, (Vec<T>, u64)>,
    reads_applying: Vec<(u64, T)>,
    next_read_round: u64,
    apply_queue: VecDeque<ApplyJob>,
    freezing: Option<Freezing>,
    commit_due_ms: Option<u64>,
    commit_waiters: Vec<(u64, T)>,
    force_commit: bool,
    /// Physical compactions: by revision.
    compaction_waiters: Vec<(i64, T, Answer)>,
    compaction_running: bool,
    planner: Option<Planner>,
    compaction_began_ms: u64,
    compaction_resume_ms: u64,
    watch_steps: usize,
    snapshot_index: u64,
    snapshot_running: bool,
    next_purge_ms: u64,
    log_full: bool,
    leader_seen: u64,
    leader_changes: u64,
    failed: u64,
    term_begun: bool,
    own_ids: crate::ids::RequestIds,
    published: bool,
    wants_version: bool,
    applied_something: bool,
    /// Who waits for a lease that is due to be gone.
    revocation_waiters: HashMap<i64, Vec<RevocationWaiter>>,
}

/// Told once a lease is gone.
pub type RevocationWaiter = Box<dyn FnOnce() + Send>;

impl<T> Member<T> {
    /// A member over what was found on disk; see [`crate::boot`].
    pub(crate) fn new(
        config: Config,
        raft: Raft<MemoryStorage>,
        mut store: Store,
        hub: Hub,
        snapshot_index: u64,
        own_ids: crate::ids::RequestIds,
    ) -> Member<T> {
        let view = store.publish();
        Member {
            config,
            raft,
            store,
            hub,
            view,
            effects: Effects::default(),
            now_ms: 0,
            pending: HashMap::new(),
            deadlines: VecDeque::new(),
            early: VecDeque::new(),
            reads_new: Vec::new(),
            reads_asked: HashMap::new(),
            reads_applying: Vec::new(),
            next_read_round: 1,
            apply_queue: VecDeque::new(),
            freezing: None,
            commit_due_ms: None,
            commit_waiters: Vec::new(),
            force_commit: false,
            compaction_waiters: Vec::new(),
            compaction_running: false,
            planner: None,
            compaction_began_ms: 0,
            compaction_resume_ms: 0,
            watch_steps: 0,
            snapshot_index,
            snapshot_running: false,
            next_purge_ms: PURGE_INTERVAL_MS,
            log_full: false,
            leader_seen: 0,
            leader_changes: 0,
            failed: 0,
            term_begun: false,
            own_ids,
            published: false,
            wants_version: false,
            applied_something: false,
            revocation_waiters: HashMap::new(),
        }
    }

    /// Calls `then` once the lease, which is due, is gone and the view without it is out.
    pub fn when_revoked(&mut self, id: i64, then: RevocationWaiter) {
        self.revocation_waiters.entry(id).or_default().push(then);
    }

    /// To be called when the view of the last [`Member::advance`] is published.
    pub fn tell_revoked(&mut self) {
        let lessor = self.store.lessor();
        let gone: Vec<i64> = self
            .revocation_waiters
            .keys()
            .copied()
            .filter(|id| !lessor.exists(*id))
            .collect();
        for id in gone {
            let waiting = self.revocation_waiters.remove(&id).unwrap_or_default();
            waiting.into_iter().for_each(|then| then());
        }
    }

    /// The newest view.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Leases, for keep-alives and questions.
    pub fn lessor(&mut self) -> &mut quorate_store::lease::Lessor {
        self.store.lessor()
    }

    /// The member's clock, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Watchers.
    pub fn hub(&mut self) -> &mut Hub {
        &mut self.hub
    }

    /// The hub together with the newest view, for making watchers.
    pub fn hub_and_view(&mut self) -> (&mut Hub, &Arc<View>) {
        (&mut self.hub, &self.view)
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        let basic = self.raft.basic_status();
        let sole_voter = self.is_sole_voter();
        Status {
            term: basic.hard_state.term,
            leader: basic.soft_state.lead,
            committed: basic.hard_state.commit,
            applied: self.store.applied().index,
            is_learner: self
                .store
                .members()
                .get(self.config.member_id)
                .is_some_and(|member| member.is_learner),
            reads_are_local: sole_voter && self.is_leader() && self.term_begun,
            leader_changes: self.leader_changes,
            pending: (self.pending.len() + self.early.len()) as u64,
            failed: self.failed,
        }
    }

    /// Whether everything applied is durable in the database.
    pub fn is_committed(&self) -> bool {
        let pending = self.store.pending();
        pending.entries == 0 && pending.writes == 0 && !pending.committing
    }

    fn is_leader(&self) -> bool {
        self.raft.soft_state().role == Role::Leader
    }

    fn is_sole_voter(&self) -> bool {
        let state = self.raft.membership().conf_state();
        state.voters == [self.config.member_id] && state.voters_outgoing.is_empty()
    }

    /// Becomes leader at once where there is nobody else to ask.
    pub(crate) fn campaign_if_alone(&mut self) {
        if self.is_sole_voter() {
            // A configuration that is on the log and not applied yet only delays it.
            let _delayed = self.raft.campaign();
        }
    }

    /// Time goes on: to be called before other inputs, and at least once a tick.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// A tick of raft's clock.
    pub fn tick(&mut self) {
        self.raft.tick();
        if self.is_sole_voter() && !self.is_leader() {
            self.campaign_if_alone();
        }
        self.expire_proposals();
        self.expire_leases();
        self.hub.tick(self.now_ms);
        self.retry_reads();
        if self.now_ms >= self.next_purge_ms {
            self.next_purge_ms = self.now_ms + PURGE_INTERVAL_MS;
            self.effects.log.push(LogJob::Purge);
        }
    }

    /// Proposes requests that came together.
    pub fn propose(&mut self, proposals: Vec<Proposal<T>>) {
        if self.log_full {
            return self.refuse(proposals, api::Error::NoSpace);
        }
        let gap = self
            .raft
            .hard_state()
            .commit
            .saturating_sub(self.store.applied().index);
        if gap > self.config.max_apply_gap
            || self.pending.len() + self.early.len() + proposals.len() > self.config.max_proposals
        {
            return self.refuse(proposals, api::Error::RequestTooManyRequests);
        }
        if self.raft.soft_state().lead == 0 {
            // etcd's raft takes no proposal without a leader either, and the caller waits.
            for proposal in proposals {
                self.deadline(proposal.id);
                self.early.push_back(proposal);
            }
            return;
        }
        self.propose_now(proposals);
    }

    fn propose_now(&mut self, proposals: Vec<Proposal<T>>) {
        let batch = proposals
            .iter()
            .map(|proposal| proposal.data.clone())
            .collect();
        if self.raft.propose_batch(batch).is_err() {
            // Uncommitted entries beyond the limit, or a leadership transfer under way.
            return self.refuse(proposals, api::Error::RequestTooManyRequests);
        }
        for proposal in proposals {
            self.deadline(proposal.id);
            let Proposal {
                id,
                token,
                physical,
                ..
            } = proposal;
            self.pending.insert(id, Pending { token, physical });
        }
    }

    fn refuse(&mut self, proposals: Vec<Proposal<T>>, error: api::Error) {
        self.failed += proposals.len() as u64;
        let told = proposals.into_iter().filter_map(|proposal| proposal.token);
        self.effects
            .replies
            .extend(told.map(|token| (token, Reply::Failed(error))));
    }

    fn deadline(&mut self, id: u64) {
        self.deadlines
            .push_back((self.now_ms + self.config.request_timeout_ms, id));
    }

    fn expire_proposals(&mut self) {
        while let Some(&(at, id)) = self.deadlines.front()
            && at <= self.now_ms
        {
            self.deadlines.pop_front();
            if let Some(pending) = self.pending.remove(&id) {
                self.failed += 1;
                let reply = Reply::Failed(api::Error::Timeout);
                self.effects
                    .replies
                    .extend(pending.token.map(|token| (token, reply)));
            }
            if let Some(at) = self.early.iter().position(|proposal| proposal.id == id) {
                let proposal = self.early.remove(at);
                self.refuse(proposal.into_iter().collect(), api::Error::Timeout);
            }
        }
    }

    /// Draws a request id and proposes on the member's own behalf.
    fn propose_own(&mut self, request: InternalRaftRequest) {
        let id = self.own_ids.draw();
        let request = InternalRaftRequest {
            header: Some(RequestHeader {
                id,
                ..Default::default()
            }),
            ..request
        };
        let data = request.encode_to_vec().into();
        self.propose(vec![Proposal {
            id,
            data,
            token: None,
            physical: false,
        }]);
    }

    /// A linearizable read: its token is told [`Reply::Ready`] once the newest view covers it.
    pub fn read_index(&mut self, token: T) {
        self.reads_new.push(token);
    }

    /// Asks raft once for all reads that wait.
    fn ask_reads(&mut self) {
        if self.reads_new.is_empty() || self.raft.soft_state().lead == 0 {
            return;
        }
        let round = self.next_read_round;
        self.next_read_round += 1;
        let waiting = std::mem::take(&mut self.reads_new);
        self.reads_asked.insert(round, (waiting, self.now_ms));
        self.raft
            .read_index(Bytes::copy_from_slice(&round.to_be_bytes()));
    }

    /// Asks anew, under a new id, what was not answered in time; gives up after the timeout.
    fn retry_reads(&mut self) {
        const RETRY_MS: u64 = 500;
        let due: Vec<u64> = self
            .reads_asked
            .iter()
            .filter(|(_, (_, since))| since + RETRY_MS <= self.now_ms)
            .map(|(round, _)| *round)
            .collect();
        for round in due {
            let (tokens, _) = self.reads_asked.remove(&round).expect("it was listed");
            self.reads_new.extend(tokens);
        }
    }

    /// Fails linearizable reads that have waited too long; the driver knows their deadlines.
    pub fn fail_reads(&mut self, error: api::Error, mut doomed: impl FnMut(&T) -> bool) {
        let mut failed = Vec::new();
        let mut take = |tokens: &mut Vec<T>| {
            let all = std::mem::take(tokens);
            for token in all {
                if doomed(&token) {
                    failed.push(token)
                } else {
                    tokens.push(token)
                }
            }
        };
        take(&mut self.reads_new);
        for (tokens, _) in self.reads_asked.values_mut() {
            take(tokens);
        }
        self.effects
            .replies
            .extend(failed.into_iter().map(|t| (t, Reply::Failed(error))));
    }

    /// Commits everything applied so far; the token is told [`Reply::Ready`] once it is durable.
    pub fn commit_now(&mut self, token: T) {
        let index = self.store.applied().index;
        let pending = self.store.pending();
        if pending.entries == 0 && pending.writes == 0 && !pending.committing {
            self.effects.replies.push((token, Reply::Ready));
            return;
        }
        self.force_commit = true;
        self.commit_waiters.push((index, token));
    }

    /// A peer's message.
    pub fn step(&mut self, message: Message) {
        // Refused ones (of a removed member, say) are answered by nobody.
        let _refused = self.raft.step(message);
    }

    /// What the log stage has done.
    pub fn log_done(&mut self, done: LogDone) -> Result<(), Error> {
        match done {
            LogDone::Append(appended) => self.appended(appended),
            LogDone::Snapshot { index } => {
                self.snapshot_running = false;
                self.snapshot_index = index;
                let keep = self.config.snapshot_catch_up;
                let storage = self.raft.storage_mut();
                if let Some(below) = index.checked_sub(keep)
                    && below >= storage.first_index()
                {
                    let compacted = storage.compact(below);
                    assert!(
                        compacted.is_ok(),
                        "applied entries can be let go: {compacted:?}"
                    );
                }
                self.effects.notes.push(Note::Snapshot { index });
            }
            LogDone::Purged(files) if files.is_empty() => {}
            LogDone::Purged(files) => self.effects.notes.push(Note::Purged(files)),
            LogDone::Full(what) => {
                if !self.log_full {
                    self.effects.notes.push(Note::DiskFull(what));
                }
                self.log_full = true;
            }
        }
        Ok(())
    }

    fn appended(&mut self, mut appended: Appended) {
        if std::mem::take(&mut self.log_full) {
            self.effects.notes.push(Note::DiskHasSpace);
        }
        let storage = self.raft.storage_mut();
        if let Some(hard_state) = appended.job.hard_state {
            storage.set_hard_state(hard_state);
        }
        if !appended.job.entries.is_empty() {
            storage.append(&appended.job.entries);
        }
        let (others, own) = appended.split_responses(self.config.member_id);
        self.effects.messages.extend(others);
        self.raft.append_done(own);
    }

    /// A commit is durable.
    pub fn commit_done(&mut self, committed: Committed) {
        let freezing = self.freezing.take().expect("a commit follows a freeze");
        assert_eq!(
            freezing.applied.index, committed.index,
            "commits are done in order"
        );
        self.store.committed(committed);
        self.view_changed();
        let durable = self.store.committed_index();
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.commit_waiters)
            .into_iter()
            .partition(|(index, _)| *index <= durable);
        self.effects
            .replies
            .extend(ready.into_iter().map(|(_, token)| (token, Reply::Ready)));
        self.force_commit = !waiting.is_empty();
        self.commit_waiters = waiting;
        self.answer_compactions();
        if durable - self.snapshot_index > self.config.snapshot_count && !self.snapshot_running {
            self.snapshot_running = true;
            let metadata = SnapshotMetadata {
                conf_state: freezing.conf_state,
                index: freezing.applied.index,
                term: freezing.applied.term,
            };
            let data = legacy_tree::encode(&freezing.members).into();
            self.effects
                .log
                .push(LogJob::Snapshot(Snapshot { data, metadata }));
        }
    }

    /// The commit stage moved pages of the file without changing its contents.
    pub fn file_moved(&mut self, file: Committed) {
        self.store.file_moved(file);
        self.view_changed();
    }

    /// What a step of catching up found.
    pub fn watch_found(&mut self, found: Found) -> Result<(), Error> {
        self.watch_steps -= 1;
        Ok(self.hub.found(found, &self.view)?)
    }

    /// A planner's batch.
    pub fn compaction_planned(&mut self, planner: Planner, batch: Batch) {
        self.compaction_running = false;
        self.compaction_resume_ms = self.now_ms + self.config.compaction_pause_ms;
        let hash = batch.finished;
        let revision = batch.revision;
        if self.store.compact_batch(batch) {
            let hash = hash.expect("a finished job has its hash").hash;
            let took_ms = self.now_ms - self.compaction_began_ms;
            let removed = planner.removed();
            self.effects.notes.push(Note::Compacted {
                revision,
                removed,
                hash,
                took_ms,
            });
            // Whoever waits for it waits for the commit, too.
            self.force_commit |= !self.compaction_waiters.is_empty();
        } else {
            self.planner = Some(planner);
        }
        self.view_changed();
    }

    fn answer_compactions(&mut self) {
        let unfinished = self.store.next_job().map_or(i64::MAX, |job| job.revision);
        // A job that is finished in memory is durable once nothing waits for a commit.
        let all_durable = self.store.pending().writes == 0;
        let waiting = std::mem::take(&mut self.compaction_waiters);
        for (revision, token, answer) in waiting {
            if revision < unfinished && all_durable {
                self.effects
                    .replies
                    .push((token, Reply::Outcome(Ok(answer))));
            } else {
                self.compaction_waiters.push((revision, token, answer));
            }
        }
        if self
            .compaction_waiters
            .iter()
            .any(|(revision, ..)| *revision < unfinished)
        {
            self.force_commit = true;
        }
    }

    /// Does everything that follows from the inputs so far, and says what is to be done.
    pub fn advance(&mut self) -> Result<Effects<T>, Error> {
        self.ask_reads();
        while self.raft.has_ready() {
            let output = self.raft.ready();
            if let Some(soft_state) = output.soft_state {
                self.role_changed(soft_state.lead, soft_state.role == Role::Leader);
            }
            for state in output.read_states {
                self.read_state(state.index, &state.context);
            }
            self.effects.log.extend(output.append.map(LogJob::Append));
            self.apply_queue.extend(output.apply);
            self.apply_what_may()?;
            self.effects.messages.extend(output.messages);
            self.ask_reads();
        }
        self.apply_what_may()?;
        let notes = self.raft.take_journal().into_iter().map(Note::Raft);
        self.effects.notes.extend(notes);
        self.publish()?;
        self.answer_reads();
        self.plan_commit();
        self.plan_compaction();
        self.plan_watch_steps();
        Ok(std::mem::take(&mut self.effects))
    }

    fn role_changed(&mut self, leader: u64, is_leader: bool) {
        if leader != 0 && leader != self.leader_seen {
            self.leader_seen = leader;
            self.leader_changes += 1;
        }
        if !is_leader {
            self.store.lessor().demote();
            self.term_begun = false;
        }
        if leader != 0 {
            let early: Vec<Proposal<T>> = self.early.drain(..).collect();
            if !early.is_empty() {
                self.propose_now(early);
            }
            if !std::mem::replace(&mut self.published, true) {
                self.publish_attributes();
            }
        }
    }

    fn publish_attributes(&mut self) {
        let attributes = Attributes {
            name: self.config.name.clone(),
            client_urls: self.config.client_urls.clone(),
        };
        self.propose_own(InternalRaftRequest {
            cluster_member_attr_set: Some(ClusterMemberAttrSetRequest {
                member_id: self.config.member_id,
                member_attributes: Some(attributes),
            }),
            ..Default::default()
        });
    }

    /// The first entry of the own term is applied: the leader's duties begin.
    fn term_begins(&mut self) {
        self.term_begun = true;
        let extend_ms = u64::from(self.config.election_ticks) * self.config.tick_ms;
        // A lone member's leases had nobody else to lead them; the clients could not renew while
        // it was down, so they get the time that etcd gives after an election.
        self.store.lessor().promote(self.now_ms, extend_ms);
        self.effects.notes.push(Note::Ready);
        if self.is_sole_voter()
            && self.store.members().cluster_version.as_deref() != Some(CLUSTER_VERSION)
            && self.store.members().downgrade_job().is_none()
        {
            self.wants_version = true;
        }
    }

    fn read_state(&mut self, index: u64, context: &[u8]) {
        let round = <[u8; 8]>::try_from(context).map(u64::from_be_bytes);
        // Another member's round, or one that was asked anew.
        if let Ok(round) = round
            && let Some((tokens, _)) = self.reads_asked.remove(&round)
        {
            self.reads_applying
                .extend(tokens.into_iter().map(|token| (index, token)));
        }
    }

    fn answer_reads(&mut self) {
        let applied = self.view.applied_index;
        let waiting = std::mem::take(&mut self.reads_applying);
        for (index, token) in waiting {
            if index <= applied {
                self.effects.replies.push((token, Reply::Ready));
            } else {
                self.reads_applying.push((index, token));
            }
        }
    }

    /// Applies what is committed, as long as the commit stage keeps up.
    fn apply_what_may(&mut self) -> Result<(), Error> {
        while self.store.pending().bytes < self.config.commit_bytes_cap {
            let Some(job) = self.apply_queue.pop_front() else {
                break;
            };
            for entry in &job.entries {
                self.apply(entry)?;
            }
            self.raft.apply_done(job.done);
            if self.raft.soft_state().lead == 0 {
                self.campaign_if_alone();
            }
            if std::mem::take(&mut self.wants_version) {
                self.propose_own(InternalRaftRequest {
                    cluster_version_set: Some(ClusterVersionSetRequest {
                        ver: CLUSTER_VERSION.to_owned(),
                    }),
                    ..Default::default()
                });
            }
        }
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), Error> {
        let at = Applied {
            index: entry.index,
            term: entry.term,
        };
        if at.index <= self.store.applied().index {
            return Ok(()); // it was in the database already
        }
        self.applied_something = true;
        match entry.kind {
            EntryKind::Normal if entry.data.is_empty() => self.store.advance(at),
            EntryKind::Normal => self.apply_request(at, &entry.data)?,
            EntryKind::ConfChange => self.apply_conf_change(at, entry)?,
            EntryKind::ConfChangeV2 => {
                let change = decode(entry.kind, &entry.data).ok_or_else(|| Error::Entry {
                    index: entry.index,
                    what: "its configuration change cannot be read".into(),
                })?;
                self.store.advance(at);
                self.change_raft(entry.index, &change)?;
            }
        }
        if entry.term == self.raft.hard_state().term && self.is_leader() && !self.term_begun {
            self.term_begins();
        }
        Ok(())
    }

    fn apply_request(&mut self, at: Applied, data: &Bytes) -> Result<(), Error> {
        let request = api::internal::decode(data).map_err(|e| Error::Entry {
            index: at.index,
            what: e.to_string(),
        })?;
        let id = match (request.id, &request.header) {
            (0, Some(header)) => header.id,
            (id, _) => id,
        };
        let before = self.store.members().cluster_version.clone();
        let outcome = self.store.apply(at, &request, self.now_ms)?;
        if let Some(version) = request.cluster_version_set {
            let initial = before.is_none();
            self.cluster_version_set(version.ver, initial);
        }
        if request
            .cluster_member_attr_set
            .is_some_and(|set| set.member_id == self.config.member_id)
            && self.pending.contains_key(&id)
        {
            self.effects.notes.push(Note::Published);
        }
        let Some(pending) = self.pending.remove(&id) else {
            return Ok(());
        };
        let Some(token) = pending.token else {
            return Ok(());
        };
        match outcome {
            Ok(answer @ Answer::Compaction(_)) if pending.physical => {
                let revision = request
                    .compaction
                    .map_or(0, |compaction| compaction.revision);
                self.compaction_waiters.push((revision, token, answer));
            }
            outcome => self.effects.replies.push((token, Reply::Outcome(outcome))),
        }
        Ok(())
    }

    fn cluster_version_set(&mut self, version: String, initial: bool) {
        if version == CLUSTER_VERSION {
            self.store.set_storage_version(CLUSTER_VERSION);
        }
        self.effects
            .notes
            .push(Note::ClusterVersion { version, initial });
    }

    fn apply_conf_change(&mut self, at: Applied, entry: &Entry) -> Result<(), Error> {
        let unreadable = |what: String| Error::Entry {
            index: at.index,
            what,
        };
        let change =
            raftpb::decode_conf_change(&entry.data).map_err(|e| unreadable(e.to_string()))?;
        self.store.advance(at);
        let verdict = judge(self.store.members(), &change).map_err(unreadable)?;
        let applied = match &verdict {
            Verdict::Refused(_) => ConfChange {
                node_id: 0,
                ..change.clone()
            },
            _ => change.clone(),
        };
        self.change_raft(at.index, &applied.into())?;
        let id = change.node_id;
        let outcome = match verdict {
            Verdict::Put(member) => {
                if self.store.members().get(id).is_none() {
                    self.effects.notes.push(Note::MemberAdded {
                        id,
                        peer_urls: member.peer_urls.clone(),
                        is_learner: member.is_learner,
                    });
                }
                self.store
                    .change_members(|members, edits| members.put(member, edits));
                Ok(Answer::Nothing)
            }
            Verdict::Remove(id) => {
                self.store
                    .change_members(|members, edits| members.remove(id, edits));
                self.effects.notes.push(Note::MemberRemoved { id });
                self.effects.removed |= id == self.config.member_id;
                Ok(Answer::Nothing)
            }
            Verdict::Refused(error) => Err(error),
        };
        let pending = self.pending.remove(&change.id);
        if let Some(token) = pending.and_then(|pending| pending.token) {
            self.effects.replies.push((token, Reply::Outcome(outcome)));
        }
        Ok(())
    }

    fn change_raft(
        &mut self,
        index: u64,
        change: &quorate_raft::ConfChangeV2,
    ) -> Result<(), Error> {
        let state = self
            .raft
            .apply_conf_change(index, change)
            .map_err(|e| Error::Entry {
                index,
                what: e.to_string(),
            })?;
        self.store.set_conf_state(&conf_state_json(&state));
        Ok(())
    }

    fn view_changed(&mut self) {
        self.applied_something = true;
    }

    fn publish(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.applied_something) {
            return Ok(());
        }
        self.view = self.store.publish();
        self.effects.view = Some(self.view.clone());
        let rows = self.store.take_untold();
        self.hub.notify(&rows, &self.view)?;
        Ok(())
    }

    fn plan_commit(&mut self) {
        let pending = self.store.pending();
        if pending.committing || (pending.entries == 0 && pending.writes == 0) {
            return;
        }
        let due = *self
            .commit_due_ms
            .get_or_insert(self.now_ms + self.config.commit_interval_ms);
        let many = pending.writes >= self.config.commit_writes
            || pending.bytes >= self.config.commit_bytes_cap / 2;
        if !(self.force_commit || many || due <= self.now_ms) {
            return;
        }
        if let Some(frozen) = self.store.freeze() {
            self.commit_due_ms = None;
            self.force_commit = false;
            self.freezing = Some(Freezing {
                applied: self.store.applied(),
                conf_state: self.raft.membership().conf_state(),
                members: self.store.members().clone(),
            });
            self.effects.commit = Some(frozen);
            // The view must name the list that is being committed.
            self.view = self.store.publish();
            self.effects.view = Some(self.view.clone());
        }
    }

    fn plan_compaction(&mut self) {
        if self.compaction_running || self.compaction_resume_ms > self.now_ms {
            return;
        }
        let planner = match self.planner.take() {
            Some(planner) => planner,
            None => match self.store.next_job() {
                Some(job) if self.store.committed_index() >= job.index => {
                    self.compaction_began_ms = self.now_ms;
                    Planner::new(job)
                }
                Some(_) => {
                    // Its rows are not all in the file yet.
                    self.force_commit = true;
                    return;
                }
                None => return,
            },
        };
        if self.store.pending().writes >= 2 * self.config.commit_writes {
            self.planner = Some(planner);
            return;
        }
        self.compaction_running = true;
        let (view, rows) = (self.view.clone(), self.config.compaction_rows);
        self.effects.compaction = Some(CompactionStep {
            planner,
            view,
            rows,
        });
    }

    fn plan_watch_steps(&mut self) {
        while self.watch_steps < WATCH_STEPS
            && let Some(step) = self.hub.next_step(&self.view)
        {
            self.watch_steps += 1;
            self.effects.watch_steps.push(step);
        }
    }

    fn expire_leases(&mut self) {
        if !self.term_begun || self.log_full {
            return;
        }
        let now_ms = self.now_ms;
        for id in self.store.lessor().expired(now_ms, REVOKE_BATCH) {
            self.propose_own(InternalRaftRequest {
                lease_revoke: Some(api::etcdserverpb::LeaseRevokeRequest { id }),
                ..Default::default()
            });
        }
        loop {
            let checkpoints = self.store.lessor().due_checkpoints(now_ms);
            if checkpoints.is_empty() {
                break;
            }
            self.propose_own(InternalRaftRequest {
                lease_checkpoint: Some(api::etcdserverpb::LeaseCheckpointRequest { checkpoints }),
                ..Default::default()
            });
        }
    }

    /// Proposes a lease's checkpoint of 0: it was renewed, and the time left on the log is void.
    pub fn clear_checkpoint(&mut self, id: i64) {
        let checkpoints = vec![api::etcdserverpb::LeaseCheckpoint {
            id,
            remaining_ttl: 0,
        }];
        self.propose_own(InternalRaftRequest {
            lease_checkpoint: Some(api::etcdserverpb::LeaseCheckpointRequest { checkpoints }),
            ..Default::default()
        });
    }

    /// When the member wants to be stepped next, at the latest.
    pub fn next_due_ms(&self) -> Option<u64> {
        let compaction = (self.planner.is_some() && !self.compaction_running)
            .then_some(self.compaction_resume_ms);
        [self.commit_due_ms, compaction].into_iter().flatten().min()
    }
}
