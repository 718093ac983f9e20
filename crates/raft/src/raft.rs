//! The state machine: one member's consensus.
//!
//! The algorithm is etcd raft's: Ongaro's thesis with pre-vote (9.6), check of the quorum and
//! leader stickiness (6.2), read index (6.4), leadership transfer (3.10), joint consensus (4.3).
//! Inputs are calls; what they lead to is collected and fetched with [`Raft::ready`].
//!
//! Invariants:
//! - `messages` may leave at once and go to others; `after_append` waits until all that was
//!   unstable when it was written is durable, and may go to this member itself;
//! - `term` never falls, and `vote` changes within a term only from nobody to somebody;
//! - `log.committed` only grows.
//!
//! This file has the state, the calls that feed it, and the roles. How a message is taken in is in
//! `receive`, what each role does with it in `election`, `leader` and `follower`, and what changes the
//! configuration in `reconfigure`.

use bytes::Bytes;

use crate::config::{Config, ConfigError};
use crate::error::StepError;
use crate::journal::{Journal, JournalLine, note};
use crate::log::Log;
use crate::message::{Message, MessageKind};
use crate::progress::Progress;
use crate::random::Random;
use crate::read_only::ReadOnly;
use crate::reconfigure::restored;
use crate::storage::Storage;
use crate::tracker::{InflightLimits, Membership, Tracker};
use crate::types::{Entry, EntryKind, HardState, NONE, ReadState, Role, SoftState};

/// One member's consensus over a [`Storage`].
#[derive(Debug)]
pub struct Raft<S> {
    pub(crate) config: Config,
    pub(crate) term: u64,
    pub(crate) vote: u64,
    pub(crate) log: Log<S>,
    pub(crate) tracker: Tracker,
    pub(crate) role: Role,
    pub(crate) is_learner: bool,
    pub(crate) lead: u64,
    /// Who leadership is being handed to.
    pub(crate) transferee: u64,
    /// At or above the index of the newest conf change that may not be applied.
    pub(crate) pending_conf_index: u64,
    /// The configuration came from a state at this index; changes up to it are part of it.
    pub(crate) conf_index: u64,
    /// Payload bytes of the uncommitted tail, at most; kept by a leader.
    pub(crate) uncommitted_size: u64,
    pub(crate) messages: Vec<Message>,
    pub(crate) after_append: Vec<Message>,
    pub(crate) read_states: Vec<ReadState>,
    pub(crate) read_only: ReadOnly,
    /// Read requests that arrived before the leader's first commit in its term.
    pub(crate) early_reads: Vec<Message>,
    /// Ticks since the last sign of a leader; for a leader, since the last check of the quorum.
    pub(crate) election_elapsed: u32,
    pub(crate) heartbeat_elapsed: u32,
    pub(crate) randomized_election_ticks: u32,
    pub(crate) journal: Journal,
    random: Random,
    /// As last handed out.
    pub(crate) last_soft_state: SoftState,
    pub(crate) last_hard_state: HardState,
}

impl<S: Storage> Raft<S> {
    /// Starts from what the storage holds, as a follower without a leader.
    pub fn new(config: Config, storage: S) -> Result<Raft<S>, ConfigError> {
        let config = config.normalize()?;
        let (hard_state, conf_state) = storage.initial_state();
        let limits = InflightLimits {
            count_max: config.max_inflight_messages,
            bytes_max: config.max_inflight_bytes,
        };
        let log = Log::new(storage, config.max_committed_size);
        let restored =
            restored(limits, log.last_index(), &conf_state).map_err(ConfigError::ConfState)?;
        let mut raft = Raft {
            term: 0,
            vote: NONE,
            tracker: Tracker::new(limits),
            role: Role::Follower,
            is_learner: false,
            lead: NONE,
            transferee: NONE,
            pending_conf_index: 0,
            conf_index: 0,
            uncommitted_size: 0,
            messages: Vec::new(),
            after_append: Vec::new(),
            read_states: Vec::new(),
            read_only: ReadOnly::default(),
            early_reads: Vec::new(),
            election_elapsed: 0,
            heartbeat_elapsed: 0,
            randomized_election_ticks: 0,
            journal: Journal::new(config.journal_floor),
            random: Random::new(config.seed),
            last_soft_state: SoftState::default(),
            last_hard_state: HardState::default(),
            log,
            config,
        };
        raft.switch_to(restored.membership, restored.progress);
        if !hard_state.is_empty() {
            raft.load(hard_state)?;
        }
        let applied = raft.config.applied;
        if applied > 0 {
            let (low, commit) = (raft.log.applied, raft.log.committed);
            if applied < low || applied > commit {
                return Err(ConfigError::AppliedOutOfRange {
                    applied,
                    low,
                    commit,
                });
            }
            raft.log.applied_to(applied, 0);
        }
        raft.conf_index = raft.log.applied;
        raft.become_follower(raft.term, NONE);
        raft.last_soft_state = raft.soft_state();
        raft.last_hard_state = raft.hard_state();
        raft.note_start();
        Ok(raft)
    }

