//! Checksums that bbolt's pages lack, kept where bbolt does not look.
//!
//! The last 16 bytes of a run of pages that we write are `magic u32 | CRC-32C u32 | txid u64`; the
//! magic is a constant xor the lower half of the page's id. The checksum covers the run up to them,
//! then the txid. bbolt never changes a page in place, and
//! fills the unused end of its own with zeros, so a page either carries a trailer of ours that
//! must be right, or none; a trailer that is right but for its magic is a damaged one.
//!
//! Invariant: every page that we write leaves these bytes free ([`pages_for`]).

use crate::error::Problem;
use crate::page::{u32_at, u64_at};

/// Bytes kept free at the end of a run of pages.
pub(crate) const TRAILER_BYTES: usize = 16;

const MAGIC: u32 = 0x5153_4c4b;

/// What marks the trailer of the run whose header is `run`'s first bytes. It differs from page to
/// page, so that a value which looks like it is harder to come by.
fn magic(run: &[u8]) -> u32 {
    MAGIC ^ u32_at(run, 0)
}

/// The pages that a node of `used` bytes takes.
pub(crate) fn pages_for(used: usize, page_size: usize) -> u64 {
    (used + TRAILER_BYTES).div_ceil(page_size) as u64
}

fn sum(run: &[u8], txid: u64) -> u32 {
    let body = crc32c::crc32c(&run[..run.len() - TRAILER_BYTES]);
    crc32c::crc32c_append(body, &txid.to_le_bytes())
}

/// Writes the trailer of a run of pages whose other bytes are final.
pub(crate) fn seal(run: &mut [u8], txid: u64) {
    let at = run.len() - TRAILER_BYTES;
    let sum = sum(run, txid);
    let magic = magic(run);
    run[at..at + 4].copy_from_slice(&magic.to_le_bytes());
    run[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
    run[at + 8..].copy_from_slice(&txid.to_le_bytes());
}

/// Checks a run of pages of which `used` bytes hold data, in a database at transaction `newest`.
/// Gives the transaction that wrote it, or `None` for a page without a trailer.
pub(crate) fn verify(run: &[u8], used: usize, newest: u64) -> Result<Option<u64>, Problem> {
    let at = run.len() - TRAILER_BYTES;
    let marked = u32_at(run, at) == magic(run);
    // The data of a page that bbolt wrote may end anywhere, and what is behind it is zero.
    let room = used <= at;
    if !marked && (!room || run[at..].iter().all(|byte| *byte == 0)) {
        return Ok(None);
    }
    let expected = u32_at(run, at + 4);
    let txid = u64_at(run, at + 8);
    let found = sum(run, txid);
    match (marked, found == expected) {
        (true, true) => {}
        // Not of our writing, as far as anybody can tell.
        (false, false) => return Ok(None),
        // The second case: all of the trailer is right, so it was the magic that changed.
        (true, false) | (false, true) => {
            return Err(Problem::Checksum {
                txid,
                expected,
                found,
            });
        }
    }
    if txid > newest {
        return Err(Problem::Future(txid));
    }
    Ok(Some(txid))
}

/// The transaction in the trailer of a page that has one, where neither its checksum nor another
/// transaction's, `txid`, is that of the page's bytes.
pub(crate) fn of_other_bytes(run: &[u8], txid: u64) -> Option<u64> {
    let at = run.len() - TRAILER_BYTES;
    let (stored, writer) = (u32_at(run, at + 4), u64_at(run, at + 8));
    let others = [txid, writer].iter().all(|txid| sum(run, *txid) != stored);
    (u32_at(run, at) == magic(run) && others).then_some(writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_run_verifies_and_any_flip_is_found() {
        let mut run = vec![3; 1024];
        run[900..].fill(0);
        assert_eq!(verify(&run, 900, 9), Ok(None));
        seal(&mut run, 7);
        assert_eq!(verify(&run, 900, 9), Ok(Some(7)));
        assert_eq!(verify(&run, 1024, 9), Ok(Some(7)));
        assert_eq!(verify(&run, 900, 6), Err(Problem::Future(7)));
        // The id in the first eight bytes is compared with the page's place elsewhere.
        for bit in 64..run.len() * 8 {
            run[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&run, 900, u64::MAX).is_err(), "bit {bit}");
            run[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_node_never_reaches_into_its_trailer() {
        assert_eq!(pages_for(4080, 4096), 1);
        assert_eq!(pages_for(4081, 4096), 2);
        assert_eq!(pages_for(16, 4096), 1);
    }
}
