//! A bucket in a write transaction: finding, setting and removing what is in it.
//!
//! Invariant: as branches keep their children while a transaction runs, the path of child numbers
//! to the leaf that was used last stays right ([`Finger`]), and most calls need no search for it.

use crate::cursor::DEPTH_MAX;
use crate::error::{Error, Problem};
use crate::memory::{Memory, Origin, Ref};
use crate::node::{Item, LeafNode, Link, Node};
use crate::page::{self, BUCKET_FLAG, BucketRoot, Leaf, Page};
use std::collections::BTreeMap;

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
                // The page is there, so keys must lead astray.
                Node::Leaf(_) if !found => {
                    return Err(memory.base.map.corrupt(id, Problem::KeyBounds(0)));
                }
                Node::Leaf(leaf) => {
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
        .map_err(|problem| memory.corrupt(value, problem))?;
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
                let place = memory.page_place(id);
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
        .map_err(|problem| memory.corrupt(bytes, problem))?;
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
        Ok(Page::Branch(_)) => Err(memory.corrupt(bytes, Problem::Type(page::BRANCH))),
        Err(problem) => Err(memory.corrupt(bytes, problem)),
    }
}
