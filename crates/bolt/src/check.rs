//! Looking for everything that can be wrong with a database.
//!
//! All that bbolt's check looks for, and beyond it checksums, that a parent knows each child by
//! exactly its first key, and that a page is laid out as every writer does it: elements stand one
//! behind the other and have no flags but the known one, and what is always zero is.

use crate::checksum;
use crate::cursor::DEPTH_MAX;
use crate::db::{Db, Snapshot, newest_is_sealed};
use crate::error::{Error, Problem};
use crate::freelist::FreeList;
use crate::map::PageBits;
use crate::meta::Meta;
use crate::page::{self, BucketRoot, FREELIST, HEADER_BYTES, Header, Page, u64_at};
use std::fmt;

/// Findings that are listed; a badly broken file has more.
const FINDINGS_MAX: usize = 10_000;

/// Something wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The page's id.
    pub page: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "page {} at offset {}: {}",
            self.page, self.offset, self.problem
        )
    }
}

impl Finding {
    /// The finding in an error about a page; other errors are given back.
    pub(crate) fn from_error(error: Error) -> Result<Finding, Error> {
        match error {
            Error::Corrupt {
                page,
                offset,
                problem,
                ..
            } => Ok(Finding {
                page,
                offset,
                problem,
            }),
            other => Err(other),
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// What is wrong, at most 10,000 of it.
    pub findings: Vec<Finding>,
    /// Findings that are not listed.
    pub more_findings: u64,
    /// Pages in use, without the meta pages.
    pub pages: u64,
    /// Pages among them without a checksum.
    pub unverified_pages: u64,
    /// Buckets whose sequence is in use (bbolt's `NextSequence`); neither etcd nor quorate uses it.
    pub sequences: u64,
}

impl Check {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.findings.is_empty()
    }
}

struct Checker<'a> {
    snapshot: &'a Snapshot,
    check: Check,
    reached: PageBits,
    /// Roots of buckets that are still to be walked.
    trees: Vec<u64>,
    /// Whether a page without a checksum has lost it.
    all_sealed: bool,
    /// Is told the number of pages that were read.
    tell: &'a mut dyn FnMut(u64),
}

impl Db {
    /// Checks the newest state as a whole; reads every page. Free pages are compared with those
    /// that the writer knows, or, opened read-only, with the list in the file if it has one.
    pub fn check(&self) -> Result<Check, Error> {
        self.check_telling(&mut |_pages| {})
    }

    /// As [`Db::check`], and tells `tell` again and again how many pages were read.
    pub fn check_telling(&self, tell: &mut dyn FnMut(u64)) -> Result<Check, Error> {
        // The state and the free pages must belong together.
        let (read, free) = match self.inner.writer() {
            Ok(writer) => (self.begin_read(), Some(writer.free.clone())),
            Err(Error::ReadOnly { .. } | Error::Poisoned { .. }) => (self.begin_read(), None),
            Err(error) => return Err(error),
        };
        let snapshot = read.snapshot();
        let mut checker = Checker {
            snapshot,
            check: Check::default(),
            reached: PageBits::new(snapshot.meta.high_water),
            trees: vec![snapshot.meta.root],
            all_sealed: newest_is_sealed(self.inner.file.as_ref(), &snapshot.meta)
                .map_err(|source| self.inner.io("reading a meta page", source))?,
            tell,
        };
        while let Some(root) = checker.trees.pop() {
            checker.tree(root, None, None, 0)?;
        }
        checker.free_pages(free.as_ref())?;
        Ok(checker.check)
    }
}

/// The result of a check of both meta pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaCheck {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What a power cut explains: the page's own checksum is of the write before or of one that was
    /// not finished. The state is whole, and the page is right again with the next write of it.
    pub torn: Vec<Finding>,
}

