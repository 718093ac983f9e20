//! The rows of bucket `key`: that history makes sense.
//!
//! Of a key's rows, compaction removes the oldest ones only, so those that are left follow each
//! other. Above the revision of the last compaction nothing is missing: revisions count up by one,
//! changes within one from 0, and a key begins with its first version.

use quorate_go::quote::quote;
use quorate_store::keyvalue::KeyValueRef;
use quorate_store::revision::{Revision, RowKey};
use std::collections::{BTreeSet, HashMap};

/// Findings that are kept.
const WRONG_MAX: usize = 1000;

/// The newest row of a key so far.
#[derive(Clone, Copy)]
struct Newest {
    create: i64,
    version: i64,
    lease: i64,
    tombstone: bool,
}

/// Takes rows in the order of history.
pub struct Rows {
    /// Highest revision that a compaction was ordered for.
    compacted: i64,
    leases: BTreeSet<i64>,
    keys: HashMap<Box<[u8]>, Newest>,
    before: Option<Revision>,
    found: Found,
}

/// What was found.
#[derive(Default)]
pub struct Found {
    pub rows: u64,
    /// Keys that are not deleted.
    pub keys: u64,
    /// The newest revision; 0 without rows.
    pub revision: i64,
    pub wrong: Vec<String>,
    pub more_wrong: u64,
    pub notes: Vec<String>,
}

impl Rows {
    /// `compacted`: highest revision that a compaction was ordered for, 0 for none.
    pub fn new(compacted: i64, leases: BTreeSet<i64>) -> Rows {
        Rows {
            compacted,
            leases,
            keys: HashMap::new(),
            before: None,
            found: Found::default(),
        }
    }

    fn wrong(&mut self, what: String) {
        if self.found.wrong.len() == WRONG_MAX {
            self.found.more_wrong += 1;
        } else {
            self.found.wrong.push(what);
        }
    }

    /// Takes the next row.
    pub fn take(&mut self, key: &[u8], value: &[u8]) {
        self.found.rows += 1;
        let row = match RowKey::decode(key) {
            Ok(row) => row,
            Err(error) => return self.wrong(error.to_string()),
        };
        let at = format!(
            "revision {}.{}{}",
            row.revision.main,
            row.revision.sub,
            if row.tombstone { " (deletion)" } else { "" }
        );
        self.order(row.revision, &at);
        self.found.revision = row.revision.main;
        if value.is_empty() && !row.tombstone {
            // A restore with a raised revision writes such a row.
            let note = format!("{at}: a row without a key, which raises the revision");
            return self.found.notes.push(note);
        }
        let Some(kv) = KeyValueRef::decode(value) else {
            return self.wrong(format!("{at}: the value is no KeyValue"));
        };
        if let Some(what) = alone(row, &kv) {
            return self.wrong(format!("{at}, key {}: {what}", quote(kv.key)));
        }
        let newest = Newest {
            create: kv.create_revision,
            version: kv.version,
            lease: kv.lease,
            tombstone: row.tombstone,
        };
        let before = match self.keys.get_mut(kv.key) {
            Some(known) => Some(std::mem::replace(known, newest)),
            None => self.keys.insert(kv.key.into(), newest),
        };
        let complete = row.revision.main > self.compacted;
        if let Some(what) = follows(before, newest, complete) {
            self.wrong(format!("{at}, key {}: {what}", quote(kv.key)));
        }
    }

    /// Checks that no revision above the compaction is missing.
    fn order(&mut self, revision: Revision, at: &str) {
        let before = self.before.replace(revision);
        if revision.main <= self.compacted {
            return;
        }
        // The revision of an empty store is 1.
        let known = before
            .map_or(1, |before| before.main)
            .max(self.compacted)
            .max(1);
        let next = match before {
            Some(before) if before.main == revision.main => {
                revision.sub == before.sub.saturating_add(1)
            }
            _ => revision.sub == 0 && revision.main == known.saturating_add(1),
        };
        if !next {
            self.wrong(match before {
                Some(before) => format!(
                    "{at} does not follow {}.{}: rows are missing",
                    before.main.max(self.compacted),
                    before.sub
                ),
                None => format!("{at} is the first one: rows before it are missing"),
            });
        }
    }

    /// What was found in all rows.
    pub fn finish(mut self) -> Found {
        let live = self.keys.values().filter(|newest| !newest.tombstone);
        self.found.keys = live.clone().count() as u64;
        let lost = live.filter(|newest| newest.lease != 0 && !self.leases.contains(&newest.lease));
        let lost = lost.count();
        if lost > 0 {
            let note = format!("{lost} keys hang on leases that are not there");
            self.found.notes.push(note);
        }
        self.found
    }
}

