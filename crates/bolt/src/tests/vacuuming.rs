use super::basics::*;
use super::model::*;
use crate::db::Db;
use crate::read::ReadTx;
use crate::vacuum::VacuumNext;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use quorate_disk::faulty::FaultyDisk;
use quorate_disk::{Disk, Mode};

/// Steps until it is done or waits for readers; gives the bytes moved and cut.
fn vacuum_until(db: &Db, budget_bytes: usize, end: VacuumNext) -> (u64, u64) {
    let (mut moved, mut cut) = (0, 0);
    for _ in 0..100_000 {
        let step = db.vacuum_step(budget_bytes).unwrap();
        moved += step.moved_bytes;
        cut += step.cut_bytes;
        if step.next != VacuumNext::Step {
            assert_eq!(step.next, end);
            return (moved, cut);
        }
    }
    panic!("the vacuum does not end");
}

/// Steps until it is done.
fn vacuum(db: &Db, budget_bytes: usize) -> (u64, u64) {
    vacuum_until(db, budget_bytes, VacuumNext::Done)
}

/// The size of a new file with the same contents.
fn fresh_size(db: &Db) -> u64 {
    let fresh = open(&disk(), db.page_size());
    let read = db.begin_read();
    for name in read.buckets().unwrap() {
        let mut tx = fresh.begin_write().unwrap();
        let mut copy = tx.create_bucket_if_missing(&name).unwrap();
        copy.set_append_only(true);
        let bucket = read.bucket(&name).unwrap().unwrap();
        let mut cursor = bucket.range(std::ops::Bound::Unbounded).unwrap();
        while let Some((key, value)) = cursor.next().unwrap() {
            copy.put(key, value).unwrap();
        }
        tx.commit().unwrap();
    }
    fresh.size()
}

fn file_len(disk: &Arc<FaultyDisk>) -> u64 {
    disk.open(Path::new(PATH), Mode::Read)
        .unwrap()
        .len()
        .unwrap()
}

/// Ascending keys in transactions of 100, with values of `len` bytes.
fn fill(db: &Db, keys: std::ops::Range<u64>, len: usize) {
    let keys: Vec<u64> = keys.collect();
    for keys in keys.chunks(100) {
        let mut tx = db.begin_write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"key").unwrap();
        bucket.set_append_only(true);
        for key in keys {
            bucket
                .put(&key.to_be_bytes(), &vec![*key as u8; len])
                .unwrap();
        }
        tx.commit().unwrap();
    }
}

fn delete(db: &Db, keys: impl Iterator<Item = u64>) {
    let mut tx = db.begin_write().unwrap();
    let mut bucket = tx.bucket(b"key").unwrap().unwrap();
    for key in keys {
        assert!(bucket.delete(&key.to_be_bytes()).unwrap());
    }
    tx.commit().unwrap();
}

fn assert_keys(db: &Db, keys: impl Iterator<Item = u64>, len: usize) {
    let read = db.begin_read();
    let bucket = read.bucket(b"key").unwrap().unwrap();
    let mut cursor = bucket.range(std::ops::Bound::Unbounded).unwrap();
    for key in keys {
        let (found, value) = cursor.next().unwrap().unwrap();
        assert_eq!(found, key.to_be_bytes());
        assert_eq!(value, vec![key as u8; len]);
    }
    assert_eq!(cursor.next().unwrap(), None);
}

