//! The machine stops before or after each call to the disk, and its power is cut: what was
//! acknowledged is there, and beyond it nothing but a beginning of what was written.

use crate::wal_tests::{METADATA, at, dir, disk, entry, small, state};
use crate::walpb::Snapshot;
use crate::{Next, Reader, Recovered, Wal, WalError, list_segments, purge, snapshot_records};
use quorate_disk::Disk;
use quorate_disk::faulty::{FaultyDisk, Random, Stop};
use quorate_raft::types::{Entry, HardState};
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Record {
    Entry(Entry),
    State(HardState),
    Snapshot,
}

/// What was written, in order, and how much of it was reported durable.
#[derive(Clone, Debug, Default)]
struct Model {
    created: bool,
    written: Vec<Record>,
    acknowledged: usize,
}

impl Model {
    /// What a log holds that was read from `at` and has the first `count` records.
    fn replay(&self, count: usize, at: u64) -> (Vec<Entry>, HardState) {
        let (mut entries, mut hard_state) = (Vec::new(), HardState::default());
        for record in &self.written[..count] {
            match record {
                Record::Entry(entry) if entry.index > at => {
                    entries.truncate((entry.index - at - 1) as usize);
                    entries.push(entry.clone());
                }
                Record::Entry(_) | Record::Snapshot => {}
                Record::State(state) => hard_state = *state,
            }
        }
        (entries, hard_state)
    }

    #[track_caller]
    fn check(&self, at: u64, recovered: &Recovered, about: &str) {
        let found = (recovered.entries.clone(), recovered.hard_state);
        let fits =
            (self.acknowledged..=self.written.len()).any(|count| self.replay(count, at) == found);
        assert!(
            fits,
            "{about}: {} entries and {:?} fit nothing that was written",
            found.0.len(),
            found.1
        );
        assert_eq!(recovered.metadata, METADATA, "{about}");
    }
}

/// Writes a log until the script ends or the disk gives up.
fn run(disk: &Arc<dyn Disk>, seed: u64, model: &mut Model) -> Result<(), WalError> {
    let mut random = Random::new(seed);
    let mut wal = Wal::create(disk, dir(), METADATA, small())?;
    model.created = true;
    let (mut term, mut index, mut commit) = (1, 0, 0);
    for step in 0..16 {
        if random.below(3) == 0 {
            term += 1;
            // A new leader overwrites some of what is not committed.
            index -= random.below(index - commit + 1);
        }
        let sizes = [0, 300, 1500, 4000];
        let mut entries = Vec::new();
        for _ in 0..random.below(5) {
            index += 1;
            entries.push(entry(term, index, sizes[random.below(4) as usize]));
        }
        let hard_state = state(term, commit);
        model
            .written
            .extend(entries.iter().cloned().map(Record::Entry));
        model.written.push(Record::State(hard_state));
        let must_sync = wal.append(Some(&hard_state), &entries)?;
        if must_sync || random.below(2) == 0 {
            wal.sync()?;
            model.acknowledged = model.written.len();
            commit += random.below(index - commit + 1);
        }
        if step % 5 == 4 && commit > 0 {
            let record = at(commit, 1);
            model.written.push(Record::State(state(term, commit)));
            wal.append(Some(&state(term, commit)), &[])?;
            model.written.push(Record::Snapshot);
            wal.save_snapshot_record(&record)?;
            model.acknowledged = model.written.len();
        }
        if random.below(4) == 0 {
            wal.prepare_next_segment()?;
        }
    }
    wal.close()?;
    Ok(())
}

fn open_first(disk: &Arc<dyn Disk>) -> Result<(Wal, Recovered), WalError> {
    Wal::open(disk, dir(), &Snapshot::default(), small())
}

