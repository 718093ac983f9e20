//! Making a write transaction durable.
//!
//! Order: room in the file, pages, sync, meta page, sync, and only then the new state is shown.
//!
//! Invariants:
//! - Pages go only where neither the state before nor an open reader's has any.
//! - Until the first sync, a failure changes nothing: what was taken from the free pages is given
//!   back. From then on a failure makes the state on disk unknown, and the database refuses writes.

use crate::db::{Inner, Snapshot, Writer, map_file};
use crate::error::{Error, Problem};
use crate::freelist::Freed;
use crate::map::Map;
use crate::meta::{Meta, NO_FREELIST};
use crate::page::Header;
use crate::settle::{Made, Output, settle};
use crate::write::WriteTx;
use std::sync::Arc;

/// Up to this length in bytes a file grows by doubling, and by as much at a time beyond, as with
/// bbolt.
const GROWTH_BYTES: u64 = 16 << 20;

/// The length that the smallest growth makes.
const LEN_MIN: u64 = 32 << 10;

/// What a commit did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitStats {
    /// The transaction.
    pub txid: u64,
    /// Pages written, without the meta page.
    pub written_pages: u64,
    /// Pages of the state before that are not used any more.
    pub freed_pages: u64,
    /// [`crate::Db::size`] afterwards.
    pub size: u64,
    /// [`crate::Db::size_in_use`] afterwards.
    pub size_in_use: u64,
}

/// Where a commit may put its pages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement {
    /// In the lowest free pages that fit, or at the end.
    Anywhere,
    /// First of all below `end`, and never in the free pages of `avoid` (first, and number).
    /// Afterwards, free pages at the end of the file are cut off its high-water mark.
    Below {
        /// Where the pages to be emptied begin.
        end: u64,
        /// What is kept free.
        avoid: Option<(u64, u64)>,
    },
}

/// See [`WriteTx::commit`].
pub(crate) fn commit(tx: WriteTx<'_>, placement: Placement) -> Result<CommitStats, Error> {
    let WriteTx {
        db,
        mut writer,
        mut memory,
        mut root,
    } = tx;
    let writer = &mut *writer;
    let before = memory.base.meta;
    let (end, lowers, kept) = match placement {
        Placement::Anywhere => (u64::MAX, false, Vec::new()),
        Placement::Below { end, avoid } => (
            end,
            true,
            avoid.map_or(Vec::new(), |(start, len)| writer.free.carve(start, len)),
        ),
    };
    let mut buffer = std::mem::take(&mut writer.spare_pages);
    buffer.clear();
    let mut out = Output {
        free: &mut writer.free,
        txid: before.txid + 1,
        page_size: before.page_size as usize,
        high_water: before.high_water,
        end,
        buffer,
        pages: Vec::new(),
        taken: Vec::new(),
    };
    let settled = settle(&mut root, &mut memory, &mut out, true);
    let Output {
        high_water,
        buffer,
        mut pages,
        taken,
        ..
    } = out;
    for (start, len) in kept {
        writer.free.add(start, len);
    }
    let give_back = |writer: &mut Writer, error: Error| {
        for &(start, len) in &taken {
            writer.free.add(start, len);
        }
        error
    };
    settled.map_err(|error| give_back(writer, error))?;
    let crate::bucket_node::Root::Page(root_page) = root.root else {
        unreachable!("the root bucket has a page");
    };
    if before.has_freelist() {
        let run = memory.base.map.run(before.freelist, before.high_water);
        let run = run.map_err(|error| give_back(writer, error))?;
        let len = u64::from(Header::read(run).overflow) + 1;
        memory.freed.push(Freed {
            start: before.freelist,
            len,
            since: 0,
        });
    }

    memory.freed.sort_unstable_by_key(|run| run.start);
    // Only a tree whose keys lead astray, damaged where no checksum tells, can come to this.
    let twice = memory
        .freed
        .windows(2)
        .find(|pair| pair[0].start + pair[0].len > pair[1].start);
    if let Some([_, second]) = twice {
        let error = memory.base.map.corrupt(second.start, Problem::ReachedTwice);
        return Err(give_back(writer, error));
    }
    pages.sort_unstable_by_key(|page| page.id);
    for pair in pages.windows(2) {
        let end = pair[0].id + pair[0].len as u64 / u64::from(db.page_size);
        assert!(end <= pair[1].id, "page {} is written twice", pair[1].id);
    }
    grow(db, writer, high_water).map_err(|error| give_back(writer, error))?;
    write_pages(db, &buffer, &pages).map_err(|error| give_back(writer, error))?;
    let map = larger_map(db, &memory.base, high_water).map_err(|error| give_back(writer, error))?;
    if !pages.is_empty() {
        db.file
            .sync_data()
            .map_err(|source| db.poison("syncing pages", source))?;
    }

    let tail = writer.free.tail_start(high_water);
    let cut = lowers && tail < high_water;
    let meta = Meta {
        page_size: before.page_size,
        root: root_page,
        root_sequence: root.sequence,
        freelist: NO_FREELIST,
        high_water: if cut { tail } else { high_water },
        txid: before.txid + 1,
    };
    let at = meta.txid % 2 * u64::from(meta.page_size);
    db.file
        .write_all_at(&meta.page_with(meta.txid % 2, db.all_sealed), at)
        .map_err(|source| db.poison("writing the meta page", source))?;
    db.file
        .sync_data()
        .map_err(|source| db.poison("syncing the meta page", source))?;

    // Committed. Everything from here on only tells so.
    if cut {
        writer.free.take(tail, high_water - tail);
    }
    let freed_pages = memory.freed.iter().map(|run| run.len).sum();
    writer
        .free
        .add_pending(meta.txid, std::mem::take(&mut memory.freed));
    writer.other_high_water = before.high_water;
    for page in &pages {
        map.forget(page.id);
    }
    let free_pages = writer.free.free_pages();
    {
        let mut shared = db.shared();
        shared.newest = Arc::new(Snapshot { map, meta });
        shared.free_pages = free_pages;
    }
    let page_size = u64::from(meta.page_size);
    let written_pages = buffer.len() as u64 / page_size;
    memory.arena.clear();
    writer.spare = memory.arena;
    writer.spare_pages = buffer;
    // A rare large commit does not keep its memory.
    if writer.spare_pages.capacity() as u64 > GROWTH_BYTES {
        writer.spare_pages = Vec::new();
    }
    Ok(CommitStats {
        txid: meta.txid,
        written_pages,
        freed_pages,
        size: meta.bytes(),
        size_in_use: meta.bytes() - free_pages * page_size,
    })
}

