//! Behaviour of a log on a disk that does what it is told.

use crate::raftpb::{entry_len, put_entry};
use crate::walpb::{RecordType, Snapshot};
use crate::{
    Next, NextSegment, Options, Reader, Recovered, Wal, WalError, list_segments, must_sync, purge,
    snapshot_records, verify,
};
use bytes::Bytes;
use quorate_disk::faulty::FaultyDisk;
use quorate_disk::{Disk, Mode};
use quorate_raft::types::{ConfState, Entry, EntryKind, HardState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const DIR: &str = "/member/wal";
pub(crate) const METADATA: &[u8] = b"who and where";

pub(crate) fn dir() -> &'static Path {
    Path::new(DIR)
}

pub(crate) fn small() -> Options {
    Options {
        segment_bytes: 8192,
        unsafe_no_sync: false,
    }
}

/// A disk with the parent directory of the log.
pub(crate) fn disk() -> (FaultyDisk, Arc<dyn Disk>) {
    let faulty = FaultyDisk::new(1);
    faulty.create_dir_all(Path::new("/member")).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
    (faulty, disk)
}

pub(crate) fn entry(term: u64, index: u64, len: usize) -> Entry {
    let byte = (index * 31 + term) as u8 | 1;
    Entry {
        term,
        index,
        kind: EntryKind::Normal,
        data: vec![byte; len].into(),
    }
}

pub(crate) fn state(term: u64, commit: u64) -> HardState {
    HardState {
        term,
        vote: 0xabcd_ef01_2345_6789,
        commit,
    }
}

pub(crate) fn at(index: u64, term: u64) -> Snapshot {
    Snapshot {
        index,
        term,
        conf_state: Some(ConfState {
            voters: vec![1],
            ..ConfState::default()
        }),
    }
}

pub(crate) fn open(disk: &Arc<dyn Disk>) -> Result<(Wal, Recovered), WalError> {
    Wal::open(disk, dir(), &Snapshot::default(), small())
}

pub(crate) fn tail_path(disk: &dyn Disk) -> PathBuf {
    dir().join(
        list_segments(disk, dir())
            .unwrap()
            .last()
            .unwrap()
            .to_string(),
    )
}

pub(crate) fn contents(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Mode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A log with `count` synced entries of `len` bytes each.
pub(crate) fn filled(disk: &Arc<dyn Disk>, count: u64, len: usize) -> Wal {
    let mut wal = Wal::create(disk, dir(), METADATA, small()).unwrap();
    for index in 1..=count {
        wal.append(Some(&state(3, index - 1)), &[entry(3, index, len)])
            .unwrap();
        wal.sync().unwrap();
    }
    wal
}

#[test]
fn a_new_log_is_byte_for_byte_what_etcd_makes() {
    let (_, disk) = disk();
    assert!(!Wal::exists(&*disk, dir()).unwrap());
    let mut wal = Wal::create(&disk, dir(), b"somedata", small()).unwrap();
    wal.append(
        Some(&HardState {
            term: 1,
            vote: 1,
            commit: 0,
        }),
        &[Entry {
            term: 1,
            index: 1,
            ..Entry::default()
        }],
    )
    .unwrap();
    assert!(Wal::exists(&*disk, dir()).unwrap());
    assert_eq!(
        disk.list(dir()).unwrap(),
        ["0000000000000000-0000000000000000.wal"]
    );
    let bytes = contents(&*disk, &dir().join("0000000000000000-0000000000000000.wal"));
    assert_eq!(bytes.len(), 8192);
    let golden = GOLDEN_LOG;
    let used = wal.offset() as usize;
    let hex: String = bytes[..used]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(hex, golden);
    assert!(bytes[used..].iter().all(|&byte| byte == 0));
}

/// Made with etcd 3.7.3: Create with metadata "somedata", then Save of the same state and entry.
const GOLDEN_LOG: &str = "04000000000000840804100000000000120000000000008608011085d4fda0071a08736f6d65646174610000000000000e0000000000008208051080db81c1011a0408001000000010000000000000000802108aa79ccd091a060800100118011000000000000000080310e28ea8da071a06080110011800";

#[test]
fn what_was_appended_comes_back() {
    let (_, disk) = disk();
    let wal = filled(&disk, 5, 100);
    drop(wal);
    let (wal, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.metadata, METADATA);
    assert_eq!(recovered.hard_state, state(3, 4));
    assert_eq!(
        recovered.entries,
        (1..=5)
            .map(|index| entry(3, index, 100))
            .collect::<Vec<_>>()
    );
    assert_eq!(recovered.repaired, None);
    assert_eq!(wal.last_index(), 5);
    assert_eq!(wal.hard_state(), &state(3, 4));
}

#[test]
fn appending_goes_on_after_opening() {
    let (_, disk) = disk();
    drop(filled(&disk, 3, 10));
    for index in 4..40 {
        let (mut wal, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.entries.len() as u64, index - 1);
        wal.append(None, &[entry(3, index, 500)]).unwrap();
        wal.sync().unwrap();
        wal.close().unwrap();
    }
    assert!(list_segments(&*disk, dir()).unwrap().len() > 2);
    assert_eq!(
        verify(&*disk, dir(), &Snapshot::default())
            .unwrap()
            .hard_state,
        state(3, 2)
    );
}

#[test]
fn newer_entries_replace_what_they_overwrite() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 5, 10);
    wal.append(None, &[entry(4, 3, 20), entry(4, 4, 20)])
        .unwrap();
    wal.sync().unwrap();
    assert_eq!(wal.last_index(), 4);
    drop(wal);
    let (_, recovered) = open(&disk).unwrap();
    let expected = [
        entry(3, 1, 10),
        entry(3, 2, 10),
        entry(4, 3, 20),
        entry(4, 4, 20),
    ];
    assert_eq!(recovered.entries, expected);
}

