//! Raft's structs as a log holds them, for those who read logs and do not know raft.

pub use quorate_raft::{
    ConfChange, ConfChangeKind, ConfChangeV2, ConfState, Entry, EntryKind, HardState, Snapshot,
    SnapshotMetadata,
};
