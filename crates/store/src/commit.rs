//! The commit stage: what was applied goes into the file, in one transaction with the consistent
//! index that covers it.
//!
//! Invariant: a commit holds the effects of exactly the entries up to its index. That index, and
//! only that, decides what is replayed after a crash.

use crate::Error;
use crate::buckets::{BucketId, Edits};
use crate::revision::RowKey;
use crate::rows::Snapshot;
use crate::view::KEY_BUCKET;
use quorate_bolt::{Db, ReadTx};
use quorate_failpoints::fail_point;

/// Writes of a span of entries, on their way to the file.
#[derive(Clone, Default)]
pub struct Frozen {
    /// New rows of the `key` bucket.
    pub rows: Snapshot,
    /// Rows that compaction removes.
    pub deletes: Vec<RowKey>,
    /// Writes to the other buckets; the consistent index is among them.
    pub edits: Edits,
    /// Index of the last entry whose effects are here.
    pub index: u64,
}

/// What a commit left.
pub struct Committed {
    /// A read transaction of the file with it.
    pub file: ReadTx,
    /// The index of [`Frozen`].
    pub index: u64,
    /// Size of the file in bytes, by its high-water mark.
    pub size: i64,
    /// The same without free pages.
    pub size_in_use: i64,
}

/// Writes it all, durably.
pub fn commit(db: &Db, frozen: &Frozen) -> Result<Committed, Error> {
    fail_point!("beforeStartDBTxn");
    let mut tx = db.begin_write()?;
    fail_point!("afterStartDBTxn");
    if !frozen.rows.is_empty() || !frozen.deletes.is_empty() {
        let mut bucket = tx
            .bucket(KEY_BUCKET)?
            .expect("the store made its buckets when it opened");
        bucket.set_append_only(true);
        for row in &frozen.deletes {
            bucket.delete(&row.encode())?;
        }
        for row in frozen.rows.iter() {
            bucket.put(&row.key.encode(), &row.value)?;
        }
    }
    fail_point!("commitBeforePreCommitHook");
    let mut edits = frozen.edits.iter().peekable();
    while let Some((id, ..)) = edits.peek().copied() {
        let name = id.name().as_bytes();
        let mut bucket = tx
            .bucket(name)?
            .expect("the store made its buckets when it opened");
        while let Some((_, key, value)) = edits.next_if(|(next, ..)| *next == id) {
            match value {
                Some(value) => bucket.put(key, value)?,
                None => {
                    bucket.delete(key)?;
                }
            }
        }
    }
    fail_point!("commitAfterPreCommitHook");
    fail_point!("beforeCommit");
    tx.commit()?;
    fail_point!("afterCommit");
    Ok(committed(db, frozen.index))
}

/// The file as it is, without writing anything.
pub fn committed(db: &Db, index: u64) -> Committed {
    Committed {
        file: db.begin_read(),
        index,
        size: db.size() as i64,
        size_in_use: db.size_in_use() as i64,
    }
}

/// Makes the buckets that are missing.
pub fn create_buckets(db: &Db) -> Result<(), Error> {
    let read = db.begin_read();
    let mut missing = Vec::new();
    for name in BucketId::ALL.map(BucketId::name).into_iter().chain(["key"]) {
        if read.bucket(name.as_bytes())?.is_none() {
            missing.push(name);
        }
    }
    drop(read);
    if missing.is_empty() {
        return Ok(());
    }
    let mut tx = db.begin_write()?;
    for name in missing {
        tx.create_bucket_if_missing(name.as_bytes())?;
    }
    tx.commit()?;
    Ok(())
}
