//! What can go wrong with a log or a snapshot file.

use crate::proto::DecodeError;
use std::io;
use std::path::{Path, PathBuf};

/// Failure of an operation on a log directory or a snapshot file.
///
/// [`WalError::StorageFull`] leaves a [`crate::Wal`] usable and as it was before the call;
/// [`WalError::SyncFailed`] and [`WalError::Failed`] end it.
#[derive(Debug, thiserror::Error)]
pub enum WalError {
    /// The operating system refused something.
    #[error("wal: cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// No space, and nothing was made durable that was not before: the partial write is cut back.
    #[error("wal: no space to {action} {}", path.display())]
    StorageFull {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
    },
    /// A sync, or the cutting back of a partial write, failed: what the file holds is not known.
    #[error("wal: cannot {action} {}: {source}; the log takes nothing any more", path.display())]
    SyncFailed {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// An earlier call gave [`WalError::SyncFailed`].
    #[error("wal: {} failed earlier and takes nothing any more", dir.display())]
    Failed {
        /// The log's directory.
        dir: PathBuf,
    },
    /// The directory has segments already.
    #[error("wal: {} holds a log already", dir.display())]
    AlreadyExists {
        /// The log's directory.
        dir: PathBuf,
    },
    /// The directory has no segments.
    #[error("wal: file not found in {}", dir.display())]
    NoSegments {
        /// The log's directory.
        dir: PathBuf,
    },
    /// All segments begin behind the index.
    #[error("wal: file not found in {} which matches the snapshot index '{index}'", dir.display())]
    NoSegmentFor {
        /// The log's directory.
        dir: PathBuf,
        /// The index asked for.
        index: u64,
    },
    /// A segment is missing between two others.
    #[error("wal: file sequence numbers in {} do not increase continuously: {after} follows {before}", dir.display())]
    SequenceGap {
        /// The log's directory.
        dir: PathBuf,
        /// Sequence number before the gap.
        before: u64,
        /// Sequence number behind the gap.
        after: u64,
    },
    /// Another process, or another part of this one, holds the segment.
    #[error("wal: {} is locked by another user", path.display())]
    Locked {
        /// The segment.
        path: PathBuf,
    },
    /// The bytes at this place are not what a log holds, and no interrupted write explains them.
    #[error("wal: {} is damaged at offset {offset}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in bytes of the record's frame (0 for a snapshot file).
        offset: u64,
        /// What is wrong.
        damage: Damage,
    },
    /// The snapshot record at the index asked for has another term.
    #[error(
        "wal: snapshot mismatch at index {index}: the log has term {found}, wanted is {wanted}"
    )]
    SnapshotMismatch {
        /// The index asked for.
        index: u64,
        /// The term asked for.
        wanted: u64,
        /// The record's term.
        found: u64,
    },
    /// No snapshot record has the index asked for.
    #[error("wal: snapshot not found in {}: index {index}", dir.display())]
    SnapshotNotFound {
        /// The log's directory.
        dir: PathBuf,
        /// The index asked for.
        index: u64,
    },
    /// A snapshot record above index 0 needs the configuration.
    #[error("wal: saved (not-initial) snapshot at index {index} is missing its ConfState")]
    SnapshotWithoutConfState {
        /// The record's index.
        index: u64,
    },
    /// No snapshot file could be used.
    #[error("snap: no available snapshot in {}", dir.display())]
    NoSnapshot {
        /// The snapshot directory.
        dir: PathBuf,
    },
    /// The database file that belongs to a snapshot is not there.
    #[error("snap: snapshot file doesn't exist: {}", path.display())]
    NoDatabase {
        /// Where it would be.
        path: PathBuf,
    },
}

/// What is wrong with bytes that were read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The checksum over everything up to and with this record does not fit.
    #[error("crc mismatch: recorded {recorded:x}, computed {computed:x}")]
    Crc {
        /// What the file says.
        recorded: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The segment does not continue the checksum of the one before it.
    #[error(
        "crc mismatch between segments: recorded {recorded:x}, the segment before ends with {computed:x}"
    )]
    Chain {
        /// What the file says.
        recorded: u32,
        /// What the segment before gives.
        computed: u32,
    },
    /// The frame's length or padding is impossible.
    #[error("impossible frame length {field:#x} with {remaining} bytes left")]
    Length {
        /// The eight bytes, little-endian.
        field: u64,
        /// Bytes of the file behind it.
        remaining: u64,
    },
    /// A whole record with a fitting checksum stands behind a length that contradicts it.
    #[error("frame length {field:#x} contradicts the intact record behind it")]
    LengthOfIntactRecord {
        /// The eight bytes, little-endian.
        field: u64,
    },
    /// The file ends inside a record although another segment follows.
    #[error("the segment ends inside a record")]
    EndsInsideRecord,
    /// The record, or the struct in it, cannot be decoded.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// A record type that this version does not know.
    #[error("unexpected block type {0}")]
    RecordType(i64),
    /// Two metadata records differ.
    #[error("conflicting metadata found")]
    Metadata,
    /// The log has no metadata record before its end.
    #[error("no metadata record")]
    NoMetadata,
    /// A hard state with a vote or a commit index but no term: no raft ever wrote it.
    #[error("hard state without a term")]
    HardStateWithoutTerm,
    /// An entry does not follow the ones before it.
    #[error("entry {index} of term {term} does not follow entry {last}")]
    EntryGap {
        /// The entry's index.
        index: u64,
        /// The entry's term.
        term: u64,
        /// Index that the entries before it reach.
        last: u64,
    },
    /// The file is empty, or its snapshot is.
    #[error("empty snapshot")]
    EmptySnapshot,
}

impl WalError {
    /// An operating system's refusal before anything was synced: full disks are told apart.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> WalError {
        match source.kind() {
            io::ErrorKind::StorageFull => WalError::StorageFull {
                action,
                path: path.to_path_buf(),
            },
            _ => WalError::Io {
                action,
                path: path.to_path_buf(),
                source,
            },
        }
    }

    pub(crate) fn sync(action: &'static str, path: &Path, source: io::Error) -> WalError {
        WalError::SyncFailed {
            action,
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn damaged(path: &Path, offset: u64, damage: impl Into<Damage>) -> WalError {
        WalError::Damaged {
            path: path.to_path_buf(),
            offset,
            damage: damage.into(),
        }
    }
}
