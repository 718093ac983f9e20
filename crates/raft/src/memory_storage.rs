//! The log's recent entries in memory.
//!
//! A member keeps here what its log has made durable, so that replication and apply never read the
//! disk. Invariants: `entries[i].index == snapshot-or-compaction point + 1 + i`, terms never fall.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::storage::{Storage, StorageError};
use crate::types::{ConfState, Entry, EntryId, HardState, Snapshot};

/// A [`Storage`] in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage {
    hard_state: HardState,
    /// The configuration to start with, where it is not the snapshot's.
    start_conf_state: Option<ConfState>,
    snapshot: Snapshot,
    /// The last entry that is gone; its term is still known.
    before: EntryId,
    entries: VecDeque<Entry>,
}

impl MemoryStorage {
    /// An empty log.
    pub fn new() -> MemoryStorage {
        MemoryStorage::default()
    }

    /// Keeps the hard state.
    pub fn set_hard_state(&mut self, hard_state: HardState) {
        self.hard_state = hard_state;
    }

    /// Sets the configuration that raft starts with: that of the state machine, which may be ahead
    /// of the snapshot. The snapshot keeps its own.
    pub fn set_conf_state(&mut self, conf_state: ConfState) {
        self.start_conf_state = Some(conf_state);
    }

    /// The hard state last kept.
    pub fn hard_state(&self) -> HardState {
        self.hard_state
    }

    /// The snapshot last made or taken over; an empty one at first.
    pub fn last_snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// How many entries are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entry is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts a snapshot in the place of the whole log.
    pub fn apply_snapshot(&mut self, snapshot: Snapshot) -> Result<(), StorageError> {
        let have = self.snapshot.metadata.index;
        if have != 0 && have >= snapshot.metadata.index {
            return Err(StorageError::SnapshotOutOfDate);
        }
        self.before = EntryId {
            term: snapshot.metadata.term,
            index: snapshot.metadata.index,
        };
        self.entries.clear();
        self.start_conf_state = None;
        self.snapshot = snapshot;
        Ok(())
    }

    /// Notes that a snapshot of the state as of `index` can be had; the log stays. Without a
    /// `conf_state` the one of the snapshot before holds on. `index` must lie within the log.
    pub fn create_snapshot(
        &mut self,
        index: u64,
        conf_state: Option<ConfState>,
        data: Bytes,
    ) -> Result<&Snapshot, StorageError> {
        if index <= self.snapshot.metadata.index {
            return Err(StorageError::SnapshotOutOfDate);
        }
        self.snapshot.metadata.term = self.term(index)?;
        self.snapshot.metadata.index = index;
        if let Some(conf_state) = conf_state {
            self.snapshot.metadata.conf_state = conf_state;
        }
        self.snapshot.data = data;
        Ok(&self.snapshot)
    }

    /// Drops the entries up to and including `index`, which must be applied.
    pub fn compact(&mut self, index: u64) -> Result<(), StorageError> {
        if index <= self.before.index {
            return Err(StorageError::Compacted);
        }
        let term = self.term(index)?;
        let gone = position(index - self.before.index);
        self.entries.drain(..gone);
        // Give memory back once the log has shrunk to a quarter.
        if self.entries.capacity() > 4 * self.entries.len().max(256) {
            self.entries.shrink_to(2 * self.entries.len());
        }
        self.before = EntryId { term, index };
        Ok(())
    }

    /// Adds entries, overwriting what is there from the first one's index on. Those at or below
    /// the compaction point are skipped. Panics if they leave a gap or are not consecutive.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else {
            return;
        };
        let skipped = (self.before.index + 1).saturating_sub(first.index);
        let Some(entries) = entries
            .get(position(skipped)..)
            .filter(|rest| !rest.is_empty())
        else {
            return;
        };
        let start = entries[0].index;
        assert!(
            start <= self.last_index() + 1,
            "missing log entry [last: {}, append at: {start}]",
            self.last_index()
        );
        self.entries
            .truncate(position(start - self.before.index - 1));
        for (entry, index) in entries.iter().zip(start..) {
            assert_eq!(entry.index, index, "entries to append are not consecutive");
            self.entries.push_back(entry.clone());
        }
    }
}

fn position(distance: u64) -> usize {
    usize::try_from(distance).expect("a distance within a log in memory fits the address space")
}

impl Storage for MemoryStorage {
    fn initial_state(&self) -> (HardState, ConfState) {
        let of_snapshot = &self.snapshot.metadata.conf_state;
        let conf_state = self.start_conf_state.as_ref().unwrap_or(of_snapshot);
        (self.hard_state, conf_state.clone())
    }

    fn entries(&self, lo: u64, hi: u64, max_size: u64) -> Result<Vec<Entry>, StorageError> {
        if lo <= self.before.index {
            return Err(StorageError::Compacted);
        }
        if hi > self.last_index() + 1 || lo > hi {
            return Err(StorageError::Unavailable);
        }
        let from = position(lo - self.before.index - 1);
        let to = position(hi - self.before.index - 1);
        let mut size = 0u64;
        let mut found = Vec::new();
        for entry in self.entries.range(from..to) {
            size = size.saturating_add(entry.encoded_len());
            if size > max_size && !found.is_empty() {
                break;
            }
            found.push(entry.clone());
        }
        Ok(found)
    }

