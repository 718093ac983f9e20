//! Raft's vocabulary: entries, hard state, configuration, snapshots.
//!
//! Plain structs with the fields of etcd's raftpb (field numbers are the business of whoever
//! encodes them). Data is shared, never copied: [`Bytes`] from the handler to log, peer and apply.

use bytes::Bytes;

/// What an entry carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A proposal of the state machine above; empty data is a leader's first entry of its term.
    #[default]
    Normal,
    /// A membership change of one node (raftpb.ConfChange in `data`).
    ConfChange,
    /// A membership change of any size (raftpb.ConfChangeV2 in `data`).
    ConfChangeV2,
}

/// One entry of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Term of the leader that appended it.
    pub term: u64,
    /// Place in the log, from 1.
    pub index: u64,
    /// What `data` is.
    pub kind: EntryKind,
    /// The payload.
    pub data: Bytes,
}

/// What a member must have on disk before it sends a message that depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// Newest term seen.
    pub term: u64,
    /// Who got this member's vote in `term`; 0 for nobody.
    pub vote: u64,
    /// Highest index known to be committed.
    pub commit: u64,
}

impl HardState {
    /// Whether nothing was ever stored.
    pub fn is_empty(&self) -> bool {
        *self == HardState::default()
    }
}

/// A configuration: who votes, who learns, and the outgoing half of a joint one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfState {
    /// Voters of the incoming (or only) configuration.
    pub voters: Vec<u64>,
    /// Members that receive the log and do not vote.
    pub learners: Vec<u64>,
    /// Voters of the outgoing configuration, while joint.
    pub voters_outgoing: Vec<u64>,
    /// Voters of the outgoing configuration that become learners once it is left.
    pub learners_next: Vec<u64>,
    /// Whether the joint configuration is left by itself.
    pub auto_leave: bool,
}

/// Where a snapshot stands in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMetadata {
    /// The configuration as of `index`.
    pub conf_state: ConfState,
    /// Last index that the snapshot covers.
    pub index: u64,
    /// Term of the entry at `index`.
    pub term: u64,
}

/// A state machine's state as of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What the application put there.
    pub data: Bytes,
    /// Where it stands.
    pub metadata: SnapshotMetadata,
}
