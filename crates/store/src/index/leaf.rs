//! A leaf: keys inline, side by side, and an entry for each.
//!
//! Invariants: keys strictly ascend; `entries[i].key_end` is where key `i` ends in `keys`, and key
//! `i + 1` begins; the newest revision of an entry is newer than all of its history.

use super::history::{History, Point};
use crate::revision::Revision;
use std::sync::Arc;

/// Most entries of a leaf.
pub const LEAF_ENTRIES: usize = 64;

/// What the index knows of a key.
#[derive(Clone)]
pub struct Entry {
    main: i64,
    create: i64,
    version: i64,
    history: Option<Arc<History>>,
    sub_and_tombstone: u32,
    key_end: u32,
}

impl Entry {
    fn new(newest: Point, create: i64, version: i64) -> Entry {
        Entry {
            main: newest.revision.main,
            create,
            version,
            history: None,
            sub_and_tombstone: newest.revision.sub << 1 | u32::from(newest.tombstone),
            key_end: 0,
        }
    }

    /// An entry of a key's first put at `revision`.
    pub fn first(revision: Revision) -> Entry {
        Entry::new(
            Point {
                revision,
                tombstone: false,
            },
            revision.main,
            1,
        )
    }

    /// An entry whose older revisions are not known (compacted away before the store was opened).
    pub fn restored(newest: Point, create: i64, version: i64) -> Entry {
        Entry::new(newest, create, version)
    }

    /// The newest revision.
    pub fn newest(&self) -> Point {
        Point {
            revision: Revision::new(self.main, self.sub_and_tombstone >> 1),
            tombstone: self.sub_and_tombstone & 1 == 1,
        }
    }

    /// Whether the key exists as of its newest revision.
    pub fn is_live(&self) -> bool {
        self.sub_and_tombstone & 1 == 0
    }

    /// Main revision of the put that made the key (as of the newest revision).
    pub fn create(&self) -> i64 {
        self.create
    }

    /// Puts since it was made, that one included (as of the newest revision).
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The newest revision with main ≤ `main`, where it is a put.
    pub fn live_at(&self, main: i64) -> Option<Revision> {
        self.at(main)
            .filter(|point| !point.tombstone)
            .map(|point| point.revision)
    }

    /// The newest revision with main ≤ `main`.
    pub fn at(&self, main: i64) -> Option<Point> {
        if self.main <= main {
            return Some(self.newest());
        }
        self.history.as_ref()?.at(main)
    }

    /// The revisions with main ≥ `main`, newest first.
    pub fn points_from(&self, main: i64) -> Vec<Point> {
        let mut points = Vec::new();
        if self.main >= main {
            let newest = self.newest();
            points.push(newest);
            if let Some(history) = &self.history {
                history.newest_first(|point| {
                    let wanted = point.revision.main >= main;
                    // The list is shared with newer roots, which append this entry's newest, and
                    // what came after it.
                    if wanted && point.revision < newest.revision {
                        points.push(point);
                    }
                    wanted
                });
            }
        }
        points
    }

    /// Records a later put.
    pub fn put(&mut self, revision: Revision) {
        let (create, version) = if self.is_live() {
            (self.create, self.version + 1)
        } else {
            (revision.main, 1)
        };
        self.advance(Point {
            revision,
            tombstone: false,
        });
        self.create = create;
        self.version = version;
    }

    /// Records a later deletion.
    pub fn delete(&mut self, revision: Revision) {
        self.advance(Point {
            revision,
            tombstone: true,
        });
        self.create = 0;
        self.version = 0;
    }

    fn advance(&mut self, point: Point) {
        let newest = self.newest();
        assert!(
            newest.revision < point.revision,
            "index runs forward: {newest:?} then {point:?}"
        );
        History::push(&mut self.history, newest);
        self.main = point.revision.main;
        self.sub_and_tombstone = point.revision.sub << 1 | u32::from(point.tombstone);
    }

    /// Forgets what a compaction at `main` removes. Whether anything is left: an entry whose newest
    /// revision is a deletion below `main` goes. (A deletion exactly at `main` stays until the
    /// next compaction, so that watchers from there still see it.)
    pub fn compact(&mut self, main: i64) -> bool {
        let newest = self.newest();
        if newest.tombstone && newest.revision.main < main {
            return false;
        }
        let Some(history) = &self.history else {
            return true;
        };
        let mut kept = Vec::new();
        // Whether the revision that is in force at `main` was met, from the newest down.
        let mut covered = newest.revision.main <= main;
        history.newest_first(|point| {
            let in_force = point.revision.main <= main && !covered;
            covered |= in_force;
            if point.revision.main > main || is_kept(point, in_force, main) {
                kept.push(point);
            }
            point.revision.main >= main
        });
        let mut list = None;
        for point in kept.into_iter().rev() {
            History::push(&mut list, point);
        }
        self.history = list;
        true
    }

