//! A write transaction's changed part of the trees, in memory.
//!
//! A node is a page that the transaction opened up, or a new one. Below it, what is untouched stays
//! a page id. Keys and values are references: into the map for what the file holds (copy-on-write
//! keeps it), into an arena for what the transaction brings.
//!
//! Invariants:
//! - While a transaction runs, branches neither gain nor lose children: leaves just grow and
//!   shrink, and are cut and merged at commit. So a path of child numbers stays right
//!   ([`Finger`]).
//! - A parent knows each child by exactly the child's first key as of the file (bbolt finds
//!   children by it), at every level.

use crate::checksum;
use crate::cursor::DEPTH_MAX;
use crate::db::Snapshot;
use crate::error::{Error, Problem};
use crate::freelist::Freed;
use crate::page::{self, BUCKET_FLAG, BucketRoot, ELEMENT_BYTES, HEADER_BYTES, Leaf, Page};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of one chunk of an arena; a longer value gets a chunk of its own.
const CHUNK_BYTES: usize = 256 << 10;

/// Chunks that an arena keeps for the next transaction.
const CHUNKS_KEPT: usize = 32;

/// The chunk number that stands for the map.
const MAP: u32 = u32::MAX;

/// Bytes in the map or in the arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ref {
    at: u64,
    len: u32,
    chunk: u32,
}

impl Ref {
    /// `len` bytes of it, from `start` on.
    fn part(self, start: usize, len: usize) -> Ref {
        assert!(
            start + len <= self.len as usize,
            "a part lies within the whole"
        );
        Ref {
            at: self.at + start as u64,
            len: len as u32,
            chunk: self.chunk,
        }
    }

    pub(crate) fn len(self) -> usize {
        self.len as usize
    }

    fn place(self) -> Place {
        Place {
            at: self.at,
            chunk: self.chunk,
        }
    }
}

/// Where a page begins, in the map or in the arena.
#[derive(Clone, Copy)]
struct Place {
    at: u64,
    chunk: u32,
}

impl Place {
    /// `len` bytes of a page, from `start` on.
    fn part(self, start: usize, len: usize) -> Ref {
        let len = u32::try_from(len).expect("keys and values are shorter than 4 GiB");
        Ref {
            at: self.at + start as u64,
            len,
            chunk: self.chunk,
        }
    }
}

/// Where a transaction's new bytes stand. Nothing in it moves.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: Vec<Vec<u8>>,
    /// The chunk being filled.
    current: usize,
}

impl Arena {
    /// Copies `parts` in, one behind the other.
    pub(crate) fn add(&mut self, parts: &[&[u8]]) -> Ref {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        while let Some(chunk) = self.chunks.get(self.current) {
            if chunk.capacity() - chunk.len() >= len {
                break;
            }
            self.current += 1;
        }
        if self.current == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES.max(len)));
        }
        let chunk = &mut self.chunks[self.current];
        let at = chunk.len() as u64;
        for part in parts {
            chunk.extend_from_slice(part);
        }
        Ref {
            at,
            len: len as u32,
            chunk: self.current as u32,
        }
    }

    /// Empties it, and keeps some of the memory.
    pub(crate) fn clear(&mut self) {
        self.chunks.retain(|chunk| chunk.capacity() == CHUNK_BYTES);
        self.chunks.truncate(CHUNKS_KEPT);
        for chunk in &mut self.chunks {
            chunk.clear();
        }
        self.current = 0;
    }
}

/// What a transaction's nodes refer to.
pub(crate) struct Memory {
    pub(crate) base: Arc<Snapshot>,
    pub(crate) arena: Arena,
    /// Pages of the base that the new state does not use.
    pub(crate) freed: Vec<Freed>,
}

impl Memory {
    pub(crate) fn get(&self, bytes: Ref) -> &[u8] {
        if bytes.chunk == MAP {
            return self.base.map.bytes(bytes.at, bytes.len());
        }
        let start = bytes.at as usize;
        &self.arena.chunks[bytes.chunk as usize][start..start + bytes.len()]
    }

    pub(crate) fn free(&mut self, origin: Option<Origin>) {
        if let Some(origin) = origin {
            self.freed.push(Freed {
                start: origin.id,
                len: origin.pages,
                since: origin.since,
            });
        }
    }

