//! raft's structs as bytes: entries, hard states, configurations, snapshots.
//!
//! Each `put_*` appends exactly `*_len` bytes, the same that etcd 3.6 and 3.7 write for a struct
//! whose scalars are all set. Readers take what either writes. In an entry, a hard state or a
//! membership change a field or kind that is not known is an error, since dropping it would change
//! state; in a message or snapshot, which newer peers may extend, unknown fields are skipped.
//!
//! Source: raft's `raftpb/raft.proto`.

mod conf_change;
mod message;

pub use conf_change::{
    conf_change_len, conf_change_v2_len, decode_conf_change, decode_conf_change_v2,
    put_conf_change, put_conf_change_v2,
};
pub use message::{decode_message, message_len, put_message};

use crate::proto::{
    DecodeError, Fault, Fields, bytes_len, len_len, number_len, put_bytes, put_len, put_number,
};
use bytes::Bytes;
use quorate_raft::types::{ConfState, Entry, EntryKind, HardState, Snapshot, SnapshotMetadata};
use std::ops::Range;

const fn kind_number(kind: EntryKind) -> u64 {
    match kind {
        EntryKind::Normal => 0,
        EntryKind::ConfChange => 1,
        EntryKind::ConfChangeV2 => 2,
    }
}

fn entry_head_len(entry: &Entry) -> usize {
    number_len(kind_number(entry.kind)) + number_len(entry.term) + number_len(entry.index)
}

/// Bytes that [`put_entry`] appends.
pub fn entry_len(entry: &Entry) -> usize {
    entry_head_len(entry) + bytes_len(entry.data.len())
}

/// Appends an entry.
pub fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_entry_head(out, entry);
    out.extend_from_slice(&entry.data);
}

/// Appends all of an entry but its data, which must follow.
pub(crate) fn put_entry_head(out: &mut Vec<u8>, entry: &Entry) {
    put_number(out, 1, kind_number(entry.kind));
    put_number(out, 2, entry.term);
    put_number(out, 3, entry.index);
    if !entry.data.is_empty() {
        put_len(out, 4, entry.data.len());
    }
}

/// Reads an entry; its data shares the input's memory.
pub fn decode_entry(input: &Bytes) -> Result<Entry, DecodeError> {
    decode_entry_within(input, 0..input.len())
}

fn decode_entry_within(input: &Bytes, range: Range<usize>) -> Result<Entry, DecodeError> {
    let mut fields = Fields::within("raftpb.Entry", input, range);
    let mut entry = Entry::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                entry.kind = match fields.number(field, value)? {
                    0 => EntryKind::Normal,
                    1 => EntryKind::ConfChange,
                    2 => EntryKind::ConfChangeV2,
                    other => return Err(fields.error(Fault::UnknownValue(field, other))),
                }
            }
            2 => entry.term = fields.number(field, value)?,
            3 => entry.index = fields.number(field, value)?,
            4 => entry.data = fields.bytes(field, value)?,
            _ => return Err(fields.error(Fault::UnknownField(field))),
        }
    }
    Ok(entry)
}

/// Bytes that [`put_hard_state`] appends.
pub fn hard_state_len(state: &HardState) -> usize {
    number_len(state.term) + number_len(state.vote) + number_len(state.commit)
}

/// Appends a hard state.
pub fn put_hard_state(out: &mut Vec<u8>, state: &HardState) {
    put_number(out, 1, state.term);
    put_number(out, 2, state.vote);
    put_number(out, 3, state.commit);
}

/// Reads a hard state.
pub fn decode_hard_state(input: &Bytes) -> Result<HardState, DecodeError> {
    let mut fields = Fields::new("raftpb.HardState", input);
    let mut state = HardState::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => state.term = fields.number(field, value)?,
            2 => state.vote = fields.number(field, value)?,
            3 => state.commit = fields.number(field, value)?,
            _ => return Err(fields.error(Fault::UnknownField(field))),
        }
    }
    Ok(state)
}

