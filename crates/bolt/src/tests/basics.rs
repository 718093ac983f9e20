use super::model::*;
use crate::cursor::Entry;
use crate::db::{Db, Options};
use crate::error::Error;
use crate::scan::LeafScan;
use quorate_disk::faulty::FaultyDisk;
use quorate_disk::{Disk, Mode};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(super) const PATH: &str = "/d/db";

pub(super) fn disk() -> Arc<FaultyDisk> {
    let disk = FaultyDisk::new(7);
    disk.create_dir_all(Path::new("/d")).unwrap();
    Arc::new(disk)
}

pub(super) fn options(page_size: u32) -> Options {
    Options {
        page_size: Some(page_size),
        initial_map_size: 1 << 20,
        ..Options::default()
    }
}

pub(super) fn open(disk: &Arc<FaultyDisk>, page_size: u32) -> Db {
    Db::open(disk.clone(), Path::new(PATH), &options(page_size)).unwrap()
}

#[test]
fn random_transactions_agree_with_the_model_at_every_page_size() {
    for (seed, page_size) in [(1, 1024), (2, 4096), (3, 4096), (4, 8192), (5, 65536)] {
        let disk = disk();
        let mut db = open(&disk, page_size);
        let mut random = Random::new(seed);
        let mut model = Model::default();
        let mut readers = Vec::new();
        for round in 0..150 {
            transaction(&db, &mut model, &mut random);
            if random.one_in(6) {
                readers.push((db.begin_read(), model.clone()));
            }
            if random.one_in(10) && !readers.is_empty() {
                let index = random.below(readers.len() as u64) as usize;
                readers.swap_remove(index);
            }
            if round % 10 == 0 {
                for (reader, model) in &readers {
                    assert_eq!(&contents(reader), model);
                }
                assert_same(&db.begin_read(), &model, &mut random);
                assert_sound(&db);
            }
            assert_eq!(db.open_reads(), readers.len());
            if random.one_in(25) {
                readers.clear();
                let size = (db.size(), db.txid());
                drop(db);
                db = open(&disk, page_size);
                assert_eq!((db.size(), db.txid()), size);
                assert_eq!(db.unverified_pages(), 0);
                assert_same(&db.begin_read(), &model, &mut random);
            }
        }
        assert!(db.size_in_use() <= db.size());
    }
}

#[test]
fn a_new_database_has_four_pages_and_is_locked() {
    let disk = disk();
    let db = open(&disk, 4096);
    assert_eq!(db.size(), 4 * 4096);
    assert_eq!(db.txid(), 1);
    assert_eq!(db.begin_read().buckets().unwrap(), Vec::<Vec<u8>>::new());
    let again = Db::open(disk.clone(), Path::new(PATH), &options(4096));
    assert!(matches!(again, Err(Error::Locked { .. })));
    let read_only = Options {
        read_only: true,
        ..options(4096)
    };
    let again = Db::open(disk.clone(), Path::new(PATH), &read_only);
    assert!(matches!(again, Err(Error::Locked { .. })));
    drop(db);
    let reader = Db::open(disk.clone(), Path::new(PATH), &read_only).unwrap();
    assert!(matches!(reader.begin_write(), Err(Error::ReadOnly { .. })));
    let second = Db::open(disk.clone(), Path::new(PATH), &read_only).unwrap();
    assert_eq!(second.begin_read().size(), 4 * 4096);
    assert_eq!(disk.list(Path::new("/d")).unwrap(), ["db"]);
}

