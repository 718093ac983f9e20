//! The writer's side of the revisioned key space: index, rows that are not in the file yet, and
//! the newest revision.
//!
//! Invariants: a [`WriteTxn`] changes the store at exactly one main revision, `revision + 1`, with
//! sub-revisions from 0 in the order of its changes; a transaction without a change leaves the
//! revision alone. Every revision that the index names is in the rows or in the file.

use crate::Error;
use crate::index::{Index, KeyRange, Root};
use crate::keyvalue::KeyValueRef;
use crate::lease::Lessor;
use crate::range::Keys;
use crate::revision::{Revision, RowKey};
use crate::rows::{Row, Rows, Snapshot};
use crate::view::{RowReader, Source};
use bytes::Bytes;
use quorate_bolt::ReadTx;
use std::ops::ControlFlow;

/// The key space as its one writer sees it.
pub struct Mvcc {
    /// Keys and their revisions.
    pub index: Index,
    /// Rows that came since the last freeze.
    pub rows: Rows,
    /// Rows that are being committed.
    pub frozen: Snapshot,
    /// The file, without those.
    pub file: ReadTx,
    /// The newest revision.
    pub revision: i64,
    /// The newest compaction's revision; -1 before the first.
    pub compact_revision: i64,
    /// Rows that watchers have not been told of.
    pub untold: Vec<Row>,
}

impl Mvcc {
    /// Reads at the newest revision.
    pub fn read<T>(&self, f: impl FnOnce(&Source<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.read_at(self.revision, f)
    }

    fn read_at<T>(
        &self,
        revision: i64,
        f: impl FnOnce(&Source<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let root = self.index.root();
        f(&Source {
            root: &root,
            revision,
            compact_revision: self.compact_revision,
            rows: RowReader::new(self.rows.snapshot(), &self.frozen, &self.file)?,
        })
    }

    /// Begins a transaction.
    pub fn write<'a>(&'a mut self, lessor: &'a mut Lessor) -> WriteTxn<'a> {
        WriteTxn {
            begin: self.revision,
            changes: 0,
            mvcc: self,
            lessor,
        }
    }
}

/// A transaction that writes. [`WriteTxn::end`] makes its revision the newest.
pub struct WriteTxn<'a> {
    mvcc: &'a mut Mvcc,
    lessor: &'a mut Lessor,
    begin: i64,
    changes: u32,
}

impl WriteTxn<'_> {
    /// The newest revision as of the changes so far.
    pub fn revision(&self) -> i64 {
        self.begin + i64::from(self.changes > 0)
    }

    /// Reads what the transaction has made of the store so far.
    pub fn read<T>(&self, f: impl FnOnce(&Source<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.mvcc.read_at(self.revision(), f)
    }

    /// Sets a key; a lease of 0 takes it off any. The lease exists. The revision of the change.
    pub fn put(&mut self, key: &[u8], value: &[u8], lease: i64) -> i64 {
        let revision = self.next();
        let changed = self.mvcc.index.put(key, revision);
        let kv = KeyValueRef {
            key,
            create_revision: changed.create,
            mod_revision: revision.main,
            version: changed.version,
            value,
            lease,
        };
        self.push(
            RowKey {
                revision,
                tombstone: false,
            },
            kv,
        );
        let before = if changed.existed {
            self.lessor.holder(key)
        } else {
            0
        };
        if before != lease {
            if before != 0 {
                self.lessor.detach(key);
            }
            if lease != 0 {
                self.lessor.attach(lease, key);
            }
        }
        revision.main
    }

    /// Deletes the keys that exist; how many, and the newest revision then.
    pub fn delete_range(&mut self, keys: &Keys<'_>) -> (i64, i64) {
        let doomed = match *keys {
            Keys::One(key) => {
                let live = self
                    .mvcc
                    .index
                    .root()
                    .get(key)
                    .is_some_and(|entry| entry.is_live());
                if live {
                    vec![Bytes::copy_from_slice(key)]
                } else {
                    Vec::new()
                }
            }
            Keys::Range(start, end) => live_keys(&self.mvcc.index.root(), start, end),
        };
        for key in &doomed {
            let revision = self.next();
            self.mvcc.index.delete(key, revision);
            let kv = KeyValueRef {
                key,
                ..Default::default()
            };
            self.push(
                RowKey {
                    revision,
                    tombstone: true,
                },
                kv,
            );
            self.lessor.detach(key);
        }
        (doomed.len() as i64, self.revision())
    }

    fn next(&mut self) -> Revision {
        let revision = Revision::new(self.begin + 1, self.changes);
        self.changes += 1;
        revision
    }

    fn push(&mut self, key: RowKey, kv: KeyValueRef<'_>) {
        let mut value = Vec::with_capacity(kv.encoded_len());
        kv.encode(&mut value);
        let row = Row {
            key,
            value: value.into(),
        };
        self.mvcc.untold.push(row.clone());
        self.mvcc.rows.push(row);
    }

    /// Ends the transaction; the newest revision.
    pub fn end(self) -> i64 {
        self.mvcc.revision = self.revision();
        self.mvcc.revision
    }
}

fn live_keys(root: &Root, start: &[u8], end: Option<&[u8]>) -> Vec<Bytes> {
    let mut keys = Vec::new();
    let _ = root.walk::<()>(KeyRange { start, end }, |key, entry| {
        if entry.is_live() {
            keys.push(Bytes::copy_from_slice(key));
        }
        ControlFlow::Continue(())
    });
    keys
}
