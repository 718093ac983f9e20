//! A write transaction's changed pages, in memory.
//!
//! A node is a page that the transaction opened up, or a new one. Below it, what is untouched stays
//! a page id.
//!
//! Invariants:
//! - While a transaction runs, branches neither gain nor lose children: leaves just grow and
//!   shrink, and are cut and merged at commit.
//! - A parent knows each child by exactly the child's first key as of the file (bbolt finds
//!   children by it), at every level.

use crate::error::Error;
use crate::memory::{Memory, Origin, Place, Ref};
use crate::page::{Branch, ELEMENT_BYTES, HEADER_BYTES, Leaf, Page};
use std::cmp::Ordering;

/// A page in memory.
pub(crate) enum Node {
    Leaf(LeafNode),
    Branch(BranchNode),
}

impl Node {
    /// The page `origin`, whose bytes begin at `place`.
    pub(crate) fn new(page: &Page<'_>, place: Place, origin: Origin) -> Node {
        match page {
            Page::Leaf(leaf) => Node::Leaf(LeafNode::new(leaf, place, Some(origin))),
            Page::Branch(branch) => Node::Branch(BranchNode::new(branch, place, origin)),
        }
    }

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

/// A leaf and its items, in the order of their keys.
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

/// A key and its value, or a bucket.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) key: Ref,
    pub(crate) value: Ref,
    pub(crate) flags: u32,
}

/// A branch and its children, in the order of their keys.
pub(crate) struct BranchNode {
    pub(crate) origin: Option<Origin>,
    pub(crate) children: Vec<Child>,
    /// Whether children were removed, or it is to be written anew in any case.
    pub(crate) shrunk: bool,
}

/// What a branch knows of a child.
pub(crate) struct Child {
    pub(crate) key: Ref,
    pub(crate) link: Link,
}

/// A child: untouched, or opened up.
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

    pub(crate) fn new(leaf: &Leaf<'_>, place: Place, origin: Option<Origin>) -> LeafNode {
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
    pub(crate) fn search(&self, memory: &Memory, key: &[u8]) -> (usize, bool) {
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

    /// Says that the item at `index` changes, or one comes there.
    pub(crate) fn touch(&mut self, index: usize) {
        if index < self.loaded {
            self.intact = false;
        }
    }
}

impl BranchNode {
    fn new(branch: &Branch<'_>, place: Place, origin: Origin) -> BranchNode {
        let children = (0..branch.count()).map(|index| {
            let (start, len) = branch.key_at(index);
            Child {
                key: place.part(start, len),
                link: Link::Page(branch.child(index)),
            }
        });
        BranchNode {
            origin: Some(origin),
            children: children.collect(),
            shrunk: false,
        }
    }

    /// Bytes that it takes in a page.
    pub(crate) fn size(&self) -> usize {
        let children = self
            .children
            .iter()
            .map(|child| ELEMENT_BYTES + child.key.len());
        HEADER_BYTES + children.sum::<usize>()
    }

    pub(crate) fn child_for(&self, memory: &Memory, key: &[u8]) -> usize {
        let behind = self
            .children
            .partition_point(|child| memory.get(child.key) <= key);
        behind.saturating_sub(1)
    }
}
