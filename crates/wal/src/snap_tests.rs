//! Behaviour of the snapshot directory.

use super::*;
use quorate_disk::faulty::{FaultyDisk, Stop};
use quorate_raft::types::{ConfState, SnapshotMetadata};

fn dir() -> &'static Path {
    Path::new("/member/snap")
}

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new(3);
    disk.create_dir_all(dir()).unwrap();
    disk
}

fn snapshot(term: u64, index: u64) -> Snapshot {
    let conf_state = ConfState {
        voters: vec![1, 2],
        ..ConfState::default()
    };
    Snapshot {
        data: Bytes::from(format!("{{\"at\":{index}}}")),
        metadata: SnapshotMetadata {
            conf_state,
            index,
            term,
        },
    }
}

fn record(term: u64, index: u64) -> walpb::Snapshot {
    walpb::Snapshot {
        index,
        term,
        conf_state: None,
    }
}

fn touch(disk: &FaultyDisk, name: &str) {
    disk.open(&dir().join(name), Mode::CreateNew).unwrap();
}

#[test]
fn a_saved_snapshot_is_read_back() {
    let disk = disk();
    save(&disk, dir(), &snapshot(2, 0x1f)).unwrap();
    assert_eq!(
        disk.list(dir()).unwrap(),
        ["0000000000000002-000000000000001f.snap"]
    );
    assert_eq!(
        read(&disk, &dir().join(file_name(2, 0x1f))).unwrap(),
        snapshot(2, 0x1f)
    );
    save(&disk, dir(), &Snapshot::default()).unwrap();
    assert_eq!(disk.list(dir()).unwrap().len(), 1);
}

#[test]
fn the_newest_that_stands_in_the_log_is_loaded() {
    let disk = disk();
    for (term, index) in [(1, 10), (1, 30), (2, 20), (3, 40)] {
        save(&disk, dir(), &snapshot(term, index)).unwrap();
    }
    let load = |records: &[walpb::Snapshot]| load_newest_available(&disk, dir(), records);
    let records = [record(0, 0), record(1, 10), record(2, 20), record(1, 30)];
    assert_eq!(load(&records).unwrap().snapshot, snapshot(2, 20));
    assert_eq!(load(&records[..2]).unwrap().snapshot, snapshot(1, 10));
    assert!(matches!(
        load(&[record(2, 40)]),
        Err(WalError::NoSnapshot { .. })
    ));
}

#[test]
fn bad_files_are_put_aside() {
    let disk = disk();
    save(&disk, dir(), &snapshot(1, 10)).unwrap();
    save(&disk, dir(), &snapshot(1, 20)).unwrap();
    save(&disk, dir(), &snapshot(1, 30)).unwrap();
    touch(&disk, &file_name(1, 40));
    disk.corrupt(&dir().join(file_name(1, 30)), 12, 1).unwrap();
    let records = [record(1, 10), record(1, 20), record(1, 30), record(1, 40)];
    let loaded = load_newest_available(&disk, dir(), &records).unwrap();
    assert_eq!(loaded.snapshot, snapshot(1, 20));
    assert_eq!(loaded.broken.len(), 2);
    assert_eq!(loaded.broken[0].1, Damage::EmptySnapshot);
    assert!(matches!(loaded.broken[1].1, Damage::Crc { .. }));
    assert!(
        disk.exists(&dir().join("0000000000000001-000000000000001e.snap.broken"))
            .unwrap()
    );
    disk.fail_read(1);
    assert!(matches!(
        load_newest_available(&disk, dir(), &records),
        Err(WalError::Io { .. })
    ));
}

#[test]
fn any_flipped_bit_of_a_file_is_noticed() {
    let content = encode_file(&snapshot(2, 20));
    for at in 0..content.len() {
        for bit in 0..8 {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << bit;
            assert!(decode_file(&flipped.into()).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn leftovers_are_removed_and_nothing_else() {
    let disk = disk();
    let kept = [
        "000000000000000a.snap.db",
        "0000000000000001-000000000000000a.snap",
        "db",
        "x.broken",
        "tmpfs",
    ];
    let left = [
        "000000000000000b.snap.db.tmp",
        "0000000000000001-000000000000000b.snap.tmp",
        "db.tmp.123",
        "tmp42",
    ];
    kept.iter().chain(&left).for_each(|name| touch(&disk, name));
    let mut gone = clean_up(&disk, dir()).unwrap();
    gone.sort();
    let mut expected: Vec<_> = left.iter().map(|name| dir().join(name)).collect();
    expected.sort();
    assert_eq!(gone, expected);
    assert_eq!(disk.list(dir()).unwrap().len(), kept.len());
}

#[test]
fn databases_come_by_rename_and_go_when_old() {
    let disk = disk();
    assert!(matches!(
        find_database(&disk, dir(), 7),
        Err(WalError::NoDatabase { .. })
    ));
    for index in [7, 8, 9] {
        disk.open(&database_tmp_path(dir(), index), Mode::CreateNew)
            .unwrap()
            .sync_data()
            .unwrap();
        publish_database(&disk, dir(), index).unwrap();
    }
    assert_eq!(
        find_database(&disk.crash(1), dir(), 7).unwrap(),
        dir().join("0000000000000007.snap.db")
    );
    assert_eq!(
        release_databases(&disk, dir(), 8).unwrap(),
        [database_path(dir(), 7)]
    );
    assert_eq!(disk.list(dir()).unwrap().len(), 2);
}

#[test]
fn purging_keeps_the_newest_of_each_kind() {
    let disk = disk();
    for index in 1..=7 {
        save(&disk, dir(), &snapshot(1, index)).unwrap();
        touch(&disk, &format!("{index:016x}.snap.db"));
    }
    let gone = purge(&disk, dir(), 5).unwrap();
    let expected = [
        dir().join(file_name(1, 1)),
        dir().join(file_name(1, 2)),
        database_path(dir(), 1),
        database_path(dir(), 2),
    ];
    assert_eq!(gone, expected);
    assert!(purge(&disk, dir(), 5).unwrap().is_empty());
}

#[test]
fn a_crash_leaves_a_snapshot_whole_or_absent() {
    let disk_now = disk();
    let before = disk_now.counts().calls;
    save(&disk_now, dir(), &snapshot(1, 10)).unwrap();
    for call in before + 1..=disk_now.counts().calls {
        for stop in [Stop::Before, Stop::After] {
            let disk_now = disk();
            disk_now.stop_at(call, stop);
            assert!(save(&disk_now, dir(), &snapshot(1, 10)).is_err());
            for seed in 0..8 {
                let crashed = disk_now.crash(seed);
                match load_newest_available(&crashed, dir(), &[record(1, 10)]) {
                    Ok(loaded) => assert!(loaded.broken.is_empty()),
                    Err(WalError::NoSnapshot { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                assert!(
                    !crashed
                        .list(dir())
                        .unwrap()
                        .iter()
                        .any(|name| name.ends_with("broken"))
                );
            }
        }
    }
    assert!(load_newest_available(&disk_now.crash(5), dir(), &[record(1, 10)]).is_ok());
}

#[test]
fn no_space_leaves_nothing_behind() {
    let disk = disk();
    disk.set_space(Some(0));
    assert!(matches!(
        save(&disk, dir(), &snapshot(1, 10)),
        Err(WalError::StorageFull { .. })
    ));
    assert!(disk.list(dir()).unwrap().is_empty());
}
