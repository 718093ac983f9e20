//! Changed bytes are found: at open, by `check`, by the scrub, and before a page is written anew.

use super::basics::*;
use super::model::*;
use crate::check::MetaCheck;
use crate::db::{Db, Options};
use crate::error::{Error, Problem};
use crate::scrub::ScrubCursor;
use crate::vacuum::VacuumNext;
use quorate_disk::faulty::FaultyDisk;
use quorate_disk::{Disk, Mode};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: u32 = 4096;

pub fn made(seed: u64) -> (Arc<FaultyDisk>, Model) {
    let disk = disk();
    let db = open(&disk, PAGE_BYTES);
    let mut random = Random::new(seed);
    let mut model = Model::default();
    for _ in 0..40 {
        transaction(&db, &mut model, &mut random);
    }
    (disk, model)
}

/// Pages in use, as a check that sees damage everywhere would list them.
fn pages_in_use(db: &Db) -> BTreeSet<u64> {
    let writer = db.inner.writer().unwrap();
    let mut used: BTreeSet<u64> = (2..db.size() / u64::from(PAGE_BYTES)).collect();
    let pending = writer.free.pending_runs().map(|run| (run.start, run.len));
    for (start, len) in writer.free.runs().chain(pending) {
        for page in start..start + len {
            used.remove(&page);
        }
    }
    used
}

#[test]
fn a_flipped_bit_in_any_page_in_use_is_found_everywhere() {
    let (disk, _) = made(1);
    let path = Path::new(PATH);
    let db = open(&disk, PAGE_BYTES);
    let used = pages_in_use(&db);
    assert!(used.len() > 30);
    let mut random = Random::new(2);
    for page in used {
        let offset = page * u64::from(PAGE_BYTES) + random.below(u64::from(PAGE_BYTES));
        let mask = 1 << random.below(8);
        disk.corrupt(path, offset, mask).unwrap();
        let check = db.check().unwrap();
        assert!(!check.is_ok(), "page {page} offset {offset}");
        let mut cursor = ScrubCursor::default();
        let mut findings = Vec::new();
        // The map remembers sound pages, so scrubbing looks at them as at open.
        for _ in 0..1000 {
            let step = db.scrub_step(&mut cursor, 5).unwrap();
            findings.extend(step.findings);
            if step.done {
                break;
            }
        }
        assert!(!findings.is_empty(), "page {page} offset {offset}");
        disk.corrupt(path, offset, mask).unwrap();
    }
    assert_sound(&db);
}

#[test]
fn a_flipped_bit_stops_the_opening_with_its_place() {
    let (disk, _) = made(3);
    let path = Path::new(PATH);
    let used = pages_in_use(&open(&disk, PAGE_BYTES));
    let mut random = Random::new(4);
    for page in used {
        let offset = page * u64::from(PAGE_BYTES) + random.below(u64::from(PAGE_BYTES));
        disk.corrupt(path, offset, 4).unwrap();
        match Db::open(disk.clone(), path, &options(PAGE_BYTES)) {
            Err(Error::Corrupt {
                path: named,
                offset: at,
                ..
            }) => {
                assert_eq!(named, path);
                assert!(at <= offset);
            }
            Err(error) => panic!("page {page}: {error}"),
            Ok(_) => panic!("page {page} offset {offset}: not noticed"),
        }
        disk.corrupt(path, offset, 4).unwrap();
    }
}