#[test]
#[should_panic(expected = "no gap")]
fn a_gap_is_refused() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 5, 10);
    let _unreached = wal.append(None, &[entry(3, 7, 10)]);
}

#[test]
fn nothing_to_write_writes_nothing() {
    let (faulty, disk) = disk();
    let mut wal = filled(&disk, 1, 10);
    let before = faulty.counts().calls;
    assert!(!wal.append(None, &[]).unwrap());
    assert!(!wal.append(Some(&HardState::default()), &[]).unwrap());
    assert_eq!(faulty.counts().calls, before);
}

#[test]
fn a_batch_is_one_write() {
    let (faulty, disk) = disk();
    let mut wal = filled(&disk, 1, 10);
    let before = faulty.counts().calls;
    assert!(
        wal.append(
            Some(&state(3, 1)),
            &[entry(3, 2, 50), entry(3, 3, 50), entry(3, 4, 50)]
        )
        .unwrap()
    );
    assert_eq!(faulty.counts().calls, before + 1);
}

#[test]
fn only_a_higher_commit_index_needs_no_sync() {
    let before = state(3, 5);
    assert!(must_sync(&before, &before, 1));
    assert!(must_sync(&before, &state(4, 5), 0));
    assert!(must_sync(&before, &HardState { vote: 1, ..before }, 0));
    assert!(!must_sync(&before, &state(3, 6), 0));
    let (_, disk) = disk();
    let mut wal = filled(&disk, 1, 10);
    assert!(!wal.append(Some(&state(3, 1)), &[]).unwrap());
    assert!(wal.append(Some(&state(4, 1)), &[]).unwrap());
}

#[test]
fn a_full_segment_is_followed_by_another_that_can_be_read_alone() {
    let (_, disk) = disk();
    let wal = filled(&disk, 40, 1000);
    let segments = list_segments(&*disk, dir()).unwrap();
    assert!(segments.len() >= 5);
    for pair in segments.windows(2) {
        assert_eq!(pair[0].seq + 1, pair[1].seq);
        assert!(pair[0].index < pair[1].index);
    }
    // All but the tail are as short as what they hold.
    for segment in &segments[..segments.len() - 1] {
        let bytes = contents(&*disk, &dir().join(segment.to_string()));
        assert!(bytes.len() < 8192 + 1100);
    }
    let last = segments.last().unwrap();
    drop(wal);
    let mut reader = Reader::open(&*disk, dir(), last.index).unwrap();
    let mut kinds = Vec::new();
    let mut entries = Vec::new();
    while let Next::Record(located) = reader.next().unwrap() {
        let kind = RecordType::from_number(located.record.number).unwrap();
        if kind == RecordType::Entry {
            entries.push(
                crate::raftpb::decode_entry(&located.record.data)
                    .unwrap()
                    .index,
            );
        }
        kinds.push(kind);
    }
    assert_eq!(
        kinds[..3],
        [RecordType::Crc, RecordType::Metadata, RecordType::State]
    );
    assert_eq!(entries, (last.index..=40).collect::<Vec<_>>());
}