#[test]
fn arguments_are_checked() {
    let disk = disk();
    let db = open(&disk, 4096);
    let mut tx = db.begin_write().unwrap();
    assert!(matches!(
        tx.create_bucket_if_missing(b""),
        Err(Error::KeyRequired)
    ));
    let mut bucket = tx.create_bucket_if_missing(b"b").unwrap();
    assert!(matches!(bucket.put(b"", b"x"), Err(Error::KeyRequired)));
    assert!(matches!(
        bucket.put(&[1; 32769], b"x"),
        Err(Error::KeyTooLarge(32769))
    ));
    bucket.put(&[1; 32768], b"x").unwrap();
    bucket.put(b"plain", b"x").unwrap();
    bucket.create_bucket_if_missing(b"sub").unwrap();
    assert!(matches!(
        bucket.put(b"sub", b"x"),
        Err(Error::IncompatibleValue)
    ));
    assert!(matches!(
        bucket.delete(b"sub"),
        Err(Error::IncompatibleValue)
    ));
    assert!(matches!(
        bucket.create_bucket_if_missing(b"plain"),
        Err(Error::IncompatibleValue)
    ));
    assert!(matches!(
        bucket.delete_bucket(b"plain"),
        Err(Error::IncompatibleValue)
    ));
    assert!(bucket.bucket(b"plain").unwrap().is_none());
    assert_eq!(bucket.get(b"sub").unwrap(), None);
    tx.commit().unwrap();
    let read = db.begin_read();
    let bucket = read.bucket(b"b").unwrap().unwrap();
    assert_eq!(bucket.get(&[1; 32768]).unwrap(), Some(&b"x"[..]));
    assert_eq!(bucket.get(b"sub").unwrap(), None);
    assert!(bucket.bucket(b"sub").unwrap().is_some());
    assert!(bucket.bucket(b"plain").unwrap().is_none());
    let bad = Options {
        page_size: Some(1000),
        ..Options::default()
    };
    let bad = Db::open(disk.clone(), Path::new("/d/other"), &bad);
    assert!(matches!(bad, Err(Error::PageSize(1000))));
}

#[test]
fn a_bucket_is_removed_after_one_inside_of_it() {
    let disk = disk();
    let db = open(&disk, 4096);
    let mut tx = db.begin_write().unwrap();
    let mut outer = tx.create_bucket_if_missing(b"outer").unwrap();
    outer.put(b"k", &[1; 3000]).unwrap();
    let mut middle = outer.create_bucket_if_missing(b"middle").unwrap();
    middle.put(b"k", &[2; 3000]).unwrap();
    let mut inner = middle.create_bucket_if_missing(b"inner").unwrap();
    inner.put(b"k", &[3; 9000]).unwrap();
    tx.commit().unwrap();

    let mut tx = db.begin_write().unwrap();
    let mut outer = tx.bucket(b"outer").unwrap().unwrap();
    let mut middle = outer.bucket(b"middle").unwrap().unwrap();
    assert!(middle.delete_bucket(b"inner").unwrap());
    assert!(tx.delete_bucket(b"outer").unwrap());
    assert!(!tx.delete_bucket(b"outer").unwrap());
    tx.commit().unwrap();
    assert_sound(&db);
    drop(db);
    assert_sound(&open(&disk, 4096));
}

#[test]
fn a_commit_syncs_twice_and_writes_neighbours_together() {
    let disk = disk();
    let db = open(&disk, 4096);
    for round in 0..20u64 {
        let before = disk.counts();
        let mut tx = db.begin_write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"key").unwrap();
        bucket.set_append_only(true);
        for number in 0..200 {
            bucket
                .put(&(round * 200 + number).to_be_bytes(), &[1; 500])
                .unwrap();
        }
        let stats = tx.commit().unwrap();
        let after = disk.counts();
        assert!(stats.written_pages > 25);
        assert_eq!(after.file_syncs - before.file_syncs, 2);
        // Growth, a few stretches of pages, the meta page and the syncs.
        assert!(
            after.calls - before.calls <= 8,
            "{} calls",
            after.calls - before.calls
        );
    }
}