/// Opens what the crash left, writes to it, and opens it again.
fn check_after_crash(crashed: FaultyDisk, model: &Model, about: &str) {
    let disk: Arc<dyn Disk> = Arc::new(crashed.clone());
    if !Wal::exists(&*disk, dir()).unwrap() {
        assert!(!model.created, "{about}: the log is gone");
        Wal::create(&disk, dir(), METADATA, small()).unwrap();
        return;
    }
    let (mut wal, recovered) = open_first(&disk).unwrap_or_else(|error| panic!("{about}: {error}"));
    model.check(0, &recovered, about);

    let next = recovered.entries.len() as u64 + 1;
    {
        // Another crash before anything is synced: what was behind the tail does not come back.
        let branch = crashed.crash(11);
        let disk: Arc<dyn Disk> = Arc::new(branch.clone());
        let (mut wal, _) = open_first(&disk).unwrap();
        wal.append(None, &[entry(99, next, 700), entry(99, next + 1, 10)])
            .unwrap();
        for crash in 0..3 {
            let disk: Arc<dyn Disk> = Arc::new(branch.crash(crash));
            let (_, then) =
                open_first(&disk).unwrap_or_else(|error| panic!("{about}, unsynced: {error}"));
            assert!(then.entries.starts_with(&recovered.entries), "{about}");
        }
    }
    wal.append(None, &[entry(99, next, 2000), entry(99, next + 1, 10)])
        .unwrap();
    wal.sync().unwrap();
    drop(wal);
    // Now it is durable, whatever an unlucky disk kept of what was behind the tail.
    let again: Arc<dyn Disk> = Arc::new(crashed.crash(7));
    let (_, mut then) =
        open_first(&again).unwrap_or_else(|error| panic!("{about}, again: {error}"));
    assert_eq!(then.entries.pop(), Some(entry(99, next + 1, 10)), "{about}");
    assert_eq!(then.entries.pop(), Some(entry(99, next, 2000)), "{about}");
    assert_eq!(then.entries, recovered.entries, "{about}");
    assert_eq!(then.repaired, None, "{about}");
}

#[test]
fn a_crash_at_any_call_loses_nothing_acknowledged() {
    let mut torn = 0;
    for seed in 0..6 {
        let (faulty, disk_now) = disk();
        let before = faulty.counts().calls;
        run(&disk_now, seed, &mut Model::default()).unwrap();
        let calls = faulty.counts().calls;
        assert!(
            list_segments(&*disk_now, dir()).unwrap().len() > 1,
            "the script fills segments"
        );
        for call in before + 1..=calls {
            for stop in [Stop::Before, Stop::After] {
                let (faulty, disk_now) = disk();
                faulty.stop_at(call, stop);
                let mut model = Model::default();
                let outcome = run(&disk_now, seed, &mut model);
                // Removing a file on close is allowed to be the last thing that fails.
                assert!(
                    outcome.is_err(),
                    "seed {seed} call {call}: the disk stopped unnoticed"
                );
                for crash in 0..4 {
                    let about = format!("seed {seed}, {stop:?} call {call}, crash {crash}");
                    let crashed = faulty.crash(crash);
                    torn += u32::from(is_torn(&crashed));
                    check_after_crash(crashed, &model, &about);
                }
            }
        }
    }
    assert!(torn > 50, "the crashes tear writes: {torn}");
}

fn is_torn(disk: &FaultyDisk) -> bool {
    let Ok(mut reader) = Reader::open_all(disk, dir()) else {
        return false;
    };
    loop {
        match reader.next().unwrap() {
            Next::Record(_) => {}
            Next::End => return false,
            Next::Torn(_) => return true,
        }
    }
}

