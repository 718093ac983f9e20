//! The older revisions of one key: an append-only list that all roots share.
//!
//! Invariants:
//! - Revisions ascend, along a chunk and from a chunk's `older` to it.
//! - A slot is written once, before `len` is raised over it (release/acquire), and never again. A
//!   reader on an old root may see revisions newer than its own; it stops at its own.
//! - Only the owner of the newest root appends. Compaction makes a new list and leaves the old one
//!   to the roots that hold it.

use crate::revision::Revision;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

const FIRST_CHUNK: usize = 2;
const LARGEST_CHUNK: usize = 512;

/// A revision and whether it is a deletion, as the index keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where it stands.
    pub revision: Revision,
    /// Whether the key was deleted here.
    pub tombstone: bool,
}

#[derive(Default)]
struct Slot {
    main: AtomicI64,
    /// sub << 1 | tombstone
    sub_and_tombstone: AtomicU32,
}

/// The newest chunk of a key's older revisions.
pub struct History {
    len: AtomicU32,
    slots: Box<[Slot]>,
    older: Option<Arc<History>>,
}

impl History {
    fn with_capacity(capacity: usize, older: Option<Arc<History>>) -> History {
        History {
            len: AtomicU32::new(0),
            slots: (0..capacity).map(|_| Slot::default()).collect(),
            older,
        }
    }

    /// Appends to a list that may be empty; afterwards `list` holds `point` last.
    pub fn push(list: &mut Option<Arc<History>>, point: Point) {
        let full = match list {
            Some(chunk) => !chunk.try_push(point),
            None => true,
        };
        if full {
            let capacity = match list {
                Some(chunk) => (chunk.slots.len() * 2).min(LARGEST_CHUNK),
                None => FIRST_CHUNK,
            };
            let chunk = History::with_capacity(capacity, list.take());
            assert!(chunk.try_push(point), "a new chunk has room");
            *list = Some(Arc::new(chunk));
        }
    }

    fn try_push(&self, point: Point) -> bool {
        let len = self.len.load(Ordering::Relaxed) as usize;
        let Some(slot) = self.slots.get(len) else {
            return false;
        };
        if let Some(last) = self.last() {
            assert!(
                last.revision < point.revision,
                "history runs forward: {last:?} then {point:?}"
            );
        }
        slot.main.store(point.revision.main, Ordering::Relaxed);
        slot.sub_and_tombstone.store(
            point.revision.sub << 1 | u32::from(point.tombstone),
            Ordering::Relaxed,
        );
        self.len.store(len as u32 + 1, Ordering::Release);
        true
    }

    fn filled(&self) -> &[Slot] {
        &self.slots[..self.len.load(Ordering::Acquire) as usize]
    }

    fn last(&self) -> Option<Point> {
        match self.filled().last() {
            Some(slot) => Some(slot.point()),
            None => self.older.as_ref().and_then(|older| older.last()),
        }
    }

    /// The newest revision with main ≤ `main`.
    pub fn at(&self, main: i64) -> Option<Point> {
        let mut chunk = self;
        loop {
            let filled = chunk.filled();
            let after = filled.partition_point(|s| s.main.load(Ordering::Relaxed) <= main);
            if after > 0 {
                return Some(filled[after - 1].point());
            }
            chunk = chunk.older.as_deref()?;
        }
    }

    /// Calls `visit` with each revision, newest first, until it says false.
    pub fn newest_first(&self, mut visit: impl FnMut(Point) -> bool) {
        let mut chunk = Some(self);
        while let Some(here) = chunk {
            for slot in here.filled().iter().rev() {
                if !visit(slot.point()) {
                    return;
                }
            }
            chunk = here.older.as_deref();
        }
    }

    /// Bytes on the heap, about.
    pub fn heap_bytes(&self) -> usize {
        let mut bytes = 0;
        let mut chunk = Some(self);
        while let Some(here) = chunk {
            bytes += size_of::<History>() + 16 + here.slots.len() * size_of::<Slot>();
            chunk = here.older.as_deref();
        }
        bytes
    }
}

impl Slot {
    fn point(&self) -> Point {
        let packed = self.sub_and_tombstone.load(Ordering::Relaxed);
        Point {
            revision: Revision::new(self.main.load(Ordering::Relaxed), packed >> 1),
            tombstone: packed & 1 == 1,
        }
    }
}

impl Drop for History {
    /// Drops the chain in a loop: a recursive drop would overflow the stack on a long history.
    fn drop(&mut self) {
        let mut older = self.older.take();
        while let Some(chunk) = older {
            match Arc::try_unwrap(chunk) {
                Ok(mut alone) => older = alone.older.take(),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(main: i64) -> Point {
        Point {
            revision: Revision::new(main, 0),
            tombstone: main % 5 == 0,
        }
    }

    #[test]
    fn finds_the_newest_not_after() {
        let mut list = None;
        for main in (10..20_000).step_by(10) {
            History::push(&mut list, point(main));
        }
        let list = list.unwrap();
        assert_eq!(list.at(9), None);
        for main in 10..20_000 {
            assert_eq!(list.at(main), Some(point(main / 10 * 10)));
        }
    }

    #[test]
    fn an_old_handle_stays_good_while_others_append() {
        let mut list = None;
        History::push(&mut list, point(1));
        let old = list.clone().unwrap();
        for main in 2..100 {
            History::push(&mut list, point(main));
        }
        assert_eq!(old.at(1), Some(point(1)));
        let mut seen = Vec::new();
        list.unwrap().newest_first(|p| {
            seen.push(p.revision.main);
            true
        });
        assert_eq!(seen, (1..100).rev().collect::<Vec<_>>());
    }

    #[test]
    #[should_panic(expected = "history runs forward")]
    fn going_back_is_a_broken_invariant() {
        let mut list = None;
        History::push(&mut list, point(5));
        History::push(&mut list, point(4));
    }

    #[test]
    fn a_long_chain_drops_without_recursion() {
        let mut list = None;
        for main in 1..2_000_000 {
            History::push(&mut list, point(main));
        }
        drop(list);
    }
}
