//! The bytes that a write transaction's nodes refer to.
//!
//! Keys and values are references: into the map for what the file holds (copy-on-write keeps it),
//! into an arena for what the transaction brings.
//!
//! Invariant: nothing that a [`Ref`] points to moves or changes before the transaction ends.

use crate::checksum;
use crate::db::Snapshot;
use crate::error::{Error, Problem};
use crate::freelist::Freed;
use crate::node::Node;
use crate::page::{self, BucketRoot, Page};
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
    pub(crate) fn part(self, start: usize, len: usize) -> Ref {
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

    pub(crate) fn place(self) -> Place {
        Place {
            at: self.at,
            chunk: self.chunk,
        }
    }
}

/// Where a page begins, in the map or in the arena.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    at: u64,
    chunk: u32,
}

impl Place {
    /// `len` bytes of a page, from `start` on.
    pub(crate) fn part(self, start: usize, len: usize) -> Ref {
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

    /// Where page `id` of the file begins.
    pub(crate) fn page_place(&self, id: u64) -> Place {
        Place {
            at: self.base.map.offset(id),
            chunk: MAP,
        }
    }

    /// Opens up a page. Its checksum is checked again, so that damage is not written anew under a
    /// right one.
    pub(crate) fn load(&self, id: u64) -> Result<Node, Error> {
        let origin = self.origin(id)?;
        Ok(Node::new(&self.base.page(id)?, self.page_place(id), origin))
    }

    /// An error about the page of the file that `bytes` stand in: only those can be wrong.
    pub(crate) fn corrupt(&self, bytes: Ref, problem: Problem) -> Error {
        let page = bytes.at / self.base.map.page_size() as u64;
        self.base.map.corrupt(page, problem)
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
