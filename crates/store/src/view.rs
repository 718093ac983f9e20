//! A read view: the store as of one revision, immutable, taken by loading a pointer.
//!
//! It is made of an index root, the rows that are not in the file yet (two lists: the one that is
//! being committed, and the one that fills), and a read transaction of the file. Together they hold
//! each row that the root can name: rows newer than the file's are in the lists, all others are in
//! the file.

use crate::Error;
use crate::alarm::Alarms;
use crate::hash::StoredHashes;
use crate::index::Root;
use crate::keyvalue::KeyValueRef;
use crate::membership::Membership;
use crate::quota::Quota;
use crate::revision::{Revision, RowKey};
use crate::rows::{Row, Snapshot};
use crate::store::Sizes;
use bytes::Bytes;
use quorate_bolt::{Bucket, Extent, ReadTx};
use std::ops::Bound;
use std::sync::Arc;

/// Name of the bucket of all revisions.
pub const KEY_BUCKET: &[u8] = b"key";

/// The store as of one revision.
pub struct View {
    /// Keys and their revisions.
    pub root: Root,
    /// The newest revision.
    pub revision: i64,
    /// The newest compaction's revision; -1 before the first. Reads below it are refused.
    pub compact_revision: i64,
    /// Index of the newest entry of the log whose effect is in here.
    pub applied_index: u64,
    /// Term of that entry.
    pub applied_term: u64,
    /// Rows that are being committed; empty while no commit is under way.
    pub frozen: Snapshot,
    /// Rows that came after those.
    pub live: Snapshot,
    /// The file.
    pub file: ReadTx,
    /// Active alarms.
    pub alarms: Arc<Alarms>,
    /// Who is in the cluster.
    pub members: Arc<Membership>,
    /// Hashes that finished compactions left.
    pub hashes: Arc<StoredHashes>,
    /// Sizes of the file as of the last commit.
    pub sizes: Sizes,
    /// The limit on them.
    pub quota: Quota,
    /// The version of the file's layout, where it is recorded.
    pub storage_version: Option<Arc<str>>,
}

/// What a read works on: a view's, or the writer's in the middle of a transaction.
pub struct Source<'a> {
    /// Keys and their revisions.
    pub root: &'a Root,
    /// The newest revision to be seen.
    pub revision: i64,
    /// The newest compaction's revision.
    pub compact_revision: i64,
    /// Where the rows are.
    pub rows: RowReader<'a>,
}

/// Finds rows by revision in the lists and the file.
pub struct RowReader<'a> {
    live: &'a Snapshot,
    frozen: &'a Snapshot,
    bucket: Option<Bucket<'a>>,
}

impl View {
    /// The source for reads at this view.
    pub fn source(&self) -> Result<Source<'_>, Error> {
        Ok(Source {
            root: &self.root,
            revision: self.revision,
            compact_revision: self.compact_revision,
            rows: self.rows()?,
        })
    }

    /// The rows of this view.
    pub fn rows(&self) -> Result<RowReader<'_>, Error> {
        RowReader::new(&self.live, &self.frozen, &self.file)
    }
}

impl<'a> RowReader<'a> {
    /// Rows of two lists and a file.
    pub fn new(
        live: &'a Snapshot,
        frozen: &'a Snapshot,
        file: &'a ReadTx,
    ) -> Result<RowReader<'a>, Error> {
        Ok(RowReader {
            live,
            frozen,
            bucket: file.bucket(KEY_BUCKET)?,
        })
    }

    /// The stored bytes of a put that the index names. That it is there is an invariant; that its
    /// bytes are sound is not.
    pub fn put(&self, revision: Revision) -> Result<&'a [u8], Error> {
        if let Some(row) = self.in_memory(revision) {
            return Ok(&row.value);
        }
        let key = RowKey {
            revision,
            tombstone: false,
        }
        .encode();
        let found = match &self.bucket {
            Some(bucket) => bucket.get(&key)?,
            None => None,
        };
        found.ok_or_else(|| missing(&key))
    }

    /// Where the stored bytes of a put are that the index names.
    pub fn locate(&self, revision: Revision) -> Result<Located<'a>, Error> {
        if let Some(row) = self.in_memory(revision) {
            return Ok(Located::Memory(&row.value));
        }
        let key = RowKey {
            revision,
            tombstone: false,
        }
        .encode();
        let found = match &self.bucket {
            Some(bucket) => bucket.locate(&key)?,
            None => None,
        };
        found.map(Located::File).ok_or_else(|| missing(&key))
    }

    fn in_memory(&self, revision: Revision) -> Option<&'a Row> {
        for list in [self.live, self.frozen] {
            if list
                .first()
                .is_some_and(|first| first.key.revision <= revision)
            {
                let row = list.find(revision);
                return Some(row.unwrap_or_else(|| panic!("{revision:?} has no row")));
            }
        }
        None
    }

    /// The decoded put that the index names.
    pub fn key_value(&self, revision: Revision) -> Result<KeyValueRef<'a>, Error> {
        decode(
            RowKey {
                revision,
                tombstone: false,
            },
            self.put(revision)?,
        )
    }

    /// Calls `visit` with each row from `from` on, below main revision `end`, in order, until it
    /// says false.
    pub fn scan(
        &self,
        from: Revision,
        end: i64,
        mut visit: impl FnMut(RowKey, &'a [u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let newest_in_file = [self.frozen, self.live]
            .into_iter()
            .find_map(|list| list.first())
            .map_or(i64::MAX, |row| row.key.revision.main);
        if let Some(bucket) = &self.bucket
            && from.main < newest_in_file
        {
            let start = RowKey {
                revision: from,
                tombstone: false,
            }
            .encode();
            let mut cursor = bucket.range(Bound::Included(&start))?;
            while let Some((key, value)) = cursor.next()? {
                let row = RowKey::decode(key)?;
                if row.revision.main >= end {
                    return Ok(());
                }
                if !visit(row, value)? {
                    return Ok(());
                }
            }
        }
        for list in [self.frozen, self.live] {
            for at in list.position(from)..list.len() {
                let row = list.get(at);
                if row.key.revision.main >= end || !visit(row.key, &row.value)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Where a row's stored bytes are.
pub enum Located<'a> {
    /// In the file.
    File(Extent),
    /// In one of the lists.
    Memory(&'a Bytes),
}

fn missing(key: &[u8]) -> Error {
    Error::corrupt(
        "key",
        key,
        "the index names this revision, the file has no such key",
    )
}

/// Reads a row's stored bytes.
pub fn decode(row: RowKey, value: &[u8]) -> Result<KeyValueRef<'_>, Error> {
    KeyValueRef::decode(value)
        .ok_or_else(|| Error::corrupt("key", &row.encode(), "the value is no KeyValue"))
}
