//! From changed nodes to pages: merging what shrank, cutting what grew, giving each its place.
//!
//! Invariants:
//! - Every page made here leaves room for its checksum, and every branch has at least two children.
//! - A node's old page is freed exactly when the node does not stay what it was.
//!
//! Source: bbolt 1.5 node.go for the thresholds (a page is cut where it fills `fill`, and merged
//! below half of it after removals), bucket.go for what is kept inline. Different here: a value
//! larger than a page does not share its page with neighbours, and the full page at the right edge
//! stays in place when entries come behind it.

use crate::bucket_node::{BucketNode, Root};
use crate::checksum::{self, TRAILER_BYTES, pages_for};
use crate::error::Error;
use crate::freelist::FreeList;
use crate::memory::{Memory, Ref};
use crate::node::{BranchNode, Child, Item, LeafNode, Link, Node};
use crate::page::{
    BRANCH, BUCKET_BYTES, BUCKET_FLAG, COUNT_MAX, ELEMENT_BYTES, HEADER_BYTES, Header, LEAF,
};

/// How full pages are made where a node is cut.
const FILL: f64 = 0.5;
/// The same for append-only buckets.
const FILL_APPEND: f64 = 0.9;

/// A child for a parent to be made: its first key and its page.
#[derive(Clone, Copy)]
struct Entry {
    key: Ref,
    id: u64,
}

/// A page that was made.
pub(crate) struct Made {
    pub(crate) id: u64,
    /// Where its bytes begin in the buffer, and how many they are.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// The pages of a commit and where they go.
pub(crate) struct Output<'a> {
    pub(crate) free: &'a mut FreeList,
    pub(crate) txid: u64,
    pub(crate) page_size: usize,
    /// First page id not in use, with this commit.
    pub(crate) high_water: u64,
    /// Free pages from here on are used only where none is left below.
    pub(crate) end: u64,
    pub(crate) buffer: Vec<u8>,
    pub(crate) pages: Vec<Made>,
    /// What was taken from `free`: to be given back if the commit fails.
    pub(crate) taken: Vec<(u64, u64)>,
}

impl Output<'_> {
    /// Makes a page of `used` bytes; `fill` writes all but the trailer.
    fn place(
        &mut self,
        flags: u16,
        count: usize,
        used: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> u64 {
        let pages = pages_for(used, self.page_size);
        let mut found = self.free.allocate(pages, self.end);
        if found.is_none() && self.end < self.high_water {
            found = self.free.allocate(pages, u64::MAX);
        }
        let id = match found {
            Some(id) => {
                self.taken.push((id, pages));
                id
            }
            None => {
                let id = self.high_water;
                self.high_water += pages;
                id
            }
        };
        let at = self.buffer.len();
        let len = pages as usize * self.page_size;
        self.buffer.resize(at + len, 0);
        let run = &mut self.buffer[at..];
        let overflow = u32::try_from(pages - 1).expect("a run has less than 2^32 pages");
        Header {
            id,
            flags,
            count,
            overflow,
        }
        .write(run);
        fill(&mut run[..used]);
        checksum::seal(run, self.txid);
        self.pages.push(Made { id, at, len });
        id
    }

    fn leaf(&mut self, memory: &Memory, items: &[Item]) -> u64 {
        let used = HEADER_BYTES + items.iter().map(Item::size).sum::<usize>();
        self.place(LEAF, items.len(), used, |page| {
            write_items(memory, items, page)
        })
    }

    fn branch(&mut self, memory: &Memory, entries: &[Entry]) -> u64 {
        let keys: usize = entries.iter().map(|entry| entry.key.len()).sum();
        let used = HEADER_BYTES + entries.len() * ELEMENT_BYTES + keys;
        self.place(BRANCH, entries.len(), used, |page| {
            let mut data = HEADER_BYTES + entries.len() * ELEMENT_BYTES;
            for (index, entry) in entries.iter().enumerate() {
                let key = memory.get(entry.key);
                let at = HEADER_BYTES + index * ELEMENT_BYTES;
                page[at..at + 4].copy_from_slice(&((data - at) as u32).to_le_bytes());
                page[at + 4..at + 8].copy_from_slice(&(key.len() as u32).to_le_bytes());
                page[at + 8..at + 16].copy_from_slice(&entry.id.to_le_bytes());
                page[data..data + key.len()].copy_from_slice(key);
                data += key.len();
            }
            assert_eq!(data, page.len(), "a branch is as long as was computed");
        })
    }
}

