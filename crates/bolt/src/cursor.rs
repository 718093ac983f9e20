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
        self.stack.push(Frame { page, next: 0 });
        Ok(page)
    }

    fn push_root(&mut self) -> Result<Page<'tx>, Error> {
        self.stack.clear();
        match self.bucket.root {
            BucketRoot::Page(id) => self.push(id),
            BucketRoot::Inline(leaf) => {
                self.stack.push(Frame {
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
            let next = match (page, from) {
                (Page::Branch(branch), Bound::Unbounded) => Some((branch.child(0), 1)),
                (Page::Branch(branch), Bound::Included(key) | Bound::Excluded(key)) => {
                    let index = branch.child_for(key);
                    Some((branch.child(index), index + 1))
                }
                (Page::Leaf(leaf), _) => {
                    let next = match from {
                        Bound::Unbounded => 0,
                        Bound::Included(key) => leaf.search(key).0,
                        Bound::Excluded(key) => {
                            let (index, found) = leaf.search(key);
                            index + usize::from(found)
                        }
                    };
                    self.top().next = next;
                    None
                }
            };
            match next {
                None => return Ok(()),
                Some((child, behind)) => {
                    self.top().next = behind;
                    page = self.push(child)?;
                }
            }
        }
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
                    return Ok(Some((leaf.entry(place), leaf.is_bucket(place))));
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
        // `next` counts down here: the places below it are still to be looked at.
        let page = self.push_root()?;
        self.top().next = count(page);
        while let Some(frame) = self.stack.last_mut() {
            let Some(place) = frame.next.checked_sub(1) else {
                self.stack.pop();
                continue;
            };
            frame.next = place;
            match frame.page {
                Page::Leaf(leaf) => {
                    if !leaf.is_bucket(place) {
                        self.stack.clear();
                        return Ok(Some(leaf.entry(place)));
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

fn count(page: Page<'_>) -> usize {
    match page {
        Page::Leaf(leaf) => leaf.count(),
        Page::Branch(branch) => branch.count(),
    }
}