    fn note_start(&mut self) {
        let peers: Vec<String> = self
            .tracker
            .membership
            .voters
            .ids()
            .iter()
            .map(|id| format!("{id:x}"))
            .collect();
        let last = self.log.last_id();
        note!(
            self.journal,
            Info,
            "newRaft {:x} [peers: [{}], term: {}, commit: {}, applied: {}, lastindex: {}, \
             lastterm: {}]",
            self.config.id,
            peers.join(","),
            self.term,
            self.log.committed,
            self.log.applied,
            last.index,
            last.term
        );
    }

    fn load(&mut self, state: HardState) -> Result<(), ConfigError> {
        let (low, last_index) = (self.log.committed, self.log.last_index());
        if state.commit < low || state.commit > last_index {
            return Err(ConfigError::CommitOutOfRange {
                commit: state.commit,
                low,
                last_index,
            });
        }
        self.log.committed = state.commit;
        self.term = state.term;
        self.vote = state.vote;
        Ok(())
    }

    /// This member's id.
    pub fn id(&self) -> u64 {
        self.config.id
    }

    /// The settings, with defaults filled in.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The durable part of the log.
    pub fn storage(&self) -> &S {
        &self.log.storage
    }

    /// The durable part of the log, for the driver to add what has become durable (before it
    /// hands in the responses) and to drop what is applied and no longer wanted.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.log.storage
    }

    /// Leader and role.
    pub fn soft_state(&self) -> SoftState {
        SoftState {
            lead: self.lead,
            role: self.role,
        }
    }

    /// What is, or is about to be, on disk.
    pub fn hard_state(&self) -> HardState {
        HardState {
            term: self.term,
            vote: self.vote,
            commit: self.log.committed,
        }
    }

    /// The configuration in force here.
    pub fn membership(&self) -> &Membership {
        &self.tracker.membership
    }

    /// The lines noted since the last call, for the operator's log.
    pub fn take_journal(&mut self) -> Vec<JournalLine> {
        self.journal.take()
    }

    /// Whether [`Raft::take_journal`] has lines.
    pub fn has_journal(&self) -> bool {
        !self.journal.is_empty()
    }

    /// Lines that did not fit into the journal since the start.
    pub fn journal_lost(&self) -> u64 {
        self.journal.lost()
    }

    /// Sets the timeout that the next election waits for, until the role changes. For traces and
    /// simulations that want a certain member to campaign.
    pub fn set_randomized_election_ticks(&mut self, ticks: u32) {
        self.randomized_election_ticks = ticks;
    }

    /// Lets one tick pass.
    pub fn tick(&mut self) {
        match self.role {
            Role::Leader => self.tick_heartbeat(),
            Role::Follower | Role::Candidate | Role::PreCandidate => self.tick_election(),
        }
    }

    /// Lets one tick pass for the election timeout alone: no election, no heartbeat.
    pub fn tick_quiesced(&mut self) {
        self.election_elapsed = self.election_elapsed.saturating_add(1);
    }

    /// Begins an election, if this member may.
    pub fn campaign(&mut self) -> Result<(), StepError> {
        self.handle(Message::new(MessageKind::Hup, NONE))
    }

    /// Proposes data, here or at the leader.
    pub fn propose(&mut self, data: Bytes) -> Result<(), StepError> {
        self.propose_batch(vec![data])
    }

    /// Proposes several at once: all are taken, in order, or none. An empty batch does nothing.
    pub fn propose_batch(&mut self, batch: Vec<Bytes>) -> Result<(), StepError> {
        if batch.is_empty() {
            return Ok(());
        }
        let entry = |data| Entry {
            data,
            ..Entry::default()
        };
        let mut message = Message::new(MessageKind::Prop, NONE);
        message.from = self.config.id;
        message.entries = batch.into_iter().map(entry).collect();
        self.handle(message)
    }

    /// Proposes a membership change in its encoded form. The leader lets one wait at a time; one
    /// that does not fit becomes an empty entry.
    pub fn propose_conf_change(&mut self, kind: EntryKind, data: Bytes) -> Result<(), StepError> {
        assert!(
            kind.is_conf_change(),
            "a conf change has an entry kind of its own"
        );
        let mut message = Message::new(MessageKind::Prop, NONE);
        message.entries.push(Entry {
            kind,
            data,
            ..Entry::default()
        });
        self.handle(message)
    }

    /// Asks for an index from which reads are linearizable. The answer is a [`ReadState`] with
    /// the same context, and may never come: ask again, with another context.
    pub fn read_index(&mut self, context: Bytes) {
        let mut message = Message::new(MessageKind::ReadIndex, NONE);
        message.entries.push(Entry {
            data: context,
            ..Entry::default()
        });
        self.handle_local(message);
    }

    /// Asks the leader to hand leadership to `transferee`. It gives up after an election timeout.
    pub fn transfer_leader(&mut self, transferee: u64) {
        let mut message = Message::new(MessageKind::TransferLeader, NONE);
        message.from = transferee;
        self.handle_local(message);
    }

    /// Makes a follower forget its leader, so that it votes for another within the lease. Without
    /// effect on a leader and with lease-based reads.
    pub fn forget_leader(&mut self) {
        self.handle_local(Message::new(MessageKind::ForgetLeader, NONE));
    }

    /// A message to `id` could not be delivered.
    pub fn report_unreachable(&mut self, id: u64) {
        let mut message = Message::new(MessageKind::Unreachable, NONE);
        message.from = id;
        self.handle_local(message);
    }

    /// How sending a snapshot to `id` ended. Due for each [`MessageKind::Snap`], however it ended:
    /// until then, or until `id` acknowledges one, nothing else is sent to it.
    pub fn report_snapshot(&mut self, id: u64, sent: bool) {
        let mut message = Message::new(MessageKind::SnapStatus, NONE);
        message.from = id;
        message.reject = !sent;
        self.handle_local(message);
    }

    /// For inputs that are dropped where they do not fit.
    fn handle_local(&mut self, message: Message) {
        let kind = message.kind;
        if let Err(error) = self.handle(message) {
            note!(self.journal, Debug, "{kind} not handled: {error}");
        }
    }

    /// Hands out a message: see the invariants above.
    pub(crate) fn send(&mut self, mut message: Message) {
        if message.from == NONE {
            message.from = self.config.id;
        }
        let kind = message.kind;
        if kind.is_election() {
            assert!(message.term != 0, "term should be set when sending {kind}");
        } else {
            assert!(
                message.term == 0,
                "term should not be set when sending {kind} (was {})",
                message.term
            );
            // Proposals and read requests are for whoever leads, in any term.
            if kind != MessageKind::Prop && kind != MessageKind::ReadIndex {
                message.term = self.term;
            }
        }
        if kind.waits_for_append() {
            // Refusals wait too: they may rest on a vote or an entry that is not durable yet.
            self.after_append.push(message);
        } else {
            assert!(
                message.to != self.config.id,
                "{kind} is addressed to its sender"
            );
            self.messages.push(message);
        }
    }

    /// Back to the beginning of a role, in `term`.
    pub(crate) fn reset(&mut self, term: u64) {
        if self.term != term {
            assert!(self.term < term, "term {} cannot fall to {term}", self.term);
            self.term = term;
            self.vote = NONE;
        }
        self.lead = NONE;
        self.election_elapsed = 0;
        self.heartbeat_elapsed = 0;
        self.randomized_election_ticks =
            self.config.election_ticks + self.random.below(self.config.election_ticks);
        self.transferee = NONE;
        self.tracker.reset_votes();
        let last_index = self.log.last_index();
        let limits = self.tracker.limits;
        for (id, progress) in &mut self.tracker.progress {
            *progress = Progress::new(last_index + 1, limits.window(), progress.is_learner);
            if *id == self.config.id {
                progress.matched = last_index;
            }
        }
        self.pending_conf_index = 0;
        self.uncommitted_size = 0;
        self.read_only = ReadOnly::default();
        self.early_reads.clear();
    }

    pub(crate) fn become_follower(&mut self, term: u64, lead: u64) {
        self.reset(term);
        self.lead = lead;
        self.role = Role::Follower;
        note!(
            self.journal,
            Info,
            "{:x} became follower at term {}",
            self.config.id,
            self.term
        );
    }

    /// All other members, ascending.
    pub(crate) fn peers(&self) -> Vec<u64> {
        let own = self.config.id;
        self.tracker
            .progress
            .keys()
            .copied()
            .filter(|id| *id != own)
            .collect()
    }

    /// Whether this member may lead: it votes, and no snapshot is about to replace its log.
    pub(crate) fn is_promotable(&self) -> bool {
        let own = self.tracker.progress.get(&self.config.id);
        own.is_some_and(|progress| !progress.is_learner)
            && !self.log.has_next_or_in_progress_snapshot()
    }
}
