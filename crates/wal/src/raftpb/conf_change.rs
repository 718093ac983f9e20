//! Membership changes as bytes: what entries of the two membership kinds carry.

use crate::proto::{
    DecodeError, Fault, Fields, bytes_len, len_len, number_len, put_bytes, put_len, put_number,
};
use bytes::Bytes;
use quorate_raft::{
    ConfChange, ConfChangeKind, ConfChangeSingle, ConfChangeTransition, ConfChangeV2,
};
use std::ops::Range;

/// Bytes that [`put_conf_change`] appends.
pub fn conf_change_len(change: &ConfChange) -> usize {
    number_len(change.id)
        + number_len(change.kind as u64)
        + number_len(change.node_id)
        + bytes_len(change.context.len())
}

/// Appends a change of one member.
pub fn put_conf_change(out: &mut Vec<u8>, change: &ConfChange) {
    put_number(out, 1, change.id);
    put_number(out, 2, change.kind as u64);
    put_number(out, 3, change.node_id);
    put_bytes(out, 4, &change.context);
}

/// Reads a change of one member; its context shares the input's memory.
pub fn decode_conf_change(input: &Bytes) -> Result<ConfChange, DecodeError> {
    let mut fields = Fields::new("raftpb.ConfChange", input);
    let mut change = ConfChange::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => change.id = fields.number(field, value)?,
            2 => change.kind = kind(&fields, field, fields.number(field, value)?)?,
            3 => change.node_id = fields.number(field, value)?,
            4 => change.context = fields.bytes(field, value)?,
            _ => return Err(fields.error(Fault::UnknownField(field))),
        }
    }
    Ok(change)
}

fn kind(fields: &Fields<'_>, field: u32, number: u64) -> Result<ConfChangeKind, DecodeError> {
    ConfChangeKind::from_number(number)
        .ok_or_else(|| fields.error(Fault::UnknownValue(field, number)))
}

fn single_len(single: &ConfChangeSingle) -> usize {
    number_len(single.kind as u64) + number_len(single.node_id)
}

/// Bytes that [`put_conf_change_v2`] appends.
pub fn conf_change_v2_len(change: &ConfChangeV2) -> usize {
    let changes: usize = change
        .changes
        .iter()
        .map(|single| len_len(single_len(single)))
        .sum();
    number_len(change.transition as u64) + changes + bytes_len(change.context.len())
}

/// Appends a change of any number of members.
pub fn put_conf_change_v2(out: &mut Vec<u8>, change: &ConfChangeV2) {
    put_number(out, 1, change.transition as u64);
    for single in &change.changes {
        put_len(out, 2, single_len(single));
        put_number(out, 1, single.kind as u64);
        put_number(out, 2, single.node_id);
    }
    put_bytes(out, 3, &change.context);
}

/// Reads a change of any number of members; its context shares the input's memory. No bytes at all
/// are the change that leaves a joint configuration.
pub fn decode_conf_change_v2(input: &Bytes) -> Result<ConfChangeV2, DecodeError> {
    let mut fields = Fields::new("raftpb.ConfChangeV2", input);
    let mut change = ConfChangeV2::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                let number = fields.number(field, value)?;
                change.transition = ConfChangeTransition::from_number(number)
                    .ok_or_else(|| fields.error(Fault::UnknownValue(field, number)))?;
            }
            2 => change
                .changes
                .push(decode_single_within(input, fields.span(field, value)?)?),
            3 => change.context = fields.bytes(field, value)?,
            _ => return Err(fields.error(Fault::UnknownField(field))),
        }
    }
    Ok(change)
}

fn decode_single_within(
    input: &Bytes,
    range: Range<usize>,
) -> Result<ConfChangeSingle, DecodeError> {
    let mut fields = Fields::within("raftpb.ConfChangeSingle", input, range);
    let mut single = ConfChangeSingle::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => single.kind = kind(&fields, field, fields.number(field, value)?)?,
            2 => single.node_id = fields.number(field, value)?,
            _ => return Err(fields.error(Fault::UnknownField(field))),
        }
    }
    Ok(single)
}