#[test]
fn opening_at_a_snapshot_reads_what_follows_it() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 20, 1000);
    assert!(wal.save_snapshot_record(&at(15, 3)).unwrap());
    wal.append(Some(&state(3, 20)), &[entry(3, 21, 10)])
        .unwrap();
    wal.sync().unwrap();
    drop(wal);
    let records = snapshot_records(&*disk, dir()).unwrap();
    assert_eq!(records, [Snapshot::default(), at(15, 3)]);
    let (mut wal, recovered) = Wal::open(&disk, dir(), &records[1], small()).unwrap();
    assert_eq!(
        recovered
            .entries
            .iter()
            .map(|entry| entry.index)
            .collect::<Vec<_>>(),
        (16..=21).collect::<Vec<_>>()
    );
    assert_eq!(recovered.hard_state, state(3, 20));
    wal.append(None, &[entry(3, 22, 10)]).unwrap();
    drop(wal);

    let mismatch = Wal::open(&disk, dir(), &at(15, 4), small()).err().unwrap();
    assert!(
        matches!(
            mismatch,
            WalError::SnapshotMismatch {
                index: 15,
                wanted: 4,
                found: 3
            }
        ),
        "{mismatch}"
    );
    let missing = Wal::open(&disk, dir(), &at(14, 3), small()).err().unwrap();
    assert!(
        matches!(missing, WalError::SnapshotNotFound { index: 14, .. }),
        "{missing}"
    );
    assert!(matches!(
        verify(&*disk, dir(), &at(14, 3)),
        Err(WalError::SnapshotNotFound { .. })
    ));
    assert!(matches!(
        verify(&*disk, dir(), &at(15, 4)),
        Err(WalError::SnapshotMismatch { .. })
    ));
    assert!(verify(&*disk, dir(), &at(15, 3)).is_ok());
}

#[test]
fn a_received_snapshot_moves_the_log_on() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 2, 10);
    assert!(wal.save_snapshot_record(&at(100, 3)).unwrap());
    // etcd takes the last record for the newest: none is written below it.
    assert!(!wal.save_snapshot_record(&at(50, 3)).unwrap());
    wal.append(Some(&state(3, 100)), &[entry(3, 101, 10)])
        .unwrap();
    wal.sync().unwrap();
    drop(wal);
    assert_eq!(
        snapshot_records(&*disk, dir()).unwrap(),
        [Snapshot::default(), at(100, 3)]
    );
    let (mut wal, recovered) = Wal::open(&disk, dir(), &at(100, 3), small()).unwrap();
    assert_eq!(recovered.entries, [entry(3, 101, 10)]);
    assert!(!wal.save_snapshot_record(&at(99, 3)).unwrap());
    let bare = Snapshot {
        conf_state: None,
        ..at(200, 3)
    };
    assert!(matches!(
        wal.save_snapshot_record(&bare),
        Err(WalError::SnapshotWithoutConfState { index: 200 })
    ));
}

#[test]
fn uncommitted_snapshot_records_do_not_count() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 5, 10);
    wal.save_snapshot_record(&at(5, 3)).unwrap();
    assert_eq!(
        snapshot_records(&*disk, dir()).unwrap(),
        [Snapshot::default()]
    );
    wal.append(Some(&state(3, 5)), &[]).unwrap();
    assert_eq!(
        snapshot_records(&*disk, dir()).unwrap(),
        [Snapshot::default(), at(5, 3)]
    );
}

#[test]
fn a_record_that_was_never_committed_keeps_no_older_snapshot_out() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 2, 10);
    // The member goes down before the state that commits it is there.
    wal.save_snapshot_record(&at(100, 3)).unwrap();
    wal.close().unwrap();
    let (mut wal, _) = open(&disk).unwrap();
    assert!(wal.save_snapshot_record(&at(90, 3)).unwrap());
    wal.append(Some(&state(3, 90)), &[]).unwrap();
    wal.append(None, &[entry(3, 91, 10)]).unwrap();
    wal.close().unwrap();
    assert_eq!(
        snapshot_records(&*disk, dir()).unwrap(),
        [Snapshot::default(), at(90, 3)]
    );
    let (mut wal, recovered) = Wal::open(&disk, dir(), &at(90, 3), small()).unwrap();
    assert_eq!(recovered.entries, [entry(3, 91, 10)]);
    assert!(!wal.save_snapshot_record(&at(89, 3)).unwrap());
}