/// Writes the elements and data of a leaf, whose header is `page`'s first bytes.
fn write_items(memory: &Memory, items: &[Item], page: &mut [u8]) {
    let mut data = HEADER_BYTES + items.len() * ELEMENT_BYTES;
    for (index, item) in items.iter().enumerate() {
        let (key, value) = (memory.get(item.key), memory.get(item.value));
        assert!(!key.is_empty(), "no key is empty");
        let at = HEADER_BYTES + index * ELEMENT_BYTES;
        let pos = u32::try_from(data - at).expect("a leaf is shorter than 4 GiB");
        page[at..at + 4].copy_from_slice(&item.flags.to_le_bytes());
        page[at + 4..at + 8].copy_from_slice(&pos.to_le_bytes());
        page[at + 8..at + 12].copy_from_slice(&(key.len() as u32).to_le_bytes());
        page[at + 12..at + 16].copy_from_slice(&(value.len() as u32).to_le_bytes());
        page[data..data + key.len()].copy_from_slice(key);
        data += key.len();
        page[data..data + value.len()].copy_from_slice(value);
        data += value.len();
    }
    assert_eq!(data, page.len(), "a leaf is as long as was computed");
}

/// How to cut a node into pages.
#[derive(Clone, Copy)]
struct Cut {
    /// Bytes that fit into one page.
    capacity: usize,
    /// Bytes up to which a page is filled where there must be several.
    threshold: usize,
}

impl Cut {
    /// Where the pieces of elements of these sizes end. Each has at least `least` elements, if
    /// there are as many.
    fn ends(&self, sizes: &[usize], least: usize) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut start = 0;
        let mut rest: usize = sizes.iter().sum();
        loop {
            let left = sizes.len() - start;
            let fits = HEADER_BYTES + rest <= self.capacity && left <= COUNT_MAX;
            if fits || left < 2 * least {
                ends.push(sizes.len());
                return ends;
            }
            let mut end = start;
            let mut size = HEADER_BYTES;
            while end < sizes.len() - least && end - start < COUNT_MAX {
                if end - start >= least && size + sizes[end] > self.threshold {
                    break;
                }
                size += sizes[end];
                rest -= sizes[end];
                end += 1;
            }
            ends.push(end);
            start = end;
        }
    }
}

impl Cut {
    fn new(page_size: usize, fill: f64) -> Cut {
        Cut {
            capacity: page_size - TRAILER_BYTES,
            threshold: (page_size as f64 * fill) as usize,
        }
    }
}

/// Bytes of elements that fit into a page.
pub(crate) fn capacity(page_size: usize) -> usize {
    page_size - TRAILER_BYTES - HEADER_BYTES
}

/// How many leaves a run of elements of these sizes makes where pages are filled to 0.9.
pub(crate) fn pieces_when_full(sizes: &[usize], page_size: usize) -> usize {
    Cut::new(page_size, FILL_APPEND).ends(sizes, 1).len()
}

/// Makes a bucket's pages. Gives its new value, `None` where it did not change. The root bucket of
/// all (`top`) is never inline.
pub(crate) fn settle(
    bucket: &mut BucketNode,
    memory: &mut Memory,
    out: &mut Output<'_>,
    top: bool,
) -> Result<Option<Vec<u8>>, Error> {
    for (name, mut child) in std::mem::take(&mut bucket.open) {
        if let Some(value) = settle(&mut child, memory, out, false)? {
            bucket.put(memory, &name, &value, BUCKET_FLAG)?;
        }
    }
    if bucket.sequence_changed && matches!(bucket.root, Root::Inline(_)) {
        bucket.root_node(memory)?;
    }
    let root = match std::mem::replace(&mut bucket.root, Root::Page(0)) {
        Root::Page(id) => {
            bucket.root = Root::Page(id);
            return Ok(bucket.sequence_changed.then(|| header(id, bucket.sequence)));
        }
        Root::Inline(bytes) => {
            bucket.root = Root::Inline(bytes);
            return Ok(None);
        }
        Root::Node(node) => node,
    };
    let fill = if bucket.append_only {
        FILL_APPEND
    } else {
        FILL
    };
    let cut = Cut::new(out.page_size, fill);
    let shape = Shape {
        cut,
        merge_below: cut.threshold / 2,
    };
    let root = match shape.merge_tree(*root, memory)? {
        Merged::Page(id) => id,
        Merged::Node(Node::Leaf(leaf)) if !top && is_inlineable(&leaf, out.page_size) => {
            memory.free(leaf.origin);
            return Ok(Some(inline(memory, &leaf, bucket.sequence)));
        }
        Merged::Node(node) => shape.write_tree(node, memory, out),
    };
    bucket.root = Root::Page(root);
    Ok(Some(header(root, bucket.sequence)))
}

