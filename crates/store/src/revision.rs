//! Revisions, and how the `key` bucket spells them.
//!
//! A revision is (main, sub): main counts transactions of the whole store, sub the changes within
//! one. The bucket's key is big-endian main, `_`, big-endian sub, and a trailing `t` where the
//! change is a deletion; so the bucket's order is the order of history. Source: etcd's mvcc
//! revision encoding.

use crate::Error;

/// Length of the key of a put.
pub const PUT_KEY_BYTES: usize = 17;
/// Length of the key of a tombstone.
pub const TOMBSTONE_KEY_BYTES: usize = 18;

/// A place in history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// Which transaction.
    pub main: i64,
    /// Which change within it, from 0.
    pub sub: u32,
}

impl Revision {
    /// (main, sub).
    pub const fn new(main: i64, sub: u32) -> Revision {
        Revision { main, sub }
    }
}

/// A revision and whether it is a deletion: one row of the `key` bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Where it stands.
    pub revision: Revision,
    /// Whether the key was deleted here.
    pub tombstone: bool,
}

impl RowKey {
    /// The bucket's key; its first [`RowKey::len`] bytes count.
    pub fn encode(self) -> EncodedRowKey {
        let mut bytes = [0; TOMBSTONE_KEY_BYTES];
        bytes[..8].copy_from_slice(&self.revision.main.to_be_bytes());
        bytes[8] = b'_';
        bytes[9..17].copy_from_slice(&u64::from(self.revision.sub).to_be_bytes());
        let len = if self.tombstone {
            TOMBSTONE_KEY_BYTES
        } else {
            PUT_KEY_BYTES
        };
        if self.tombstone {
            bytes[17] = b't';
        }
        EncodedRowKey { bytes, len }
    }

    /// Reads a key of the bucket.
    pub fn decode(key: &[u8]) -> Result<RowKey, Error> {
        let bad = || Error::corrupt("key", key, "is not a revision");
        let tombstone = match key.len() {
            PUT_KEY_BYTES => false,
            TOMBSTONE_KEY_BYTES if key[17] == b't' => true,
            _ => return Err(bad()),
        };
        let main = i64::from_be_bytes(key[..8].try_into().expect("eight bytes"));
        let sub = i64::from_be_bytes(key[9..17].try_into().expect("eight bytes"));
        let sub = u32::try_from(sub)
            .ok()
            .filter(|sub| *sub <= MAX_SUB)
            .ok_or_else(bad)?;
        if key[8] != b'_' || main < 0 {
            return Err(bad());
        }
        Ok(RowKey {
            revision: Revision { main, sub },
            tombstone,
        })
    }
}

/// Largest sub-revision the index can hold; no request that fits a log entry makes as many.
pub const MAX_SUB: u32 = u32::MAX >> 1;

/// A key of the `key` bucket, on the stack.
#[derive(Clone, Copy)]
pub struct EncodedRowKey {
    bytes: [u8; TOMBSTONE_KEY_BYTES],
    len: usize,
}

impl std::ops::Deref for EncodedRowKey {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelled_as_etcd_does() {
        let row = RowKey {
            revision: Revision::new(2, 1),
            tombstone: true,
        };
        assert_eq!(&*row.encode(), b"\0\0\0\0\0\0\0\x02_\0\0\0\0\0\0\0\x01t");
        assert_eq!(RowKey::decode(&row.encode()).unwrap(), row);
    }

    #[test]
    fn order_of_bytes_is_order_of_history() {
        let rows = [
            (1, 0, false),
            (1, 1, true),
            (1, 2, false),
            (2, 0, true),
            (300, 0, false),
        ];
        let keys: Vec<Vec<u8>> = rows
            .iter()
            .map(|&(main, sub, tombstone)| {
                RowKey {
                    revision: Revision::new(main, sub),
                    tombstone,
                }
                .encode()
                .to_vec()
            })
            .collect();
        assert!(keys.is_sorted());
    }

    #[test]
    fn bad_keys_are_errors() {
        for bad in [
            &b""[..],
            b"12345678_1234567",
            b"\xff2345678_12345678",
            b"\0\0\0\0\0\0\0\x01-\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\x01_\0\0\0\0\0\0\0\0x",
        ] {
            assert!(RowKey::decode(bad).is_err(), "{bad:?}");
        }
    }
}
