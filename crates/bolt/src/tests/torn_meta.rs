//! A meta page of which a power cut left a part is told from a damaged one.

use super::basics::*;
use super::damage::made;
use crate::check::MetaCheck;
use crate::db::{Db, Options};
use quorate_disk::faulty::FaultyDisk;
use quorate_disk::{Disk, Mode};
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: u32 = 4096;
const SECTOR_BYTES: usize = 512;

/// The meta page that a transaction wrote, before and after it, and where it lies.
fn written_by_one(disk: &Arc<FaultyDisk>) -> (u64, Vec<u8>, Vec<u8>) {
    let file = disk.open(Path::new(PATH), Mode::Read).unwrap();
    let read = || {
        let mut bytes = vec![0; 2 * PAGE_BYTES as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let before = read();
    write_once(disk);
    let after = read();
    let size = PAGE_BYTES as usize;
    let first = if before[..size] != after[..size] {
        0
    } else {
        size
    };
    let page = |bytes: Vec<u8>| bytes[first..first + size].to_vec();
    (first as u64, page(before), page(after))
}

fn write_once(disk: &Arc<FaultyDisk>) {
    let db = open(disk, PAGE_BYTES);
    let mut tx = db.begin_write().unwrap();
    let mut bucket = tx.create_bucket_if_missing(b"once").unwrap();
    let value = db.txid().to_le_bytes();
    bucket.put(b"key", &value).unwrap();
    tx.commit().unwrap();
}

fn metas(disk: &Arc<FaultyDisk>) -> MetaCheck {
    let read_only = Options {
        read_only: true,
        ..options(PAGE_BYTES)
    };
    let db = Db::open(disk.clone(), Path::new(PATH), &read_only).unwrap();
    db.check_metas().unwrap()
}

#[test]
fn a_torn_meta_page_is_told_from_a_damaged_one() {
    for copied in [false, true] {
        // A copy has the one transaction's meta in both pages, whichever its own page is.
        for more in 0..4 {
            let (mut disk, _) = made(8);
            for _ in 0..more {
                write_once(&disk);
            }
            if copied {
                let mut bytes = Vec::new();
                let db = open(&disk, PAGE_BYTES);
                let mut take = |piece: &[u8]| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                };
                db.begin_read().write_to(&mut take).unwrap();
                disk = super::basics::disk();
                let file = disk.open(Path::new(PATH), Mode::Create).unwrap();
                file.write_all_at(&bytes, 0).unwrap();
                // The second write is to the page that the first one left.
                if more >= 2 {
                    write_once(&disk);
                }
            }
            let (at, before, after) = written_by_one(&disk);
            let file = disk.open(Path::new(PATH), Mode::Write).unwrap();
            let mut new_meta = before.clone();
            new_meta[..SECTOR_BYTES].copy_from_slice(&after[..SECTOR_BYTES]);
            let mut new_trailer = after.clone();
            new_trailer[..SECTOR_BYTES].copy_from_slice(&before[..SECTOR_BYTES]);
            for torn in [new_trailer, new_meta] {
                let what = format!("copied {copied}, {more} more");
                file.write_all_at(&torn, at).unwrap();
                let check = metas(&disk);
                assert_eq!(check.findings, [], "{what}");
                assert_eq!(check.torn.len(), 1, "{what}");
                // Any change beside that is damage, and so is the trailer of a time further back.
                let txid = torn.len() - 8;
                for (byte, mask) in [(100, 1), (600, 1), (txid, 8), (txid, 16), (txid + 2, 1)] {
                    let mut damaged = torn.clone();
                    damaged[byte] ^= mask;
                    file.write_all_at(&damaged, at).unwrap();
                    let check = metas(&disk);
                    assert_eq!(check.findings.len(), 1, "{what}: {byte}");
                    assert_eq!(check.torn, [], "{what}: {byte}");
                }
                // The right trailer with another transaction in it is no other page's.
                for mask in 1..8 {
                    let mut damaged = after.clone();
                    damaged[txid] ^= mask;
                    file.write_all_at(&damaged, at).unwrap();
                    assert_eq!(metas(&disk).torn, [], "{what}: {mask}");
                }
                file.write_all_at(&torn, at).unwrap();
            }
            // The meta of the new one counts; a write later it is still torn, and then it is not.
            drop(file);
            write_once(&disk);
            let check = metas(&disk);
            assert_eq!((check.findings.len(), check.torn.len()), (0, 1));
            write_once(&disk);
            assert_eq!(metas(&disk), MetaCheck::default());
        }
    }
}