fn header(root: u64, sequence: u64) -> Vec<u8> {
    let mut value = root.to_le_bytes().to_vec();
    value.extend(sequence.to_le_bytes());
    value
}

fn is_inlineable(leaf: &LeafNode, page_size: usize) -> bool {
    leaf.size() <= page_size / 4 && leaf.items.iter().all(|item| item.flags & BUCKET_FLAG == 0)
}

/// A bucket's value with its leaf in it.
fn inline(memory: &Memory, leaf: &LeafNode, sequence: u64) -> Vec<u8> {
    let mut value = header(0, sequence);
    value.resize(BUCKET_BYTES + leaf.size(), 0);
    let page = &mut value[BUCKET_BYTES..];
    Header {
        id: 0,
        flags: LEAF,
        count: leaf.items.len(),
        overflow: 0,
    }
    .write(page);
    write_items(memory, &leaf.items, page);
    value
}

/// A tree after merging.
enum Merged {
    /// Only an untouched page is left of it.
    Page(u64),
    Node(Node),
}

/// The numbers by which one bucket's nodes are cut and merged.
struct Shape {
    cut: Cut,
    merge_below: usize,
}

impl Shape {
    /// Merges what shrank, and takes away roots with a single child.
    fn merge_tree(&self, root: Node, memory: &mut Memory) -> Result<Merged, Error> {
        let mut root = root;
        if let Node::Branch(branch) = &mut root {
            self.merge_children(branch, memory)?;
        }
        loop {
            match root {
                Node::Branch(mut branch) if branch.children.len() < 2 => {
                    memory.free(branch.origin);
                    match branch.children.pop().map(|child| child.link) {
                        None => {
                            return Ok(Merged::Node(Node::Leaf(LeafNode::empty())));
                        }
                        Some(Link::Page(id)) => return Ok(Merged::Page(id)),
                        Some(Link::Node(node)) => root = *node,
                    }
                }
                other => return Ok(Merged::Node(other)),
            }
        }
    }

    fn merge_children(&self, branch: &mut BranchNode, memory: &mut Memory) -> Result<(), Error> {
        let mut shrunk = branch.shrunk;
        let mut kept = Vec::with_capacity(branch.children.len());
        for mut child in branch.children.drain(..) {
            if let Link::Node(node) = &mut child.link {
                if let Node::Branch(below) = node.as_mut() {
                    self.merge_children(below, memory)?;
                }
                if node.is_empty() {
                    memory.free(node.origin());
                    shrunk = true;
                    continue;
                }
            }
            kept.push(child);
        }
        let mut children: Vec<Child> = Vec::with_capacity(kept.len());
        for child in kept {
            match children.last_mut() {
                Some(left) if left.group() != 0 && left.group() == child.group() => {
                    let Link::Node(right) = child.link else {
                        unreachable!("only nodes have one")
                    };
                    left.node(memory)?.absorb(*right, memory);
                    shrunk = true;
                }
                _ => children.push(child),
            }
        }
        branch.children = children;

        let mut index = 0;
        while index < branch.children.len() && branch.children.len() > 1 {
            let small = match &branch.children[index].link {
                Link::Node(node) => self.is_small(node),
                Link::Page(_) => false,
            };
            if !small {
                index += 1;
                continue;
            }
            let left = index.saturating_sub(1);
            let mut right = branch.children.remove(left + 1);
            right.node(memory)?;
            let Link::Node(right) = right.link else {
                unreachable!("opened up above")
            };
            let left_node = branch.children[left].node(memory)?;
            left_node.absorb(*right, memory);
            shrunk = true;
            // The first child is looked at again; another continues behind the merged one.
            index = if index == 0 { 0 } else { left + 1 };
        }
        branch.shrunk = shrunk;
        Ok(())
    }

    fn is_small(&self, node: &Node) -> bool {
        match node {
            Node::Leaf(leaf) => {
                leaf.shrunk && (leaf.items.len() <= 1 || leaf.size() <= self.merge_below)
            }
            Node::Branch(branch) => {
                branch.shrunk && (branch.children.len() <= 2 || branch.size() <= self.merge_below)
            }
        }
    }

