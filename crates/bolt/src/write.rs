//! The write transaction as its user sees it.

use crate::bucket_node::{BucketNode, Root};
use crate::commit::{self, CommitStats};
use crate::db::{Inner, Snapshot, Writer};
use crate::error::Error;
use crate::memory::Memory;
use crate::page::{BUCKET_FLAG, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::sync::{Arc, MutexGuard};

/// A change of the database in the making. Nothing is written before [`WriteTx::commit`]; dropped
/// without it, nothing happened. A call that gave an error of the file (not of its arguments)
/// leaves a transaction that should be dropped.
pub struct WriteTx<'db> {
    pub(crate) db: &'db Inner,
    pub(crate) writer: MutexGuard<'db, Writer>,
    pub(crate) memory: Memory,
    pub(crate) root: BucketNode,
}

impl<'db> WriteTx<'db> {
    pub(crate) fn new(
        db: &'db Inner,
        mut writer: MutexGuard<'db, Writer>,
        base: Arc<Snapshot>,
    ) -> WriteTx<'db> {
        let arena = std::mem::take(&mut writer.spare);
        let root = BucketNode::new(Root::Page(base.meta.root), base.meta.root_sequence);
        WriteTx {
            db,
            writer,
            memory: Memory {
                base,
                arena,
                freed: Vec::new(),
            },
            root,
        }
    }

    /// The number it will have once committed.
    pub fn txid(&self) -> u64 {
        self.memory.base.meta.txid + 1
    }

    fn top(&mut self) -> BucketMut<'_> {
        BucketMut {
            memory: &mut self.memory,
            bucket: &mut self.root,
        }
    }

    /// The top-level bucket of this name; made where there is none.
    pub fn create_bucket_if_missing(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        self.top().into_created(name)
    }

    /// The top-level bucket of this name.
    pub fn bucket(&mut self, name: &[u8]) -> Result<Option<BucketMut<'_>>, Error> {
        self.top().into_bucket(name)
    }

    /// Removes a top-level bucket with all that is in it, and says whether it was there.
    pub fn delete_bucket(&mut self, name: &[u8]) -> Result<bool, Error> {
        self.top().delete_bucket(name)
    }

    /// Writes everything and makes it durable. After an error of the kind
    /// [`Error::is_storage_full`], and after other errors before the first sync, the database is as
    /// before; after a failed sync it takes no more writes.
    pub fn commit(self) -> Result<CommitStats, Error> {
        commit::commit(self, commit::Placement::Anywhere)
    }
}

/// A bucket in a write transaction.
pub struct BucketMut<'tx> {
    memory: &'tx mut Memory,
    bucket: &'tx mut BucketNode,
}

fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::KeyRequired);
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::KeyTooLarge(key.len()));
    }
    Ok(())
}

impl<'tx> BucketMut<'tx> {
    /// The value of `key`, with this transaction's changes; `None` where it is absent or a bucket.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        Ok(match self.bucket.find(self.memory, key)? {
            Some((flags, value)) if flags & BUCKET_FLAG == 0 => Some(self.memory.get(value)),
            _ => None,
        })
    }

    /// Sets `key` to `value`. Keys have 1 to 32,768 bytes.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        check_key(key)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLarge(value.len()));
        }
        self.bucket.put(self.memory, key, value, 0)
    }

    /// Removes `key`, and says whether it was there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.bucket.remove(self.memory, key, 0)
    }

    /// Fills pages to 0.9 instead of half where they are split, for a bucket whose keys are put in
    /// ascending order. Holds until the transaction ends.
    pub fn set_append_only(&mut self, append_only: bool) {
        self.bucket.append_only = append_only;
    }

    /// See [`crate::Bucket::sequence`].
    pub fn sequence(&self) -> u64 {
        self.bucket.sequence
    }

    /// Sets the sequence.
    pub fn set_sequence(&mut self, sequence: u64) {
        self.bucket.sequence = sequence;
        self.bucket.sequence_changed = true;
    }

    /// The bucket of this name inside of this one; made where there is none.
    pub fn create_bucket_if_missing(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        BucketMut {
            memory: self.memory,
            bucket: self.bucket,
        }
        .into_created(name)
    }

    /// The bucket of this name inside of this one.
    pub fn bucket(&mut self, name: &[u8]) -> Result<Option<BucketMut<'_>>, Error> {
        BucketMut {
            memory: self.memory,
            bucket: self.bucket,
        }
        .into_bucket(name)
    }

    fn into_created(self, name: &[u8]) -> Result<BucketMut<'tx>, Error> {
        check_key(name)?;
        let BucketMut { memory, bucket } = self;
        if bucket.child(memory, name)?.is_none() {
            // The value is made at commit; until then the bucket is found among the open ones.
            bucket.put(memory, name, &[0; 0], BUCKET_FLAG)?;
            bucket.open.insert(name.to_vec(), BucketNode::empty());
        }
        let bucket = bucket.child(memory, name)?.expect("it was there or made");
        Ok(BucketMut { memory, bucket })
    }

    fn into_bucket(self, name: &[u8]) -> Result<Option<BucketMut<'tx>>, Error> {
        let BucketMut { memory, bucket } = self;
        match bucket.child(memory, name) {
            Ok(child) => Ok(child.map(|bucket| BucketMut { memory, bucket })),
            Err(Error::IncompatibleValue) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a bucket inside of this one with all that is in it, and says whether it was there.
    pub fn delete_bucket(&mut self, name: &[u8]) -> Result<bool, Error> {
        let Some(child) = self.bucket.child(self.memory, name)? else {
            return Ok(false);
        };
        child.open_to_buckets(self.memory)?;
        let pages = child.pages(self.memory)?;
        self.bucket.remove(self.memory, name, BUCKET_FLAG)?;
        self.bucket.open.remove(name);
        for origin in pages {
            self.memory.free(Some(origin));
        }
        Ok(true)
    }
}