/// Bytes that [`put_conf_state`] appends.
pub fn conf_state_len(state: &ConfState) -> usize {
    let lists = [
        &state.voters,
        &state.learners,
        &state.voters_outgoing,
        &state.learners_next,
    ];
    let ids: usize = lists
        .iter()
        .flat_map(|ids| ids.iter())
        .map(|&id| number_len(id))
        .sum();
    ids + number_len(u64::from(state.auto_leave))
}

/// Appends a configuration.
pub fn put_conf_state(out: &mut Vec<u8>, state: &ConfState) {
    let lists = [
        &state.voters,
        &state.learners,
        &state.voters_outgoing,
        &state.learners_next,
    ];
    for (ids, field) in lists.iter().zip(1..) {
        for &id in ids.iter() {
            put_number(out, field, id);
        }
    }
    put_number(out, 5, u64::from(state.auto_leave));
}

/// Reads a configuration.
pub fn decode_conf_state(input: &Bytes) -> Result<ConfState, DecodeError> {
    decode_conf_state_within(input, 0..input.len())
}

pub(crate) fn decode_conf_state_within(
    input: &Bytes,
    range: Range<usize>,
) -> Result<ConfState, DecodeError> {
    let mut fields = Fields::within("raftpb.ConfState", input, range);
    let mut state = ConfState::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => fields.numbers(value, field, &mut state.voters)?,
            2 => fields.numbers(value, field, &mut state.learners)?,
            3 => fields.numbers(value, field, &mut state.voters_outgoing)?,
            4 => fields.numbers(value, field, &mut state.learners_next)?,
            5 => state.auto_leave = fields.number(field, value)? != 0,
            _ => {}
        }
    }
    Ok(state)
}

fn snapshot_metadata_len(metadata: &SnapshotMetadata) -> usize {
    len_len(conf_state_len(&metadata.conf_state))
        + number_len(metadata.index)
        + number_len(metadata.term)
}

/// Bytes that [`put_snapshot`] appends.
pub fn snapshot_len(snapshot: &Snapshot) -> usize {
    bytes_len(snapshot.data.len()) + len_len(snapshot_metadata_len(&snapshot.metadata))
}

/// Appends a snapshot.
pub fn put_snapshot(out: &mut Vec<u8>, snapshot: &Snapshot) {
    put_bytes(out, 1, &snapshot.data);
    put_len(out, 2, snapshot_metadata_len(&snapshot.metadata));
    put_len(out, 1, conf_state_len(&snapshot.metadata.conf_state));
    put_conf_state(out, &snapshot.metadata.conf_state);
    put_number(out, 2, snapshot.metadata.index);
    put_number(out, 3, snapshot.metadata.term);
}

/// Reads a snapshot; its data shares the input's memory.
pub fn decode_snapshot(input: &Bytes) -> Result<Snapshot, DecodeError> {
    decode_snapshot_within(input, 0..input.len())
}

fn decode_snapshot_within(input: &Bytes, range: Range<usize>) -> Result<Snapshot, DecodeError> {
    let mut fields = Fields::within("raftpb.Snapshot", input, range);
    let mut snapshot = Snapshot::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => snapshot.data = fields.bytes(field, value)?,
            2 => {
                let range = fields.span(field, value)?;
                snapshot.metadata = decode_snapshot_metadata_within(input, range)?;
            }
            _ => {}
        }
    }
    Ok(snapshot)
}

fn decode_snapshot_metadata_within(
    input: &Bytes,
    range: Range<usize>,
) -> Result<SnapshotMetadata, DecodeError> {
    let mut fields = Fields::within("raftpb.SnapshotMetadata", input, range);
    let mut metadata = SnapshotMetadata::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                let range = fields.span(field, value)?;
                metadata.conf_state = decode_conf_state_within(input, range)?;
            }
            2 => metadata.index = fields.number(field, value)?,
            3 => metadata.term = fields.number(field, value)?,
            _ => {}
        }
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests;
