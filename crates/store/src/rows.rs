//! Rows of the `key` bucket that are not in the file yet: an append-only list that readers share.
//!
//! Invariants: rows ascend by revision; a slot is set once; a snapshot never shows more rows than
//! when it was taken. The writer appends without copying what snapshots hold (a chunk's slots are
//! set in place; the list of chunks is copied when a chunk is added while a snapshot shares it).

use crate::revision::{Revision, RowKey};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

const CHUNK: usize = 256;

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its revision, and whether it deletes.
    pub key: RowKey,
    /// The encoded KeyValue.
    pub value: Bytes,
}

type Chunk = Box<[OnceLock<Row>]>;

/// The writer's list.
#[derive(Default)]
pub struct Rows {
    all: Snapshot,
    bytes: usize,
}

/// The rows there were when it was taken.
#[derive(Clone, Default)]
pub struct Snapshot {
    chunks: Arc<Vec<Arc<Chunk>>>,
    len: usize,
}

impl Rows {
    /// Appends a row, whose revision is newer than all there are.
    pub fn push(&mut self, row: Row) {
        if let Some(last) = self.all.last() {
            assert!(last.key.revision < row.key.revision, "rows run forward");
        }
        self.bytes += row.value.len() + size_of::<Row>();
        let at = self.all.len;
        if at.is_multiple_of(CHUNK) {
            let chunk: Chunk = (0..CHUNK).map(|_| OnceLock::new()).collect();
            Arc::make_mut(&mut self.all.chunks).push(Arc::new(chunk));
        }
        let fresh = self.all.chunks[at / CHUNK][at % CHUNK].set(row).is_ok();
        assert!(fresh, "a slot beyond the length is empty");
        self.all.len += 1;
    }

    /// The rows there are now.
    pub fn snapshot(&self) -> &Snapshot {
        &self.all
    }

    /// Bytes that the rows take in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all rows out; the list is empty afterwards.
    pub fn take(&mut self) -> Snapshot {
        self.bytes = 0;
        std::mem::take(&mut self.all)
    }
}

impl Snapshot {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Row `i`.
    pub fn get(&self, i: usize) -> &Row {
        assert!(i < self.len);
        self.chunks[i / CHUNK][i % CHUNK]
            .get()
            .expect("slots below the length are set")
    }

    /// The oldest row.
    pub fn first(&self) -> Option<&Row> {
        (self.len > 0).then(|| self.get(0))
    }

    /// The newest row.
    pub fn last(&self) -> Option<&Row> {
        (self.len > 0).then(|| self.get(self.len - 1))
    }

    /// Where the first row with a revision ≥ `revision` stands.
    pub fn position(&self, revision: Revision) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = (low + high) / 2;
            if self.get(middle).key.revision < revision {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// The row of exactly this revision.
    pub fn find(&self, revision: Revision) -> Option<&Row> {
        let at = self.position(revision);
        (at < self.len)
            .then(|| self.get(at))
            .filter(|row| row.key.revision == revision)
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        (0..self.len).map(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(main: i64) -> Row {
        Row {
            key: RowKey {
                revision: Revision::new(main, 0),
                tombstone: false,
            },
            value: Bytes::from(main.to_string()),
        }
    }

    #[test]
    fn a_snapshot_does_not_grow() {
        let mut rows = Rows::default();
        let mut snapshots = Vec::new();
        for main in 1..=1000 {
            rows.push(row(main * 2));
            snapshots.push(rows.snapshot().clone());
        }
        for (i, snapshot) in snapshots.iter().enumerate() {
            assert_eq!(snapshot.len(), i + 1);
            assert_eq!(
                snapshot.last().unwrap().key.revision.main,
                (i as i64 + 1) * 2
            );
            assert!(
                snapshot
                    .find(Revision::new((i as i64 + 2) * 2, 0))
                    .is_none()
            );
        }
        let taken = rows.take();
        assert_eq!((taken.len(), rows.snapshot().len()), (1000, 0));
        for main in 1..=2000 {
            let found = taken
                .find(Revision::new(main, 0))
                .map(|row| row.value.clone());
            assert_eq!(
                found,
                (main % 2 == 0).then(|| Bytes::from(main.to_string()))
            );
        }
    }
}
