//! Raft's vocabulary: entries, hard state, configuration, snapshots.
//!
//! Plain structs with the fields of etcd's raftpb (field numbers are the business of whoever
//! encodes them). Data is shared, never copied: [`Bytes`] from the handler to log, peer and apply.

use std::fmt;

use bytes::Bytes;

/// The id that stands for nobody: no leader, no vote.
pub const NONE: u64 = 0;
/// The address of the local log writer in [`crate::Message`]s; never a member's id.
pub const LOCAL_APPEND_THREAD: u64 = u64::MAX;
/// The address of the local state machine in [`crate::Message`]s; never a member's id.
pub const LOCAL_APPLY_THREAD: u64 = u64::MAX - 1;
/// A size limit that limits nothing.
pub const NO_LIMIT: u64 = u64::MAX;

/// Whether `id` addresses one of the local threads and not a member.
pub fn is_local_target(id: u64) -> bool {
    id == LOCAL_APPEND_THREAD || id == LOCAL_APPLY_THREAD
}

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

impl EntryKind {
    /// Whether `data` is a membership change.
    pub fn is_conf_change(self) -> bool {
        self != EntryKind::Normal
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EntryKind::Normal => "EntryNormal",
            EntryKind::ConfChange => "EntryConfChange",
            EntryKind::ConfChangeV2 => "EntryConfChangeV2",
        })
    }
}

/// Term and index of an entry; within one group they name it uniquely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// Term of the leader that appended it.
    pub term: u64,
    /// Place in the log.
    pub index: u64,
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

impl Entry {
    /// Its term and index.
    pub fn id(&self) -> EntryId {
        EntryId {
            term: self.term,
            index: self.index,
        }
    }

    /// Bytes of its protobuf form, the measure of message and apply limits.
    pub fn encoded_len(&self) -> u64 {
        // One byte of tag before each field; kind, term and index are always written.
        let mut len = 2 + 1 + varint_len(self.term) + 1 + varint_len(self.index);
        if !self.data.is_empty() {
            let data = self.data.len() as u64;
            len += 1 + varint_len(data) + data;
        }
        len
    }

    /// Bytes of data, the measure of the uncommitted limit and of inflights.
    pub fn payload_len(&self) -> u64 {
        self.data.len() as u64
    }
}

fn varint_len(value: u64) -> u64 {
    u64::from((64 - (value | 1).leading_zeros()).div_ceil(7))
}

/// The sum of [`Entry::encoded_len`].
pub fn encoded_len(entries: &[Entry]) -> u64 {
    entries.iter().map(Entry::encoded_len).sum()
}

/// The sum of [`Entry::payload_len`].
pub fn payload_len(entries: &[Entry]) -> u64 {
    entries.iter().map(Entry::payload_len).sum()
}

/// The longest prefix whose encoded length is at most `max_size` bytes, though never less than
/// one entry where there is one.
pub fn limit_size(entries: &[Entry], max_size: u64) -> &[Entry] {
    if max_size == NO_LIMIT {
        return entries;
    }
    let mut size = 0u64;
    for (count, entry) in entries.iter().enumerate() {
        size += entry.encoded_len();
        if size > max_size && count > 0 {
            return &entries[..count];
        }
    }
    entries
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

impl ConfState {
    /// Whether both describe the same configuration, the order of ids aside.
    pub fn is_equivalent(&self, other: &ConfState) -> bool {
        let sorted = |ids: &[u64]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids
        };
        sorted(&self.voters) == sorted(&other.voters)
            && sorted(&self.learners) == sorted(&other.learners)
            && sorted(&self.voters_outgoing) == sorted(&other.voters_outgoing)
            && sorted(&self.learners_next) == sorted(&other.learners_next)
            && self.auto_leave == other.auto_leave
    }
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

impl Snapshot {
    /// Whether it stands for no state at all.
    pub fn is_empty(&self) -> bool {
        self.metadata.index == 0
    }
}

/// What a member is in its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Follows a leader, or waits for one.
    #[default]
    Follower,
    /// Asks for votes in its own, new term.
    Candidate,
    /// Leads the term.
    Leader,
    /// Asks whether it would be voted for, in the old term.
    PreCandidate,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Follower => "StateFollower",
            Role::Candidate => "StateCandidate",
            Role::Leader => "StateLeader",
            Role::PreCandidate => "StatePreCandidate",
        })
    }
}

/// What need not survive a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftState {
    /// The leader as far as known; [`NONE`] otherwise.
    pub lead: u64,
    /// This member's own role.
    pub role: Role,
}

/// The answer to a read index request: a read that began before the request is linearizable once
/// `index` is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadState {
    /// The index to wait for.
    pub index: u64,
    /// What the request carried.
    pub context: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_keeps_at_least_one_entry() {
        let entries: Vec<Entry> = (1..=3)
            .map(|index| Entry {
                term: 1,
                index,
                kind: EntryKind::Normal,
                data: Bytes::from_static(b"12345678"),
            })
            .collect();
        let one = entries[0].encoded_len();
        assert_eq!(one, 2 + 2 + 2 + 10);
        assert_eq!(limit_size(&entries, 0).len(), 1);
        assert_eq!(limit_size(&entries, 2 * one - 1).len(), 1);
        assert_eq!(limit_size(&entries, 2 * one).len(), 2);
        assert_eq!(limit_size(&entries, NO_LIMIT).len(), 3);
        assert_eq!(limit_size(&[], 0).len(), 0);
    }

    #[test]
    fn varints_have_seven_bits_a_byte() {
        for (value, len) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (u64::MAX, 10),
        ] {
            assert_eq!(varint_len(value), len, "{value}");
        }
    }
}
