//! The key index: a persistent, counted B+tree from keys to revisions.
//!
//! One writer changes it in place where a node is its own, and copies the node where a root that
//! was handed out shares it ([`Index::root`]); readers walk the root they hold without a lock. Each
//! inner node keeps the number of live keys (at the newest revision) below each child, so counting
//! a range costs two descents.
//!
//! Any root answers any kept revision: [`Entry::live_at`] stops at the asked one. Only a *count* at
//! an old revision needs a root of that time, or a walk.
//!
//! Invariants: keys ascend; `separators[i]` ≤ every key of `children[i + 1]`, and > every key of
//! `children[i]`; `live[i]` is the number of live entries below `children[i]`; no node but the root
//! is empty.

mod history;
mod leaf;

pub use history::Point;
pub use leaf::Entry;

use crate::revision::Revision;
use leaf::{LEAF_ENTRIES, Leaf};
use std::ops::ControlFlow;
use std::sync::Arc;

const FANOUT: usize = 64;

#[derive(Clone)]
enum Node {
    Leaf(Leaf),
    Inner(Inner),
}

#[derive(Clone)]
struct Inner {
    separators: Vec<Box<[u8]>>,
    children: Vec<Arc<Node>>,
    live: Vec<u64>,
}

/// A range of keys: from `start` on, and below `end` where there is one.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'a> {
    /// First key, inclusive.
    pub start: &'a [u8],
    /// End, exclusive; `None`: no end.
    pub end: Option<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Whether `key` lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start <= key && self.end.is_none_or(|end| key < end)
    }
}

/// The writer's side.
pub struct Index {
    root: Arc<Node>,
    live: u64,
    entries: u64,
}

/// An immutable index as of when it was taken.
#[derive(Clone)]
pub struct Root {
    root: Arc<Node>,
    live: u64,
    entries: u64,
}

/// What a put or a deletion changed about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Main revision at which the key was made (0 after a deletion).
    pub create: i64,
    /// Puts since then (0 after a deletion).
    pub version: i64,
    /// Whether the key existed before.
    pub existed: bool,
}

struct Split {
    separator: Box<[u8]>,
    right: Arc<Node>,
    right_live: u64,
}

impl Default for Index {
    fn default() -> Index {
        Index::new()
    }
}

impl Index {
    /// An empty index.
    pub fn new() -> Index {
        Index {
            root: Arc::new(Node::Leaf(Leaf::default())),
            live: 0,
            entries: 0,
        }
    }

