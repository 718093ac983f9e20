//! The log as a whole: the durable part in a [`Storage`], the rest in `Unstable`, and how far it is
//! committed and applied.
//!
//! Invariants: `applied <= applying <= committed <= last_index`; an index at or below `committed`
//! never gets another term.

use crate::journal::{Journal, note};
use crate::storage::{Storage, StorageError};
use crate::types::{Entry, EntryId, Snapshot, encoded_len, limit_size};
use crate::unstable::Unstable;

#[derive(Debug)]
pub(crate) struct Log<S> {
    pub(crate) storage: S,
    pub(crate) unstable: Unstable,
    /// Highest index known to be on a quorum.
    pub(crate) committed: u64,
    /// Highest index handed out to be applied.
    pub(crate) applying: u64,
    /// Highest index known to be applied.
    pub(crate) applied: u64,
    /// Bound on the encoded bytes that are being applied.
    max_applying_size: u64,
    applying_size: u64,
    /// Whether nothing more is handed out until something is applied.
    applying_paused: bool,
    /// Index of a conf change that must be applied before anything behind it is handed out; only
    /// set where batches end at conf changes.
    barrier: u64,
}

/// What is handed out to be applied, and from which part of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplyRule {
    /// Whether entries that are committed and not durable here may be applied.
    pub(crate) allow_unstable: bool,
    /// Whether a batch ends at a conf change, and the next waits until it is applied.
    pub(crate) end_at_conf_change: bool,
}

impl<S: Storage> Log<S> {
    pub(crate) fn new(storage: S, max_applying_size: u64) -> Log<S> {
        let before = storage.first_index() - 1;
        let unstable = Unstable::new(storage.last_index() + 1);
        Log {
            storage,
            unstable,
            committed: before,
            applying: before,
            applied: before,
            max_applying_size,
            applying_size: 0,
            applying_paused: false,
            barrier: 0,
        }
    }

    pub(crate) fn first_index(&self) -> u64 {
        self.unstable
            .first_index()
            .unwrap_or_else(|| self.storage.first_index())
    }

    pub(crate) fn last_index(&self) -> u64 {
        self.unstable
            .last_index()
            .unwrap_or_else(|| self.storage.last_index())
    }

    pub(crate) fn last_id(&self) -> EntryId {
        let index = self.last_index();
        let term = self
            .term(index)
            .expect("a log knows the term of its last entry");
        EntryId { term, index }
    }

    /// The term at `index`: known from one before the first index to the last.
    pub(crate) fn term(&self, index: u64) -> Result<u64, StorageError> {
        if let Some(term) = self.unstable.term(index) {
            return Ok(term);
        }
        if index < self.first_index() - 1 {
            return Err(StorageError::Compacted);
        }
        if index > self.last_index() {
            return Err(StorageError::Unavailable);
        }
        self.storage.term(index)
    }

    /// The term at `index`, 0 where it is not known.
    pub(crate) fn term_or_zero(&self, index: u64) -> u64 {
        self.term(index).unwrap_or(0)
    }

    pub(crate) fn matches(&self, id: EntryId) -> bool {
        self.term(id.index) == Ok(id.term)
    }

    /// Whether a log that ends at `theirs` holds all that this one may have committed.
    pub(crate) fn is_up_to_date(&self, theirs: EntryId) -> bool {
        // EntryId orders by term, then by index.
        theirs >= self.last_id()
    }

    /// Where `entries`, which are consecutive, first differ from the log: the index of the first
    /// one that is not in it, 0 if all are.
    fn find_conflict(&self, entries: &[Entry], journal: &mut Journal) -> u64 {
        let Some(entry) = entries.iter().find(|entry| !self.matches(entry.id())) else {
            return 0;
        };
        if entry.index <= self.last_index() {
            note!(
                journal,
                Info,
                "found conflict at index {} [existing term: {}, conflicting term: {}]",
                entry.index,
                self.term_or_zero(entry.index),
                entry.term
            );
        }
        entry.index
    }