#[test]
fn the_file_shrinks_to_what_it_holds() {
    let disk = disk();
    let db = open(&disk, 4096);
    fill(&db, 0..100_000, 300);
    let full = db.size();
    assert!(file_len(&disk) > 32 << 20);
    delete(
        &db,
        (0..100_000).filter(|key| key % 2 == 0 || (20_000..80_000).contains(key)),
    );
    assert!(db.size() >= full);
    let (moved, cut) = vacuum(&db, 256 << 10);
    assert!(moved > 0 && cut > 16 << 20, "moved {moved}, cut {cut}");
    let kept = || (0..100_000).filter(|key| key % 2 == 1 && !(20_000..80_000).contains(key));
    let payload = kept().count() as u64 * (300 + 8 + 16);
    assert!(
        db.size() < payload * 118 / 100,
        "{} for {payload}",
        db.size()
    );
    assert!(db.size() - db.size_in_use() < 20 * 4096);
    assert!(file_len(&disk) <= crate::commit::grown_len(db.size()));
    assert_keys(&db, kept(), 300);
    assert_sound(&db);
    // Nothing is left to gain, and no work is done for it.
    let (size, txid) = (db.size(), db.txid());
    assert_eq!(vacuum(&db, 256 << 10), (0, 0));
    assert_eq!((db.size(), db.txid()), (size, txid));
    drop(db);
    let db = open(&disk, 4096);
    assert_keys(&db, kept(), 300);
    fill(&db, 100_000..101_000, 300);
    assert_sound(&db);
}

#[test]
fn sparse_neighbours_are_packed() {
    let disk = disk();
    let db = open(&disk, 4096);
    fill(&db, 0..20_000, 100);
    // Leaves stay too full to be merged by commits.
    delete(&db, (0..20_000).filter(|key| key % 3 == 0));
    vacuum(&db, 1 << 20);
    let kept = || (0..20_000).filter(|key| key % 3 != 0);
    let payload = kept().count() as u64 * 124;
    assert!(
        db.size() < payload * 118 / 100,
        "{} for {payload}",
        db.size()
    );
    assert_keys(&db, kept(), 100);
    assert_sound(&db);
}

#[test]
fn runs_of_pages_find_a_hole_by_emptying_one() {
    let disk = disk();
    let db = open(&disk, 4096);
    // Small values below, large ones above; every second small page becomes a hole.
    fill(&db, 0..12_000, 900);
    fill(&db, 12_000..12_040, 300_000);
    delete(&db, (0..12_000).filter(|key| (key / 4) % 2 == 0));
    let before = db.size();
    let (moved, _) = vacuum(&db, 256 << 10);
    assert!(moved > 40 * 300_000 / 2, "moved {moved}");
    let live: u64 = 6_000 * (900 + 24) + 40 * (74 * 4096);
    assert!(
        db.size() < live * 115 / 100,
        "{} of {before} for {live}",
        db.size()
    );
    assert_sound(&db);
    let read = db.begin_read();
    let bucket = read.bucket(b"key").unwrap().unwrap();
    for key in 12_000..12_040u64 {
        let value = bucket.get(&key.to_be_bytes()).unwrap().unwrap();
        assert!(value.len() == 300_000 && value.iter().all(|byte| *byte == key as u8));
    }
}

#[test]
fn an_open_reader_keeps_its_state_and_forbids_the_cut() {
    let disk = disk();
    let db = open(&disk, 4096);
    fill(&db, 0..60_000, 300);
    let read = db.begin_read();
    let len = file_len(&disk);
    delete(&db, 0..59_000);
    let (_, cut) = vacuum_until(&db, 1 << 20, VacuumNext::Wait);
    assert_eq!(cut, 0);
    assert_eq!(file_len(&disk), len);
    let bucket = read.bucket(b"key").unwrap().unwrap();
    for key in (0..60_000u64).step_by(777) {
        assert_eq!(
            bucket.get(&key.to_be_bytes()).unwrap(),
            Some(&[key as u8; 300][..])
        );
    }
    let mut copied = 0;
    read.write_to(&mut |piece| {
        copied += piece.len() as u64;
        Ok(())
    })
    .unwrap();
    assert_eq!(copied, read.size());
    drop(read);
    let (_, cut) = vacuum(&db, 1 << 20);
    assert!(cut > 16 << 20);
    assert!(file_len(&disk) <= crate::commit::grown_len(db.size()));
    assert_keys(&db, 59_000..60_000, 300);
    assert_sound(&db);
}

/// A small database whose keys are random and mostly deleted, with a reader of the state before.
fn half_empty(seed: u64) -> (Db, ReadTx) {
    let mut random = Random::new(seed);
    let db = open(&disk(), 4096);
    let keys = 1 + random.below(200);
    fill(&db, 0..keys, random.below(400) as usize);
    for key in keys..keys + random.below(8) {
        fill(&db, key..key + 1, random.below(10_000) as usize);
    }
    let read = db.begin_read();
    let kept = random.below(keys);
    let doomed: Vec<u64> = (0..keys)
        .filter(|key| *key != kept && random.below(8) > 0)
        .collect();
    delete(&db, doomed.into_iter());
    (db, read)
}

