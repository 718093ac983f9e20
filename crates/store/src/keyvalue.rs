//! A stored revision: an encoded mvccpb.KeyValue, written by hand and read without copying.
//!
//! The bytes are exactly what etcd's marshaller writes (fields in order, zero values left out), so
//! that hashes over them agree; and they are spliced into answers as they are. A tombstone stores
//! the key alone. Reading accepts any well-formed message and keeps the last of a repeated field.

use bytes::Bytes;
use prost::encoding::{WireType, decode_key, decode_varint, encode_varint, encoded_len_varint};
use quorate_api::mvccpb::KeyValue;

/// A stored revision's fields, borrowed from its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyValueRef<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Main revision of the put that made it.
    pub create_revision: i64,
    /// Main revision of this put.
    pub mod_revision: i64,
    /// Puts since it was made.
    pub version: i64,
    /// The value.
    pub value: &'a [u8],
    /// The lease it hangs on; 0 for none.
    pub lease: i64,
}

impl<'a> KeyValueRef<'a> {
    /// Reads stored bytes; `None` where they are no KeyValue.
    pub fn decode(mut bytes: &'a [u8]) -> Option<KeyValueRef<'a>> {
        let mut kv = KeyValueRef::default();
        while !bytes.is_empty() {
            let (tag, wire) = decode_key(&mut bytes).ok()?;
            match wire {
                WireType::Varint => {
                    let value = decode_varint(&mut bytes).ok()? as i64;
                    match tag {
                        2 => kv.create_revision = value,
                        3 => kv.mod_revision = value,
                        4 => kv.version = value,
                        6 => kv.lease = value,
                        _ => {}
                    }
                }
                WireType::LengthDelimited => {
                    let len = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                    let (field, rest) = bytes.split_at_checked(len)?;
                    bytes = rest;
                    match tag {
                        1 => kv.key = field,
                        5 => kv.value = field,
                        _ => {}
                    }
                }
                WireType::SixtyFourBit => bytes = bytes.get(8..)?,
                WireType::ThirtyTwoBit => bytes = bytes.get(4..)?,
                WireType::StartGroup | WireType::EndGroup => return None,
            }
        }
        Some(kv)
    }

    /// Length of [`KeyValueRef::encode`]'s output.
    pub fn encoded_len(&self) -> usize {
        bytes_len(self.key)
            + int_len(self.create_revision)
            + int_len(self.mod_revision)
            + int_len(self.version)
            + bytes_len(self.value)
            + int_len(self.lease)
    }

    /// Appends the encoded message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, 1, self.key);
        put_int(out, 2, self.create_revision);
        put_int(out, 3, self.mod_revision);
        put_int(out, 4, self.version);
        put_bytes(out, 5, self.value);
        put_int(out, 6, self.lease);
    }

    /// The message type of the api; copies key and value.
    pub fn to_owned(&self) -> KeyValue {
        KeyValue {
            key: Bytes::copy_from_slice(self.key),
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            version: self.version,
            value: Bytes::copy_from_slice(self.value),
            lease: self.lease,
        }
    }
}

// All field numbers are below 16, so a field's key is one byte.

fn bytes_len(bytes: &[u8]) -> usize {
    if bytes.is_empty() {
        0
    } else {
        1 + encoded_len_varint(bytes.len() as u64) + bytes.len()
    }
}

fn int_len(value: i64) -> usize {
    if value == 0 {
        0
    } else {
        1 + encoded_len_varint(value as u64)
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push(tag << 3 | WireType::LengthDelimited as u8);
        encode_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    }
}

fn put_int(out: &mut Vec<u8>, tag: u8, value: i64) {
    if value != 0 {
        out.push(tag << 3 | WireType::Varint as u8);
        encode_varint(value as u64, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    fn samples() -> Vec<KeyValue> {
        let mut all = vec![KeyValue {
            key: "k".into(),
            ..Default::default()
        }];
        for n in [1, 127, 128, 1 << 40, i64::MAX] {
            all.push(KeyValue {
                key: vec![b'k'; n as usize % 300 + 1].into(),
                create_revision: n,
                mod_revision: n,
                version: n,
                value: vec![b'v'; n as usize % 500].into(),
                lease: n,
            });
        }
        all
    }

    #[test]
    fn written_as_the_marshaller_does_and_read_back() {
        for kv in samples() {
            let bytes = kv.encode_to_vec();
            let read = KeyValueRef::decode(&bytes).unwrap();
            assert_eq!(read.to_owned(), kv);
            let mut written = Vec::new();
            read.encode(&mut written);
            assert_eq!(written, bytes);
            assert_eq!(read.encoded_len(), bytes.len());
        }
    }

    #[test]
    fn a_cut_is_none_or_a_shorter_message_but_no_panic() {
        for kv in samples() {
            let bytes = kv.encode_to_vec();
            for end in 0..bytes.len().min(600) {
                let _ = KeyValueRef::decode(&bytes[..end]);
            }
        }
        assert_eq!(KeyValueRef::decode(b"\x0a\x05abc"), None);
        assert_eq!(
            KeyValueRef::decode(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            None
        );
    }
}