#[test]
fn many_small_buckets_take_few_pages() {
    let disk = disk();
    let db = open(&disk, 4096);
    let mut tx = db.begin_write().unwrap();
    for name in [
        "alarm", "auth", "cluster", "key", "lease", "members", "meta",
    ] {
        tx.create_bucket_if_missing(name.as_bytes()).unwrap();
    }
    tx.commit().unwrap();
    for index in 0..50u64 {
        let mut tx = db.begin_write().unwrap();
        let mut meta = tx.bucket(b"meta").unwrap().unwrap();
        meta.put(b"consistent_index", &index.to_be_bytes()).unwrap();
        tx.commit().unwrap();
    }
    assert!(db.size() <= 8 * 4096, "{} pages", db.size() / 4096);
}

#[test]
fn ascending_puts_fill_pages_and_write_each_about_once() {
    let disk = disk();
    let db = open(&disk, 4096);
    let mut written = 0;
    for round in 0..100u64 {
        let mut tx = db.begin_write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"key").unwrap();
        bucket.set_append_only(true);
        for number in 0..100 {
            let mut key = (round * 100 + number).to_be_bytes().to_vec();
            key.resize(17, b'_');
            bucket.put(&key, &[7; 300]).unwrap();
        }
        written += tx.commit().unwrap().written_pages;
    }
    let payload = 10_000 * 333 / 4096;
    assert!(
        db.size_in_use() / 4096 < payload * 115 / 100,
        "{} pages",
        db.size_in_use() / 4096
    );
    assert!(
        written < payload * 160 / 100,
        "{written} pages written for {payload}"
    );
}

#[test]
fn a_large_value_at_the_edge_is_not_written_again() {
    let disk = disk();
    let db = open(&disk, 4096);
    for number in 0..20u8 {
        let mut tx = db.begin_write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"key").unwrap();
        let len = if number % 5 == 0 { 1_500_000 } else { 10 };
        bucket.put(&[b'k', number], &vec![number; len]).unwrap();
        let stats = tx.commit().unwrap();
        let least = len as u64 / 4096;
        assert!(
            stats.written_pages <= least + 4,
            "{} pages",
            stats.written_pages
        );
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Default)]
struct Collected(Mutex<Vec<(usize, Entries)>>);

impl LeafScan for Collected {
    fn leaves<'a>(
        &self,
        run: usize,
        entries: &mut dyn Iterator<Item = Entry<'a>>,
    ) -> Result<(), String> {
        let entries = entries
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        self.0.lock().unwrap().push((run, entries));
        Ok(())
    }
}

struct Refusing;

impl LeafScan for Refusing {
    fn leaves<'a>(
        &self,
        _run: usize,
        _entries: &mut dyn Iterator<Item = Entry<'a>>,
    ) -> Result<(), String> {
        Err("not like this".to_string())
    }
}

#[test]
fn opening_hands_out_one_bucket_in_numbered_runs() {
    for count in [3u64, 40_000] {
        let disk = disk();
        let db = open(&disk, 4096);
        let mut tx = db.begin_write().unwrap();
        for name in [&b"key"[..], b"other"] {
            let mut bucket = tx.create_bucket_if_missing(name).unwrap();
            for number in 0..count {
                bucket.put(&number.to_be_bytes(), &[name[0]; 50]).unwrap();
            }
        }
        tx.commit().unwrap();
        let free = db.size() - db.size_in_use();
        drop(db);
        let seen = Collected::default();
        let path = Path::new(PATH);
        let db = Db::open_scanning(disk.clone(), path, &options(4096), b"key", &seen).unwrap();
        let mut runs = seen.0.into_inner().unwrap();
        runs.sort();
        let numbers: Vec<usize> = runs.iter().map(|(run, _)| *run).collect();
        assert_eq!(numbers, (0..runs.len()).collect::<Vec<_>>());
        assert_eq!(runs.len() > 1, count > 3);
        let all: Vec<_> = runs.into_iter().flat_map(|(_, entries)| entries).collect();
        assert_eq!(all.len() as u64, count);
        for (number, (key, value)) in all.iter().enumerate() {
            assert_eq!(key, &(number as u64).to_be_bytes());
            assert_eq!(value, &[b'k'; 50]);
        }
        // What the transaction freed was pending before and is free now.
        assert!(db.size() - db.size_in_use() >= free);
        drop(db);
        let refused = Db::open_scanning(disk, path, &options(4096), b"key", &Refusing);
        assert!(matches!(refused, Err(Error::Scan { .. })));
    }
}