#[test]
fn a_log_is_held_by_one() {
    let (_, disk) = disk();
    let wal = filled(&disk, 1, 10);
    assert!(matches!(open(&disk), Err(WalError::Locked { .. })));
    assert!(matches!(
        Wal::create(&disk, dir(), METADATA, small()),
        Err(WalError::AlreadyExists { .. })
    ));
    // Readers need no lock.
    verify(&*disk, dir(), &Snapshot::default()).unwrap();
    drop(wal);
    open(&disk).unwrap();
}

#[test]
fn released_segments_are_purged_and_no_others() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 60, 1000);
    let segments = list_segments(&*disk, dir()).unwrap();
    assert!(segments.len() > 5);
    assert!(purge(&*disk, dir(), 1).unwrap().is_empty());

    wal.append(Some(&state(3, 60)), &[]).unwrap();
    wal.save_snapshot_record(&at(segments[4].index, 3)).unwrap();
    wal.release_to(segments[4].index);
    let gone = purge(&*disk, dir(), 1).unwrap();
    // The segment in front of the one that begins at the index stays.
    assert_eq!(
        gone,
        segments[..3]
            .iter()
            .map(|name| dir().join(name.to_string()))
            .collect::<Vec<_>>()
    );
    drop(wal);
    let (mut wal, recovered) = Wal::open(&disk, dir(), &at(segments[4].index, 3), small()).unwrap();
    assert_eq!(recovered.entries.last(), Some(&entry(3, 60, 1000)));
    assert!(matches!(
        open(&disk),
        Err(WalError::NoSegmentFor { index: 0, .. })
    ));

    wal.release_to(1_000_000);
    let left = list_segments(&*disk, dir()).unwrap().len();
    assert_eq!(purge(&*disk, dir(), 2).unwrap().len(), left - 2);
    assert_eq!(purge(&*disk, dir(), 2).unwrap().len(), 0);
    assert_eq!(purge(&*disk, dir(), 1).unwrap().len(), 1);
    assert_eq!(purge(&*disk, dir(), 0).unwrap().len(), 0);
}

#[test]
fn a_missing_segment_is_noticed() {
    let (_, disk) = disk();
    drop(filled(&disk, 60, 1000));
    let segments = list_segments(&*disk, dir()).unwrap();
    disk.remove(&dir().join(segments[2].to_string())).unwrap();
    assert!(matches!(
        open(&disk),
        Err(WalError::SequenceGap {
            before: 1,
            after: 3,
            ..
        })
    ));
    assert!(matches!(
        snapshot_records(&*disk, dir()),
        Err(WalError::SequenceGap { .. })
    ));
    for segment in segments {
        if segment.seq != 2 {
            disk.remove(&dir().join(segment.to_string())).unwrap();
        }
    }
    assert!(matches!(open(&disk), Err(WalError::NoSegments { .. })));
}

#[test]
fn the_next_segment_may_be_prepared_by_another_thread() {
    let (faulty, disk) = disk();
    let mut wal = filled(&disk, 1, 10);
    let order = wal.next_segment().unwrap();
    let prepared = std::thread::spawn(|| order.prepare())
        .join()
        .unwrap()
        .unwrap();
    assert_eq!(disk.list(dir()).unwrap()[0], "0.tmp");
    wal.offer(prepared).unwrap();
    assert!(wal.next_segment().is_none());
    wal.append(None, &[entry(3, 2, 9000)]).unwrap();
    assert!(wal.is_full());
    let before = faulty.counts().calls;
    wal.sync().unwrap();
    // Sync; head, its sync, shorten, sync, rename, directory: no allocation.
    assert_eq!(faulty.counts().calls - before, 7);
    assert_eq!(list_segments(&*disk, dir()).unwrap().len(), 2);
    let order: NextSegment = wal.next_segment().unwrap();
    let late = order.prepare().unwrap();
    wal.prepare_next_segment().unwrap();
    wal.offer(late).unwrap();
    assert_eq!(
        disk.list(dir())
            .unwrap()
            .iter()
            .filter(|name| name.ends_with(".tmp"))
            .count(),
        1
    );
    wal.close().unwrap();
    assert_eq!(
        disk.list(dir())
            .unwrap()
            .iter()
            .filter(|name| name.ends_with(".tmp"))
            .count(),
        0
    );
}