    /// Opens up a page. Its checksum is checked again, so that damage is not written anew under a
    /// right one.
    pub(crate) fn load(&self, id: u64) -> Result<Node, Error> {
        let origin = self.origin(id)?;
        let place = Place {
            at: self.base.map.offset(id),
            chunk: MAP,
        };
        Ok(match self.base.page(id)? {
            Page::Leaf(leaf) => Node::Leaf(LeafNode::new(&leaf, place, Some(origin))),
            Page::Branch(branch) => {
                let children = (0..branch.count()).map(|index| {
                    let (start, len) = branch.key_at(index);
                    Child {
                        key: place.part(start, len),
                        link: Link::Page(branch.child(index)),
                    }
                });
                let children = children.collect();
                Node::Branch(BranchNode {
                    origin: Some(origin),
                    children,
                    shrunk: false,
                })
            }
        })
    }

    /// Where a page stands, and since when.
    pub(crate) fn origin(&self, id: u64) -> Result<Origin, Error> {
        let meta = self.base.meta;
        let map = &self.base.map;
        let run = map.run(id, meta.high_water)?;
        let page = map.page_afresh(id, meta.high_water)?;
        let used = page.used_bytes();
        let since = checksum::verify(run, used, meta.txid)
            .map_err(|problem| map.corrupt(id, problem))?
            .unwrap_or(0);
        Ok(Origin {
            id,
            pages: (run.len() / map.page_size()) as u64,
            since,
            used,
        })
    }

    /// The page ids of a tree and of all buckets in it.
    pub(crate) fn tree_pages(&self, root: u64) -> Result<Vec<Origin>, Error> {
        let mut seen = std::collections::HashSet::new();
        let mut pages = Vec::new();
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                return Err(self.base.map.corrupt(id, Problem::ReachedTwice));
            }
            pages.push(self.origin(id)?);
            match self.base.page(id)? {
                Page::Branch(branch) => open.extend((0..branch.count()).map(|i| branch.child(i))),
                Page::Leaf(leaf) => {
                    for index in 0..leaf.count() {
                        if !leaf.is_bucket(index) {
                            continue;
                        }
                        let (root, _) = leaf
                            .value(index)
                            .and_then(|value| page::parse_bucket(value, index))
                            .map_err(|problem| self.base.map.corrupt(id, problem))?;
                        if let BucketRoot::Page(root) = root {
                            open.push(root);
                        }
                    }
                }
            }
        }
        Ok(pages)
    }
}

/// The page that a node was opened from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) id: u64,
    pub(crate) pages: u64,
    /// The transaction that wrote it, 0 where it is unknown.
    pub(crate) since: u64,
    /// Bytes of it in use.
    pub(crate) used: usize,
}

pub(crate) enum Node {
    Leaf(LeafNode),
    Branch(BranchNode),
}

impl Node {
    pub(crate) fn origin(&self) -> Option<Origin> {
        match self {
            Node::Leaf(leaf) => leaf.origin,
            Node::Branch(branch) => branch.origin,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.items.is_empty(),
            Node::Branch(branch) => branch.children.is_empty(),
        }
    }

    /// Takes in the node to the right, at the same level.
    pub(crate) fn absorb(&mut self, right: Node, memory: &mut Memory) {
        memory.free(right.origin());
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => left.items.extend(right.items),
            (Node::Branch(left), Node::Branch(right)) => {
                left.children.extend(right.children);
                left.shrunk = true;
            }
            _ => panic!("leaves and branches are never neighbours in one tree"),
        }
    }
}

pub(crate) struct LeafNode {
    pub(crate) origin: Option<Origin>,
    pub(crate) items: Vec<Item>,
    /// Items at opening.
    pub(crate) loaded: usize,
    /// Whether the first `loaded` items are still these.
    pub(crate) intact: bool,
    /// Whether items were removed.
    pub(crate) shrunk: bool,
    /// Neighbours with the same number above 0 are put together.
    pub(crate) group: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) key: Ref,
    pub(crate) value: Ref,
    pub(crate) flags: u32,
}