#[test]
fn a_copy_is_a_database() {
    let disk = disk();
    let db = open(&disk, 4096);
    let mut random = Random::new(11);
    let mut model = Model::default();
    for _ in 0..30 {
        transaction(&db, &mut model, &mut random);
    }
    let read = db.begin_read();
    let wanted = model.clone();
    for _ in 0..10 {
        transaction(&db, &mut model, &mut random);
    }
    let mut bytes = Vec::new();
    let len = read.write_to(&mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    assert_eq!(len.unwrap(), bytes.len() as u64);
    assert_eq!(read.size(), bytes.len() as u64);
    let copy = disk.open(Path::new("/d/copy"), Mode::Create).unwrap();
    copy.write_all_at(&bytes, 0).unwrap();
    drop(copy);
    let copy = Db::open(disk.clone(), Path::new("/d/copy"), &options(4096)).unwrap();
    assert_eq!(copy.txid(), read.txid());
    assert_same(&copy.begin_read(), &wanted, &mut random);
    transaction(&copy, &mut wanted.clone(), &mut random);
}

#[test]
fn the_file_outgrows_its_map() {
    let disk = disk();
    let small = Options {
        initial_map_size: 64 << 10,
        ..options(4096)
    };
    let db = Db::open(disk.clone(), Path::new(PATH), &small).unwrap();
    let mut old = Vec::new();
    for number in 0..60u8 {
        let mut tx = db.begin_write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"b").unwrap();
        bucket.put(&[number + 1], &vec![number; 40_000]).unwrap();
        tx.commit().unwrap();
        old.push(db.begin_read());
    }
    for (number, read) in old.iter().enumerate() {
        let bucket = read.bucket(b"b").unwrap().unwrap();
        for key in 0..=number as u8 {
            assert_eq!(
                bucket.get(&[key + 1]).unwrap(),
                Some(&vec![key; 40_000][..])
            );
        }
        assert_eq!(bucket.get(&[number as u8 + 2]).unwrap(), None);
    }
}

#[test]
fn a_slow_reader_does_not_pin_what_it_cannot_see() {
    let disk = disk();
    let db = open(&disk, 4096);
    let overwrite = |round: u8| {
        let mut tx = db.begin_write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"b").unwrap();
        for key in 0..50 {
            bucket.put(&[key], &[round; 2000]).unwrap();
        }
        tx.commit().unwrap();
    };
    overwrite(0);
    let slow = db.begin_read();
    for round in 1..10 {
        overwrite(round);
    }
    let size = db.size();
    for round in 10..200 {
        overwrite(round);
        // Newer readers come and go.
        assert_eq!(
            db.begin_read()
                .bucket(b"b")
                .unwrap()
                .unwrap()
                .get(&[7])
                .unwrap()
                .unwrap()[0],
            round
        );
    }
    assert_eq!(db.size(), size);
    let bucket = slow.bucket(b"b").unwrap().unwrap();
    for key in 0..50 {
        assert_eq!(bucket.get(&[key]).unwrap(), Some(&[0; 2000][..]));
    }
}

#[test]
fn reads_go_on_while_a_writer_waits() {
    let disk = disk();
    let db = open(&disk, 4096);
    let tx = db.begin_write().unwrap();
    let read = db.begin_read();
    let clone = read.clone();
    assert_eq!(db.open_reads(), 1);
    drop(read);
    assert_eq!(db.open_reads(), 1);
    drop(tx);
    std::thread::spawn(move || assert_eq!(clone.txid(), 1))
        .join()
        .unwrap();
    assert_eq!(db.open_reads(), 0);
}