#[test]
fn the_size_falls_whenever_readers_let_go() {
    for seed in 0..300 {
        let (db, read) = half_empty(seed);
        let before = contents(&db.begin_read());
        // Each state has its reader, and all of them stay for as long as there is anything to do.
        let mut readers = vec![read];
        for step in 0.. {
            assert!(step < 10_000, "seed {seed}: the vacuum does not end");
            match db.vacuum_step(20_000).unwrap().next {
                VacuumNext::Step => readers.push(db.begin_read()),
                VacuumNext::Wait => {
                    assert!(!readers.is_empty(), "seed {seed}: it waits for nobody");
                    let txid = db.txid();
                    assert_eq!(db.vacuum_step(20_000).unwrap().next, VacuumNext::Wait);
                    assert_eq!(db.txid(), txid, "seed {seed}: it works in vain");
                    readers.clear();
                }
                VacuumNext::Done => break,
            }
        }
        readers.clear();
        // A few pages are lost where a value of several pages finds no hole.
        let (size, fresh) = (db.size() / 4096, fresh_size(&db) / 4096);
        assert!(size <= fresh + 3, "seed {seed}: {size} pages, not {fresh}");
        assert_eq!(contents(&db.begin_read()), before);
        assert_sound(&db);
    }
}

#[test]
fn it_ends_while_readers_and_writers_come_and_go() {
    let db = open(&disk(), 4096);
    fill(&db, 0..5_000, 100);
    delete(&db, 100..5_000);
    // There is never a moment without readers of several states.
    let mut readers = VecDeque::new();
    for step in 0..2_000 {
        readers.push_back(db.begin_read());
        fill(&db, 5_000 + step..5_001 + step, 10);
        if readers.len() > 5 {
            readers.pop_front();
        }
        if db.vacuum_step(20_000).unwrap().next == VacuumNext::Done {
            let pages = db.size() / 4096;
            assert!(pages < 40, "{pages} pages after {step} steps");
            return;
        }
    }
    panic!("the vacuum does not end");
}

#[test]
fn random_work_with_readers_and_vacuum_agrees_with_the_model() {
    for (seed, page_size) in [(21, 1024), (22, 4096), (23, 4096), (24, 16384)] {
        let disk = disk();
        let db = open(&disk, page_size);
        let mut random = Random::new(seed);
        let mut model = Model::default();
        let mut readers = Vec::new();
        for round in 0..200 {
            transaction(&db, &mut model, &mut random);
            for _ in 0..random.below(5) {
                db.vacuum_step(random.below(40_000) as usize).unwrap();
            }
            if random.one_in(5) {
                readers.push((db.begin_read(), model.clone()));
            }
            if random.one_in(6) && !readers.is_empty() {
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
        }
        readers.clear();
        vacuum(&db, 20_000);
        assert_same(&db.begin_read(), &model, &mut random);
        assert_sound(&db);
        let slack = (db.size() - db.size_in_use()) / u64::from(page_size);
        assert!(
            slack < 40 + db.size() / u64::from(page_size) / 10,
            "{slack} free pages are left"
        );
    }
}

#[test]
fn readers_in_other_threads_see_exactly_their_state() {
    let disk = disk();
    let db = open(&disk, 4096);
    let mut random = Random::new(31);
    let mut model = Model::default();
    std::thread::scope(|scope| {
        for _ in 0..60 {
            transaction(&db, &mut model, &mut random);
            let read = db.begin_read();
            let wanted = model.clone();
            scope.spawn(move || {
                for _ in 0..3 {
                    assert_eq!(contents(&read), wanted);
                }
            });
            db.vacuum_step(50_000).unwrap();
        }
    });
    vacuum(&db, 50_000);
    assert_eq!(contents(&db.begin_read()), model);
    assert_sound(&db);
}