pub(crate) struct BranchNode {
    pub(crate) origin: Option<Origin>,
    pub(crate) children: Vec<Child>,
    /// Whether children were removed, or it is to be written anew in any case.
    pub(crate) shrunk: bool,
}

pub(crate) struct Child {
    pub(crate) key: Ref,
    pub(crate) link: Link,
}

pub(crate) enum Link {
    Page(u64),
    Node(Box<Node>),
}

impl Child {
    /// See [`LeafNode::group`]; 0 for other children.
    pub(crate) fn group(&self) -> u32 {
        match &self.link {
            Link::Node(node) => match node.as_ref() {
                Node::Leaf(leaf) => leaf.group,
                Node::Branch(_) => 0,
            },
            Link::Page(_) => 0,
        }
    }

    /// The child as a node, opened up where it is not yet.
    pub(crate) fn node(&mut self, memory: &Memory) -> Result<&mut Node, Error> {
        if let Link::Page(id) = self.link {
            self.link = Link::Node(Box::new(memory.load(id)?));
        }
        match &mut self.link {
            Link::Node(node) => Ok(node),
            Link::Page(_) => unreachable!("opened up above"),
        }
    }
}

impl Item {
    /// Bytes that it takes in a page.
    pub(crate) fn size(&self) -> usize {
        ELEMENT_BYTES + self.key.len() + self.value.len()
    }
}

impl LeafNode {
    /// One without items, and without a page.
    pub(crate) fn empty() -> LeafNode {
        LeafNode {
            origin: None,
            items: Vec::new(),
            loaded: 0,
            intact: true,
            shrunk: false,
            group: 0,
        }
    }

    fn new(leaf: &Leaf<'_>, place: Place, origin: Option<Origin>) -> LeafNode {
        let items = (0..leaf.count()).map(|index| {
            let (start, key_len, value_len) = leaf.entry_at(index);
            Item {
                key: place.part(start, key_len),
                value: place.part(start + key_len, value_len),
                flags: leaf.flags(index),
            }
        });
        let items: Vec<Item> = items.collect();
        LeafNode {
            origin,
            loaded: items.len(),
            items,
            intact: true,
            shrunk: false,
            group: 0,
        }
    }

    /// Bytes that it takes in a page.
    pub(crate) fn size(&self) -> usize {
        HEADER_BYTES + self.items.iter().map(Item::size).sum::<usize>()
    }

    /// Place of the first key not below `key`, and whether it is that key.
    fn search(&self, memory: &Memory, key: &[u8]) -> (usize, bool) {
        // The right edge first: most keys are put there.
        match self.items.last() {
            None => return (0, false),
            Some(last) => match memory.get(last.key).cmp(key) {
                Ordering::Less => return (self.items.len(), false),
                Ordering::Equal => return (self.items.len() - 1, true),
                Ordering::Greater => {}
            },
        }
        match self
            .items
            .binary_search_by(|item| memory.get(item.key).cmp(key))
        {
            Ok(index) => (index, true),
            Err(index) => (index, false),
        }
    }

    fn touch(&mut self, index: usize) {
        if index < self.loaded {
            self.intact = false;
        }
    }
}

impl BranchNode {
    /// Bytes that it takes in a page.
    pub(crate) fn size(&self) -> usize {
        let children = self
            .children
            .iter()
            .map(|child| ELEMENT_BYTES + child.key.len());
        HEADER_BYTES + children.sum::<usize>()
    }

    fn child_for(&self, memory: &Memory, key: &[u8]) -> usize {
        let behind = self
            .children
            .partition_point(|child| memory.get(child.key) <= key);
        behind.saturating_sub(1)
    }
}

/// The way to the leaf that was used last, and the keys that belong there.
struct Finger {
    path: Vec<usize>,
    /// Lowest key; `None` at the left edge.
    low: Option<Ref>,
    /// First key beyond; `None` at the right edge.
    high: Option<Ref>,
}

/// The root of a bucket's tree.
pub(crate) enum Root {
    /// Untouched, a page.
    Page(u64),
    /// Untouched, inline; the bytes of its leaf.
    Inline(Ref),
    /// Opened up.
    Node(Box<Node>),
}

