//! How a member stands, for operators and for whoever decides by it.

use std::fmt;

use crate::raft::Raft;
use crate::storage::{Storage, StorageError};
use crate::tracker::{Membership, ProgressMap};
use crate::types::{HardState, Role, SoftState};

/// A member's state in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicStatus {
    /// Who.
    pub id: u64,
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// Leader and role.
    pub soft_state: SoftState,
    /// Highest index known to be applied.
    pub applied: u64,
    /// Who leadership is being handed to; 0 for nobody.
    pub lead_transferee: u64,
    /// Whether this member is a learner.
    pub is_learner: bool,
}

/// A member's state with the configuration and, on a leader, everyone's progress.
#[derive(Clone, Debug)]
pub struct Status {
    /// The numbers.
    pub basic: BasicStatus,
    /// The configuration in force.
    pub membership: Membership,
    /// Progress by member; empty except on a leader.
    pub progress: ProgressMap,
}

impl<S: Storage> Raft<S> {
    /// The state in a few numbers.
    pub fn basic_status(&self) -> BasicStatus {
        BasicStatus {
            id: self.config.id,
            hard_state: self.hard_state(),
            soft_state: self.soft_state(),
            applied: self.log.applied,
            lead_transferee: self.transferee,
            is_learner: self.is_learner,
        }
    }

    /// The whole state, copied.
    pub fn status(&self) -> Status {
        let progress = if self.role == Role::Leader {
            self.tracker.progress.clone()
        } else {
            ProgressMap::new()
        };
        Status {
            basic: self.basic_status(),
            membership: self.tracker.membership.clone(),
            progress,
        }
    }

    /// Everyone's progress as a leader sees it, without a copy; on others it says nothing.
    pub fn progress(&self) -> &ProgressMap {
        &self.tracker.progress
    }

    /// The first index that the log can still send to others.
    pub fn first_index(&self) -> u64 {
        self.log.first_index()
    }

    /// The term of an entry, durable or not, from one before the first index to the last.
    pub fn term_at(&self, index: u64) -> Result<u64, StorageError> {
        self.log.term(index)
    }

    /// The index of a snapshot that is about to replace the log here, until it is stored.
    pub fn pending_snapshot(&self) -> Option<u64> {
        let snapshot = self.log.unstable.snapshot.as_ref();
        snapshot.map(|snapshot| snapshot.metadata.index)
    }

    /// The end of the log, durable or not.
    pub fn last_index(&self) -> u64 {
        self.log.last_index()
    }
}

/// As JSON, in the form of etcd's debug variable.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BasicStatus {
            id,
            hard_state,
            soft_state,
            applied,
            lead_transferee,
            ..
        } = self.basic;
        write!(
            f,
            "{{\"id\":\"{id:x}\",\"term\":{},\"vote\":\"{:x}\",\"commit\":{},\"lead\":\"{:x}\",\
             \"raftState\":\"{}\",\"applied\":{applied},\"progress\":{{",
            hard_state.term, hard_state.vote, hard_state.commit, soft_state.lead, soft_state.role
        )?;
        for (position, (id, progress)) in self.progress.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            write!(
                f,
                "{comma}\"{id:x}\":{{\"match\":{},\"next\":{},\"state\":\"{}\"}}",
                progress.matched, progress.next, progress.state
            )?;
        }
        write!(f, "}},\"leadtransferee\":\"{lead_transferee:x}\"}}")
    }
}
