//! Messages between members as bytes.

use super::{
    decode_entry_within, decode_snapshot_within, entry_len, put_entry, put_snapshot, snapshot_len,
};
use crate::proto::{
    DecodeError, Fault, Fields, bytes_len, len_len, number_len, put_bytes, put_len, put_number,
};
use bytes::Bytes;
use quorate_raft::{Message, MessageKind};
use std::ops::Range;

/// A storage message carries the responses to deliver, and these carry none: two levels.
const DEPTH_MAX: usize = 2;

/// Bytes that [`put_message`] appends.
pub fn message_len(message: &Message) -> usize {
    let entries: usize = message
        .entries
        .iter()
        .map(|entry| len_len(entry_len(entry)))
        .sum();
    let responses: usize = message
        .responses
        .iter()
        .map(|response| len_len(message_len(response)))
        .sum();
    let numbers = [
        u64::from(message.kind.number()),
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        u64::from(message.reject),
        message.reject_hint,
        message.vote,
    ];
    numbers.into_iter().map(number_len).sum::<usize>()
        + entries
        + message
            .snapshot
            .as_ref()
            .map_or(0, |snapshot| len_len(snapshot_len(snapshot)))
        + bytes_len(message.context.len())
        + responses
}

/// Appends a message.
pub fn put_message(out: &mut Vec<u8>, message: &Message) {
    put_number(out, 1, u64::from(message.kind.number()));
    put_number(out, 2, message.to);
    put_number(out, 3, message.from);
    put_number(out, 4, message.term);
    put_number(out, 5, message.log_term);
    put_number(out, 6, message.index);
    for entry in &message.entries {
        put_len(out, 7, entry_len(entry));
        put_entry(out, entry);
    }
    put_number(out, 8, message.commit);
    if let Some(snapshot) = &message.snapshot {
        put_len(out, 9, snapshot_len(snapshot));
        put_snapshot(out, snapshot);
    }
    put_number(out, 10, u64::from(message.reject));
    put_number(out, 11, message.reject_hint);
    put_bytes(out, 12, &message.context);
    put_number(out, 13, message.vote);
    for response in &message.responses {
        put_len(out, 14, message_len(response));
        put_message(out, response);
    }
}

/// Reads a message; entries' data, snapshot and context share the input's memory.
pub fn decode_message(input: &Bytes) -> Result<Message, DecodeError> {
    decode_message_within(input, 0..input.len(), 1)
}

fn decode_message_within(
    input: &Bytes,
    range: Range<usize>,
    depth: usize,
) -> Result<Message, DecodeError> {
    let mut fields = Fields::within("raftpb.Message", input, range);
    let mut message = Message::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                let number = fields.number(field, value)?;
                message.kind = MessageKind::from_number(number)
                    .ok_or_else(|| fields.error(Fault::UnknownValue(field, number)))?;
            }
            2 => message.to = fields.number(field, value)?,
            3 => message.from = fields.number(field, value)?,
            4 => message.term = fields.number(field, value)?,
            5 => message.log_term = fields.number(field, value)?,
            6 => message.index = fields.number(field, value)?,
            7 => message
                .entries
                .push(decode_entry_within(input, fields.span(field, value)?)?),
            8 => message.commit = fields.number(field, value)?,
            9 => {
                let range = fields.span(field, value)?;
                message.snapshot = Some(Box::new(decode_snapshot_within(input, range)?));
            }
            10 => message.reject = fields.number(field, value)? != 0,
            11 => message.reject_hint = fields.number(field, value)?,
            12 => message.context = fields.bytes(field, value)?,
            13 => message.vote = fields.number(field, value)?,
            14 => {
                let range = fields.span(field, value)?;
                if depth == DEPTH_MAX {
                    return Err(fields.error(Fault::Depth));
                }
                message
                    .responses
                    .push(decode_message_within(input, range, depth + 1)?);
            }
            _ => {}
        }
    }
    Ok(message)
}
