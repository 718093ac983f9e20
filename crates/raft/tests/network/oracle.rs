//! What must hold across members, whatever happens.

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_raft::{Entry, EntryKind, MemoryStorage, Raft, ReadState};

struct Applied {
    entry: Entry,
    /// The lowest term in which a member applied it.
    in_term: u64,
}

#[derive(Default)]
pub struct Oracle {
    /// Term to leader.
    leaders: BTreeMap<u64, u64>,
    /// By index.
    applied: BTreeMap<u64, Applied>,
    /// What was ever written under a term and index.
    written: BTreeMap<(u64, u64), (EntryKind, Bytes)>,
    /// Read requests: what was applied anywhere when they were made.
    reads: BTreeMap<Bytes, u64>,
}

impl Oracle {
    /// A member leads a term; whether that is news.
    pub fn leads(&mut self, raft: &Raft<MemoryStorage>) -> bool {
        let (term, id) = (raft.hard_state().term, raft.id());
        let known = self.leaders.get(&term).copied();
        assert!(
            known.is_none_or(|known| known == id),
            "term {term} has leaders {known:?} and {id}"
        );
        if known.is_some() {
            return false;
        }
        self.leaders.insert(term, id);
        for (index, applied) in self.applied.range(raft.first_index()..) {
            if applied.in_term < term {
                assert_eq!(
                    raft.term_at(*index),
                    Ok(applied.entry.term),
                    "leader {id} of term {term} lacks {index}, applied in term {}",
                    applied.in_term
                );
            }
        }
        true
    }

    pub fn writes(&mut self, entries: &[Entry]) {
        for entry in entries {
            let what = (entry.kind, entry.data.clone());
            let known = self
                .written
                .entry((entry.term, entry.index))
                .or_insert(what.clone());
            assert_eq!(
                *known, what,
                "two entries at term {} index {}",
                entry.term, entry.index
            );
        }
    }

    pub fn applies(&mut self, entry: &Entry, in_term: u64) {
        let known = self.applied.entry(entry.index).or_insert(Applied {
            entry: entry.clone(),
            in_term,
        });
        known.in_term = known.in_term.min(in_term);
        assert_eq!(
            known.entry, *entry,
            "different entries applied at {}",
            entry.index
        );
    }

    pub fn asks(&mut self, context: Bytes) {
        let newest = self.applied.last_key_value().map_or(0, |(index, _)| *index);
        self.reads.insert(context, newest);
    }

    pub fn answers(&mut self, state: &ReadState) {
        // A duplicated request may be answered twice.
        let floor = self.reads[&state.context];
        assert!(
            state.index >= floor,
            "read index {} misses {floor}",
            state.index
        );
    }

    pub fn newest_applied(&self) -> u64 {
        self.applied.last_key_value().map_or(0, |(index, _)| *index)
    }

    /// Log matching between two members.
    pub fn match_logs(one: &Raft<MemoryStorage>, two: &Raft<MemoryStorage>) {
        let low = one.first_index().max(two.first_index()) - 1;
        let high = one.last_index().min(two.last_index());
        let mut is_common = false;
        for index in (low..=high).rev() {
            let (ours, theirs) = (one.term_at(index), two.term_at(index));
            is_common |= ours == theirs;
            assert!(
                !is_common || ours == theirs,
                "logs of {} and {} part at {index} and meet behind it",
                one.id(),
                two.id()
            );
        }
    }
}