#[test]
fn leftover_temporary_files_do_not_reach_the_log() {
    let (_, disk) = disk();
    drop(filled(&disk, 1, 10));
    for name in ["0.tmp", "1.tmp"] {
        let file = disk.open(&dir().join(name), Mode::CreateNew).unwrap();
        file.write_all_at(&[0xff; 20_000], 0).unwrap();
    }
    let (mut wal, _) = open(&disk).unwrap();
    assert_eq!(disk.list(dir()).unwrap().len(), 1);
    // Nor do those that come to be later.
    for name in ["0.tmp", "1.tmp"] {
        let file = disk.open(&dir().join(name), Mode::CreateNew).unwrap();
        file.write_all_at(&[0xff; 20_000], 0).unwrap();
    }
    for index in 2..40 {
        wal.append(None, &[entry(3, index, 1000)]).unwrap();
        wal.sync().unwrap();
        let image = contents(&*disk, &tail_path(&*disk));
        assert!(image[wal.offset() as usize..].iter().all(|&byte| byte == 0));
    }
    drop(wal);
    let (_, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.entries.len(), 39);
}

#[test]
fn a_log_begun_and_not_renamed_is_begun_again() {
    let (_, disk) = disk();
    let building = Path::new("/member/wal.tmp");
    disk.create_dir_all(building).unwrap();
    disk.open(
        &building.join("0000000000000000-0000000000000000.wal"),
        Mode::CreateNew,
    )
    .unwrap();
    disk.create_dir_all(dir()).unwrap();
    disk.open(&dir().join("0.tmp"), Mode::CreateNew).unwrap();
    drop(filled(&disk, 2, 10));
    assert_eq!(open(&disk).unwrap().1.entries.len(), 2);
    assert!(!disk.exists(building).unwrap());
}

#[test]
fn what_stands_behind_a_replaced_entry_goes_with_it() {
    let (_, disk) = disk();
    let mut wal = Wal::create(&disk, dir(), METADATA, small()).unwrap();
    let old: Vec<Entry> = (1..=9).map(|index| entry(1, index, 10)).collect();
    wal.append(Some(&state(1, 2)), &old).unwrap();
    // Another leader's entries, up to where a snapshot will be.
    let new: Vec<Entry> = (3..=5).map(|index| entry(2, index, 10)).collect();
    wal.append(Some(&state(2, 5)), &new).unwrap();
    assert!(wal.save_snapshot_record(&at(5, 2)).unwrap());
    drop(wal);
    let (_, recovered) = Wal::open(&disk, dir(), &at(5, 2), small()).unwrap();
    assert_eq!(recovered.entries, []);

    // A snapshot of what is in the log leaves what is behind it.
    let (mut wal, _) = Wal::open(&disk, dir(), &at(5, 2), small()).unwrap();
    wal.append(Some(&state(2, 6)), &[entry(2, 6, 10), entry(2, 7, 10)])
        .unwrap();
    assert!(wal.save_snapshot_record(&at(6, 2)).unwrap());
    drop(wal);
    let (mut wal, recovered) = Wal::open(&disk, dir(), &at(6, 2), small()).unwrap();
    assert_eq!(recovered.entries, [entry(2, 7, 10)]);

    // One that the log did not lead to takes its place.
    wal.append(Some(&state(3, 7)), &[]).unwrap();
    assert!(wal.save_snapshot_record(&at(7, 3)).unwrap());
    drop(wal);
    let (_, recovered) = Wal::open(&disk, dir(), &at(7, 3), small()).unwrap();
    assert_eq!(recovered.entries, []);
}

#[test]
fn no_space_for_a_batch_leaves_the_log_as_it_was() {
    for spare in [0, 4096, 8192] {
        let (faulty, disk) = disk();
        let mut wal = filled(&disk, 3, 10);
        let end = wal.offset();
        faulty.set_space(Some(faulty.used_bytes() + spare));
        let big = [entry(3, 4, 6000), entry(3, 5, 30_000)];
        let error = wal.append(Some(&state(3, 3)), &big).unwrap_err();
        assert!(matches!(error, WalError::StorageFull { .. }), "{error}");
        assert_eq!(
            (wal.offset(), wal.last_index(), wal.hard_state()),
            (end, 3, &state(3, 2))
        );
        let image = contents(&*disk, &tail_path(&*disk));
        assert_eq!(image.len(), 8192);
        assert!(image[end as usize..].iter().all(|&byte| byte == 0));
        // What fits into the reserved space is still taken.
        wal.append(None, &[entry(3, 4, 1000)]).unwrap();
        wal.sync().unwrap();
        drop(wal);
        let (_, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.entries.len(), 4);
        assert_eq!(recovered.hard_state, state(3, 2));
    }
}

