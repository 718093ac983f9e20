//! A copy of the whole file as of a read transaction.
//!
//! Both meta pages of the copy describe that state: page 0 with its txid, page 1 with the one
//! before, as bbolt's `Tx.WriteTo` writes them. The other pages are copied as they are; free ones
//! among them may change meanwhile, which nobody can notice.

use crate::error::Error;
use crate::meta::Meta;
use crate::read::ReadTx;
use std::io;

/// Bytes read at a time, unless a page is larger.
const PIECE_BYTES: u64 = 1 << 20;

/// See [`ReadTx::write_to`].
pub(crate) fn write_to(
    tx: &ReadTx,
    out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<u64, Error> {
    let db = tx.db();
    let meta = tx.snapshot().meta;
    let mut give = |bytes: &[u8]| out(bytes).map_err(|source| db.io("giving out a copy", source));
    give(&meta.page_with(0, db.all_sealed))?;
    let before = Meta {
        txid: meta.txid.saturating_sub(1),
        ..meta
    };
    give(&before.page_with(1, db.all_sealed))?;

    let end = meta.bytes();
    let mut at = 2 * u64::from(meta.page_size);
    let mut piece = vec![0; PIECE_BYTES.min(end - at) as usize];
    while at < end {
        let len = PIECE_BYTES.min(end - at) as usize;
        db.file
            .read_exact_at(&mut piece[..len], at)
            .map_err(|source| db.io("reading for a copy", source))?;
        give(&piece[..len])?;
        at += len as u64;
    }
    Ok(end)
}