/// The length that a file gets which has to have `needed` bytes.
pub(crate) fn grown_len(needed: u64) -> u64 {
    if needed <= GROWTH_BYTES {
        needed.next_power_of_two().max(LEN_MIN)
    } else {
        needed.next_multiple_of(GROWTH_BYTES)
    }
}

/// Makes the file long enough for its high-water mark.
fn grow(db: &Inner, writer: &mut Writer, high_water: u64) -> Result<(), Error> {
    let needed = high_water * u64::from(db.page_size);
    if needed <= writer.file_len {
        return Ok(());
    }
    let generous = grown_len(needed);
    let mut grown = db.file.set_len(generous);
    if grown.is_err() && generous > needed {
        grown = db.file.set_len(needed);
    }
    let len = db.file.len();
    // What a failed growth may have left is counted, too, where it can be known.
    if let Ok(len) = len {
        writer.file_len = len;
    }
    grown.map_err(|source| db.io("growing the file", source))
}

/// Writes pages, neighbours in one call.
fn write_pages(db: &Inner, buffer: &[u8], pages: &[Made]) -> Result<(), Error> {
    let page_size = u64::from(db.page_size);
    let behind = |page: &Made| page.id + page.len as u64 / page_size;
    for neighbours in pages.chunk_by(|left, right| behind(left) == right.id) {
        // What is also together in memory becomes one slice.
        let together = neighbours.chunk_by(|left, right| left.at + left.len == right.at);
        let slices = together.map(|pages| {
            let (first, last) = (&pages[0], &pages[pages.len() - 1]);
            &buffer[first.at..last.at + last.len]
        });
        let slices: Vec<&[u8]> = slices.collect();
        db.file
            .write_vectored_at(&slices, neighbours[0].id * page_size)
            .map_err(|source| db.io("writing pages", source))?;
    }
    Ok(())
}

/// The map of the state before, or a larger one where that is too small now.
fn larger_map(db: &Inner, base: &Snapshot, high_water: u64) -> Result<Arc<Map>, Error> {
    if high_water <= base.map.pages() {
        return Ok(base.map.clone());
    }
    let least = usize::try_from(high_water * u64::from(db.page_size)).unwrap_or(usize::MAX);
    let view = map_file(db.file.as_ref(), least.saturating_mul(2), least)
        .map_err(|source| db.io("mapping the file", source))?;
    Ok(Arc::new(Map::new(view, &db.path, db.page_size)))
}
