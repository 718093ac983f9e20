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
//! - messages to other members that rest on the configuration wait until it is applied;
//! - every queue is bounded: beyond the allowed gap between commit and apply, or with too many
//!   proposals under way, a proposal is refused before it reaches the log.

mod apply;
mod defragment;
mod effects;
mod leadership;
mod leases;
mod log_snapshots;
mod log_versions;
mod membership;
mod peers;
mod proposals;
mod reads;
mod shorten;
mod snapshots;
mod space;
mod stages;
mod versions;

pub use effects::{CompactionStep, Effects, Note};
pub use membership::MemberChange;
pub use peers::PeerChange;
pub use snapshots::SnapshotToSend;

use crate::log_stage::LogJob;
use crate::{Error, Received};
use bytes::Bytes;
use quorate_api as api;
use quorate_failpoints::fail_point;
use quorate_raft::{ApplyJob, ConfState, MemoryStorage, Message, Raft, Role};
use quorate_store::compaction::Planner;
use quorate_store::watch::Hub;
use quorate_store::{Answer, Applied, Outcome, Store, View};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The version of etcd that this member speaks as.
pub const ETCD_VERSION: &str = "3.7.3";
/// The cluster version that comes with it.
pub const CLUSTER_VERSION: &str = "3.7.0";

/// Steps of catching up that may run at a time.
const WATCH_STEPS: usize = 2;
/// Bytes a millisecond that catching up may send while requests are served: the two share processors.
const WATCH_BYTES_PER_MS: u64 = 180_000;
/// Time without a proposal after which nobody has to be spared, in milliseconds.
const QUIET_MS: u64 = 50;
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
    /// Whether a change of membership is refused that could cost the quorum.
    pub strict_reconfiguration: bool,
    /// Most learners.
    pub max_learners: usize,
    /// Whether a member that sees its peers at its start waits for their election at most two ticks
    /// more.
    pub advance_first_election: bool,
    /// Entries applied since the last snapshot record that make another one due.
    pub snapshot_count: u64,
    /// Entries below a snapshot that stay in memory for slow followers.
    pub snapshot_catch_up: u64,
    /// Entries that may be committed and not applied before proposals are refused.
    pub max_apply_gap: u64,
    /// The same for revocations of leases, which make room; at least as many.
    pub max_apply_gap_of_revocations: u64,
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
    /// What is particular about it.
    pub kind: ProposalKind,
}

/// What is particular about a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalKind {
    /// Nothing.
    Ordinary,
    /// A compaction that is to be answered once its rows are gone for good.
    PhysicalCompaction,
    /// The revocation of a lease; see [`Config::max_apply_gap_of_revocations`].
    Revocation,
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

struct Pending<T> {
    token: Option<T>,
    kind: ProposalKind,
}

/// A commit that was frozen: where it stands in the log.
struct Freezing {
    applied: Applied,
    conf_state: ConfState,
    members: Arc<quorate_store::membership::Membership>,
    /// Compactions below this revision have ended, with all that they removed, in this commit at the
    /// latest.
    unfinished: i64,
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
    /// Linearizable reads: not yet asked, asked, and waiting for an index.
    reads_new: Vec<reads::Read<T>>,
    reads_asked: Option<reads::Round<T>>,
    reads_applying: Vec<(u64, T)>,
    apply_queue: VecDeque<ApplyJob>,
    /// Messages that wait for a change of the configuration to be applied.
    held: Vec<Message>,
    /// Since when each connected member is so.
    connected: BTreeMap<u64, u64>,
    /// When the leader of now was heard of first.
    leader_since_ms: u64,
    /// Snapshots that raft wants sent, until a commit covers them.
    snapshots_wanted: Vec<Message>,
    /// A received database that raft was told of.
    received: Option<Received>,
    /// Whether the commit stage has yet to take over another database.
    replacing_db: bool,
    /// Whether a plan that is under way is of a database that was replaced.
    plan_is_stale: bool,
    /// What of the log in memory may be let go.
    shortening: shorten::Shortening,
    /// Transfers of leadership that are waited for.
    transfers: Vec<leadership::Transfer<T>>,
    /// Changes of the membership that wait for a leader.
    changes_waiting: Vec<(u64, Bytes)>,
    first_election_advanced: bool,
    freezing: Option<Freezing>,
    commit_due_ms: Option<u64>,
    commit_waiters: Vec<(u64, T)>,
    force_commit: bool,
    defragmentation: defragment::Defragmentation<T>,
    space_alarm: Option<space::SpaceAlarm<T>>,
    /// Physical compactions: by revision.
    compaction_waiters: Vec<(i64, T, Answer)>,
    compaction_running: bool,
    planner: Option<Planner>,
    compaction_began_ms: u64,
    compaction_resume_ms: u64,
    watch_steps: usize,
    /// Before this time no step of catching up begins.
    watch_resume_ms: u64,
    /// When something was proposed last.
    proposed_ms: Option<u64>,
    log_snapshots: log_snapshots::LogSnapshots,
    next_purge_ms: u64,
    log_full: bool,
    leader_seen: u64,
    leader_changes: u64,
    failed: u64,
    term_begun: bool,
    own_ids: crate::ids::RequestIds,
    /// The proposal that publishes what this member says of itself.
    publishing: Option<u64>,
    published: bool,
    ready_told: bool,
    wants_version: bool,
    applied_something: bool,
    /// Who waits for a lease that is due to be gone.
    revocation_waiters: BTreeMap<i64, Vec<RevocationWaiter>>,
}

