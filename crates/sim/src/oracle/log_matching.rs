//! Log matching: entries of equal index and term are equal, and so is everything before them.
//!
//! Each member's log is followed through the jobs for its log stage. It is enough to know for each
//! index and term one content and one term of the entry before: the rest follows by induction.

use super::{Violation, ensure};
use crate::network::Slot;
use crate::trace::digest;
use quorate_node::raft::{Entry, EntryKind};
use std::collections::BTreeMap;

/// The checker's name.
pub const NAME: &str = "log matching";

/// An entry of a member's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its term.
    pub term: u64,
    /// Its kind and data, as a digest.
    pub digest: u64,
}

impl Logged {
    /// Of an entry.
    pub fn of(entry: &Entry) -> Logged {
        let kind = match entry.kind {
            EntryKind::Normal => 0,
            EntryKind::ConfChange => 1,
            EntryKind::ConfChangeV2 => 2,
        };
        Logged {
            term: entry.term,
            digest: digest(&entry.data) ^ kind,
        }
    }
}

/// A member's log: the entries above a base, which a snapshot covers.
#[derive(Clone, Debug, Default)]
pub struct MemberLog {
    /// Index of the last entry that is covered, and its term.
    pub base: (u64, u64),
    /// What follows.
    pub entries: BTreeMap<u64, (Logged, Entry)>,
}

impl MemberLog {
    /// The term of an entry, where it is known.
    pub fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.0 {
            return Some(self.base.1);
        }
        self.entries.get(&index).map(|(logged, _)| logged.term)
    }

    /// The last index.
    pub fn last(&self) -> u64 {
        let last = self.entries.last_key_value();
        last.map_or(self.base.0, |(index, _)| *index)
    }
}

/// What is known of an entry's content, and the term of the one before.
type Known = (Logged, Option<u64>);

/// All members' logs.
#[derive(Debug, Default)]
pub struct Logs {
    members: BTreeMap<Slot, MemberLog>,
    known: BTreeMap<(u64, u64), Known>,
}

impl Logs {
    /// A member's log.
    pub fn of(&self, slot: Slot) -> &MemberLog {
        &self.members[&slot]
    }

    /// A member starts with this log.
    pub fn starts(&mut self, slot: Slot, log: MemberLog) -> Result<(), Violation> {
        let entries: Vec<Entry> = log.entries.values().map(|(_, e)| e.clone()).collect();
        let base = log.base;
        let entry = MemberLog {
            base,
            entries: BTreeMap::new(),
        };
        self.members.insert(slot, entry);
        self.appends(slot, &entries)
    }

    /// A member's log is replaced by a snapshot.
    pub fn installs(&mut self, slot: Slot, index: u64, term: u64) {
        let log = self.members.entry(slot).or_default();
        log.entries.clear();
        log.base = (index, term);
    }

    /// A member appends entries, overwriting what is there from the first of them on.
    pub fn appends(&mut self, slot: Slot, entries: &[Entry]) -> Result<(), Violation> {
        let log = self.members.entry(slot).or_default();
        for entry in entries {
            ensure!(
                entry.index > log.base.0 && entry.index <= log.last() + 1,
                NAME,
                "member {slot} appends entry {} to a log of {} to {}",
                entry.index,
                log.base.0,
                log.last()
            );
            log.entries.split_off(&entry.index);
            let before = log.term_at(entry.index - 1);
            ensure!(
                before.is_none_or(|before| before <= entry.term),
                NAME,
                "member {slot}: term {} at {} follows term {before:?}",
                entry.term,
                entry.index
            );
            let logged = Logged::of(entry);
            let place = (entry.index, entry.term);
            let known = self.known.entry(place).or_insert((logged.clone(), before));
            ensure!(
                known.0 == logged,
                NAME,
                "two entries at index {} of term {}, one at member {slot}",
                entry.index,
                entry.term
            );
            ensure!(
                known.1.is_none() || before.is_none() || known.1 == before,
                NAME,
                "entry {} of term {} follows term {:?}, and {before:?} at member {slot}",
                entry.index,
                entry.term,
                known.1
            );
            known.1 = known.1.or(before);
            log.entries.insert(entry.index, (logged, entry.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64, data: &'static str) -> Entry {
        Entry {
            index,
            term,
            kind: EntryKind::Normal,
            data: data.into(),
        }
    }

    #[test]
    fn equal_places_hold_equal_entries() {
        let mut logs = Logs::default();
        logs.appends(0, &[entry(1, 1, "a"), entry(2, 1, "b")])
            .unwrap();
        logs.appends(1, &[entry(1, 1, "a"), entry(2, 2, "c")])
            .unwrap();
        logs.appends(0, &[entry(2, 2, "c")]).unwrap();
        assert!(logs.appends(2, &[entry(1, 1, "x")]).is_err());
        // Its last entry is known, the one before it is of another term.
        logs.appends(3, &[entry(1, 2, "z")]).unwrap();
        assert!(logs.appends(3, &[entry(2, 2, "c")]).is_err());
    }
}
