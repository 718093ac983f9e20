//! Why a message or a proposal is refused.

use std::fmt;

use crate::changer::ConfChangeError;

/// Why [`crate::Raft`] did not take an input. Unless said otherwise nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepError {
    /// There is no leader to take the proposal, or it cannot now. Fail fast or try again.
    ProposalDropped,
    /// A kind of message that never comes from another member.
    LocalMessage,
    /// An answer from someone outside the configuration.
    PeerNotFound,
    /// A message that no member sends.
    Malformed(&'static str),
    /// A conf-change entry whose data cannot be read.
    UnreadableConfChange,
    /// A leader commits what this member's log does not have: the log has lost its tail, or the
    /// sender lies. The message's term was taken over.
    CommitBeyondLog {
        /// What the leader sent.
        commit: u64,
        /// The end of the log.
        last_index: u64,
    },
    /// A leader's entry contradicts a committed one: a log is damaged. The message's term was
    /// taken over.
    CommittedConflict {
        /// The index of both.
        index: u64,
        /// The commit index.
        committed: u64,
    },
    /// A snapshot whose configuration contradicts itself. The message's term was taken over.
    BadConfState(ConfChangeError),
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepError::ProposalDropped => f.write_str("raft proposal dropped"),
            StepError::LocalMessage => f.write_str("raft: cannot step raft local message"),
            StepError::PeerNotFound => f.write_str("raft: cannot step as peer not found"),
            StepError::Malformed(what) => write!(f, "raft: malformed message: {what}"),
            StepError::UnreadableConfChange => {
                f.write_str("raft: the data of a conf change entry cannot be read")
            }
            StepError::CommitBeyondLog { commit, last_index } => write!(
                f,
                "tocommit({commit}) is out of range [lastIndex({last_index})]. Was the raft log \
                 corrupted, truncated, or lost?"
            ),
            StepError::CommittedConflict { index, committed } => write!(
                f,
                "entry {index} conflict with committed entry [committed({committed})]"
            ),
            StepError::BadConfState(error) => {
                write!(f, "unable to restore the config of a snapshot: {error}")
            }
        }
    }
}

impl std::error::Error for StepError {}