    /// Makes the pages of a whole tree and gives its root.
    fn write_tree(&self, root: Node, memory: &mut Memory, out: &mut Output<'_>) -> u64 {
        let mut entries = self.write_node(root, memory, out);
        if entries.is_empty() {
            return out.leaf(memory, &[]);
        }
        while entries.len() > 1 {
            entries = self.write_branches(&entries, memory, out);
        }
        entries[0].id
    }

    /// Makes the pages of a node and of what is below it.
    fn write_node(&self, node: Node, memory: &mut Memory, out: &mut Output<'_>) -> Vec<Entry> {
        match node {
            Node::Leaf(leaf) => self.write_leaf(leaf, memory, out),
            Node::Branch(branch) => self.write_branch(branch, memory, out),
        }
    }

    fn write_leaf(&self, leaf: LeafNode, memory: &mut Memory, out: &mut Output<'_>) -> Vec<Entry> {
        let Some(first) = leaf.items.first() else {
            memory.free(leaf.origin);
            return Vec::new();
        };
        let mut entries = Vec::new();
        let mut items = &leaf.items[..];
        match leaf.origin {
            Some(origin) if leaf.intact && items.len() == leaf.loaded => {
                return vec![Entry {
                    key: first.key,
                    id: origin.id,
                }];
            }
            // Full already: what came behind it begins a page of its own.
            Some(origin)
                if leaf.intact
                    && leaf.size() > self.cut.capacity
                    && origin.used >= self.cut.threshold =>
            {
                entries.push(Entry {
                    key: first.key,
                    id: origin.id,
                });
                items = &items[leaf.loaded..];
            }
            origin => memory.free(origin),
        }
        let sizes: Vec<usize> = items.iter().map(Item::size).collect();
        let mut start = 0;
        for end in self.cut.ends(&sizes, 1) {
            let id = out.leaf(memory, &items[start..end]);
            entries.push(Entry {
                key: items[start].key,
                id,
            });
            start = end;
        }
        entries
    }

    fn write_branch(
        &self,
        branch: BranchNode,
        memory: &mut Memory,
        out: &mut Output<'_>,
    ) -> Vec<Entry> {
        let mut changed = branch.shrunk || branch.origin.is_none();
        let mut entries = Vec::with_capacity(branch.children.len());
        for child in branch.children {
            match child.link {
                Link::Page(id) => entries.push(Entry { key: child.key, id }),
                Link::Node(node) => {
                    let before = node.origin().map(|origin| origin.id);
                    let made = self.write_node(*node, memory, out);
                    changed |= made.len() != 1 || Some(made[0].id) != before;
                    entries.extend(made);
                }
            }
        }
        match (branch.origin, entries.first()) {
            (Some(origin), Some(first)) if !changed => {
                return vec![Entry {
                    key: first.key,
                    id: origin.id,
                }];
            }
            (origin, _) => memory.free(origin),
        }
        self.write_branches(&entries, memory, out)
    }

    fn write_branches(
        &self,
        entries: &[Entry],
        memory: &Memory,
        out: &mut Output<'_>,
    ) -> Vec<Entry> {
        let sizes: Vec<usize> = entries
            .iter()
            .map(|entry| ELEMENT_BYTES + entry.key.len())
            .collect();
        let mut made = Vec::new();
        let mut start = 0;
        for end in self.cut.ends(&sizes, 2) {
            let id = out.branch(memory, &entries[start..end]);
            made.push(Entry {
                key: entries[start].key,
                id,
            });
            start = end;
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_and_have_enough_elements() {
        let cut = Cut {
            capacity: 1000,
            threshold: 500,
        };
        assert_eq!(cut.ends(&[100; 9], 1), [9]);
        assert_eq!(cut.ends(&[100; 10], 1), [4, 10]);
        assert_eq!(cut.ends(&[100; 20], 2), [4, 8, 12, 20]);
        // A large element stands alone where it may.
        assert_eq!(cut.ends(&[100, 5000, 100], 1), [1, 2, 3]);
        assert_eq!(cut.ends(&[100, 5000, 100], 2), [3]);
        assert_eq!(cut.ends(&[100, 5000, 100, 100], 2), [2, 4]);
        assert_eq!(cut.ends(&[5000], 1), [1]);
        assert_eq!(cut.ends(&[], 1), [0]);
    }

    #[test]
    fn no_piece_has_more_elements_than_the_format_counts() {
        let cut = Cut {
            capacity: 1 << 24,
            threshold: 1 << 23,
        };
        let ends = cut.ends(&[17; 200_000], 1);
        let mut start = 0;
        for end in ends {
            assert!(end - start <= COUNT_MAX && end > start);
            start = end;
        }
        assert_eq!(start, 200_000);
    }
}