    /// Builds an index from keys that strictly ascend.
    pub fn from_sorted<'k>(entries: impl Iterator<Item = (&'k [u8], Entry)>) -> Index {
        let (mut leaves, mut leaf) = (Vec::new(), Leaf::default());
        let (mut live, mut count) = (0, 0);
        for (key, entry) in entries {
            if leaf.len() == LEAF_ENTRIES {
                leaves.push(std::mem::take(&mut leaf));
            }
            if let Some(last) = leaf.len().checked_sub(1) {
                assert!(leaf.key(last) < key, "keys ascend");
            }
            live += u64::from(entry.is_live());
            count += 1;
            leaf.insert(leaf.len(), key, entry);
        }
        if leaf.len() > 0 {
            leaves.push(leaf);
        }
        // (smallest key, live keys, node), level by level.
        let mut level: Vec<(Box<[u8]>, u64, Arc<Node>)> = leaves
            .into_iter()
            .map(|mut leaf| {
                leaf.shrink();
                (leaf.key(0).into(), leaf.live(), Arc::new(Node::Leaf(leaf)))
            })
            .collect();
        while level.len() > 1 {
            let mut above = Vec::with_capacity(level.len() / FANOUT + 1);
            let mut rest = level.into_iter().peekable();
            while rest.peek().is_some() {
                let group: Vec<_> = rest.by_ref().take(FANOUT).collect();
                let mut inner = Inner {
                    separators: Vec::new(),
                    children: Vec::new(),
                    live: Vec::new(),
                };
                let mut smallest = None;
                for (key, live, node) in group {
                    match smallest {
                        None => smallest = Some(key),
                        Some(_) => inner.separators.push(key),
                    }
                    inner.children.push(node);
                    inner.live.push(live);
                }
                let live = inner.live.iter().sum();
                let smallest = smallest.expect("a group has a member");
                above.push((smallest, live, Arc::new(Node::Inner(inner))));
            }
            level = above;
        }
        match level.pop() {
            Some((_, _, root)) => Index {
                root,
                live,
                entries: count,
            },
            None => Index::new(),
        }
    }

    /// The index as it is now; later changes do not touch it.
    pub fn root(&self) -> Root {
        Root {
            root: self.root.clone(),
            live: self.live,
            entries: self.entries,
        }
    }

    /// Number of keys, deleted ones that are not compacted included.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Records a put. `revision` must be newer than all of this key.
    pub fn put(&mut self, key: &[u8], revision: Revision) -> Changed {
        self.change(key, |entry| match entry {
            Some(entry) => {
                let existed = entry.is_live();
                entry.put(revision);
                let changed = Changed {
                    create: entry.create(),
                    version: entry.version(),
                    existed,
                };
                (None, changed, i64::from(!existed))
            }
            None => {
                let changed = Changed {
                    create: revision.main,
                    version: 1,
                    existed: false,
                };
                (Some(Entry::first(revision)), changed, 1)
            }
        })
    }

    /// Records the deletion of a key that exists.
    pub fn delete(&mut self, key: &[u8], revision: Revision) {
        self.change(key, |entry| {
            let entry = entry.expect("only a key that exists is deleted");
            assert!(entry.is_live(), "only a key that exists is deleted");
            entry.delete(revision);
            (None, (), -1)
        });
    }

    /// Takes in a row read from the `key` bucket; rows come in the order of history.
    pub fn restore(&mut self, key: &[u8], point: Point, create: i64, version: i64) {
        self.change(key, |entry| match entry {
            Some(entry) => {
                let was = entry.is_live();
                if point.tombstone {
                    entry.delete(point.revision);
                } else {
                    entry.put(point.revision);
                }
                (None, (), i64::from(entry.is_live()) - i64::from(was))
            }
            None => {
                let entry = Entry::restored(point, create, version);
                let live = i64::from(entry.is_live());
                (Some(entry), (), live)
            }
        });
    }

    /// Forgets what a compaction at `main` removes of this key; the entry goes with its last
    /// revision.
    pub fn compact(&mut self, key: &[u8], main: i64) {
        let mut path_empty = false;
        if !remove_or_compact(&mut self.root, key, main, &mut path_empty) {
            return;
        }
        self.entries -= 1;
        // The root loses height when a single child is left, and becomes a leaf when none is.
        while let Node::Inner(inner) = &*self.root {
            match inner.children.len() {
                0 => self.root = Arc::new(Node::Leaf(Leaf::default())),
                1 => {
                    let only = inner.children[0].clone();
                    self.root = only;
                }
                _ => break,
            }
        }
    }

    fn change<T>(
        &mut self,
        key: &[u8],
        f: impl FnOnce(Option<&mut Entry>) -> (Option<Entry>, T, i64),
    ) -> T {
        let mut grew = false;
        let (result, delta, split) = change(&mut self.root, key, f, &mut grew);
        self.entries += u64::from(grew);
        self.live = self
            .live
            .checked_add_signed(delta)
            .expect("live keys are counted");
        if let Some(split) = split {
            let left = std::mem::replace(&mut self.root, split.right.clone());
            self.root = Arc::new(Node::Inner(Inner {
                separators: vec![split.separator],
                children: vec![left, split.right],
                live: vec![self.live - split.right_live, split.right_live],
            }));
        }
        result
    }

    /// Gives back what leaves reserved beyond need; for after a bulk load.
    pub fn shrink(&mut self) {
        fn shrink(node: &mut Arc<Node>) {
            match Arc::make_mut(node) {
                Node::Leaf(leaf) => leaf.shrink(),
                Node::Inner(inner) => inner.children.iter_mut().for_each(shrink),
            }
        }
        shrink(&mut self.root);
    }
}