    /// The highest index at or below `index` at which a log may match this one, if all that is
    /// known of it is that its term at `index` is `term`: the terms of a log never fall, so it is
    /// none above `term`. With its own term, 0 where unknown.
    pub(crate) fn find_conflict_by_term(&self, index: u64, term: u64) -> EntryId {
        let mut index = index;
        while index > 0 {
            match self.term(index) {
                Err(_) => return EntryId { term: 0, index },
                Ok(ours) if ours <= term => return EntryId { term: ours, index },
                Ok(_) => index -= 1,
            }
        }
        EntryId::default()
    }

    /// Takes a leader's entries, which follow `prev`. `Ok(None)` if the log has no `prev`,
    /// otherwise the last index of what was sent. `Err` with the index of a committed entry that
    /// contradicts them; nothing is changed then.
    pub(crate) fn maybe_append(
        &mut self,
        prev: EntryId,
        mut entries: Vec<Entry>,
        committed: u64,
        journal: &mut Journal,
    ) -> Result<Option<u64>, u64> {
        if !self.matches(prev) {
            return Ok(None);
        }
        let last_new = prev.index + entries.len() as u64;
        let conflict = self.find_conflict(&entries, journal);
        if conflict != 0 {
            if conflict <= self.committed {
                return Err(conflict);
            }
            let known = usize::try_from(conflict - prev.index - 1).expect("within the entries");
            entries.drain(..known);
            self.append(entries, journal);
        }
        self.commit_to(committed.min(last_new));
        Ok(Some(last_new))
    }

    /// Takes entries that begin at or before `last_index + 1`, overwriting from there on.
    pub(crate) fn append(&mut self, entries: Vec<Entry>, journal: &mut Journal) {
        let Some(first) = entries.first() else {
            return;
        };
        assert!(
            first.index > self.committed,
            "append at {} would overwrite committed entries (committed {})",
            first.index,
            self.committed
        );
        self.unstable.truncate_and_append(entries, journal);
    }

    pub(crate) fn commit_to(&mut self, index: u64) {
        if self.committed < index {
            assert!(
                index <= self.last_index(),
                "tocommit({index}) is out of range [lastIndex({})]. Was the raft log corrupted, \
                 truncated, or lost?",
                self.last_index()
            );
            self.committed = index;
        }
    }

    /// Commits up to `at` if the log has it; whether anything new was committed.
    pub(crate) fn maybe_commit(&mut self, at: EntryId) -> bool {
        if at.term != 0 && at.index > self.committed && self.matches(at) {
            self.commit_to(at.index);
            return true;
        }
        false
    }

    pub(crate) fn has_next_or_in_progress_snapshot(&self) -> bool {
        self.unstable.snapshot.is_some()
    }

    fn max_appliable(&self, rule: ApplyRule) -> u64 {
        if rule.allow_unstable {
            return self.committed;
        }
        self.committed.min(self.unstable.offset - 1)
    }

    /// Whether [`Log::next_committed`] has something.
    pub(crate) fn has_next_committed(&self, rule: ApplyRule) -> bool {
        // A pending snapshot is applied first, and alone.
        !self.applying_paused
            && self.applied >= self.barrier
            && !self.has_next_or_in_progress_snapshot()
            && self.applying < self.max_appliable(rule)
    }

    /// Entries to apply next, within the bound on what is being applied.
    pub(crate) fn next_committed(&self, rule: ApplyRule) -> Vec<Entry> {
        if !self.has_next_committed(rule) {
            return Vec::new();
        }
        assert!(self.applying_size < self.max_applying_size || self.applying_size == 0);
        let room = self.max_applying_size - self.applying_size;
        let (lo, hi) = (self.applying + 1, self.max_appliable(rule) + 1);
        let mut entries = self
            .slice(lo, hi, room)
            .expect("what is not applied is not compacted");
        if rule.end_at_conf_change {
            let end = entries.iter().position(|entry| entry.kind.is_conf_change());
            if let Some(end) = end {
                entries.truncate(end + 1);
            }
        }
        entries
    }

