//! Walking a bucket's entries in the order of their keys.

use crate::error::{Error, Problem};
use crate::page::{BucketRoot, Page};
use crate::read::Bucket;
use std::ops::Bound;

/// Levels that no tree has: with two children a branch it would need 2^64 pages.
pub(crate) const DEPTH_MAX: usize = 64;

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// See [`Bucket::range`]. Entries that are buckets are passed over.
pub struct Cursor<'tx> {
    bucket: Bucket<'tx>,
    /// From the root down to the leaf: each page and the place in it that comes next.
    stack: Vec<Frame<'tx>>,
}

struct Frame<'tx> {
    /// The page's id; 0 for an inline one.
    id: u64,
    page: Page<'tx>,
    next: usize,
}

impl<'tx> Cursor<'tx> {
    /// A cursor at the end.
    pub(crate) fn new(bucket: Bucket<'tx>) -> Cursor<'tx> {
        Cursor {
            bucket,
            stack: Vec::new(),
        }
    }

    fn push(&mut self, id: u64) -> Result<Page<'tx>, Error> {
        if self.stack.len() >= DEPTH_MAX {
            return Err(self.bucket.snapshot.map.corrupt(id, Problem::Depth));
        }
        let page = self.bucket.snapshot.page(id)?;
        self.stack.push(Frame { id, page, next: 0 });
        Ok(page)
    }

    fn push_root(&mut self) -> Result<Page<'tx>, Error> {
        self.stack.clear();
        match self.bucket.root {
            BucketRoot::Page(id) => self.push(id),
            BucketRoot::Inline(leaf) => {
                self.stack.push(Frame {
                    id: 0,
                    page: Page::Leaf(leaf),
                    next: 0,
                });
                Ok(Page::Leaf(leaf))
            }
        }
    }

    /// Moves so that the next entry is the first one from `from` on.
    pub fn seek(&mut self, from: Bound<&[u8]>) -> Result<(), Error> {
        let mut page = self.push_root()?;
        loop {
            match page {
                Page::Branch(branch) => {
                    let index = match from {
                        Bound::Unbounded => 0,
                        Bound::Included(key) | Bound::Excluded(key) => branch
                            .child_for(key)
                            .map_err(|problem| self.corrupt(problem))?,
                    };
                    self.top().next = index + 1;
                    page = self.push(branch.child(index))?;
                }
                Page::Leaf(leaf) => {
                    let next = match from {
                        Bound::Unbounded => Ok(0),
                        Bound::Included(key) => leaf.search(key).map(|(index, _)| index),
                        Bound::Excluded(key) => leaf
                            .search(key)
                            .map(|(index, found)| index + usize::from(found)),
                    };
                    self.top().next = next.map_err(|problem| self.corrupt(problem))?;
                    return Ok(());
                }
            }
        }
    }

    /// An error about the page that the cursor stands in.
    fn corrupt(&self, problem: Problem) -> Error {
        let id = self.stack.last().map_or(0, |frame| frame.id);
        self.bucket.snapshot.map.corrupt(id, problem)
    }

    fn top(&mut self) -> &mut Frame<'tx> {
        self.stack
            .last_mut()
            .expect("a positioned cursor has a leaf")
    }

    /// The next entry; `None` at the end, and from then on.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail")]
    pub fn next(&mut self) -> Result<Option<Entry<'tx>>, Error> {
        while let Some((entry, is_bucket)) = self.next_element()? {
            if !is_bucket {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// As [`Cursor::next`], and says whether the entry is a bucket instead of leaving it out.
    pub(crate) fn next_element(&mut self) -> Result<Option<(Entry<'tx>, bool)>, Error> {
        loop {
            let Some(frame) = self.stack.last_mut() else {
                return Ok(None);
            };
            let place = frame.next;
            match frame.page {
                Page::Leaf(leaf) if place < leaf.count() => {
                    frame.next += 1;
                    let entry = leaf.entry(place).map_err(|problem| self.corrupt(problem))?;
                    return Ok(Some((entry, leaf.is_bucket(place))));
                }
                Page::Branch(branch) if place < branch.count() => {
                    frame.next += 1;
                    self.push(branch.child(place))?;
                }
                Page::Leaf(_) | Page::Branch(_) => {
                    self.stack.pop();
                }
            }
        }
    }

    /// The last entry of the bucket. The cursor is at its end then.
    pub(crate) fn last(&mut self) -> Result<Option<Entry<'tx>>, Error> {
        self.go_behind()?;
        let entry = self.step_back()?;
        self.stack.clear();
        Ok(entry)
    }

    /// Moves behind the last entry, to go back from there. `next` of a frame counts down then: the
    /// places below it are still to be looked at.
    fn go_behind(&mut self) -> Result<(), Error> {
        let page = self.push_root()?;
        self.top().next = count(page);
        Ok(())
    }

    fn step_back(&mut self) -> Result<Option<Entry<'tx>>, Error> {
        while let Some(frame) = self.stack.last_mut() {
            let Some(place) = frame.next.checked_sub(1) else {
                self.stack.pop();
                continue;
            };
            frame.next = place;
            match frame.page {
                Page::Leaf(leaf) => {
                    if !leaf.is_bucket(place) {
                        let entry = leaf.entry(place).map_err(|problem| self.corrupt(problem))?;
                        return Ok(Some(entry));
                    }
                }
                Page::Branch(branch) => {
                    let page = self.push(branch.child(place))?;
                    self.top().next = count(page);
                }
            }
        }
        Ok(None)
    }
}

/// See [`Bucket::backward`].
pub struct BackwardCursor<'tx>(Cursor<'tx>);

impl<'tx> BackwardCursor<'tx> {
    pub(crate) fn new(bucket: Bucket<'tx>) -> Result<BackwardCursor<'tx>, Error> {
        let mut cursor = Cursor::new(bucket);
        cursor.go_behind()?;
        Ok(BackwardCursor(cursor))
    }

    /// The entry before; `None` at the beginning, and from then on.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail")]
    pub fn next(&mut self) -> Result<Option<Entry<'tx>>, Error> {
        self.0.step_back()
    }
}

fn count(page: Page<'_>) -> usize {
    match page {
        Page::Leaf(leaf) => leaf.count(),
        Page::Branch(branch) => branch.count(),
    }
}
