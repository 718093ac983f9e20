//! Read transactions and the buckets in them.
//!
//! Invariant: while a [`ReadTx`] lives, its state is in the table of readers, so that no page it
//! can reach is written or cut off, and its map stays.

use crate::copy;
use crate::cursor::{BackwardCursor, Cursor, DEPTH_MAX, Entry};
use crate::db::{Inner, Snapshot};
use crate::error::{Error, Problem};
use crate::page::{self, BucketRoot, Leaf, Page};
use std::io;
use std::ops::Bound;
use std::sync::Arc;

/// A committed state, for reading. Clones are the same transaction; it ends with the last one.
#[derive(Clone)]
pub struct ReadTx {
    open: Arc<OpenRead>,
}

struct OpenRead {
    db: Arc<Inner>,
    snapshot: Arc<Snapshot>,
}

impl Drop for OpenRead {
    fn drop(&mut self) {
        self.db.end_read(self.snapshot.meta.txid);
    }
}

impl ReadTx {
    /// The caller has counted it as a reader.
    pub(crate) fn new(db: Arc<Inner>, snapshot: Arc<Snapshot>) -> ReadTx {
        ReadTx {
            open: Arc::new(OpenRead { db, snapshot }),
        }
    }

    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.open.snapshot
    }

    pub(crate) fn db(&self) -> &Inner {
        &self.open.db
    }

    /// Bytes of the file in use in this state: what [`ReadTx::write_to`] writes.
    pub fn size(&self) -> u64 {
        self.snapshot().meta.bytes()
    }

    /// The transaction that made this state.
    pub fn txid(&self) -> u64 {
        self.snapshot().meta.txid
    }

    /// The bucket of all top-level buckets.
    pub(crate) fn root(&self) -> Bucket<'_> {
        let meta = &self.snapshot().meta;
        Bucket {
            snapshot: self.snapshot(),
            root: BucketRoot::Page(meta.root),
            sequence: meta.root_sequence,
        }
    }

    /// The top-level bucket of this name.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket<'_>>, Error> {
        self.root().bucket(name)
    }

    /// The names of the top-level buckets, in order.
    pub fn buckets(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.root().buckets()
    }

    /// Gives the whole database as of this state to `out`, from the file's first byte on, in
    /// pieces of 1 MiB or less; a copy of them is a database. Returns the number of bytes, which
    /// is [`ReadTx::size`].
    pub fn write_to(&self, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<u64, Error> {
        copy::write_to(self, out)
    }
}

/// Where a value stands in the file. It means something in the transaction that it came from, and in
/// its clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

impl ReadTx {
    /// The value at an extent of this transaction, without looking for its key again.
    pub fn value_at(&self, extent: Extent) -> &[u8] {
        let end = extent.offset + u64::from(extent.len);
        assert!(end <= self.size(), "an extent lies within its transaction");
        self.snapshot()
            .map
            .bytes(extent.offset, extent.len as usize)
    }
}

/// A bucket as of a read transaction.
#[derive(Clone, Copy)]
pub struct Bucket<'tx> {
    pub(crate) snapshot: &'tx Snapshot,
    pub(crate) root: BucketRoot<'tx>,
    sequence: u64,
}

impl<'tx> Bucket<'tx> {
    /// The value of `key`; `None` where it is absent or a bucket.
    pub fn get(&self, key: &[u8]) -> Result<Option<&'tx [u8]>, Error> {
        let (page, leaf) = self.leaf_for(key)?;
        let value = || match leaf.search(key)? {
            (index, true) if !leaf.is_bucket(index) => leaf.value(index).map(Some),
            _ => Ok(None),
        };
        value().map_err(|problem| self.snapshot.map.corrupt(page, problem))
    }

    /// Where the value of `key` stands; `None` where it is absent or a bucket.
    pub fn locate(&self, key: &[u8]) -> Result<Option<Extent>, Error> {
        let Some(value) = self.get(key)? else {
            return Ok(None);
        };
        let base = self.snapshot.map.bytes(0, 0).as_ptr() as usize;
        Ok(Some(Extent {
            offset: (value.as_ptr() as usize - base) as u64,
            len: u32::try_from(value.len()).expect("a value is shorter than 4 GiB"),
        }))
    }

    /// A cursor whose next entry is the first one from `from` on, in the order of keys.
    pub fn range(&self, from: Bound<&[u8]>) -> Result<Cursor<'tx>, Error> {
        let mut cursor = Cursor::new(*self);
        cursor.seek(from)?;
        Ok(cursor)
    }

    /// A cursor over all entries, the one with the highest key first.
    pub fn backward(&self) -> Result<BackwardCursor<'tx>, Error> {
        BackwardCursor::new(*self)
    }

    /// The entry with the highest key.
    pub fn last(&self) -> Result<Option<Entry<'tx>>, Error> {
        Cursor::new(*self).last()
    }

    /// The bucket of this name inside of this one.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket<'tx>>, Error> {
        let (page, leaf) = self.leaf_for(name)?;
        let parsed = || match leaf.search(name)? {
            (index, true) if leaf.is_bucket(index) => {
                page::parse_bucket(leaf.value(index)?, index).map(Some)
            }
            _ => Ok(None),
        };
        let parsed = parsed().map_err(|problem| self.snapshot.map.corrupt(page, problem))?;
        Ok(parsed.map(|(root, sequence)| Bucket {
            snapshot: self.snapshot,
            root,
            sequence,
        }))
    }

    /// The names of the buckets inside of this one, in order.
    pub fn buckets(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = Vec::new();
        let mut cursor = Cursor::new(*self);
        cursor.seek(Bound::Unbounded)?;
        while let Some(((name, _), is_bucket)) = cursor.next_element()? {
            if is_bucket {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// The number that bbolt's `NextSequence` counts up.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The leaf where `key` is or would be, and its page id (0 for an inline one).
    fn leaf_for(&self, key: &[u8]) -> Result<(u64, Leaf<'tx>), Error> {
        let mut id = match self.root {
            BucketRoot::Inline(leaf) => return Ok((0, leaf)),
            BucketRoot::Page(id) => id,
        };
        for _ in 0..DEPTH_MAX {
            match self.snapshot.page(id)? {
                Page::Leaf(leaf) => return Ok((id, leaf)),
                Page::Branch(branch) => {
                    let index = branch.child_for(key);
                    let index = index.map_err(|problem| self.snapshot.map.corrupt(id, problem))?;
                    id = branch.child(index);
                }
            }
        }
        Err(self.snapshot.map.corrupt(id, Problem::Depth))
    }
}
