//! The part of the log that is not known to be durable, and a snapshot that is to replace it all.
//!
//! Invariants:
//! - `entries[i].index == offset + i`;
//! - `offset <= in_progress_end`: entries before it are being written, those from it on are not
//!   handed out yet;
//! - `offset` may lie within the durable log: the next write then overwrites its tail.

use crate::journal::{Journal, note};
use crate::types::{Entry, EntryId, Snapshot};

#[derive(Debug)]
pub(crate) struct Unstable {
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) offset: u64,
    pub(crate) snapshot_in_progress: bool,
    pub(crate) in_progress_end: u64,
}

impl Unstable {
    pub(crate) fn new(offset: u64) -> Unstable {
        Unstable {
            snapshot: None,
            entries: Vec::new(),
            offset,
            snapshot_in_progress: false,
            in_progress_end: offset,
        }
    }

    /// The first index of the log, if a snapshot decides it.
    pub(crate) fn first_index(&self) -> Option<u64> {
        Some(self.snapshot.as_ref()?.metadata.index + 1)
    }

    /// The last index of the log, if it is here.
    pub(crate) fn last_index(&self) -> Option<u64> {
        if self.entries.is_empty() {
            return Some(self.snapshot.as_ref()?.metadata.index);
        }
        Some(self.offset + self.entries.len() as u64 - 1)
    }

    /// The term of an entry or of the snapshot, if it is here.
    pub(crate) fn term(&self, index: u64) -> Option<u64> {
        if let Some(position) = index.checked_sub(self.offset) {
            let position = usize::try_from(position).ok()?;
            return Some(self.entries.get(position)?.term);
        }
        let metadata = &self.snapshot.as_ref()?.metadata;
        (metadata.index == index).then_some(metadata.term)
    }

    fn position(&self, index: u64) -> usize {
        assert!(
            index >= self.offset && index - self.offset <= self.entries.len() as u64,
            "index {index} lies outside the unstable log [{}, +{}]",
            self.offset,
            self.entries.len()
        );
        (index - self.offset) as usize
    }

    /// Entries that nobody writes yet.
    pub(crate) fn next_entries(&self) -> &[Entry] {
        &self.entries[self.position(self.in_progress_end)..]
    }

    /// The snapshot, if nobody writes it yet.
    pub(crate) fn next_snapshot(&self) -> Option<&Snapshot> {
        self.snapshot
            .as_ref()
            .filter(|_| !self.snapshot_in_progress)
    }

    /// Everything here is being written from now on.
    pub(crate) fn accept_in_progress(&mut self) {
        self.in_progress_end = self.offset + self.entries.len() as u64;
        self.snapshot_in_progress = self.snapshot.is_some();
    }

    /// Entries up to `id` are durable, and no write under way can overwrite them. Ignored if the
    /// entry of that index and term is not here any more.
    pub(crate) fn stable_to(&mut self, id: EntryId, journal: &mut Journal) {
        let Some(term) = self.term(id.index) else {
            note!(
                journal,
                Info,
                "entry at index {} missing from unstable log; ignoring",
                id.index
            );
            return;
        };
        if id.index < self.offset {
            note!(
                journal,
                Info,
                "entry at index {} matched unstable snapshot; ignoring",
                id.index
            );
            return;
        }
        if term != id.term {
            note!(
                journal,
                Info,
                "entry at (index,term)=({},{}) mismatched with entry at ({},{term}) in unstable \
                 log; ignoring",
                id.index,
                id.term,
                id.index
            );
            return;
        }
        let stable = self.position(id.index + 1);
        self.entries.drain(..stable);
        self.offset = id.index + 1;
        self.in_progress_end = self.in_progress_end.max(self.offset);
        // A burst must not leave its memory behind for ever.
        if self.entries.capacity() > 4 * self.entries.len().max(256) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    /// The snapshot of `index` is durable.
    pub(crate) fn stable_snapshot_to(&mut self, index: u64) {
        if self
            .snapshot
            .as_ref()
            .is_some_and(|snapshot| snapshot.metadata.index == index)
        {
            self.snapshot = None;
            self.snapshot_in_progress = false;
        }
    }

    /// Replaces the whole log by a snapshot.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        self.offset = snapshot.metadata.index + 1;
        self.in_progress_end = self.offset;
        self.entries.clear();
        self.snapshot = Some(snapshot);
        self.snapshot_in_progress = false;
    }

    /// Takes entries that continue the log, or replace its tail from the first one's index on.
    pub(crate) fn truncate_and_append(&mut self, entries: Vec<Entry>, journal: &mut Journal) {
        let from = entries[0].index;
        if from == self.offset + self.entries.len() as u64 {
            if self.entries.is_empty() {
                self.entries = entries;
            } else {
                self.entries.extend(entries);
            }
        } else if from <= self.offset {
            note!(
                journal,
                Info,
                "replace the unstable entries from index {from}"
            );
            self.entries = entries;
            self.offset = from;
            self.in_progress_end = from;
        } else {
            note!(
                journal,
                Info,
                "truncate the unstable entries before index {from}"
            );
            self.entries.truncate(self.position(from));
            self.entries.extend(entries);
            self.in_progress_end = self.in_progress_end.min(from);
        }
    }

    /// The entries `lo..hi`, all of which must be here.
    pub(crate) fn slice(&self, lo: u64, hi: u64) -> &[Entry] {
        assert!(lo <= hi, "invalid unstable slice {lo} > {hi}");
        &self.entries[self.position(lo)..self.position(hi)]
    }
}