impl Db {
    /// Checks both meta pages as a whole. One alone suffices to open the file, so what is wrong with
    /// the other is found only here. It is for a file that nobody writes to.
    pub fn check_metas(&self) -> Result<MetaCheck, Error> {
        let mut check = MetaCheck::default();
        let size = u64::from(self.page_size());
        let read = |page: u64| {
            let mut bytes = vec![0; size as usize];
            let read = self.inner.file.read_exact_at(&mut bytes, page * size);
            read.map_err(|source| self.inner.io("reading a meta page", source))?;
            Ok(bytes)
        };
        let pages = [read(0)?, read(1)?];
        for (page, bytes) in (0..).zip(&pages) {
            let problem = match Meta::check_page(bytes, page) {
                Ok(meta) if u64::from(meta.page_size) == size => continue,
                Ok(_) => Problem::Meta("page size"),
                Err(problem) => problem,
            };
            let other = Meta::read(&pages[1 - page as usize]);
            let torn = matches!(problem, Problem::Checksum { .. })
                && matches!((Meta::read(bytes), other), (Ok(meta), Ok(other))
                    if meta.is_torn(bytes, page, &other));
            let found = match torn {
                true => &mut check.torn,
                false => &mut check.findings,
            };
            found.push(Finding {
                page,
                offset: page * size,
                problem,
            });
        }
        Ok(check)
    }
}

