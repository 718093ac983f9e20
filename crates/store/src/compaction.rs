//! Compaction: history up to a revision goes, but for what is in force there.
//!
//! Apply sets the compact revision at once (older reads are refused from then on) and writes
//! `scheduledCompactRev`; a planner then walks the rows in bounded steps, each on the newest view,
//! and hands apply batches of what to remove: rows of the file, and keys whose index entry is
//! trimmed. Every row is hashed before it is removed. The last batch writes `finishedCompactRev`.
//! After a crash the walk starts anew from `scheduledCompactRev`.
//!
//! Invariants: the planner starts after a commit that covers the compaction's entry, so all rows up
//! to its revision are in the file; a row is removed only where the index does not keep it.

use crate::Error;
use crate::hash::{Hasher, KeyValueHash, keeps_anything};
use crate::keyvalue::KeyValueRef;
use crate::revision::{Revision, RowKey};
use crate::view::{View, decode};
use bytes::Bytes;
use quorate_failpoints::fail_point;

/// A compaction that was applied and whose rows are still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// History up to here goes.
    pub revision: i64,
    /// The compact revision before.
    pub previous: i64,
    /// Whether the one before had finished; only then the hash is worth remembering.
    pub previous_finished: bool,
    /// Index of the entry that ordered it; the planner waits for a commit that covers it.
    pub index: u64,
}

/// What apply is to remove next.
#[derive(Debug, Default)]
pub struct Batch {
    /// The job's revision.
    pub revision: i64,
    /// Rows of the file.
    pub rows: Vec<RowKey>,
    /// Keys whose index entries are to be trimmed.
    pub keys: Vec<Bytes>,
    /// Set in the last batch.
    pub finished: Option<KeyValueHash>,
}

/// Walks a job's rows.
pub struct Planner {
    job: Job,
    hasher: Hasher,
    /// Whether the index keeps anything at all at the job's revision; else every row is hashed.
    keeps_anything: Option<bool>,
    next: Revision,
    removed: u64,
}

impl Planner {
    /// A planner at the start of its job.
    pub fn new(job: Job) -> Planner {
        fail_point!("compactAfterCommitScheduledCompact");
        Planner {
            job,
            hasher: Hasher::new(job.previous, job.revision),
            keeps_anything: None,
            next: Revision::default(),
            removed: 0,
        }
    }

    /// The job.
    pub fn job(&self) -> Job {
        self.job
    }

    /// Rows removed so far.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    /// The next batch: at most `limit` rows are looked at. `view` must be newer than the commit
    /// that the job waits for.
    pub fn step(&mut self, view: &View, limit: usize) -> Result<Batch, Error> {
        assert!(
            view.compact_revision >= self.job.revision,
            "the view knows of the compaction"
        );
        if self.next > Revision::default() {
            fail_point!("compactAfterCommitBatch");
        }
        fail_point!("compactAfterAcquiredBatchTxLock");
        let keeps_anything = *self
            .keeps_anything
            .get_or_insert_with(|| keeps_anything(&view.root, self.job.revision));
        let mut batch = Batch {
            revision: self.job.revision,
            ..Default::default()
        };
        let (mut looked_at, mut reached_end) = (0, true);
        let mut next = self.next;
        let hasher = &mut self.hasher;
        view.rows()?
            .scan(self.next, self.job.revision + 1, |row, value| {
                if looked_at == limit {
                    reached_end = false;
                    next = row.revision;
                    return Ok(false);
                }
                looked_at += 1;
                let kv: KeyValueRef<'_> = decode(row, value)?;
                let entry = view.root.get(kv.key);
                let kept = entry.is_some_and(|entry| entry.keeps(row.revision, self.job.revision));
                hasher.add(row, value, || kept || !keeps_anything);
                if !kept {
                    batch.rows.push(row);
                    batch.keys.push(Bytes::copy_from_slice(kv.key));
                }
                Ok(true)
            })?;
        self.next = next;
        self.removed += batch.rows.len() as u64;
        batch.keys.sort_unstable();
        batch.keys.dedup();
        if reached_end {
            batch.finished = Some(self.hasher.finish());
        }
        Ok(batch)
    }
}