/// How waiting for a lease's revocation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The lease is gone.
    Gone,
    /// This member is no longer primary: the next one may keep it.
    Demoted,
}

/// Told how a revocation ended.
pub type RevocationWaiter = Box<dyn FnOnce(Revocation) + Send>;

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
        let peers = peers::all_of(store.members(), config.member_id);
        let effects = Effects {
            peers,
            ..Effects::default()
        };
        Member {
            config,
            raft,
            store,
            hub,
            view,
            effects,
            now_ms: 0,
            pending: HashMap::new(),
            deadlines: VecDeque::new(),
            early: VecDeque::new(),
            reads_new: Vec::new(),
            reads_asked: None,
            reads_applying: Vec::new(),
            apply_queue: VecDeque::new(),
            held: Vec::new(),
            connected: BTreeMap::new(),
            leader_since_ms: 0,
            snapshots_wanted: Vec::new(),
            received: None,
            replacing_db: false,
            plan_is_stale: false,
            shortening: shorten::Shortening::at(snapshot_index),
            transfers: Vec::new(),
            changes_waiting: Vec::new(),
            first_election_advanced: false,
            freezing: None,
            commit_due_ms: None,
            commit_waiters: Vec::new(),
            force_commit: false,
            defragmentation: Default::default(),
            space_alarm: None,
            compaction_waiters: Vec::new(),
            compaction_running: false,
            planner: None,
            compaction_began_ms: 0,
            compaction_resume_ms: 0,
            watch_steps: 0,
            watch_resume_ms: 0,
            proposed_ms: None,
            log_snapshots: log_snapshots::LogSnapshots::at(snapshot_index),
            next_purge_ms: PURGE_INTERVAL_MS,
            log_full: false,
            leader_seen: 0,
            leader_changes: 0,
            failed: 0,
            term_begun: false,
            own_ids,
            publishing: None,
            published: false,
            ready_told: false,
            wants_version: false,
            applied_something: false,
            revocation_waiters: BTreeMap::new(),
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
        // What is committed and not applied may change who votes: it comes first.
        let current = self.raft.hard_state().commit <= self.store.applied().index;
        if self.is_sole_voter() && current {
            // Refused only where a change of membership is still to be applied.
            let _later = self.raft.campaign();
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
        self.expire_transfers();
        self.publish_attributes();
        self.expire_leases();
        self.hub.tick(self.now_ms);
        self.retry_reads();
        if self.now_ms >= self.next_purge_ms {
            self.next_purge_ms = self.now_ms + PURGE_INTERVAL_MS;
            self.effects.log.push(LogJob::Purge);
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
            self.send(output.messages);
            fail_point!("raftBeforeAdvance");
            self.ask_reads();
        }
        self.apply_what_may()?;
        self.answer_refused();
        self.send(Vec::new());
        self.plan_log_snapshot();
        self.shorten_log();
        let notes = self.raft.take_journal().into_iter().map(Note::Raft);
        self.effects.notes.extend(notes);
        self.publish()?;
        self.answer_reads();
        self.send_snapshots();
        self.plan_commit();
        self.plan_vacuum();
        self.plan_compaction();
        self.plan_watch_steps();
        Ok(std::mem::take(&mut self.effects))
    }

    fn role_changed(&mut self, leader: u64, is_leader: bool) {
        if leader != 0 && leader != self.leader_seen {
            self.leader_seen = leader;
            self.leader_changes += 1;
        }
        self.leader_since_ms = self.now_ms;
        if !is_leader {
            self.store.lessor().demote();
            self.tell_demoted();
            self.term_begun = false;
        }
        if leader != 0 {
            let early: Vec<Proposal<T>> = self.early.drain(..).collect();
            if !early.is_empty() {
                self.propose_now(early);
            }
            self.publish_attributes();
            self.propose_changes();
            // Whoever was asked may be gone: the rounds are asked anew.
            self.ask_reads_anew();
        }
        self.transfers_ended(leader);
    }

    /// The first entry of the own term is applied: the leader's duties begin.
    fn term_begins(&mut self) {
        self.term_begun = true;
        let extend_ms = u64::from(self.config.election_ticks) * self.config.tick_ms;
        // A lone member's leases had nobody else to lead them; the clients could not renew while
        // it was down, so they get the time that etcd gives after an election.
        self.store.lessor().promote(self.now_ms, extend_ms);
        self.tell_ready();
        if self.store.members().len() == 1
            && self.store.members().cluster_version.as_deref() != Some(CLUSTER_VERSION)
            && self.store.members().downgrade_job().is_none()
        {
            self.wants_version = true;
        }
    }

    fn tell_ready(&mut self) {
        if !std::mem::replace(&mut self.ready_told, true) {
            self.effects.notes.push(Note::Ready);
        }
    }

    fn view_changed(&mut self) {
        self.applied_something = true;
    }

    fn publish(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.applied_something) {
            return Ok(());
        }
        fail_point!("beforeWritebackBuf");
        self.view = self.store.publish();
        fail_point!("afterWritebackBuf");
        self.effects.view = Some(self.view.clone());
        let rows = self.store.take_untold();
        self.hub.notify(&rows, &self.view)?;
        Ok(())
    }

    /// When the member wants to be stepped next, at the latest.
    pub fn next_due_ms(&self) -> Option<u64> {
        let compaction = (self.planner.is_some() && !self.compaction_running)
            .then_some(self.compaction_resume_ms);
        let vacuum = self.defragmentation.due_ms();
        let all = [self.commit_due_ms, compaction, vacuum];
        all.into_iter().flatten().min()
    }
}
