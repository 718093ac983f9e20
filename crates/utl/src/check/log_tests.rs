//! Logs that servers write and that look odd are whole.

use super::*;
use crate::database::disk;
use crate::log_entries::newest_record;
use crate::sample::{Scratch, member};
use bytes::Bytes;
use quorate_store::ids::Identity;
use quorate_wal::types::{ConfState, Entry, EntryKind, HardState};
use quorate_wal::walpb::{RecordType, Snapshot};
use quorate_wal::{Next, Options, Reader, Wal, snap, walpb};
use std::fs;
use std::path::PathBuf;

/// The sample's last entry, which the database covers.
const LAST: u64 = 400;
/// The sample's term.
const TERM: u64 = 2;

/// A member, and its log open for more.
fn sample(scratch: &Scratch) -> (PathBuf, PathBuf, Wal) {
    let data_dir = scratch.0.join("data");
    member(&data_dir);
    let wal_dir = layout::wal_dir(&data_dir);
    let at = newest_record(&wal_dir).unwrap();
    let (wal, _) = Wal::open(&disk(), &wal_dir, &at, Options::default()).unwrap();
    (data_dir, wal_dir, wal)
}

fn entries(indexes: std::ops::RangeInclusive<u64>, term: u64) -> Vec<Entry> {
    let entry = |index| Entry {
        term,
        index,
        kind: EntryKind::Normal,
        data: Bytes::new(),
    };
    indexes.map(entry).collect()
}

fn committed(term: u64, commit: u64) -> HardState {
    HardState {
        term,
        vote: 0,
        commit,
    }
}

fn record(index: u64, term: u64) -> Snapshot {
    Snapshot {
        index,
        term,
        conf_state: Some(ConfState::default()),
    }
}

#[track_caller]
fn assert_whole(data_dir: &Path, wal_dir: &Path) {
    let report = check_member(data_dir, wal_dir, Wait::Forever).unwrap();
    assert!(report.is_whole(), "{:#?}", report.findings);
}

#[track_caller]
fn assert_finds(data_dir: &Path, wal_dir: &Path, what: &str) {
    let report = check_member(data_dir, wal_dir, Wait::Forever).unwrap();
    let found = report.findings.iter().any(|it| it.what.contains(what));
    assert!(found, "{:#?}", report.findings);
}

/// A database as it comes with a snapshot.
fn receive(data_dir: &Path, index: u64) {
    let received = snap::database_path(&layout::snap_dir(data_dir), index);
    fs::copy(layout::database(data_dir), received).unwrap();
}

/// What a server makes of it.
fn take_over(data_dir: &Path, index: u64, term: u64) {
    let database = layout::database(data_dir);
    let received = snap::database_path(&layout::snap_dir(data_dir), index);
    fs::rename(received, &database).unwrap();
    let options = quorate_bolt::Options::default();
    let db = quorate_bolt::Db::open(disk(), &database, &options).unwrap();
    let mut tx = db.begin_write().unwrap();
    let mut meta = tx.create_bucket_if_missing(b"meta").unwrap();
    meta.put(b"consistent_index", &index.to_be_bytes()).unwrap();
    meta.put(b"term", &term.to_be_bytes()).unwrap();
    tx.commit().unwrap();
}

#[test]
fn a_received_snapshot_replaces_what_was_not_committed() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, mut wal) = sample(&scratch);
    wal.append(None, &entries(LAST + 1..=LAST + 20, TERM))
        .unwrap();
    let (index, term) = (LAST + 10, TERM + 1);
    receive(&data_dir, index);
    wal.save_snapshot_record(&record(index, term)).unwrap();
    wal.append(None, &entries(index + 1..=index + 2, term))
        .unwrap();
    wal.append(Some(&committed(term, index)), &[]).unwrap();
    wal.close().unwrap();
    assert_whole(&data_dir, &wal_dir);
    take_over(&data_dir, index, term);
    assert_whole(&data_dir, &wal_dir);
}

