//! What stops a member, or keeps it from starting.

use std::path::PathBuf;

/// A failure of a member.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log or a snapshot file.
    #[error(transparent)]
    Wal(#[from] quorate_wal::WalError),
    /// The state machine or its file.
    #[error(transparent)]
    Store(#[from] quorate_store::Error),
    /// Consensus refused what the directory holds.
    #[error("raft: {0}")]
    Raft(quorate_raft::ConfigError),
    /// A directory or file could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer.
        source: std::io::Error,
    },
    /// The database is older than the newest snapshot record, and the one that was received with
    /// that snapshot is not there.
    #[error(
        "failed to find database snapshot file (snap: snapshot file doesn't exist): {}",
        path.display()
    )]
    NoReceivedDatabase {
        /// Where it would be.
        path: PathBuf,
    },
    /// The directory's parts do not belong together.
    #[error("{}: {what}", path.display())]
    Inconsistent {
        /// Which part.
        path: PathBuf,
        /// How.
        what: String,
    },
    /// The cluster's leader and this member's log contradict each other: the log lost its tail or is
    /// damaged (a data directory from an old backup, say).
    #[error("{0}")]
    Log(quorate_raft::StepError),
    /// The cluster has removed this member.
    #[error("the member has been permanently removed from the cluster")]
    Removed,
    /// The flags describe no cluster that this member can begin.
    #[error("{0}")]
    Configuration(String),
    /// An entry of the log that this version cannot apply.
    #[error("entry {index} cannot be applied: {what}")]
    Entry {
        /// Its index.
        index: u64,
        /// Why.
        what: String,
    },
}

impl Error {
    /// Whether a database is open already.
    pub fn is_locked(&self) -> bool {
        use quorate_bolt::Error::Locked;
        matches!(
            self,
            Error::Store(quorate_store::Error::Bolt(Locked { .. }))
        )
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    }
}
