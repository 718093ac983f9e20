//! A walk over all pages of a state in the order of their keys, in steps.
//!
//! Where a step ended is remembered as keys, not as pages, so that the next step can go on in
//! another state: the names of the buckets on the way down, and then a key.

use crate::db::Snapshot;
use crate::error::{Error, Problem};
use crate::page::{self, BucketRoot, Page};

/// Levels of trees within trees that no database has.
const DEPTH_MAX: usize = 256;

/// Where a walk goes on; empty at the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position(pub(crate) Vec<Vec<u8>>);

/// A page that a walk comes to.
pub(crate) struct Place<'a> {
    /// The names of the buckets that it is in, the outermost first.
    pub(crate) bucket: &'a [Vec<u8>],
    /// The page above it in its tree; 0 for a root.
    pub(crate) parent: u64,
    pub(crate) id: u64,
}

pub(crate) trait Visitor {
    /// Takes a page, its bytes with those of its overflow pages, or what is wrong with it.
    fn visit(
        &mut self,
        place: &Place<'_>,
        page: Result<(&[u8], Page<'_>), Error>,
    ) -> Result<(), Error>;

    /// Whether the walk is to end as soon as it can.
    fn is_full(&self) -> bool;
}

struct Walker<'a> {
    snapshot: &'a Snapshot,
    visitor: &'a mut dyn Visitor,
    bucket: Vec<Vec<u8>>,
}

/// Walks on from `position` and moves it. Says whether the end was reached; the position is at the
/// beginning then. Some progress is made with a visitor that is full from the start.
pub(crate) fn walk(
    snapshot: &Snapshot,
    position: &mut Position,
    visitor: &mut dyn Visitor,
) -> Result<bool, Error> {
    let mut walker = Walker {
        snapshot,
        visitor,
        bucket: Vec::new(),
    };
    let stopped = walker.tree(snapshot.meta.root, 0, &position.0, 0)?;
    let at_end = stopped.is_none();
    position.0 = stopped.unwrap_or_default();
    Ok(at_end)
}

impl Walker<'_> {
    /// Walks the tree below page `id` from a position on. Gives the position where it stopped.
    fn tree(
        &mut self,
        id: u64,
        parent: u64,
        from: &[Vec<u8>],
        depth: usize,
    ) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let snapshot = self.snapshot;
        // Bytes that change within a moment end the walk.
        let corrupt = |problem| snapshot.map.corrupt(id, problem);
        let place = Place {
            bucket: &self.bucket,
            parent,
            id,
        };
        let page = if depth < DEPTH_MAX {
            snapshot.map.page_afresh(id, snapshot.meta.high_water)
        } else {
            Err(snapshot.map.corrupt(id, Problem::Depth))
        };
        let page = match page {
            Ok(page) => {
                let run = snapshot.map.run(id, snapshot.meta.high_water)?;
                self.visitor.visit(&place, Ok((run, page)))?;
                page
            }
            Err(error) => {
                self.visitor.visit(&place, Err(error))?;
                return Ok(None);
            }
        };
        match page {
            Page::Branch(branch) => {
                let first = from
                    .first()
                    .map_or(Ok(0), |key| branch.child_for(key))
                    .map_err(corrupt)?;
                for index in first..branch.count() {
                    if index > first && self.visitor.is_full() {
                        let key = branch.key(index).map_err(corrupt)?;
                        return Ok(Some(vec![key.to_vec()]));
                    }
                    let from = if index == first { from } else { &[] };
                    let stopped = self.tree(branch.child(index), id, from, depth + 1)?;
                    if stopped.is_some() {
                        return Ok(stopped);
                    }
                }
            }
            Page::Leaf(leaf) => {
                let first = from.first().map_or(Ok(0), |key| Ok(leaf.search(key)?.0));
                let first = first.map_err(corrupt)?;
                for index in first..leaf.count() {
                    if !leaf.is_bucket(index) {
                        continue;
                    }
                    let (name, value) = leaf.entry(index).map_err(corrupt)?;
                    let root = match page::parse_bucket(value, index) {
                        Ok((BucketRoot::Page(root), _)) => root,
                        Ok((BucketRoot::Inline(_), _)) => continue,
                        Err(problem) => {
                            let place = Place {
                                bucket: &self.bucket,
                                parent,
                                id,
                            };
                            let error = snapshot.map.corrupt(id, problem);
                            self.visitor.visit(&place, Err(error))?;
                            continue;
                        }
                    };
                    if index > first && self.visitor.is_full() {
                        return Ok(Some(vec![name.to_vec()]));
                    }
                    let inside = match from {
                        [outer, inside @ ..] if outer == name => inside,
                        _ => &[],
                    };
                    self.bucket.push(name.to_vec());
                    let stopped = self.tree(root, 0, inside, depth + 1)?;
                    self.bucket.pop();
                    if let Some(mut path) = stopped {
                        path.insert(0, name.to_vec());
                        return Ok(Some(path));
                    }
                }
            }
        }
        Ok(None)
    }
}
