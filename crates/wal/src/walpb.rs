//! The records of the log: their outer struct, their types, and the snapshot record's content.
//!
//! A record's checksum covers the data of every record before it and its own, not its type.
//!
//! Source: etcd's `walpb/record.proto` and the record types of its `wal` package.

use crate::proto::{
    DecodeError, Fault, Fields, len_len, number_len, put_len, put_number, read_varint,
};
use crate::raftpb::{conf_state_len, decode_conf_state_within, put_conf_state};
use bytes::Bytes;
use quorate_raft::types::ConfState;

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// Bytes that the member put there when the log was made: its id and its cluster's.
    Metadata,
    /// A raft entry.
    Entry,
    /// A raft hard state.
    State,
    /// The checksum that the segment before ends with; the first record of a segment.
    Crc,
    /// Where a snapshot stands; see [`Snapshot`].
    Snapshot,
}

impl RecordType {
    /// Its number in the format.
    pub const fn number(self) -> u64 {
        match self {
            RecordType::Metadata => 1,
            RecordType::Entry => 2,
            RecordType::State => 3,
            RecordType::Crc => 4,
            RecordType::Snapshot => 5,
        }
    }

    /// The type of this number; `None` if this version does not know it.
    pub const fn from_number(number: i64) -> Option<RecordType> {
        match number {
            1 => Some(RecordType::Metadata),
            2 => Some(RecordType::Entry),
            3 => Some(RecordType::State),
            4 => Some(RecordType::Crc),
            5 => Some(RecordType::Snapshot),
            _ => None,
        }
    }
}

/// A record as it stands in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Number of its type; see [`RecordType::from_number`].
    pub number: i64,
    /// Checksum of all data up to and with this record's.
    pub crc: u32,
    /// What it carries.
    pub data: Bytes,
}

/// Bytes of a record's outer struct around `data_len` bytes of data, for a known type.
pub(crate) fn record_len(crc: u32, data_len: usize) -> usize {
    let data = if data_len == 0 { 0 } else { len_len(data_len) };
    2 + number_len(u64::from(crc)) + data
}

/// Appends a record's outer struct up to its data, which must follow.
pub(crate) fn put_record_head(out: &mut Vec<u8>, kind: RecordType, crc: u32, data_len: usize) {
    put_number(out, 1, kind.number());
    put_number(out, 2, u64::from(crc));
    if data_len > 0 {
        put_len(out, 3, data_len);
    }
}

/// Reads a record; its data shares the input's memory.
pub(crate) fn decode_record(input: &Bytes) -> Result<Record, DecodeError> {
    let mut fields = Fields::new("walpb.Record", input);
    let mut record = Record::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => record.number = fields.number(field, value)? as i64,
            2 => {
                let crc = fields.number(field, value)?;
                record.crc = u32::try_from(crc)
                    .map_err(|_| fields.error(Fault::UnknownValue(field, crc)))?;
            }
            3 => record.data = fields.bytes(field, value)?,
            _ => return Err(fields.error(Fault::UnknownField(field))),
        }
    }
    Ok(record)
}

/// A record read by its own fields alone.
pub(crate) struct Prefix<'a> {
    pub number: i64,
    pub crc: u32,
    pub data: &'a [u8],
    /// Bytes that the record takes.
    pub len: usize,
}

/// Reads the record that `input` begins with, whatever follows it; `None` if it begins with none.
///
/// This is how damage to a frame's length is told from a write that never finished.
pub(crate) fn record_prefix(input: &[u8]) -> Option<Prefix<'_>> {
    let rest = input.strip_prefix(&[1 << 3])?;
    let (number, len) = read_varint(rest).ok()?;
    let rest = rest[len..].strip_prefix(&[2 << 3])?;
    let (crc, len) = read_varint(rest).ok()?;
    let crc = u32::try_from(crc).ok()?;
    let mut rest = &rest[len..];
    let mut data = &[][..];
    if let Some(inner) = rest.strip_prefix(&[3 << 3 | 2]) {
        let (data_len, len) = read_varint(inner).ok()?;
        (data, rest) = inner[len..].split_at_checked(usize::try_from(data_len).ok()?)?;
    }
    Some(Prefix {
        number: number as i64,
        crc,
        data,
        len: input.len() - rest.len(),
    })
}

/// Where a snapshot stands in the log, and the configuration there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Last index that the snapshot covers.
    pub index: u64,
    /// Term of the entry at `index`.
    pub term: u64,
    /// The configuration as of `index`; required above index 0, absent at 0.
    pub conf_state: Option<ConfState>,
}

fn snapshot_len(snapshot: &Snapshot) -> usize {
    let conf_state = snapshot
        .conf_state
        .as_ref()
        .map_or(0, |state| len_len(conf_state_len(state)));
    number_len(snapshot.index) + number_len(snapshot.term) + conf_state
}

/// A snapshot record's content.
pub fn encode_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::with_capacity(snapshot_len(snapshot));
    put_number(&mut out, 1, snapshot.index);
    put_number(&mut out, 2, snapshot.term);
    if let Some(state) = &snapshot.conf_state {
        put_len(&mut out, 3, conf_state_len(state));
        put_conf_state(&mut out, state);
    }
    out
}

/// Reads a snapshot record's content.
pub fn decode_snapshot(input: &Bytes) -> Result<Snapshot, DecodeError> {
    let mut fields = Fields::new("walpb.Snapshot", input);
    let mut snapshot = Snapshot::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => snapshot.index = fields.number(field, value)?,
            2 => snapshot.term = fields.number(field, value)?,
            3 => {
                let range = fields.span(field, value)?;
                snapshot.conf_state = Some(decode_conf_state_within(input, range)?);
            }
            _ => return Err(fields.error(Fault::UnknownField(field))),
        }
    }
    Ok(snapshot)
}