fn change<T>(
    node: &mut Arc<Node>,
    key: &[u8],
    f: impl FnOnce(Option<&mut Entry>) -> (Option<Entry>, T, i64),
    grew: &mut bool,
) -> (T, i64, Option<Split>) {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => match leaf.search(key) {
            Ok(i) => {
                let (fresh, result, delta) = f(Some(leaf.entry_mut(i)));
                assert!(
                    fresh.is_none(),
                    "an entry that is there is changed in place"
                );
                (result, delta, None)
            }
            Err(i) => {
                let (fresh, result, delta) = f(None);
                let Some(entry) = fresh else {
                    return (result, delta, None);
                };
                leaf.insert(i, key, entry);
                *grew = true;
                let split = (leaf.len() > LEAF_ENTRIES).then(|| {
                    // Keys that come in order leave full leaves behind.
                    let at = if i + 1 == leaf.len() {
                        leaf.len() - 1
                    } else {
                        leaf.len() / 2
                    };
                    let right = leaf.split_off(at);
                    Split {
                        separator: right.key(0).into(),
                        right_live: right.live(),
                        right: Arc::new(Node::Leaf(right)),
                    }
                });
                (result, delta, split)
            }
        },
        Node::Inner(inner) => {
            let i = inner.child_of(key);
            let (result, delta, split) = change(&mut inner.children[i], key, f, grew);
            inner.live[i] = inner.live[i]
                .checked_add_signed(delta)
                .expect("live keys are counted");
            let Some(split) = split else {
                return (result, delta, None);
            };
            inner.live[i] -= split.right_live;
            inner.separators.insert(i, split.separator);
            inner.children.insert(i + 1, split.right);
            inner.live.insert(i + 1, split.right_live);
            let last = i + 2 == inner.children.len();
            let split = (inner.children.len() > FANOUT).then(|| inner.split(last));
            (result, delta, split)
        }
    }
}

/// Compacts the key's entry below `node`. Whether it was removed; `empty` tells whether that left
/// the node without content.
fn remove_or_compact(node: &mut Arc<Node>, key: &[u8], main: i64, empty: &mut bool) -> bool {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => {
            let Ok(i) = leaf.search(key) else {
                return false;
            };
            if leaf.entry_mut(i).compact(main) {
                return false;
            }
            leaf.remove(i);
            *empty = leaf.len() == 0;
            true
        }
        Node::Inner(inner) => {
            let i = inner.child_of(key);
            let mut child_empty = false;
            if !remove_or_compact(&mut inner.children[i], key, main, &mut child_empty) {
                return false;
            }
            // A removed entry was dead, so the live counts stand.
            if child_empty {
                inner.children.remove(i);
                inner.live.remove(i);
                if !inner.separators.is_empty() {
                    inner.separators.remove(i.saturating_sub(1));
                }
                *empty = inner.children.is_empty();
            } else {
                inner.merge_around(i);
            }
            true
        }
    }
}

impl Inner {
    fn child_of(&self, key: &[u8]) -> usize {
        self.separators
            .partition_point(|separator| &**separator <= key)
    }

    fn split(&mut self, at_end: bool) -> Split {
        let at = if at_end {
            self.children.len() - 2
        } else {
            self.children.len() / 2
        };
        let right = Inner {
            children: self.children.split_off(at),
            live: self.live.split_off(at),
            separators: self.separators.split_off(at),
        };
        let separator = self.separators.pop().expect("both halves have children");
        Split {
            separator,
            right_live: right.live.iter().sum(),
            right: Arc::new(Node::Inner(right)),
        }
    }