#[test]
fn no_space_in_a_tail_without_its_reservation_is_no_failure() {
    for spare in [0, 4096, 8192] {
        let (faulty, disk) = disk();
        drop(filled(&disk, 3, 10));
        // What is found after a power cut has the length, and holes where nothing was written.
        let faulty = faulty.crash(1);
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        let (mut wal, _) = open(&disk).unwrap();
        faulty.set_space(Some(faulty.used_bytes() + spare));
        let error = wal.append(None, &[entry(3, 4, 30_000)]).unwrap_err();
        assert!(matches!(error, WalError::StorageFull { .. }), "{error}");
        faulty.set_space(None);
        wal.append(None, &[entry(3, 4, 30_000)]).unwrap();
        wal.sync().unwrap();
        drop(wal);
        assert_eq!(open(&disk).unwrap().1.entries.len(), 4);
    }
}

#[test]
fn no_space_for_another_segment_lets_the_old_one_grow() {
    let (faulty, disk) = disk();
    let mut wal = filled(&disk, 3, 10);
    faulty.set_space(Some(faulty.used_bytes() + 12 * 1024));
    wal.append(None, &[entry(3, 4, 8000)]).unwrap();
    wal.sync().unwrap();
    wal.append(None, &[entry(3, 5, 500)]).unwrap();
    faulty.set_space(Some(faulty.used_bytes() + 4096));
    wal.sync().unwrap();
    assert_eq!(list_segments(&*disk, dir()).unwrap().len(), 2);
    wal.append(None, &[entry(3, 6, 7800)]).unwrap();
    wal.sync().unwrap();
    assert_eq!(list_segments(&*disk, dir()).unwrap().len(), 2);
    assert!(wal.is_full());
    faulty.set_space(None);
    wal.append(None, &[entry(3, 7, 100)]).unwrap();
    wal.sync().unwrap();
    assert_eq!(list_segments(&*disk, dir()).unwrap().len(), 3);
    drop(wal);
    assert_eq!(open(&disk).unwrap().1.entries.len(), 7);
}

#[test]
fn after_a_failed_sync_nothing_is_taken() {
    let (faulty, disk) = disk();
    let mut wal = filled(&disk, 3, 10);
    wal.append(None, &[entry(3, 4, 10)]).unwrap();
    faulty.fail_sync(1);
    assert!(matches!(wal.sync(), Err(WalError::SyncFailed { .. })));
    assert!(matches!(wal.sync(), Err(WalError::Failed { .. })));
    assert!(matches!(
        wal.append(None, &[entry(3, 5, 10)]),
        Err(WalError::Failed { .. })
    ));
    assert!(matches!(
        wal.save_snapshot_record(&at(1, 3)),
        Err(WalError::Failed { .. })
    ));
    assert!(matches!(wal.cut(), Err(WalError::Failed { .. })));
    assert!(wal.next_segment().is_none());
    assert!(matches!(wal.close(), Err(WalError::Failed { .. })));
}

#[test]
fn without_syncs_none_is_made() {
    let (faulty, disk) = disk();
    let options = Options {
        unsafe_no_sync: true,
        ..small()
    };
    let mut wal = Wal::create(&disk, dir(), METADATA, options).unwrap();
    for index in 1..40 {
        wal.append(Some(&state(3, index)), &[entry(3, index, 1000)])
            .unwrap();
        wal.sync().unwrap();
    }
    assert_eq!(
        (faulty.counts().file_syncs, faulty.counts().dir_syncs),
        (0, 0)
    );
    drop(wal);
    assert_eq!(open(&disk).unwrap().1.entries.len(), 39);
}

#[test]
fn entries_share_memory_with_what_was_read() {
    let (_, disk) = disk();
    drop(filled(&disk, 3, 10));
    let (_, recovered) = open(&disk).unwrap();
    let distance =
        recovered.entries[1].data.as_ptr() as usize - recovered.entries[0].data.as_ptr() as usize;
    let mut encoded = Vec::new();
    put_entry(&mut encoded, &recovered.entries[0]);
    assert!(distance < entry_len(&recovered.entries[0]) + 100);
    assert_eq!(Bytes::from(encoded).len(), entry_len(&recovered.entries[0]));
}
