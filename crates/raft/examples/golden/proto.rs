//! Membership changes in protobuf, as far as the traces need it.
//!
//! ConfChange: id = 1, type = 2, node_id = 3, context = 4. ConfChangeV2: transition = 1,
//! changes = 2 {type = 1, node_id = 2}, context = 3.

use bytes::Bytes;
use quorate_raft::{
    ConfChange, ConfChangeKind, ConfChangeSingle, ConfChangeTransition, ConfChangeV2, EntryKind,
};

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub fn encode_v1(change: &ConfChange) -> Bytes {
    let mut out = Vec::new();
    put_number(&mut out, 2, change.kind as u64);
    put_number(&mut out, 3, change.node_id);
    out.into()
}

pub fn encode_v2(change: &ConfChangeV2) -> Bytes {
    let mut out = Vec::new();
    if change.transition != ConfChangeTransition::Auto {
        put_number(&mut out, 1, change.transition as u64);
    }
    for single in &change.changes {
        let mut inner = Vec::new();
        put_number(&mut inner, 1, single.kind as u64);
        put_number(&mut inner, 2, single.node_id);
        put_bytes(&mut out, 2, &inner);
    }
    out.into()
}

fn take_varint(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = data.split_first()?;
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn take_field<'a>(data: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = take_varint(data)?;
    let number = take_varint(data)?;
    let value = match tag & 7 {
        0 => Value::Number(number),
        2 => {
            let (bytes, rest) = data.split_at_checked(usize::try_from(number).ok()?)?;
            *data = rest;
            Value::Bytes(bytes)
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

/// What the library is configured with.
pub fn decode(kind: EntryKind, mut data: &[u8]) -> Option<ConfChangeV2> {
    let mut change = ConfChangeV2::default();
    if kind == EntryKind::ConfChange {
        let mut single = ConfChange::default();
        while !data.is_empty() {
            match take_field(&mut data)? {
                (1, Value::Number(id)) => single.id = id,
                (2, Value::Number(kind)) => single.kind = ConfChangeKind::from_number(kind)?,
                (3, Value::Number(id)) => single.node_id = id,
                (4, Value::Bytes(context)) => single.context = Bytes::copy_from_slice(context),
                _ => return None,
            }
        }
        return Some(single.into());
    }
    while !data.is_empty() {
        match take_field(&mut data)? {
            (1, Value::Number(number)) => {
                change.transition = ConfChangeTransition::from_number(number)?;
            }
            (2, Value::Bytes(mut inner)) => {
                let mut single = ConfChangeSingle::default();
                while !inner.is_empty() {
                    match take_field(&mut inner)? {
                        (1, Value::Number(kind)) => {
                            single.kind = ConfChangeKind::from_number(kind)?;
                        }
                        (2, Value::Number(id)) => single.node_id = id,
                        _ => return None,
                    }
                }
                change.changes.push(single);
            }
            (3, Value::Bytes(context)) => change.context = Bytes::copy_from_slice(context),
            _ => return None,
        }
    }
    Some(change)
}

/// `v1 l2 r3 u4`.
pub fn parse_changes(text: &str) -> Result<Vec<ConfChangeSingle>, String> {
    let parse = |token: &str| {
        let kind = match token.as_bytes()[0] {
            b'v' => ConfChangeKind::AddNode,
            b'l' => ConfChangeKind::AddLearnerNode,
            b'r' => ConfChangeKind::RemoveNode,
            b'u' => ConfChangeKind::UpdateNode,
            _ => return Err(format!("unknown input: {token}")),
        };
        let node_id = crate::datadriven::number(&token[1..])?;
        Ok(ConfChangeSingle { kind, node_id })
    };
    text.split_whitespace().map(parse).collect()
}