#[test]
fn a_snapshot_that_was_never_taken_replaces_nothing() {
    for index in [LAST + 10, LAST + 30] {
        let scratch = Scratch::new();
        let (data_dir, wal_dir, mut wal) = sample(&scratch);
        wal.append(None, &entries(LAST + 1..=LAST + 20, TERM))
            .unwrap();
        let term = TERM + 1;
        receive(&data_dir, index);
        wal.save_snapshot_record(&record(index, term)).unwrap();
        wal.sync().unwrap();
        assert_whole(&data_dir, &wal_dir);
        // After a restart the leader had the entries after all.
        wal.append(None, &entries(LAST + 5..=LAST + 40, term))
            .unwrap();
        wal.append(Some(&committed(term, LAST + 40)), &[]).unwrap();
        wal.sync().unwrap();
        drop(wal);
        let report = check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
        let log = report.log.unwrap();
        assert_eq!((log.first_index, log.last_index), (1, LAST + 40));
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }
}

#[test]
fn a_snapshot_that_contradicts_what_is_committed_is_damage() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, mut wal) = sample(&scratch);
    wal.append(Some(&committed(TERM, LAST)), &[]).unwrap();
    wal.save_snapshot_record(&record(LAST - 5, TERM + 1))
        .unwrap();
    wal.close().unwrap();
    assert_finds(&data_dir, &wal_dir, "where the entry has another");
}

#[test]
fn entries_behind_a_snapshot_that_is_not_committed_lack_those_before() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, mut wal) = sample(&scratch);
    wal.save_snapshot_record(&record(LAST + 10, TERM)).unwrap();
    wal.append(None, &entries(LAST + 11..=LAST + 12, TERM))
        .unwrap();
    wal.close().unwrap();
    assert_finds(&data_dir, &wal_dir, "that is not committed");
}

/// A record as it stands in a segment; crate `wal` writes none that etcd alone writes.
fn put_record(out: &mut Vec<u8>, crc: &mut u32, number: i64, data: &[u8]) {
    *crc = crc32c::crc32c_append(*crc, data);
    let mut record = Vec::new();
    prost::encoding::int64::encode(1, &number, &mut record);
    prost::encoding::uint32::encode(2, crc, &mut record);
    if !data.is_empty() {
        prost::encoding::bytes::encode(3, &data.to_vec(), &mut record);
    }
    let padding = record.len().wrapping_neg() % 8;
    let flags = if padding > 0 { 0x80 | padding } else { 0 };
    out.extend((record.len() as u64 | (flags as u64) << 56).to_le_bytes());
    out.extend(&record);
    out.resize(out.len() + padding, 0);
}

/// Writes the segments anew, with what `change` makes of a record's data; it is told the record's place
/// in its segment and its type, and may leave it out.
fn rewrite(wal_dir: &Path, change: impl Fn(u64, RecordType, &Bytes) -> Option<Bytes>) {
    let mut reader = Reader::open_all(&*disk(), wal_dir).unwrap();
    let (mut crc, mut place) = (0, 0);
    let mut segments = std::collections::BTreeMap::<_, Vec<u8>>::new();
    while let Next::Record(located) = reader.next().unwrap() {
        let out = segments.entry(located.segment).or_default();
        place = if out.is_empty() { 1 } else { place + 1 };
        let number = located.record.number;
        let kind = RecordType::from_number(number).unwrap();
        if let Some(data) = change(place, kind, &located.record.data) {
            put_record(out, &mut crc, number, &data);
        }
    }
    for (name, bytes) in segments {
        fs::write(wal_dir.join(name.to_string()), bytes).unwrap();
    }
}

#[test]
fn a_segment_of_a_writer_without_a_state_has_none_at_its_head() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, wal) = sample(&scratch);
    drop(wal);
    rewrite(&wal_dir, |_, _, data| Some(data.clone()));
    assert_whole(&data_dir, &wal_dir);
    rewrite(&wal_dir, |place, kind, data| {
        (place != 3 || kind != RecordType::State).then(|| data.clone())
    });
    assert_whole(&data_dir, &wal_dir);
}