/// What is wrong with a row by itself.
fn alone(row: RowKey, kv: &KeyValueRef<'_>) -> Option<&'static str> {
    if kv.key.is_empty() {
        return Some("the key is empty");
    }
    if row.tombstone {
        let bare = kv.create_revision == 0
            && kv.mod_revision == 0
            && kv.version == 0
            && kv.lease == 0
            && kv.value.is_empty();
        return (!bare).then_some("a deletion that holds more than a key");
    }
    if kv.mod_revision != row.revision.main {
        return Some("it says it is of another revision");
    }
    let first = kv.version == 1;
    let possible = kv.create_revision >= 1
        && kv.version >= 1
        && first == (kv.create_revision == kv.mod_revision)
        && kv.version - 1 <= kv.mod_revision - kv.create_revision;
    (!possible).then_some("its version and the revision of its creation contradict each other")
}

/// What is wrong with a row after the one before of the same key. `complete`: whether compaction left
/// all rows before it that it follows.
fn follows(before: Option<Newest>, newest: Newest, complete: bool) -> Option<&'static str> {
    match (before, newest.tombstone) {
        (None, true) if complete => Some("deleted, and never put"),
        (None, false) if complete && newest.version != 1 => {
            Some("the first row of the key, and not its first version: rows are missing")
        }
        (None, _) => None,
        (Some(before), true) if before.tombstone => Some("deleted twice"),
        (Some(_), true) => None,
        (Some(before), false) if before.tombstone => {
            (newest.version != 1).then_some("put after its deletion, and not as a first version")
        }
        (Some(before), false) => {
            let next = newest.create == before.create && newest.version == before.version + 1;
            (!next).then_some("does not follow the version before")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(main: i64, sub: u32, key: &str, create: i64, version: i64) -> (Vec<u8>, Vec<u8>) {
        let mut value = Vec::new();
        KeyValueRef {
            key: key.as_bytes(),
            create_revision: create,
            mod_revision: main,
            version,
            value: b"v",
            lease: 0,
        }
        .encode(&mut value);
        (row(main, sub, false), value)
    }

    fn delete(main: i64, sub: u32, key: &str) -> (Vec<u8>, Vec<u8>) {
        let mut value = Vec::new();
        KeyValueRef {
            key: key.as_bytes(),
            ..KeyValueRef::default()
        }
        .encode(&mut value);
        (row(main, sub, true), value)
    }

    fn row(main: i64, sub: u32, tombstone: bool) -> Vec<u8> {
        let revision = Revision::new(main, sub);
        let row = RowKey {
            revision,
            tombstone,
        };
        row.encode().to_vec()
    }

    fn check(compacted: i64, rows: &[(Vec<u8>, Vec<u8>)]) -> Found {
        let mut all = Rows::new(compacted, BTreeSet::new());
        for (key, value) in rows {
            all.take(key, value);
        }
        all.finish()
    }

    #[test]
    fn history_without_gaps_is_whole() {
        let found = check(
            0,
            &[
                put(2, 0, "a", 2, 1),
                put(3, 0, "a", 2, 2),
                put(3, 1, "b", 3, 1),
                delete(4, 0, "a"),
                put(5, 0, "a", 5, 1),
            ],
        );
        assert_eq!(found.wrong, Vec::<String>::new());
        assert_eq!((found.rows, found.keys, found.revision), (5, 2, 5));
    }

    #[test]
    fn what_compaction_took_is_not_missing() {
        let rows = [
            put(7, 0, "a", 2, 4),
            delete(9, 0, "b"),
            put(10, 0, "a", 2, 5),
        ];
        assert!(check(9, &rows).wrong.is_empty());
        // Without the compaction: a begins late, b was never put, and revisions are missing.
        assert_eq!(check(0, &rows).wrong.len(), 4);
    }

    #[test]
    fn what_contradicts_is_found() {
        for rows in [
            vec![put(2, 0, "a", 2, 1), put(4, 0, "a", 2, 2)],
            vec![put(2, 0, "a", 2, 1), put(3, 0, "a", 2, 3)],
            vec![put(2, 0, "a", 2, 1), put(2, 2, "b", 2, 1)],
            vec![put(2, 0, "a", 2, 1), delete(3, 0, "a"), delete(4, 0, "a")],
            vec![
                put(2, 0, "a", 2, 1),
                delete(3, 0, "a"),
                put(4, 0, "a", 2, 2),
            ],
            vec![put(2, 0, "", 2, 1)],
            vec![(row(2, 0, false), put(3, 0, "a", 2, 2).1)],
            vec![(row(2, 0, false), b"\xff".to_vec())],
            vec![(b"x".to_vec(), vec![])],
        ] {
            assert!(!check(0, &rows).wrong.is_empty(), "{rows:?}");
        }
    }

    #[test]
    fn a_raised_revision_is_noted() {
        let found = check(1000, &[put(2, 0, "a", 2, 1), (row(1000, 0, false), vec![])]);
        assert!(found.wrong.is_empty());
        assert_eq!(found.notes.len(), 1);
        assert_eq!(found.revision, 1000);
    }
}