    /// Joins child `i` with a neighbour where both together are well below a full node.
    fn merge_around(&mut self, i: usize) {
        for left in [i.checked_sub(1), Some(i)].into_iter().flatten() {
            if left + 1 >= self.children.len() {
                continue;
            }
            let joined = match (&*self.children[left], &*self.children[left + 1]) {
                (Node::Leaf(a), Node::Leaf(b)) => a.len() + b.len() <= LEAF_ENTRIES / 2,
                (Node::Inner(a), Node::Inner(b)) => {
                    a.children.len() + b.children.len() <= FANOUT / 2
                }
                _ => unreachable!("all leaves are at one depth"),
            };
            if !joined {
                continue;
            }
            let right = self.children.remove(left + 1);
            self.live[left] += self.live.remove(left + 1);
            let separator = self.separators.remove(left);
            match (Arc::make_mut(&mut self.children[left]), &*right) {
                (Node::Leaf(a), Node::Leaf(b)) => a.append(b),
                (Node::Inner(a), Node::Inner(b)) => {
                    a.separators.push(separator);
                    a.separators.extend(b.separators.iter().cloned());
                    a.children.extend(b.children.iter().cloned());
                    a.live.extend(&b.live);
                }
                _ => unreachable!("all leaves are at one depth"),
            }
            return;
        }
    }
}

impl Root {
    /// Number of live keys at the revision of this root.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Number of keys, deleted ones that are not compacted included.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf.search(key).ok().map(|i| leaf.entry(i)),
                Node::Inner(inner) => node = &inner.children[inner.child_of(key)],
            }
        }
    }

    /// Number of keys of the range that are live at the revision of this root.
    pub fn count(&self, range: KeyRange<'_>) -> u64 {
        let below_end = range.end.map_or(self.live, |end| self.live_below(end));
        below_end.saturating_sub(self.live_below(range.start))
    }

    /// Number of live keys < `key`.
    fn live_below(&self, key: &[u8]) -> u64 {
        let mut below = 0;
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    let (Ok(end) | Err(end)) = leaf.search(key);
                    return below + (0..end).filter(|i| leaf.entry(*i).is_live()).count() as u64;
                }
                Node::Inner(inner) => {
                    let i = inner.child_of(key);
                    below += inner.live[..i].iter().sum::<u64>();
                    node = &inner.children[i];
                }
            }
        }
    }

    /// Calls `visit` with each key of the range in order, deleted ones included, until it breaks.
    pub fn walk<B>(
        &self,
        range: KeyRange<'_>,
        mut visit: impl FnMut(&[u8], &Entry) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        walk(&self.root, range, &mut visit)
    }

    /// Bytes on the heap, about; what other roots share is counted in full.
    pub fn heap_bytes(&self) -> usize {
        fn bytes(node: &Node) -> usize {
            size_of::<Node>()
                + 16
                + match node {
                    Node::Leaf(leaf) => leaf.heap_bytes(),
                    Node::Inner(inner) => {
                        inner.separators.iter().map(|s| s.len() + 16).sum::<usize>()
                            + inner
                                .children
                                .iter()
                                .map(|child| 16 + bytes(child))
                                .sum::<usize>()
                    }
                }
        }
        bytes(&self.root)
    }
}

fn walk<B>(
    node: &Node,
    range: KeyRange<'_>,
    visit: &mut impl FnMut(&[u8], &Entry) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match node {
        Node::Leaf(leaf) => {
            let (Ok(start) | Err(start)) = leaf.search(range.start);
            let end = match range.end {
                Some(end) => {
                    let (Ok(end) | Err(end)) = leaf.search(end);
                    end
                }
                None => leaf.len(),
            };
            for i in start..end {
                visit(leaf.key(i), leaf.entry(i))?;
            }
        }
        Node::Inner(inner) => {
            let first = inner.child_of(range.start);
            let last = range
                .end
                .map_or(inner.children.len() - 1, |end| inner.child_of(end));
            for child in inner.children.get(first..=last).unwrap_or_default() {
                walk(child, range, visit)?;
            }
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests;
