//! The other members: who they are, what they say, and what they are told.
//!
//! Invariants: nothing is sent to, or taken from, a member that was removed; a follower's messages
//! wait for a change of the configuration that is committed before them, so that it counts no vote
//! by a configuration that is over.

use super::{Member, Note};
use crate::Error;
use quorate_raft::{JournalLine, Level, Message, MessageKind, StepError};
use quorate_store::membership::Membership;

/// Who is to be reached where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerChange {
    /// A member is there, or is reached elsewhere than before.
    Set {
        /// Its id.
        id: u64,
        /// Its peer URLs.
        peer_urls: Vec<String>,
    },
    /// A member is gone for good.
    Remove {
        /// Its id.
        id: u64,
    },
}

/// Everybody but the member itself.
pub(super) fn all_of(members: &Membership, own: u64) -> Vec<PeerChange> {
    let others = members.iter().filter(|member| member.id != own);
    let set = |member: &quorate_store::membership::Member| PeerChange::Set {
        id: member.id,
        peer_urls: member.peer_urls.clone(),
    };
    others.map(set).collect()
}

impl<T> Member<T> {
    /// A peer's message, but for snapshots: those come with a database and through
    /// [`Member::step_snapshot`]. `Err`: what this member's log holds and what the cluster committed
    /// contradict each other, and it must stop.
    pub fn step(&mut self, message: Message) -> Result<(), Error> {
        assert!(
            message.kind != MessageKind::Snap,
            "a snapshot comes with its database"
        );
        self.take_in(message)
    }

    pub(super) fn take_in(&mut self, message: Message) -> Result<(), Error> {
        if self.store.members().is_removed(message.from) {
            return Ok(());
        }
        if message.kind == MessageKind::Prop && self.log_full {
            return Ok(()); // whoever forwarded it will be told that its time is over
        }
        let (kind, from) = (message.kind, message.from);
        match self.raft.step(message) {
            Ok(()) | Err(StepError::ProposalDropped | StepError::PeerNotFound) => Ok(()),
            Err(
                error @ (StepError::CommitBeyondLog { .. } | StepError::CommittedConflict { .. }),
            ) => Err(Error::Log(error)),
            Err(error) => {
                self.effects.notes.push(Note::Raft(JournalLine {
                    level: Level::Warn,
                    text: format!("refused a {kind} message from {from:x}: {error}"),
                }));
                Ok(())
            }
        }
    }

    /// A message to `id` could not be delivered.
    pub fn report_unreachable(&mut self, id: u64) {
        self.raft.report_unreachable(id);
    }

    /// Whether a member is connected, as of now.
    pub fn peer_active(&mut self, id: u64, active: bool) {
        if !active {
            self.connected.remove(&id);
            return;
        }
        self.connected.entry(id).or_insert(self.now_ms);
        // The cluster is there: if it has a leader it will be heard of soon, and if not there is no
        // reason to wait for a whole election timeout.
        let starting = self.now_ms < u64::from(self.config.election_ticks) * self.config.tick_ms;
        if self.config.advance_first_election
            && starting
            && !std::mem::replace(&mut self.first_election_advanced, true)
            && self.raft.soft_state().lead == 0
        {
            for _ in 0..self.config.election_ticks.saturating_sub(2) {
                self.raft.tick_quiesced();
            }
        }
    }

    pub(super) fn is_connected_since(&self, id: u64, since_ms: u64) -> bool {
        id == self.config.member_id || self.connected.get(&id).is_some_and(|at| *at < since_ms)
    }

    /// How many of `ids` have been connected since before `since_ms`, this member among them.
    pub(super) fn count_connected(&self, ids: impl Iterator<Item = u64>, since_ms: u64) -> usize {
        ids.filter(|id| self.is_connected_since(*id, since_ms))
            .count()
    }

    /// Hands messages out, or holds them until the configuration that they rest on is applied.
    pub(super) fn send(&mut self, messages: Vec<Message>) {
        self.held.extend(messages);
        let waits = !self.is_leader()
            && self
                .apply_queue
                .iter()
                .any(quorate_raft::ApplyJob::ends_with_conf_change);
        if waits {
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        held.retain(|message| !self.store.members().is_removed(message.to));
        for message in held {
            if message.kind == MessageKind::Snap {
                let index = message.snapshot.as_ref().map_or(0, |s| s.metadata.index);
                self.shortening.database_leaves(message.to, index);
                self.snapshots_wanted.push(message);
            } else {
                self.effects.messages.push(message);
            }
        }
    }
}
