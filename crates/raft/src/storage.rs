//! The durable part of the log, as the core reads it.
//!
//! The core never writes: what is to be stored leaves as a job (see [`crate::AppendJob`]) and is
//! visible here before the job's responses come back.

use std::fmt;

use crate::types::{ConfState, Entry, HardState, Snapshot};

/// Why a storage cannot answer. The first two are ordinary; the core reacts to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageError {
    /// The index lies before the log's beginning; a snapshot covers it.
    Compacted,
    /// The index lies behind the log's end.
    Unavailable,
    /// A snapshot at least as new is there.
    SnapshotOutOfDate,
    /// No snapshot can be had now; ask again later.
    SnapshotTemporarilyUnavailable,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StorageError::Compacted => "requested index is unavailable due to compaction",
            StorageError::Unavailable => "requested entry at index is unavailable",
            StorageError::SnapshotOutOfDate => {
                "requested index is older than the existing snapshot"
            }
            StorageError::SnapshotTemporarilyUnavailable => "snapshot is temporarily unavailable",
        })
    }
}

impl std::error::Error for StorageError {}

/// Reads entries and snapshots that are durable.
pub trait Storage {
    /// Hard state and configuration as of the last write.
    fn initial_state(&self) -> (HardState, ConfState);

    /// Entries `lo..hi`, cut so that their encoded length is at most `max_size` bytes, though at
    /// least one. `Compacted` if `lo` is gone; `hi` is at most `last_index() + 1`.
    fn entries(&self, lo: u64, hi: u64, max_size: u64) -> Result<Vec<Entry>, StorageError>;

    /// The term of an entry in `first_index() - 1 ..= last_index()`.
    fn term(&self, index: u64) -> Result<u64, StorageError>;

    /// The first entry that `entries` can return; 1 at least.
    fn first_index(&self) -> u64;

    /// The last entry; `first_index() - 1` if there is none.
    fn last_index(&self) -> u64;

    /// A snapshot to send to a follower, at `first_index() - 1` or later. A follower ignores one
    /// whose configuration does not have it, so an old one is no help to a member that joined
    /// since: the driver may put a newer one into the message that leaves.
    fn snapshot(&self) -> Result<Snapshot, StorageError>;
}