impl Checker<'_> {
    fn found(&mut self, page: u64, problem: Problem) {
        if self.check.findings.len() == FINDINGS_MAX {
            self.check.more_findings += 1;
            return;
        }
        let offset = page.saturating_mul(u64::from(self.snapshot.meta.page_size));
        self.check.findings.push(Finding {
            page,
            offset,
            problem,
        });
    }

    /// Checks the tree at `id`, which its parent knows by `first`, and whose keys are below `end`.
    fn tree(
        &mut self,
        id: u64,
        first: Option<&[u8]>,
        end: Option<&[u8]>,
        depth: usize,
    ) -> Result<(), Error> {
        let snapshot = self.snapshot;
        let map = &snapshot.map;
        // Bytes that change within a moment end the check.
        let corrupt = |problem| map.corrupt(id, problem);
        if depth > DEPTH_MAX {
            self.found(id, Problem::Depth);
            return Ok(());
        }
        let run = match map.run(id, snapshot.meta.high_water) {
            Ok(run) => run,
            Err(error) => {
                let finding = Finding::from_error(error)?;
                self.found(id, finding.problem);
                return Ok(());
            }
        };
        let pages = (run.len() / map.page_size()) as u64;
        for page in id..id + pages {
            if self.reached.set(page) {
                self.found(page, Problem::ReachedTwice);
                return Ok(());
            }
        }
        self.check.pages += pages;
        (self.tell)(self.check.pages);
        let page = match page::parse(run) {
            Ok(page) => page,
            Err(problem) => {
                self.found(id, problem);
                return Ok(());
            }
        };
        if let Err(problem) = page.is_laid_out() {
            self.found(id, problem);
        }
        match checksum::verify(run, page.used_bytes(), snapshot.meta.txid) {
            Ok(Some(_txid)) => {}
            Ok(None) => {
                self.check.unverified_pages += pages;
                if self.all_sealed {
                    self.found(id, Problem::ChecksumLost);
                }
            }
            Err(problem) => self.found(id, problem),
        }
        match page {
            Page::Leaf(leaf) => {
                self.keys(id, leaf.count(), |index| leaf.key(index), first, end);
                for index in 0..leaf.count() {
                    if leaf.is_bucket(index) {
                        self.bucket(id, index, leaf.value(index).map_err(corrupt)?);
                    }
                }
            }
            Page::Branch(branch) => {
                self.keys(id, branch.count(), |index| branch.key(index), first, end);
                for index in 0..branch.count() {
                    let key = branch.key(index).map_err(corrupt)?;
                    let behind = match index + 1 {
                        next if next < branch.count() => Some(branch.key(next).map_err(corrupt)?),
                        _ => end,
                    };
                    self.tree(branch.child(index), Some(key), behind, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn keys<'k>(
        &mut self,
        id: u64,
        count: usize,
        key: impl Fn(usize) -> Result<&'k [u8], Problem>,
        first: Option<&[u8]>,
        end: Option<&[u8]>,
    ) {
        if count == 0 && first.is_some() {
            self.found(id, Problem::EmptyLeaf);
        }
        let mut before: Option<&[u8]> = None;
        for index in 0..count {
            let key = match key(index) {
                Ok(key) => key,
                Err(problem) => return self.found(id, problem),
            };
            match (before, first) {
                (None, Some(first)) if key < first => self.found(id, Problem::KeyBounds(0)),
                (None, Some(first)) if key > first => self.found(id, Problem::FirstKey),
                (Some(before), _) if before >= key => self.found(id, Problem::KeyOrder(index)),
                _ => {}
            }
            if end.is_some_and(|end| key >= end) {
                self.found(id, Problem::KeyBounds(index));
            }
            before = Some(key);
        }
    }

    fn bucket(&mut self, id: u64, index: usize, value: &[u8]) {
        let (root, sequence) = match page::parse_bucket(value, index) {
            Ok(bucket) => bucket,
            Err(problem) => return self.found(id, problem),
        };
        self.check.sequences += u64::from(sequence != 0);
        match root {
            BucketRoot::Page(root) => self.trees.push(root),
            BucketRoot::Inline(leaf) => {
                self.keys(id, leaf.count(), |index| leaf.key(index), None, None);
                let header = leaf.header();
                if (0..leaf.count()).any(|inner| leaf.is_bucket(inner))
                    || Page::Leaf(leaf).is_laid_out().is_err()
                    || header.id != 0
                    || header.overflow != 0
                {
                    self.found(id, Problem::Bucket(index));
                }
            }
        }
    }

    fn free_pages(&mut self, known: Option<&FreeList>) -> Result<(), Error> {
        let snapshot = self.snapshot;
        let meta = snapshot.meta;
        let stored = meta.has_freelist();
        if stored {
            match snapshot.map.run(meta.freelist, meta.high_water) {
                Ok(run) => {
                    let pages = (run.len() / snapshot.map.page_size()) as u64;
                    for page in meta.freelist..meta.freelist + pages {
                        if self.reached.set(page) {
                            self.found(page, Problem::ReachedTwice);
                        }
                    }
                }
                Err(error) => {
                    let finding = Finding::from_error(error)?;
                    self.found(meta.freelist, finding.problem);
                }
            }
        }
        let free = match known {
            Some(list) => {
                let pending = list.pending_runs().map(|run| (run.start, run.len));
                list.runs().chain(pending).collect()
            }
            None if stored => self.stored_free_pages(),
            // Nobody says which pages are free, so each one that is not in use is.
            None => return Ok(()),
        };
        let listed = PageBits::new(meta.high_water);
        for (start, len) in free {
            for page in start..start + len {
                if page < 2 || page >= meta.high_water {
                    self.found(
                        page,
                        Problem::OutOfBounds {
                            high_water: meta.high_water,
                        },
                    );
                } else if listed.set(page) {
                    self.found(page, Problem::FreeTwice);
                } else if self.reached.get(page) {
                    self.found(page, Problem::UsedButFree);
                }
            }
        }
        for page in 2..meta.high_water {
            if !self.reached.get(page) && !listed.get(page) {
                self.found(page, Problem::Lost);
            }
        }
        Ok(())
    }

    /// The list of free pages in the file, which is only looked at here.
    fn stored_free_pages(&mut self) -> Vec<(u64, u64)> {
        let meta = self.snapshot.meta;
        let Ok(run) = self.snapshot.map.run(meta.freelist, meta.high_water) else {
            return Vec::new();
        };
        let header = Header::read(run);
        if header.flags != FREELIST {
            self.found(meta.freelist, Problem::Type(header.flags));
            return Vec::new();
        }
        // A count that does not fit its field stands in the first place.
        let room = (run.len() - HEADER_BYTES) / 8;
        let (skip, count) = match header.count {
            0xFFFF => (
                1,
                usize::try_from(u64_at(run, HEADER_BYTES)).unwrap_or(usize::MAX),
            ),
            count => (0, count),
        };
        if count > room - skip {
            self.found(meta.freelist, Problem::Count(count));
            return Vec::new();
        }
        let ids = (skip..skip + count).map(|index| u64_at(run, HEADER_BYTES + 8 * index));
        ids.map(|id| (id, 1)).collect()
    }
}
