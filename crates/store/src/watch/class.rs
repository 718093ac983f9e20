//! What a watcher wants, and which watchers want the same.
//!
//! Watchers that want the same events form a class; events are matched and encoded once a class.
//! Classes of one key are found by a hash of it, those of a range by an interval tree that is
//! rebuilt when ranges came or went since it was last asked.

use crate::index::KeyRange;
use std::collections::HashMap;

/// What a watcher wants to be told of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// The key, or the first of a range.
    pub start: Vec<u8>,
    /// The keys.
    pub keys: WatchedKeys,
    /// Whether puts are left out.
    pub no_put: bool,
    /// Whether deletions are left out.
    pub no_delete: bool,
    /// Whether the key-value before is told as well.
    pub prev_kv: bool,
}

/// One key, or a range of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchedKeys {
    /// The start alone.
    One,
    /// From the start on, below this.
    Below(Vec<u8>),
    /// From the start on.
    All,
}

impl Class {
    /// Whether it wants to be told of this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        match &self.keys {
            WatchedKeys::One => self.start == key,
            WatchedKeys::Below(end) => KeyRange {
                start: &self.start,
                end: Some(end),
            }
            .contains(key),
            WatchedKeys::All => *self.start <= *key,
        }
    }

    /// Whether it wants to be told of this kind of change.
    pub fn wants(&self, tombstone: bool) -> bool {
        if tombstone {
            !self.no_delete
        } else {
            !self.no_put
        }
    }
}

/// An index of classes by the keys they want.
#[derive(Default)]
pub struct Matcher {
    by_key: HashMap<Vec<u8>, Vec<usize>>,
    ranges: Vec<Interval>,
    sorted: bool,
}

struct Interval {
    start: Vec<u8>,
    /// `None`: no end.
    end: Option<Vec<u8>>,
    class: usize,
    /// Whether the subtree that this element is the middle of reaches beyond all ends, or the
    /// largest end in it.
    reach: Option<Vec<u8>>,
}

impl Matcher {
    /// Takes in a class under a number of the caller's.
    pub fn insert(&mut self, id: usize, class: &Class) {
        let end = match &class.keys {
            WatchedKeys::One => {
                self.by_key.entry(class.start.clone()).or_default().push(id);
                return;
            }
            WatchedKeys::Below(end) => Some(end.clone()),
            WatchedKeys::All => None,
        };
        self.ranges.push(Interval {
            start: class.start.clone(),
            end,
            class: id,
            reach: None,
        });
        self.sorted = false;
    }

    /// Takes it out.
    pub fn remove(&mut self, id: usize, class: &Class) {
        if class.keys != WatchedKeys::One {
            self.ranges.retain(|interval| interval.class != id);
            self.sorted = false;
        } else if let Some(ids) = self.by_key.get_mut(&class.start) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_key.remove(&class.start);
            }
        }
    }

    /// Calls `hit` with each class that wants `key`.
    pub fn matching(&mut self, key: &[u8], mut hit: impl FnMut(usize)) {
        if let Some(ids) = self.by_key.get(key) {
            ids.iter().for_each(|id| hit(*id));
        }
        if self.ranges.is_empty() {
            return;
        }
        if !self.sorted {
            self.ranges.sort_by(|a, b| a.start.cmp(&b.start));
            set_reach(&mut self.ranges);
            self.sorted = true;
        }
        stab(&self.ranges, key, &mut hit);
    }
}

/// The later of two ends, `None` being beyond all.
fn later(a: Option<&Vec<u8>>, b: Option<&Vec<u8>>) -> Option<Vec<u8>> {
    Some(a?.max(b?).clone())
}

fn set_reach(intervals: &mut [Interval]) {
    if intervals.is_empty() {
        return;
    }
    let middle = intervals.len() / 2;
    let (left, rest) = intervals.split_at_mut(middle);
    let (here, right) = rest.split_first_mut().expect("the middle is within");
    here.reach = here.end.clone();
    for side in [left, right] {
        set_reach(side);
        if let Some(top) = side.get(side.len() / 2) {
            here.reach = later(here.reach.as_ref(), top.reach.as_ref());
        }
    }
}

fn stab(intervals: &[Interval], key: &[u8], hit: &mut impl FnMut(usize)) {
    let Some(here) = intervals.get(intervals.len() / 2) else {
        return;
    };
    let middle = intervals.len() / 2;
    if here.reach.as_ref().is_some_and(|reach| **reach <= *key) {
        return;
    }
    stab(&intervals[..middle], key, hit);
    if *here.start <= *key {
        if here.end.as_ref().is_none_or(|end| *key < **end) {
            hit(here.class);
        }
        stab(&intervals[middle + 1..], key, hit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_disk::faulty::Random;

    #[test]
    fn finds_what_a_walk_over_all_classes_finds() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut key = |spread: u64| random.below(spread).to_string().into_bytes();
            let mut classes: Vec<Option<Class>> = Vec::new();
            let mut matcher = Matcher::default();
            for step in 0..400 {
                let (start, end) = (key(200), key(200));
                let keys = match step % 3 {
                    0 => WatchedKeys::One,
                    1 => WatchedKeys::Below(end),
                    _ if step % 5 == 0 => WatchedKeys::All,
                    _ => WatchedKeys::Below([&start[..], b"5"].concat()),
                };
                let class = Class {
                    start,
                    keys,
                    no_put: false,
                    no_delete: false,
                    prev_kv: false,
                };
                matcher.insert(classes.len(), &class);
                classes.push(Some(class));
                if step % 4 == 0 {
                    let id = step / 2;
                    if let Some(class) = classes[id].take() {
                        matcher.remove(id, &class);
                    }
                }
                let probe = key(250);
                let mut got = Vec::new();
                matcher.matching(&probe, |id| got.push(id));
                got.sort_unstable();
                let want: Vec<usize> = (0..classes.len())
                    .filter(|id| classes[*id].as_ref().is_some_and(|c| c.contains(&probe)))
                    .collect();
                assert_eq!(got, want);
            }
        }
    }
}