    /// Whether a compaction at `main` keeps this revision of the key. False for one that the key
    /// never had.
    pub fn keeps(&self, revision: Revision, main: i64) -> bool {
        if revision.main > main {
            return true;
        }
        let Some(in_force) = self.at(main) else {
            return false;
        };
        if in_force.revision == revision {
            return is_kept(in_force, true, main);
        }
        // A deletion at `main` with a put behind it in the same transaction.
        revision.main == main && revision < in_force.revision && self.is_tombstone(revision)
    }

    fn is_tombstone(&self, revision: Revision) -> bool {
        let mut answer = false;
        if let Some(history) = &self.history {
            history.newest_first(|point| {
                if point.revision == revision {
                    answer = point.tombstone;
                }
                point.revision > revision
            });
        }
        answer
    }

    fn heap_bytes(&self) -> usize {
        self.history
            .as_ref()
            .map_or(0, |history| history.heap_bytes())
    }
}

fn is_kept(point: Point, in_force: bool, main: i64) -> bool {
    if point.tombstone {
        point.revision.main == main
    } else {
        in_force
    }
}

/// A node at the bottom.
#[derive(Clone, Default)]
pub struct Leaf {
    keys: Vec<u8>,
    entries: Vec<Entry>,
}

impl Leaf {
    /// Number of entries, live or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of live entries.
    pub fn live(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.is_live()).count() as u64
    }

    /// Key `i`.
    pub fn key(&self, i: usize) -> &[u8] {
        &self.keys[self.key_start(i)..self.entries[i].key_end as usize]
    }

    fn key_start(&self, i: usize) -> usize {
        if i == 0 {
            0
        } else {
            self.entries[i - 1].key_end as usize
        }
    }

    /// Entry `i`.
    pub fn entry(&self, i: usize) -> &Entry {
        &self.entries[i]
    }

    /// Entry `i`, to change.
    pub fn entry_mut(&mut self, i: usize) -> &mut Entry {
        &mut self.entries[i]
    }

    /// Where `key` is, or would be.
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Puts an entry at `i`, where [`Leaf::search`] said it belongs.
    pub fn insert(&mut self, i: usize, key: &[u8], mut entry: Entry) {
        let start = self.key_start(i);
        let grown = u32::try_from(self.keys.len() + key.len()).expect("a leaf's keys fit 4 GiB");
        self.keys.reserve_exact(if i == self.len() {
            key.len() * 8
        } else {
            key.len()
        });
        self.keys.splice(start..start, key.iter().copied());
        debug_assert_eq!(grown as usize, self.keys.len());
        for later in &mut self.entries[i..] {
            later.key_end += key.len() as u32;
        }
        entry.key_end = (start + key.len()) as u32;
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(8);
        }
        self.entries.insert(i, entry);
    }

    /// Takes entry `i` out.
    pub fn remove(&mut self, i: usize) {
        let (start, end) = (self.key_start(i), self.entries[i].key_end as usize);
        self.keys.drain(start..end);
        self.entries.remove(i);
        for later in &mut self.entries[i..] {
            later.key_end -= (end - start) as u32;
        }
    }

    /// Cuts off entries `at..` as a leaf of its own.
    pub fn split_off(&mut self, at: usize) -> Leaf {
        let start = self.key_start(at);
        let keys = self.keys[start..].to_vec();
        self.keys.truncate(start);
        self.keys.shrink_to_fit();
        let mut entries = self.entries.split_off(at);
        self.entries.shrink_to_fit();
        for entry in &mut entries {
            entry.key_end -= start as u32;
        }
        Leaf { keys, entries }
    }

    /// Takes over all of `right`, whose keys are all larger.
    pub fn append(&mut self, right: &Leaf) {
        let shift = self.keys.len() as u32;
        self.keys.extend_from_slice(&right.keys);
        self.entries.extend(right.entries.iter().map(|entry| Entry {
            key_end: entry.key_end + shift,
            ..entry.clone()
        }));
    }

    /// Gives back what was reserved beyond need.
    pub fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    /// Bytes on the heap, about.
    pub fn heap_bytes(&self) -> usize {
        self.keys.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.entries.iter().map(Entry::heap_bytes).sum::<usize>()
    }
}