/// A bucket that a transaction opened.
pub(crate) struct BucketNode {
    pub(crate) root: Root,
    pub(crate) sequence: u64,
    pub(crate) sequence_changed: bool,
    /// Its buckets that the transaction opened.
    pub(crate) open: BTreeMap<Vec<u8>, BucketNode>,
    /// See [`crate::BucketMut::set_append_only`].
    pub(crate) append_only: bool,
    finger: Option<Finger>,
}

impl BucketNode {
    pub(crate) fn new(root: Root, sequence: u64) -> BucketNode {
        BucketNode {
            root,
            sequence,
            sequence_changed: false,
            open: BTreeMap::new(),
            append_only: false,
            finger: None,
        }
    }

    /// A new one without entries.
    pub(crate) fn empty() -> BucketNode {
        BucketNode::new(Root::Node(Box::new(Node::Leaf(LeafNode::empty()))), 0)
    }

    /// Opens up the root.
    pub(crate) fn root_node(&mut self, memory: &Memory) -> Result<&mut Node, Error> {
        match self.root {
            Root::Node(_) => {}
            Root::Page(id) => self.root = Root::Node(Box::new(memory.load(id)?)),
            Root::Inline(bytes) => {
                let leaf = inline_leaf(memory, bytes)?;
                let node = LeafNode::new(&leaf, bytes.place(), None);
                self.root = Root::Node(Box::new(Node::Leaf(node)));
            }
        }
        match &mut self.root {
            Root::Node(node) => Ok(node),
            Root::Page(_) | Root::Inline(_) => unreachable!("opened up above"),
        }
    }

    /// The leaf where `key` is or belongs, opened up.
    fn leaf(&mut self, memory: &Memory, key: &[u8]) -> Result<&mut LeafNode, Error> {
        if !self.finger_fits(memory, key) {
            self.finger = Some(self.point_at(memory, key)?);
        }
        let (Root::Node(node), Some(finger)) = (&mut self.root, &self.finger) else {
            unreachable!("point_at opens the root up and gives a finger");
        };
        let mut node: &mut Node = node;
        for &index in &finger.path {
            let Node::Branch(branch) = node else {
                unreachable!("branches stay as they are while a finger points through them");
            };
            node = branch.children[index].node(memory)?;
        }
        match node {
            Node::Leaf(leaf) => Ok(leaf),
            Node::Branch(_) => unreachable!("a finger ends at a leaf"),
        }
    }

    fn finger_fits(&self, memory: &Memory, key: &[u8]) -> bool {
        self.finger.as_ref().is_some_and(|finger| {
            finger.low.is_none_or(|low| memory.get(low) <= key)
                && finger.high.is_none_or(|high| key < memory.get(high))
        })
    }

    fn point_at(&mut self, memory: &Memory, key: &[u8]) -> Result<Finger, Error> {
        let mut finger = Finger {
            path: Vec::new(),
            low: None,
            high: None,
        };
        let mut node = self.root_node(memory)?;
        loop {
            let branch = match node {
                Node::Leaf(_) => return Ok(finger),
                Node::Branch(branch) => branch,
            };
            let index = branch.child_for(memory, key);
            if index > 0 {
                finger.low = Some(branch.children[index].key);
            }
            if let Some(right) = branch.children.get(index + 1) {
                finger.high = Some(right.key);
            }
            finger.path.push(index);
            let child = &mut branch.children[index];
            if finger.path.len() > DEPTH_MAX
                && let Link::Page(id) = child.link
            {
                return Err(memory.base.map.corrupt(id, Problem::Depth));
            }
            node = child.node(memory)?;
        }
    }

    /// The flags and value of `key`, without opening anything up.
    pub(crate) fn find(&self, memory: &Memory, key: &[u8]) -> Result<Option<(u32, Ref)>, Error> {
        let mut node: &Node = match &self.root {
            Root::Page(id) => return find_in_page(memory, *id, key),
            Root::Inline(bytes) => return find_in_inline(memory, *bytes, key),
            Root::Node(node) => node,
        };
        loop {
            match node {
                Node::Leaf(leaf) => {
                    let (index, found) = leaf.search(memory, key);
                    return Ok(found.then(|| (leaf.items[index].flags, leaf.items[index].value)));
                }
                Node::Branch(branch) => {
                    match &branch.children[branch.child_for(memory, key)].link {
                        Link::Page(id) => return find_in_page(memory, *id, key),
                        Link::Node(child) => node = child,
                    }
                }
            }
        }
    }