    /// The entries of [`Log::next_committed`] were handed out.
    pub(crate) fn accept_applying(&mut self, entries: &[Entry], rule: ApplyRule) {
        let Some(last) = entries.last() else {
            return;
        };
        assert!(
            last.index <= self.committed,
            "only committed entries are applied"
        );
        self.applying = last.index;
        self.applying_size += encoded_len(entries);
        if rule.end_at_conf_change && last.kind.is_conf_change() {
            self.barrier = last.index;
        }
        // Less was handed out than could be: the next entry would not fit.
        self.applying_paused = self.applying_size >= self.max_applying_size
            || (last.index < self.max_appliable(rule) && self.barrier != last.index);
    }

    /// Everything up to `index` is applied, `size` bytes of what was handed out among it.
    pub(crate) fn applied_to(&mut self, index: u64, size: u64) {
        assert!(
            self.applied <= index && index <= self.committed,
            "applied({index}) is out of range [prevApplied({}), committed({})]",
            self.applied,
            self.committed
        );
        self.applied = index;
        self.applying = self.applying.max(index);
        self.applying_size = self.applying_size.saturating_sub(size);
        self.applying_paused = self.applying_size >= self.max_applying_size;
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, StorageError> {
        match &self.unstable.snapshot {
            Some(snapshot) => Ok(snapshot.clone()),
            None => self.storage.snapshot(),
        }
    }

    /// Replaces the whole log by a snapshot.
    pub(crate) fn restore(&mut self, snapshot: Snapshot, journal: &mut Journal) {
        note!(
            journal,
            Info,
            "log [committed={}, applied={}, applying={}, unstable.offset={}, \
             unstable.offsetInProgress={}, len(unstable.Entries)={}] starts to restore snapshot \
             [index: {}, term: {}]",
            self.committed,
            self.applied,
            self.applying,
            self.unstable.offset,
            self.unstable.in_progress_end,
            self.unstable.entries.len(),
            snapshot.metadata.index,
            snapshot.metadata.term
        );
        self.committed = snapshot.metadata.index;
        self.unstable.restore(snapshot);
    }

    /// Entries from `lo` to the end, at most `max_size` bytes, though one at least.
    pub(crate) fn entries(&self, lo: u64, max_size: u64) -> Result<Vec<Entry>, StorageError> {
        let end = self.last_index() + 1;
        if lo >= end {
            return Ok(Vec::new());
        }
        self.slice(lo, end, max_size)
    }

    /// Entries `lo..hi`, at most `max_size` bytes, though one at least. They must exist, or be
    /// compacted, which is an error.
    pub(crate) fn slice(
        &self,
        lo: u64,
        hi: u64,
        max_size: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        assert!(lo <= hi, "invalid slice {lo} > {hi}");
        assert!(
            hi <= self.last_index() + 1,
            "slice[{lo},{hi}) ends behind the log"
        );
        if lo < self.first_index() {
            return Err(StorageError::Compacted);
        }
        let offset = self.unstable.offset;
        if lo >= offset {
            return Ok(limit_size(self.unstable.slice(lo, hi), max_size).to_vec());
        }
        let cut = hi.min(offset);
        let mut entries = match self.storage.entries(lo, cut, max_size) {
            Ok(entries) => entries,
            Err(StorageError::Compacted) => return Err(StorageError::Compacted),
            Err(error) => panic!("entries[{lo}:{cut}) cannot be read from storage: {error}"),
        };
        // Fewer than asked for: the storage reached the limit already.
        if hi <= offset || (entries.len() as u64) < cut - lo {
            return Ok(entries);
        }
        let mut size = encoded_len(&entries);
        for entry in self.unstable.slice(offset, hi) {
            size = size.saturating_add(entry.encoded_len());
            if size > max_size {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    /// Whether a conf change is committed and not applied. Reads page by page.
    pub(crate) fn has_unapplied_conf_change(&self) -> bool {
        let mut lo = self.applied + 1;
        while lo <= self.committed {
            let page = self
                .slice(lo, self.committed + 1, self.max_applying_size)
                .expect("what is not applied is not compacted");
            assert!(!page.is_empty(), "no entries in [{lo}, {}]", self.committed);
            if page.iter().any(|entry| entry.kind.is_conf_change()) {
                return true;
            }
            lo += page.len() as u64;
        }
        false
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
