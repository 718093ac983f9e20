//! Cutting the end of the file off.
//!
//! Invariant of cutting the file to the high-water mark: both meta pages say durably that nothing
//! beyond is in use, and no reader's state has a higher mark, so nobody looks there any more.

use crate::commit::grown_len;
use crate::db::{Inner, Writer};
use crate::error::Error;
use crate::write::WriteTx;

/// Bytes that one step cuts off at most: giving back blocks takes the file system its time.
const CUT_BYTES: u64 = 32 << 20;

/// Shortens the file towards its high-water mark where that is allowed and worth it.
pub(crate) fn cut(db: &Inner, tx: &mut WriteTx<'_>) -> Result<u64, Error> {
    if tail(db, tx) != Tail::ToBeCut {
        return Ok(0);
    }
    let writer: &mut Writer = &mut tx.writer;
    let before = writer.file_len;
    let len = tx
        .memory
        .base
        .meta
        .bytes()
        .max(before.saturating_sub(CUT_BYTES));
    db.file
        .set_len(len)
        .map_err(|source| db.io("cutting the file", source))?;
    writer.file_len = len;
    db.file
        .sync_data()
        .map_err(|source| db.poison("syncing the cut", source))?;
    Ok(before - len)
}

/// What is beyond the high-water mark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// No more than the file would have been made with, or what the other meta page names.
    AsItShouldBe,
    /// More than that, and readers see some of it.
    Read,
    /// More than that, and nobody looks at it any more.
    ToBeCut,
}

/// See [`Tail`].
pub(crate) fn tail(db: &Inner, tx: &WriteTx<'_>) -> Tail {
    let meta = tx.memory.base.meta;
    let worth_it = tx.writer.file_len > grown_len(meta.bytes());
    // No state with a higher mark can be opened any more: the newest one is this.
    let seen = |high_water: u64| high_water > meta.high_water;
    if !worth_it || seen(tx.writer.other_high_water) {
        return Tail::AsItShouldBe;
    }
    let shared = db.shared();
    if shared.readers.values().any(|r| seen(r.high_water)) {
        Tail::Read
    } else {
        Tail::ToBeCut
    }
}

/// Whether neither a commit nor a cut would make the file shorter.
pub(crate) fn is_settled(tx: &WriteTx<'_>) -> bool {
    let high_water = tx.memory.base.meta.high_water;
    tx.writer.free.tail_start(high_water) == high_water && tx.writer.other_high_water <= high_water
}