    fn term(&self, index: u64) -> Result<u64, StorageError> {
        if index < self.before.index {
            return Err(StorageError::Compacted);
        }
        if index == self.before.index {
            return Ok(self.before.term);
        }
        let entry = self.entries.get(position(index - self.before.index - 1));
        entry
            .map(|entry| entry.term)
            .ok_or(StorageError::Unavailable)
    }

    fn first_index(&self) -> u64 {
        self.before.index + 1
    }

    fn last_index(&self) -> u64 {
        self.before.index + self.entries.len() as u64
    }

    fn snapshot(&self) -> Result<Snapshot, StorageError> {
        Ok(self.snapshot.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::NO_LIMIT;

    fn entries(terms: &[(u64, u64)]) -> Vec<Entry> {
        let entry = |(index, term): &(u64, u64)| Entry {
            term: *term,
            index: *index,
            ..Entry::default()
        };
        terms.iter().map(entry).collect()
    }

    fn storage(before: (u64, u64), terms: &[(u64, u64)]) -> MemoryStorage {
        let mut storage = MemoryStorage::new();
        let mut snapshot = Snapshot::default();
        (snapshot.metadata.index, snapshot.metadata.term) = before;
        storage.apply_snapshot(snapshot).unwrap();
        storage.append(&entries(terms));
        storage
    }

    fn all(storage: &MemoryStorage) -> Vec<Entry> {
        let (first, last) = (storage.first_index(), storage.last_index());
        storage.entries(first, last + 1, NO_LIMIT).unwrap()
    }

    #[test]
    fn append_overwrites_extends_and_skips_what_is_compacted() {
        type Terms<'a> = &'a [(u64, u64)];
        let cases: &[(Terms, Terms)] = &[
            (&[(1, 1), (2, 2)], &[(4, 4), (5, 5)]),
            (&[(3, 3), (4, 4), (5, 5)], &[(4, 4), (5, 5)]),
            (&[(3, 3), (4, 6), (5, 6)], &[(4, 6), (5, 6)]),
            (&[(2, 3), (3, 3), (4, 5)], &[(4, 5)]),
            (&[(4, 5)], &[(4, 5)]),
            (&[(6, 5)], &[(4, 4), (5, 5), (6, 5)]),
        ];
        for (added, expected) in cases {
            let mut storage = storage((3, 3), &[(4, 4), (5, 5)]);
            storage.append(&entries(added));
            assert_eq!(all(&storage), entries(expected), "{added:?}");
        }
    }

    #[test]
    #[should_panic(expected = "missing log entry")]
    fn append_refuses_a_gap() {
        storage((3, 3), &[(4, 4)]).append(&entries(&[(6, 6)]));
    }

    #[test]
    fn compaction_keeps_the_term_before_the_first_entry() {
        let mut storage = storage((3, 3), &[(4, 4), (5, 5), (6, 6)]);
        assert_eq!(storage.compact(3), Err(StorageError::Compacted));
        assert_eq!(storage.compact(7), Err(StorageError::Unavailable));
        storage.compact(5).unwrap();
        assert_eq!(storage.term(4), Err(StorageError::Compacted));
        assert_eq!(storage.term(5), Ok(5));
        assert_eq!(storage.term(6), Ok(6));
        assert_eq!(storage.term(7), Err(StorageError::Unavailable));
        assert_eq!((storage.first_index(), storage.last_index()), (6, 6));
        assert_eq!(
            storage.entries(5, 7, NO_LIMIT),
            Err(StorageError::Compacted)
        );
        assert_eq!(
            storage.entries(6, 8, NO_LIMIT),
            Err(StorageError::Unavailable)
        );
    }

    #[test]
    fn a_read_is_cut_by_size_but_never_to_nothing() {
        let storage = storage((3, 3), &[(4, 4), (5, 5), (6, 6)]);
        let one = entries(&[(4, 4)])[0].encoded_len();
        for (max_size, count) in [
            (0, 1),
            (one, 1),
            (2 * one, 2),
            (3 * one - 1, 2),
            (NO_LIMIT, 3),
        ] {
            assert_eq!(
                storage.entries(4, 7, max_size).unwrap().len(),
                count,
                "{max_size}"
            );
        }
    }

    #[test]
    fn the_configuration_to_start_with_leaves_the_snapshot_alone() {
        let mut storage = storage((3, 3), &[(4, 4)]);
        let ahead = ConfState {
            voters: vec![1, 2],
            ..ConfState::default()
        };
        storage.set_conf_state(ahead.clone());
        assert_eq!(storage.initial_state().1, ahead);
        assert_eq!(
            storage.snapshot().unwrap().metadata.conf_state,
            ConfState::default()
        );
    }

    #[test]
    fn snapshots_only_go_forward() {
        let mut storage = storage((3, 3), &[(4, 4), (5, 5)]);
        let conf_state = ConfState {
            voters: vec![1],
            ..ConfState::default()
        };
        let made = storage.create_snapshot(4, Some(conf_state.clone()), Bytes::from_static(b"x"));
        assert_eq!(
            made.unwrap().metadata,
            crate::types::SnapshotMetadata {
                conf_state,
                index: 4,
                term: 4,
            }
        );
        let again = storage.create_snapshot(4, None, Bytes::new());
        assert_eq!(again.unwrap_err(), StorageError::SnapshotOutOfDate);
        let later = storage.create_snapshot(9, None, Bytes::new());
        assert_eq!(later.unwrap_err(), StorageError::Unavailable);
        assert_eq!(
            storage.apply_snapshot(Snapshot::default()),
            Err(StorageError::SnapshotOutOfDate)
        );
        assert_eq!(storage.last_index(), 5);
    }
}
