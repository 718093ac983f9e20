//! Recent rows, so that a watcher that lags a little need not read the file.
//!
//! Invariant: every row from `complete_from` on is in it.

use crate::rows::Row;
use std::collections::VecDeque;

/// Most rows of the ring.
const RING_ROWS: usize = 16 * 1024;

/// Most bytes of the ring.
const RING_BYTES: usize = 16 * 1024 * 1024;

/// Most rows of the ring that are looked at at once to bring a watcher up to date.
const INLINE_ROWS: usize = 2 * 1024;

#[derive(Default)]
pub(super) struct Ring {
    rows: VecDeque<Row>,
    bytes: usize,
    /// Every row from this main revision on is in it.
    complete_from: i64,
}

impl Ring {
    /// An empty ring: every row from this main revision on will be in it.
    pub(super) fn new(complete_from: i64) -> Ring {
        Ring {
            complete_from,
            ..Ring::default()
        }
    }

    /// Appends a row; the oldest ones make room.
    pub(super) fn push(&mut self, row: &Row) {
        self.bytes += row.value.len();
        self.rows.push_back(row.clone());
        while self.rows.len() > RING_ROWS || self.bytes > RING_BYTES {
            let Some(gone) = self.rows.pop_front() else {
                break;
            };
            self.bytes -= gone.value.len();
            self.complete_from = gone.key.revision.main + 1;
        }
    }

    /// Rows with main ≥ `from`, where all of them are here and they are few.
    pub(super) fn since(&self, from: i64) -> Option<impl Iterator<Item = &Row>> {
        let start = self
            .rows
            .partition_point(|row| row.key.revision.main < from);
        let near = from >= self.complete_from && self.rows.len() - start <= INLINE_ROWS;
        near.then(|| self.rows.range(start..))
    }
}
