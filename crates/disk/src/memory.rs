//! Memory maps of open files: what both disks' views are made of.
//!
//! Invariant: a map is read-only and shared, so bytes written to the file show in it at once, and
//! nothing is ever written through it.

use crate::{Advice, View, ViewMemory};
use memmap2::{MmapOptions, MmapRaw};
use std::fs;
use std::io;
use std::sync::Arc;

struct Map(MmapRaw);

impl ViewMemory for Map {
    fn range(&self) -> (*const u8, usize) {
        (self.0.as_ptr(), self.0.len())
    }

    fn advise(&self, advice: Advice, offset: usize, len: usize) {
        let advice = match advice {
            Advice::Normal => memmap2::Advice::Normal,
            Advice::Random => memmap2::Advice::Random,
            Advice::Sequential => memmap2::Advice::Sequential,
            Advice::WillNeed => memmap2::Advice::WillNeed,
        };
        // A kernel that does not take the hint serves the pages all the same.
        let _unheeded = self.0.advise_range(advice, offset, len);
    }
}

/// Maps `reserve` bytes of `file` for reading, which may be more than it has.
pub(crate) fn map(file: &fs::File, reserve: usize) -> io::Result<View> {
    let map = MmapOptions::new().len(reserve).map_raw_read_only(file)?;
    Ok(View::new(Arc::new(Map(map))))
}