#[test]
fn a_damaged_page_is_not_written_anew_as_a_sound_one() {
    let disk = disk();
    let db = open(&disk, PAGE_BYTES);
    let mut tx = db.begin_write().unwrap();
    let mut bucket = tx.create_bucket_if_missing(b"b").unwrap();
    bucket.put(b"damaged", &[b'x'; 2000]).unwrap();
    tx.commit().unwrap();
    let value = db
        .begin_read()
        .bucket(b"b")
        .unwrap()
        .unwrap()
        .get(b"damaged")
        .unwrap()
        .unwrap()
        .to_vec();
    let bytes = disk.open(Path::new(PATH), Mode::Read).unwrap();
    let mut whole = vec![0; bytes.len().unwrap() as usize];
    bytes.read_exact_at(&mut whole, 0).unwrap();
    let at = whole
        .windows(value.len())
        .position(|window| window == value)
        .unwrap();
    disk.corrupt(Path::new(PATH), at as u64 + 5, 1).unwrap();
    let mut tx = db.begin_write().unwrap();
    let mut bucket = tx.bucket(b"b").unwrap().unwrap();
    let error = bucket.put(b"other", b"value").unwrap_err();
    assert!(
        matches!(
            error,
            Error::Corrupt {
                problem: Problem::Checksum { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn no_bytes_at_all_make_it_panic() {
    let (mut opened, mut refused) = (0, 0);
    let path = Path::new(PATH);
    let sound = made_once();
    let pages = sound.len() as u64 / u64::from(PAGE_BYTES);
    for seed in 0..400 {
        let mut random = Random::new(seed + 77);
        let disk = disk();
        let file = disk.open(path, Mode::Create).unwrap();
        file.write_all_at(&sound, 0).unwrap();
        for _ in 0..1 + random.below(12) {
            // Headers and elements most of all; trailers are cleared so that no checksum helps.
            let start = (2 + random.below(pages - 2)) * u64::from(PAGE_BYTES);
            clear_trailer(&disk, start);
            for _ in 0..1 + random.below(4) {
                let within = if random.one_in(3) { 16 } else { 200 };
                let mask = 1 + random.below(255) as u8;
                disk.corrupt(path, start + random.below(within), mask)
                    .unwrap();
            }
        }
        let read_only = Options {
            read_only: true,
            ..options(PAGE_BYTES)
        };
        let db = Db::open(disk.clone(), path, &read_only).unwrap();
        db.check().unwrap();
        read_everything(&db);
        drop(db);
        match Db::open(disk.clone(), path, &options(PAGE_BYTES)) {
            Ok(db) => {
                opened += 1;
                write_everywhere(&db, &mut random);
            }
            Err(Error::Corrupt { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(
        opened > 20 && refused > 100,
        "{opened} opened, {refused} refused"
    );
}

/// Reads until answers or errors end it.
fn read_everything(db: &Db) {
    let read = db.begin_read();
    let Ok(names) = read.buckets() else { return };
    for name in names {
        let Ok(Some(bucket)) = read.bucket(&name) else {
            continue;
        };
        let Ok(mut cursor) = bucket.range(std::ops::Bound::Unbounded) else {
            continue;
        };
        // A damaged tree has no cycle that a cursor could follow for ever: its depth is limited,
        // and so are the elements of a page.
        while let Ok(Some(_)) = cursor.next() {}
    }
}

/// Writes and vacuums; errors of the file are fine, and all calls come back.
fn write_everywhere(db: &Db, random: &mut Random) {
    let mut tx = db.begin_write().unwrap();
    for name in [&b"top0"[..], b"top1", b"top2", b"top3"] {
        if let Ok(Some(mut bucket)) = tx.bucket(name) {
            for _ in 0..20 {
                let put = bucket.put(&random_key(random), b"x");
                let deleted = bucket.delete(&random_key(random));
                assert_no_argument_error(put.err());
                assert_no_argument_error(deleted.err());
            }
        }
        if random.one_in(4) {
            assert_no_argument_error(tx.delete_bucket(name).err());
        }
    }
    assert_no_argument_error(tx.commit().err());
    for _ in 0..50 {
        match db.vacuum_step(100_000) {
            Ok(step) if step.next == VacuumNext::Done => break,
            Ok(_) => {}
            Err(error) => return assert_no_argument_error(Some(error)),
        }
    }
}

fn assert_no_argument_error(error: Option<Error>) {
    match error {
        // A flag that flipped makes a bucket of a value, or the reverse.
        None | Some(Error::Corrupt { .. } | Error::IncompatibleValue | Error::BucketMissing) => {}
        Some(error) => panic!("{error}"),
    }
}

fn made_once() -> Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let (disk, _) = made(9);
        let file = disk.open(Path::new(PATH), Mode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    });
    bytes.clone()
}

fn clear_trailer(disk: &FaultyDisk, page_start: u64) {
    let path = Path::new(PATH);
    let at = page_start + u64::from(PAGE_BYTES) - 16;
    let file = disk.open(path, Mode::Write).unwrap();
    file.write_all_at(&[0; 16], at).unwrap();
}

#[test]
fn a_cycle_is_an_error_and_not_a_hang() {
    let disk = disk();
    let db = open(&disk, PAGE_BYTES);
    let mut tx = db.begin_write().unwrap();
    let mut bucket = tx.create_bucket_if_missing(b"b").unwrap();
    for number in 0..5000u64 {
        bucket.put(&number.to_be_bytes(), &[1; 100]).unwrap();
    }
    tx.commit().unwrap();
    let read = db.begin_read();
    let crate::page::BucketRoot::Page(root) = read.bucket(b"b").unwrap().unwrap().root else {
        panic!("a large bucket has a page");
    };
    drop(read);
    drop(db);
    // The first child of the root becomes the root itself.
    let at = root * u64::from(PAGE_BYTES);
    let file = disk.open(Path::new(PATH), Mode::Write).unwrap();
    file.write_all_at(&root.to_le_bytes(), at + 16 + 8).unwrap();
    clear_trailer(&disk, at);
    drop(file);
    let read_only = Options {
        read_only: true,
        ..options(PAGE_BYTES)
    };
    let db = Db::open(disk.clone(), Path::new(PATH), &read_only).unwrap();
    let read = db.begin_read();
    let bucket = read.bucket(b"b").unwrap().unwrap();
    assert!(matches!(
        bucket.get(b"\0"),
        Err(Error::Corrupt {
            problem: Problem::Depth,
            ..
        })
    ));
    assert!(bucket.range(std::ops::Bound::Unbounded).is_err());
    let check = db.check().unwrap();
    assert!(
        check
            .findings
            .iter()
            .any(|finding| finding.problem == Problem::ReachedTwice)
    );
    drop(read);
    drop(db);
    assert!(Db::open(disk, Path::new(PATH), &options(PAGE_BYTES)).is_err());
}

#[test]
fn a_file_that_ends_early_is_refused() {
    let (disk, _) = made(5);
    let size = open(&disk, PAGE_BYTES).size();
    let file = disk.open(Path::new(PATH), Mode::Write).unwrap();
    file.set_len(size - 1).unwrap();
    let error = Db::open(disk.clone(), Path::new(PATH), &options(PAGE_BYTES))
        .err()
        .unwrap();
    assert!(
        matches!(
            error,
            Error::Corrupt {
                problem: Problem::FileTooShort(_),
                ..
            }
        ),
        "{error}"
    );
    file.set_len(20).unwrap();
    let error = Db::open(disk, Path::new(PATH), &options(PAGE_BYTES))
        .err()
        .unwrap();
    assert!(matches!(error, Error::NoMeta { .. }), "{error}");
}

#[test]
fn a_torn_newest_meta_page_leaves_the_state_before() {
    let disk = disk();
    let db = open(&disk, PAGE_BYTES);
    for value in [b"1", b"2"] {
        let mut tx = db.begin_write().unwrap();
        tx.create_bucket_if_missing(b"b")
            .unwrap()
            .put(b"k", value)
            .unwrap();
        tx.commit().unwrap();
    }
    let newest = db.txid();
    drop(db);
    let offset = newest % 2 * u64::from(PAGE_BYTES) + 60;
    disk.corrupt(Path::new(PATH), offset, 1).unwrap();
    let db = open(&disk, PAGE_BYTES);
    assert_eq!(db.txid(), newest - 1);
    let read = db.begin_read();
    assert_eq!(
        read.bucket(b"b").unwrap().unwrap().get(b"k").unwrap(),
        Some(&b"1"[..])
    );
    assert_sound(&db);
}

#[test]
fn a_checksum_that_is_gone_is_found_where_all_pages_had_one() {
    let (disk, _) = made(5);
    let db = open(&disk, PAGE_BYTES);
    let page = *pages_in_use(&db).last().unwrap();
    drop(db);
    clear_trailer(&disk, page * u64::from(PAGE_BYTES));
    let db = open(&disk, PAGE_BYTES);
    let check = db.check().unwrap();
    assert_eq!(check.findings.len(), 1);
    assert_eq!(check.findings[0].problem, Problem::ChecksumLost);
    // A state that began with pages of bbolt's says nothing of its pages' checksums.
    let mut tx = db.begin_write().unwrap();
    tx.create_bucket_if_missing(b"new").unwrap();
    tx.commit().unwrap();
    let check = db.check().unwrap();
    assert!(check.is_ok());
    assert_eq!(check.unverified_pages, 1);
}

#[test]
fn any_change_of_a_meta_page_is_found() {
    let (disk, _) = made(6);
    let path = Path::new(PATH);
    let read_only = Options {
        read_only: true,
        ..options(PAGE_BYTES)
    };
    for page in 0..2 {
        for offset in 0..u64::from(PAGE_BYTES) {
            let at = page * u64::from(PAGE_BYTES) + offset;
            disk.corrupt(path, at, 0x10).unwrap();
            let db = Db::open(disk.clone(), path, &read_only).unwrap();
            let check = db.check_metas().unwrap();
            assert_eq!(check.findings.len(), 1, "offset {at}");
            drop(db);
            disk.corrupt(path, at, 0x10).unwrap();
        }
    }
    let db = Db::open(disk, path, &read_only).unwrap();
    assert_eq!(db.check_metas().unwrap(), MetaCheck::default());
}

#[test]
fn a_cursor_goes_backward_over_what_it_goes_forward() {
    let (disk, _) = made(7);
    let db = open(&disk, PAGE_BYTES);
    let read = db.begin_read();
    for name in read.buckets().unwrap() {
        let bucket = read.bucket(&name).unwrap().unwrap();
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let mut cursor = bucket.range(std::ops::Bound::Unbounded).unwrap();
        while let Some(entry) = cursor.next().unwrap() {
            there.push(entry);
        }
        let mut cursor = bucket.backward().unwrap();
        while let Some(entry) = cursor.next().unwrap() {
            back.push(entry);
        }
        back.reverse();
        assert_eq!(there, back);
    }
}
