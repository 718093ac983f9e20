//! Events, encoded once and shared by all who are told of them.

use crate::Error;
use crate::keyvalue::KeyValueRef;
use crate::revision::RowKey;
use crate::view::{View, decode};
use bytes::Bytes;
use prost::encoding::{encode_varint, encoded_len_varint};
use std::sync::Arc;

/// Field 11 (`events`) of a WatchResponse, length-delimited.
const EVENTS_FIELD: u8 = 11 << 3 | 2;
const TYPE_FIELD: u8 = 1 << 3;
const KV_FIELD: u8 = 2 << 3 | 2;
const PREV_KV_FIELD: u8 = 3 << 3 | 2;
const DELETE: u8 = 1;

/// Events in the order of history, each as a field of a WatchResponse, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Events {
    bytes: Vec<u8>,
    /// Where each event ends in `bytes`.
    ends: Vec<u32>,
    /// Main revision of the last.
    last_revision: i64,
}

impl Events {
    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, encoded.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Main revision of the last.
    pub fn last_revision(&self) -> i64 {
        self.last_revision
    }

    /// All of them, encoded, without a copy.
    pub fn shared(self: &Arc<Events>) -> Bytes {
        struct Owner(Arc<Events>);
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &self.0.bytes
            }
        }
        Bytes::from_owner(Owner(self.clone()))
    }

    /// Cuts into pieces of whole events, each below `most` bytes where it holds more than one.
    pub fn pieces(&self, most: usize) -> Vec<&[u8]> {
        let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
        for next in self.ends.iter().map(|end| *end as usize) {
            if end > start && next - start >= most {
                pieces.push(&self.bytes[start..end]);
                start = end;
            }
            end = next;
        }
        pieces.push(&self.bytes[start..end]);
        pieces
    }

    /// Appends the event of a row. `view` is where the key-value before is looked up, where it is
    /// wanted; a compacted one is left out.
    pub fn push(&mut self, row: RowKey, value: &[u8], before: Option<&View>) -> Result<(), Error> {
        let kv = decode(row, value)?;
        let main = row.revision.main;
        let created = !row.tombstone && kv.create_revision == kv.mod_revision;
        let previous = match before {
            Some(view) if !created => previous(view, kv.key, main - 1)?,
            _ => None,
        };
        // A deletion's row holds the key alone; its event tells the revision too.
        let deletion = KeyValueRef {
            key: kv.key,
            mod_revision: main,
            ..Default::default()
        };
        let mut deletion_bytes = Vec::new();
        let stored = if row.tombstone {
            deletion.encode(&mut deletion_bytes);
            &deletion_bytes[..]
        } else {
            value
        };
        let len = if row.tombstone { 2 } else { 0 }
            + field_len(stored)
            + previous.as_deref().map_or(0, field_len);
        self.bytes.reserve(len + 6);
        self.bytes.push(EVENTS_FIELD);
        encode_varint(len as u64, &mut self.bytes);
        if row.tombstone {
            self.bytes.extend_from_slice(&[TYPE_FIELD, DELETE]);
        }
        put_field(&mut self.bytes, KV_FIELD, stored);
        if let Some(previous) = previous {
            put_field(&mut self.bytes, PREV_KV_FIELD, &previous);
        }
        self.ends
            .push(u32::try_from(self.bytes.len()).expect("a batch of events is bounded"));
        self.last_revision = main;
        Ok(())
    }
}

fn previous(view: &View, key: &[u8], main: i64) -> Result<Option<Bytes>, Error> {
    if main < view.compact_revision {
        return Ok(None);
    }
    let Some(revision) = view.root.get(key).and_then(|entry| entry.live_at(main)) else {
        return Ok(None);
    };
    Ok(Some(Bytes::copy_from_slice(view.rows()?.put(revision)?)))
}

fn field_len(bytes: &[u8]) -> usize {
    1 + encoded_len_varint(bytes.len() as u64) + bytes.len()
}

fn put_field(out: &mut Vec<u8>, key: u8, bytes: &[u8]) {
    out.push(key);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
