//! The machine stops before and after every disk call of a load; what is found afterwards is the
//! last state that was committed, or the one that was being committed.

use super::basics::*;
use super::model::*;
use crate::db::Db;
use crate::error::Error;
use crate::vacuum::VacuumNext;
use quorate_disk::Disk;
use quorate_disk::faulty::{FaultyDisk, Stop};
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: u32 = 1024;

/// Transactions, growth, vacuum and cutting. `committed` follows the last one that returned, and
/// `next` is what the one under way would make.
struct Load {
    random: Random,
    committed: Model,
    next: Model,
}

impl Load {
    fn new(seed: u64) -> Load {
        Load {
            random: Random::new(seed),
            committed: Model::default(),
            next: Model::default(),
        }
    }

    /// Runs until the end or an error. `vacuum` has the last word in each round.
    fn run(&mut self, db: &Db, rounds: u64) -> Result<(), Error> {
        for round in 0..rounds {
            let mut tx = db.begin_write()?;
            work(&mut tx, &mut self.next, &mut self.random, PAGE_BYTES);
            if round == 1 {
                // Enough to make the file grow beyond its first length.
                let mut bucket = tx.create_bucket_if_missing(b"large")?;
                bucket.put(b"value", &[9; 90_000])?;
                let model = self.next.buckets.entry(b"large".to_vec()).or_default();
                model.entries.insert(b"value".to_vec(), vec![9; 90_000]);
            }
            if round == 3 {
                tx.delete_bucket(b"large")?;
                self.next.buckets.remove(&b"large"[..]);
            }
            tx.commit()?;
            self.committed = self.next.clone();
            if round >= 3 {
                for _ in 0..3 {
                    db.vacuum_step(8 << 10)?;
                }
            }
        }
        for _ in 0..30 {
            if db.vacuum_step(32 << 10)?.next == VacuumNext::Done {
                break;
            }
        }
        Ok(())
    }
}

/// Opens what a crash left, and checks it.
fn assert_recovers(crashed: &Arc<FaultyDisk>, load: &Load, context: &str) {
    let db = open(crashed, PAGE_BYTES);
    let found = contents(&db.begin_read());
    assert!(
        found == load.committed || found == load.next,
        "{context}: neither state"
    );
    assert_sound(&db);
    // It works on.
    let mut tx = db.begin_write().unwrap();
    tx.create_bucket_if_missing(b"after")
        .unwrap()
        .put(b"k", b"v")
        .unwrap();
    tx.commit().unwrap();
    assert_sound(&db);
}

#[test]
fn a_stop_at_any_call_loses_nothing_committed() {
    let seed = 5;
    let whole = disk();
    let mut load = Load::new(seed);
    load.run(&open(&whole, PAGE_BYTES), 6).unwrap();
    let calls = whole.counts().calls;
    assert!(calls > 60, "{calls} calls");
    let lens = whole.counts();
    assert!(lens.file_syncs > 20);
    for call in 1..=calls {
        for stop in [Stop::Before, Stop::After] {
            let context = format!("call {call} {stop:?}");
            let disk = Arc::new(FaultyDisk::new(7));
            disk.stop_at(call, stop);
            let mut load = Load::new(seed);
            let made = disk.create_dir_all(Path::new("/d"));
            if made.is_ok() {
                match Db::open(disk.clone(), Path::new(PATH), &options(PAGE_BYTES)) {
                    Ok(db) => assert!(load.run(&db, 6).is_err(), "{context}: the stop is noticed"),
                    Err(Error::Io { .. }) => {}
                    Err(error) => panic!("{context}: {error}"),
                }
            }
            for crash in 0..4 {
                let crashed = Arc::new(disk.crash(call * 10 + crash));
                crashed.create_dir_all(Path::new("/d")).unwrap();
                assert_recovers(&crashed, &load, &format!("{context} crash {crash}"));
            }
        }
    }
}

#[test]
fn a_full_disk_at_any_moment_leaves_the_last_state_and_a_usable_database() {
    let mut refused = 0;
    for limit in 0..90 {
        let disk = disk();
        let db = open(&disk, PAGE_BYTES);
        let mut load = Load::new(6);
        disk.set_space(Some(disk.used_bytes() + limit * 4096));
        match load.run(&db, 6) {
            Ok(()) => assert_eq!(contents(&db.begin_read()), load.committed),
            Err(error) => {
                refused += 1;
                assert!(error.is_storage_full(), "{error}");
                assert_eq!(contents(&db.begin_read()), load.committed);
            }
        }
        assert_sound(&db);
        disk.set_space(None);
        let mut tx = db.begin_write().unwrap();
        tx.create_bucket_if_missing(b"after")
            .unwrap()
            .put(b"k", &[1; 5000])
            .unwrap();
        tx.commit().unwrap();
        assert_sound(&db);
        let crashed = Arc::new(disk.crash(limit));
        drop(db);
        let db = open(&crashed, PAGE_BYTES);
        assert_sound(&db);
        assert!(db.begin_read().bucket(b"after").unwrap().is_some());
    }
    assert!(refused > 10, "{refused} loads met the limit");
}

#[test]
fn a_failed_sync_ends_all_writing_and_a_crash_leaves_one_of_two_states() {
    let mut failed = 0;
    for nth in 1..40 {
        let disk = disk();
        let db = open(&disk, PAGE_BYTES);
        let mut load = Load::new(8);
        disk.fail_sync(nth);
        if load.run(&db, 6).is_ok() {
            continue;
        }
        failed += 1;
        assert!(matches!(db.begin_write(), Err(Error::Poisoned { .. })));
        assert!(matches!(db.vacuum_step(1000), Err(Error::Poisoned { .. })));
        assert_eq!(contents(&db.begin_read()), load.committed);
        let crashed = Arc::new(disk.crash(nth));
        drop(db);
        assert_recovers(&crashed, &load, &format!("sync {nth}"));
    }
    assert!(failed > 10, "{failed} syncs failed");
}