#[test]
fn a_snapshot_record_needs_no_configuration() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, wal) = sample(&scratch);
    drop(wal);
    rewrite(&wal_dir, |_, kind, data| {
        if kind != RecordType::Snapshot {
            return Some(data.clone());
        }
        let Snapshot { index, term, .. } = walpb::decode_snapshot(data).unwrap();
        let mut bare = Vec::new();
        prost::encoding::uint64::encode(1, &index, &mut bare);
        prost::encoding::uint64::encode(2, &term, &mut bare);
        Some(bare.into())
    });
    assert_whole(&data_dir, &wal_dir);
}

#[test]
fn an_older_snapshot_may_head_the_first_segment_that_is_kept() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, mut wal) = sample(&scratch);
    wal.append(Some(&committed(TERM, LAST)), &[]).unwrap();
    wal.save_snapshot_record(&record(LAST, TERM)).unwrap();
    wal.close().unwrap();
    // The one before was recorded when its entries' segment was full.
    let mut reader = Reader::open_all(&*disk(), &wal_dir).unwrap();
    let mut first = None;
    while let Next::Record(located) = reader.next().unwrap() {
        let kind = RecordType::from_number(located.record.number);
        if kind == Some(RecordType::Snapshot) && located.segment.index > 0 {
            first.get_or_insert(located.segment);
        }
    }
    let first = first.unwrap();
    for name in quorate_wal::list_segments(&*disk(), &wal_dir).unwrap() {
        if name < first {
            fs::remove_file(wal_dir.join(name.to_string())).unwrap();
        }
    }
    assert_whole(&data_dir, &wal_dir);
}

#[test]
fn what_a_segment_was_begun_for_need_not_follow_what_was_committed() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, wal) = sample(&scratch);
    wal.close().unwrap();
    let at = newest_record(&wal_dir).unwrap();
    let small = Options {
        segment_bytes: 4096,
        ..Options::default()
    };
    let (mut wal, _) = Wal::open(&disk(), &wal_dir, &at, small).unwrap();
    let segments = || quorate_wal::list_segments(&*disk(), &wal_dir).unwrap();
    let (before, mut last) = (segments().len(), LAST);
    while segments().len() == before {
        last += 1;
        assert!(last < LAST + 100);
        let mut entry = entries(last..=last, TERM);
        entry[0].data = vec![0; 500].into();
        let state = committed(TERM, last - 1);
        wal.append(Some(&state), &entry).unwrap();
        // Begins the next segment where this one is full.
        wal.sync().unwrap();
    }
    // A snapshot that was made before, an entry, and a newer snapshot.
    wal.save_snapshot_record(&record(LAST, TERM)).unwrap();
    let next = last + 1;
    wal.append(Some(&committed(TERM, next)), &entries(next..=next, TERM))
        .unwrap();
    wal.save_snapshot_record(&record(next, TERM)).unwrap();
    wal.close().unwrap();
    receive(&data_dir, next);
    take_over(&data_dir, next, TERM);
    for name in &segments()[..before] {
        fs::remove_file(wal_dir.join(name.to_string())).unwrap();
    }
    assert_whole(&data_dir, &wal_dir);
}

#[test]
fn a_snapshot_file_whose_write_was_never_finished_is_no_damage() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, wal) = sample(&scratch);
    wal.close().unwrap();
    let snap_dir = layout::snap_dir(&data_dir);
    // As etcd leaves it: it makes the file, writes it, and records it in the log.
    // It may have been long ago.
    let recorded = newest_record(&wal_dir).unwrap();
    for (index, content) in [
        (LAST + 1, &b""[..]),
        (LAST + 1, b"half of it"),
        (recorded.index - 1, b""),
    ] {
        let unfinished = snap_dir.join(snap::file_name(recorded.term, index));
        fs::write(&unfinished, content).unwrap();
        let report = check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
        assert!(report.is_whole(), "{:#?}", report.findings);
        assert!(
            report
                .notes
                .iter()
                .any(|it| it.what.contains("never finished"))
        );
        fs::remove_file(&unfinished).unwrap();
    }
    let file = snap_dir.join(snap::file_name(recorded.term, recorded.index));
    assert!(file.exists());
    fs::write(&file, "").unwrap();
    assert_finds(&data_dir, &wal_dir, "empty snapshot");
}

