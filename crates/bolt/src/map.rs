//! The file's pages in memory, each validated before its first use.
//!
//! Invariants:
//! - No page is used unless its id lies within the high-water mark of the snapshot that asks, and
//!   the file covers that mark (checked at open, kept by growth and by cutting).
//! - A page whose bit is set in `sound` was parsed as a whole since it was last written. Pages in
//!   use are never written, so the bit is cleared before a page's new bytes are published.

use crate::error::{Error, Problem};
use crate::page::{self, Header, Page};
use quorate_disk::{Advice, View};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of one chunk of a [`PageBits`].
const CHUNK_WORDS: usize = 512;
const CHUNK_PAGES: u64 = CHUNK_WORDS as u64 * 64;

/// A bit per page, in memory only where bits were set.
pub(crate) struct PageBits {
    chunks: Vec<OnceLock<Box<[AtomicU64]>>>,
}

impl PageBits {
    pub(crate) fn new(pages: u64) -> PageBits {
        let chunks = pages.div_ceil(CHUNK_PAGES);
        PageBits {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
        }
    }

    fn place(page: u64) -> (usize, usize, u64) {
        let within = page % CHUNK_PAGES;
        (
            (page / CHUNK_PAGES) as usize,
            (within / 64) as usize,
            1 << (within % 64),
        )
    }

    pub(crate) fn get(&self, page: u64) -> bool {
        let (chunk, word, bit) = PageBits::place(page);
        match self.chunks[chunk].get() {
            Some(words) => words[word].load(Ordering::Acquire) & bit != 0,
            None => false,
        }
    }

    /// Sets the bit, and says whether it was set before.
    pub(crate) fn set(&self, page: u64) -> bool {
        let (chunk, word, bit) = PageBits::place(page);
        let words = self.chunks[chunk]
            .get_or_init(|| (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect());
        words[word].fetch_or(bit, Ordering::AcqRel) & bit != 0
    }

    pub(crate) fn clear(&self, page: u64) {
        let (chunk, word, bit) = PageBits::place(page);
        if let Some(words) = self.chunks[chunk].get() {
            words[word].fetch_and(!bit, Ordering::AcqRel);
        }
    }
}

/// A map of the file. Snapshots share it; a larger one takes its place when the file outgrows it.
pub(crate) struct Map {
    view: View,
    path: PathBuf,
    page_size: usize,
    sound: PageBits,
}

impl Map {
    pub(crate) fn new(view: View, path: &Path, page_size: u32) -> Map {
        let pages = view.reserved() as u64 / u64::from(page_size);
        let page_size = page_size as usize;
        Map {
            view,
            path: path.to_path_buf(),
            page_size,
            sound: PageBits::new(pages),
        }
    }

    /// Pages that it has room for.
    pub(crate) fn pages(&self) -> u64 {
        (self.view.reserved() / self.page_size) as u64
    }

    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about page `id`.
    pub(crate) fn corrupt(&self, id: u64, problem: Problem) -> Error {
        let offset = id.saturating_mul(self.page_size as u64);
        Error::Corrupt {
            path: self.path.clone(),
            page: id,
            offset,
            problem,
        }
    }

    /// Where a page begins in the file.
    pub(crate) fn offset(&self, id: u64) -> u64 {
        id * self.page_size as u64
    }

    /// Bytes at an offset below a high-water mark that the file covers.
    pub(crate) fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        self.view
            .bytes(offset, len)
            .expect("callers stay within the high-water mark")
    }

    /// The whole run of pages of page `id`, as its header says.
    pub(crate) fn run(&self, id: u64, high_water: u64) -> Result<&[u8], Error> {
        if id < 2 || id >= high_water {
            return Err(self.corrupt(id, Problem::OutOfBounds { high_water }));
        }
        assert!(
            high_water <= self.pages(),
            "a snapshot's map covers its high-water mark"
        );
        let header = Header::read(self.bytes(self.offset(id), page::HEADER_BYTES));
        if header.id != id {
            return Err(self.corrupt(id, Problem::Id(header.id)));
        }
        let pages = u64::from(header.overflow) + 1;
        if pages > high_water - id {
            return Err(self.corrupt(id, Problem::Overflow(header.overflow)));
        }
        Ok(self.bytes(self.offset(id), pages as usize * self.page_size))
    }

    /// Page `id`, sound.
    pub(crate) fn page(&self, id: u64, high_water: u64) -> Result<Page<'_>, Error> {
        let run = self.run(id, high_water)?;
        if self.sound.get(id) {
            return page::assume(run).map_err(|problem| self.corrupt(id, problem));
        }
        let page = page::parse(run).map_err(|problem| self.corrupt(id, problem))?;
        self.sound.set(id);
        Ok(page)
    }

    /// As [`Map::page`], and looks at its elements again even if they were sound before.
    pub(crate) fn page_afresh(&self, id: u64, high_water: u64) -> Result<Page<'_>, Error> {
        let run = self.run(id, high_water)?;
        let page = page::parse(run).map_err(|problem| self.corrupt(id, problem))?;
        self.sound.set(id);
        Ok(page)
    }

    /// Says that a page is about to be written.
    pub(crate) fn forget(&self, id: u64) {
        if id < self.pages() {
            self.sound.clear(id);
        }
    }

    /// Asks for a run of pages to be read in.
    pub(crate) fn prefetch(&self, id: u64, pages: u64) {
        let len = pages.saturating_mul(self.page_size as u64);
        self.view.advise(
            Advice::WillNeed,
            self.offset(id),
            usize::try_from(len).unwrap_or(usize::MAX),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_and_cleared_one_by_one() {
        let bits = PageBits::new(CHUNK_PAGES * 3);
        for page in [
            0,
            1,
            63,
            64,
            CHUNK_PAGES - 1,
            CHUNK_PAGES,
            CHUNK_PAGES * 3 - 1,
        ] {
            assert!(!bits.get(page));
            assert!(!bits.set(page));
            assert!(bits.set(page));
            assert!(bits.get(page));
        }
        bits.clear(63);
        assert!(!bits.get(63) && bits.get(64) && bits.get(1));
    }
}