    /// Sets `key` to a value or a bucket.
    pub(crate) fn put(
        &mut self,
        memory: &mut Memory,
        key: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<(), Error> {
        let leaf = self.leaf(memory, key)?;
        let (index, found) = leaf.search(memory, key);
        if found {
            let item = leaf.items[index];
            if (item.flags ^ flags) & BUCKET_FLAG != 0 {
                return Err(Error::IncompatibleValue);
            }
            leaf.touch(index);
            let value = memory.arena.add(&[value]);
            leaf.items[index] = Item {
                key: item.key,
                value,
                flags,
            };
        } else {
            let both = memory.arena.add(&[key, value]);
            let item = Item {
                key: both.part(0, key.len()),
                value: both.part(key.len(), value.len()),
                flags,
            };
            leaf.touch(index);
            leaf.items.insert(index, item);
        }
        Ok(())
    }

    /// Removes `key`, and says whether it was there. `flags` says as what.
    pub(crate) fn remove(
        &mut self,
        memory: &mut Memory,
        key: &[u8],
        flags: u32,
    ) -> Result<bool, Error> {
        // A leaf is not opened up for nothing.
        if !self.finger_fits(memory, key) && self.find(memory, key)?.is_none() {
            return Ok(false);
        }
        let leaf = self.leaf(memory, key)?;
        let (index, found) = leaf.search(memory, key);
        if !found {
            return Ok(false);
        }
        if (leaf.items[index].flags ^ flags) & BUCKET_FLAG != 0 {
            return Err(Error::IncompatibleValue);
        }
        leaf.touch(index);
        leaf.items.remove(index);
        leaf.shrunk = true;
        Ok(true)
    }

    /// Opens page `id`, which begins with `key`, up, so that commit writes it anew: together with
    /// the leaves of the same `group`, if that is above 0.
    pub(crate) fn rewrite(
        &mut self,
        memory: &Memory,
        key: &[u8],
        id: u64,
        group: u32,
    ) -> Result<(), Error> {
        let mut node = self.root_node(memory)?;
        loop {
            let found = node.origin().is_some_and(|origin| origin.id == id);
            match node {
                Node::Leaf(leaf) => {
                    assert!(found, "the page was found in this very state");
                    leaf.intact = false;
                    leaf.group = group;
                    return Ok(());
                }
                Node::Branch(branch) if found => {
                    branch.shrunk = true;
                    return Ok(());
                }
                Node::Branch(branch) => {
                    let index = branch.child_for(memory, key);
                    node = branch.children[index].node(memory)?;
                }
            }
        }
    }

    /// The bucket `name` in this one, opened.
    pub(crate) fn child(
        &mut self,
        memory: &Memory,
        name: &[u8],
    ) -> Result<Option<&mut BucketNode>, Error> {
        if !self.open.contains_key(name) {
            let Some((flags, value)) = self.find(memory, name)? else {
                return Ok(None);
            };
            if flags & BUCKET_FLAG == 0 {
                return Err(Error::IncompatibleValue);
            }
            self.open.insert(name.to_vec(), open_bucket(memory, value)?);
        }
        Ok(self.open.get_mut(name))
    }

    /// Opens the leaves up that hold its opened buckets, and so on inside of those: [`Self::pages`]
    /// then takes these buckets as they are now, not as they are in the base.
    pub(crate) fn open_to_buckets(&mut self, memory: &Memory) -> Result<(), Error> {
        let names: Vec<Vec<u8>> = self.open.keys().cloned().collect();
        for name in names {
            self.leaf(memory, &name)?;
        }
        for child in self.open.values_mut() {
            child.open_to_buckets(memory)?;
        }
        Ok(())
    }

    /// Every page of the base that belongs to it and to its buckets and was not freed.
    pub(crate) fn pages(&self, memory: &Memory) -> Result<Vec<Origin>, Error> {
        let mut pages = Vec::new();
        match &self.root {
            Root::Page(id) => pages.extend(memory.tree_pages(*id)?),
            // An inline bucket has no buckets in it.
            Root::Inline(_) => {}
            Root::Node(node) => self.node_pages(memory, node, &mut pages)?,
        }
        Ok(pages)
    }

    fn node_pages(
        &self,
        memory: &Memory,
        node: &Node,
        pages: &mut Vec<Origin>,
    ) -> Result<(), Error> {
        match node {
            Node::Leaf(leaf) => {
                pages.extend(leaf.origin);
                for item in &leaf.items {
                    if item.flags & BUCKET_FLAG == 0 {
                        continue;
                    }
                    match self.open.get(memory.get(item.key)) {
                        Some(bucket) => pages.extend(bucket.pages(memory)?),
                        None => pages.extend(open_bucket(memory, item.value)?.pages(memory)?),
                    }
                }
            }
            Node::Branch(branch) => {
                pages.extend(branch.origin);
                for child in &branch.children {
                    match &child.link {
                        Link::Page(id) => pages.extend(memory.tree_pages(*id)?),
                        Link::Node(node) => self.node_pages(memory, node, pages)?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// A bucket from its value.
fn open_bucket(memory: &Memory, value: Ref) -> Result<BucketNode, Error> {
    let parsed = page::parse_bucket(memory.get(value), 0)
        .map_err(|problem| corrupt_inline(memory, value, problem))?;
    let root = match parsed.0 {
        BucketRoot::Page(id) => Root::Page(id),
        BucketRoot::Inline(_) => {
            Root::Inline(value.part(page::BUCKET_BYTES, value.len() - page::BUCKET_BYTES))
        }
    };
    Ok(BucketNode::new(root, parsed.1))
}

fn find_in_page(memory: &Memory, root: u64, key: &[u8]) -> Result<Option<(u32, Ref)>, Error> {
    let corrupt = |id, problem| memory.base.map.corrupt(id, problem);
    let mut id = root;
    for _ in 0..DEPTH_MAX {
        match memory.base.page(id)? {
            Page::Branch(branch) => {
                let index = branch
                    .child_for(key)
                    .map_err(|problem| corrupt(id, problem))?;
                id = branch.child(index);
            }
            Page::Leaf(leaf) => {
                let (index, found) = leaf.search(key).map_err(|problem| corrupt(id, problem))?;
                if !found {
                    return Ok(None);
                }
                leaf.entry(index).map_err(|problem| corrupt(id, problem))?;
                let (start, key_len, value_len) = leaf.entry_at(index);
                let place = Place {
                    at: memory.base.map.offset(id),
                    chunk: MAP,
                };
                return Ok(Some((
                    leaf.flags(index),
                    place.part(start + key_len, value_len),
                )));
            }
        }
    }
    Err(memory.base.map.corrupt(id, Problem::Depth))
}

fn find_in_inline(memory: &Memory, bytes: Ref, key: &[u8]) -> Result<Option<(u32, Ref)>, Error> {
    let leaf = inline_leaf(memory, bytes)?;
    let (index, found) = leaf
        .search(key)
        .map_err(|problem| corrupt_inline(memory, bytes, problem))?;
    if !found {
        return Ok(None);
    }
    let (start, key_len, value_len) = leaf.entry_at(index);
    Ok(Some((
        leaf.flags(index),
        bytes.part(start + key_len, value_len),
    )))
}

/// The leaf of an inline bucket, looked at again.
fn inline_leaf(memory: &Memory, bytes: Ref) -> Result<Leaf<'_>, Error> {
    match page::parse(memory.get(bytes)) {
        Ok(Page::Leaf(leaf)) => Ok(leaf),
        Ok(Page::Branch(_)) => Err(corrupt_inline(memory, bytes, Problem::Type(page::BRANCH))),
        Err(problem) => Err(corrupt_inline(memory, bytes, problem)),
    }
}

/// An error about an inline bucket: only bytes of the file can be wrong.
fn corrupt_inline(memory: &Memory, bytes: Ref, problem: Problem) -> Error {
    let page = bytes.at / memory.base.map.page_size() as u64;
    memory.base.map.corrupt(page, problem)
}