#[test]
fn a_first_start_that_was_interrupted_is_no_damage_and_a_lost_log_is() {
    let scratch = Scratch::new();
    let (data_dir, wal_dir, wal) = sample(&scratch);
    wal.close().unwrap();
    let begun = scratch.0.join("begun");
    let begun_wal = layout::wal_dir(&begun);
    // Nothing, then directories, then an empty database.
    fs::create_dir_all(&begun).unwrap();
    assert_finds(&begun, &begun_wal, "there is no log");
    fs::create_dir_all(layout::member_dir(&begun)).unwrap();
    assert_whole(&begun, &begun_wal);
    fs::create_dir_all(layout::snap_dir(&begun)).unwrap();
    assert_whole(&begun, &begun_wal);
    let options = quorate_bolt::Options::default();
    let database = layout::database(&begun);
    fs::write(&database, "").unwrap();
    assert_whole(&begun, &begun_wal);
    drop(quorate_bolt::Db::open(disk(), &database, &options).unwrap());
    assert_whole(&begun, &begun_wal);
    // A log that is gone is not one that never was: the database has members.
    fs::remove_dir_all(&wal_dir).unwrap();
    assert_finds(&data_dir, &wal_dir, "there is no log");
    fs::remove_file(layout::database(&data_dir)).unwrap();
    assert_finds(&data_dir, &wal_dir, "there is no log");
    fs::write(&database, "no database").unwrap();
    assert_finds(&begun, &begun_wal, "there is no log");
}

/// A database as a first start makes it, with these buckets so far.
fn begun_database(path: &Path, buckets: &[&[u8]]) {
    let _ = fs::remove_file(path);
    let options = quorate_bolt::Options::default();
    let db = quorate_bolt::Db::open(disk(), path, &options).unwrap();
    if !buckets.is_empty() {
        let mut write = db.begin_write().unwrap();
        for name in buckets {
            write.create_bucket_if_missing(name).unwrap();
        }
        write.commit().unwrap();
    }
}

#[test]
fn buckets_are_made_of_a_log_that_has_all() {
    let scratch = Scratch::new();
    let data_dir = scratch.0.join("begun");
    let (wal_dir, database) = (layout::wal_dir(&data_dir), layout::database(&data_dir));
    fs::create_dir_all(layout::snap_dir(&data_dir)).unwrap();
    let metadata = Identity {
        member_id: 1,
        cluster_id: 2,
    };
    let mut wal = Wal::create(&disk(), &wal_dir, &metadata.encode(), Options::default()).unwrap();
    let steps: [&[&[u8]]; 3] = [&[], &[b"meta"], &[b"members", b"meta"]];
    for buckets in steps {
        begun_database(&database, buckets);
        assert_whole(&data_dir, &wal_dir);
        let alone = check_database(&database, Wait::Forever).unwrap();
        assert!(!alone.is_whole(), "alone, a database has its buckets");
    }
    // With entries as well: none of them was applied.
    wal.append(Some(&committed(TERM, 3)), &entries(1..=3, TERM))
        .unwrap();
    wal.sync().unwrap();
    assert_whole(&data_dir, &wal_dir);
    // What stands elsewhere tells that there was more.
    begun_database(&database, &[]);
    let options = quorate_bolt::Options::default();
    let db = quorate_bolt::Db::open(disk(), &database, &options).unwrap();
    let mut write = db.begin_write().unwrap();
    let mut cluster = write.create_bucket_if_missing(b"cluster").unwrap();
    cluster.put(b"clusterVersion", b"3.7.0").unwrap();
    write.commit().unwrap();
    drop(db);
    assert_finds(&data_dir, &wal_dir, "there is no bucket meta");
    assert_finds(&data_dir, &wal_dir, "there is no bucket key");
    wal.close().unwrap();
    // The sample's log begins with a snapshot: nothing can be made of it alone.
    let (data_dir, wal_dir, wal) = sample(&scratch);
    wal.close().unwrap();
    begun_database(&layout::database(&data_dir), &[b"meta"]);
    assert_finds(&data_dir, &wal_dir, "there is no bucket key");
}