#[test]
fn a_crash_while_a_crash_is_repaired_loses_nothing_either() {
    let mut repairs = 0;
    for seed in 0..3 {
        let (faulty, disk_now) = disk();
        run(&disk_now, seed, &mut Model::default()).unwrap();
        let calls = faulty.counts().calls;
        for call in calls / 4..calls {
            let (faulty, disk_now) = disk();
            faulty.stop_at(call, Stop::Before);
            let mut model = Model::default();
            assert!(run(&disk_now, seed, &mut model).is_err());
            for crash in 0..3 {
                let crashed = faulty.crash(crash);
                if !crashed.exists(dir()).unwrap() {
                    continue;
                }
                let whole: Arc<dyn Disk> = Arc::new(crashed.crash(0));
                repairs += u32::from(open_first(&whole).unwrap().1.repaired.is_some());
                for second in 1.. {
                    let first = crashed.crash(0);
                    first.stop_at(first.counts().calls + second, Stop::After);
                    let disk_then: Arc<dyn Disk> = Arc::new(first.clone());
                    let done = open_first(&disk_then).is_ok();
                    for crash in 0..2 {
                        let about = format!(
                            "seed {seed} call {call}, repair stopped at {second}, crash {crash}"
                        );
                        check_after_crash(first.crash(crash), &model, &about);
                    }
                    if done {
                        break;
                    }
                }
            }
        }
    }
    assert!(repairs > 5, "some of these were repaired: {repairs}");
}

#[test]
fn snapshots_release_and_purging_keep_what_is_needed() {
    for seed in 0..4 {
        let script =
            |disk: &Arc<dyn Disk>, model: &mut Model, snapshot: &mut u64| -> Result<(), WalError> {
                let mut wal = Wal::create(disk, dir(), METADATA, small())?;
                model.created = true;
                for index in 1..=40 {
                    let written = entry(2, index, 1500);
                    model.written.push(Record::Entry(written.clone()));
                    model.written.push(Record::State(state(2, index - 1)));
                    wal.append(Some(&state(2, index - 1)), &[written])?;
                    wal.sync()?;
                    model.acknowledged = model.written.len();
                    if index % 8 == 0 {
                        wal.save_snapshot_record(&at(index - 2, 2))?;
                        *snapshot = index - 2;
                        wal.release_to(index - 2);
                        purge(&**disk, dir(), 2)?;
                    }
                }
                Ok(())
            };
        let (faulty, disk_now) = disk();
        script(&disk_now, &mut Model::default(), &mut 0).unwrap();
        let calls = faulty.counts().calls;
        assert!(list_segments(&*disk_now, dir()).unwrap()[0].seq > 3);
        for call in (calls / 4..=calls).step_by(2) {
            let (faulty, disk_now) = disk();
            faulty.stop_at(call, Stop::After);
            let (mut model, mut snapshot) = (Model::default(), 0);
            assert!(script(&disk_now, &mut model, &mut snapshot).is_err());
            let disk_then: Arc<dyn Disk> = Arc::new(faulty.crash(seed));
            let records = snapshot_records(&*disk_then, dir()).unwrap();
            let newest = records.iter().max_by_key(|record| record.index).unwrap();
            assert!(
                newest.index >= snapshot,
                "call {call}: {} < {snapshot}",
                newest.index
            );
            let (_, recovered) = Wal::open(&disk_then, dir(), newest, small()).unwrap();
            model.check(
                newest.index,
                &recovered,
                &format!("seed {seed} call {call}"),
            );
        }
    }
}

#[test]
fn a_disk_that_fills_up_loses_nothing_acknowledged() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (faulty, disk_now) = disk();
        let mut wal = Wal::create(&disk_now, dir(), METADATA, small()).unwrap();
        let mut model = Model {
            created: true,
            ..Model::default()
        };
        let mut index = 0;
        let mut refused = 0;
        for _ in 0..60 {
            let spare = random.below(12_000);
            let limited = random.below(3) > 0;
            faulty.set_space(limited.then(|| faulty.used_bytes() + spare));
            let count = random.below(3) + 1;
            let entries: Vec<_> = (1..=count)
                .map(|n| entry(1, index + n, random.below(4000) as usize))
                .collect();
            match wal.append(Some(&state(1, index)), &entries) {
                Ok(_) => {
                    model.written.extend(entries.into_iter().map(Record::Entry));
                    model.written.push(Record::State(state(1, index)));
                    index += count;
                    wal.sync().unwrap();
                    model.acknowledged = model.written.len();
                }
                Err(WalError::StorageFull { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(refused > 0);
        faulty.set_space(None);
        for crash in 0..3 {
            check_after_crash(
                faulty.crash(crash),
                &model,
                &format!("seed {seed} crash {crash}"),
            );
        }
    }
}
