//! Commands as a whole, on a small member's files.

use crate::database::{Wait, disk, open_to_read};
use crate::layout;
use crate::log_entries;
use crate::sample::{Scratch, member};
use quorate_store::hash::hash_by_revision;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Runs a line and gives the exit code.
fn run(line: &[&str]) -> u8 {
    run_as("etcdutl", line)
}

fn run_as(name: &'static str, line: &[&str]) -> u8 {
    let line: Vec<OsString> = [name].iter().chain(line).map(OsString::from).collect();
    crate::run(name, &line)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A member's directory and a snapshot of it, as the API gives it.
fn sample(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let data_dir = scratch.0.join("data");
    member(&data_dir);
    let db = open_to_read(&layout::database(&data_dir), Wait::Forever).unwrap();
    let mut bytes = Vec::new();
    let read = db.begin_read();
    read.write_to(&mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    let hash = Sha256::digest(&bytes);
    bytes.extend_from_slice(&hash);
    let snapshot = scratch.0.join("snapshot");
    fs::write(&snapshot, bytes).unwrap();
    (data_dir, snapshot)
}

type Buckets = BTreeMap<Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>>;

fn buckets(database: &Path) -> Buckets {
    let db = open_to_read(database, Wait::Forever).unwrap();
    assert!(db.check().unwrap().is_ok());
    let read = db.begin_read();
    let mut all = Buckets::new();
    for name in read.buckets().unwrap() {
        let mut entries = Vec::new();
        let mut cursor = read
            .bucket(&name)
            .unwrap()
            .unwrap()
            .range(Bound::Unbounded)
            .unwrap();
        while let Some((key, value)) = cursor.next().unwrap() {
            entries.push((key.to_vec(), value.to_vec()));
        }
        all.insert(name, entries);
    }
    all
}

fn hash(database: &Path) -> (u32, i64) {
    let mut store = quorate_store::open_read_only(disk(), database).unwrap();
    let view = store.publish();
    let hash = hash_by_revision(&view, &view.hashes, 0).unwrap();
    (hash.hash, hash.revision)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The names in a directory and in those below it.
fn all_names(dir: &Path) -> Vec<String> {
    let mut all = names(dir);
    for name in names(dir) {
        let below = dir.join(&name);
        if below.is_dir() {
            all.extend(all_names(&below));
        }
    }
    all
}

#[test]
fn a_restored_directory_is_whole_and_has_the_same_history() {
    let scratch = Scratch::new();
    let (data_dir, snapshot) = sample(&scratch);
    let before = names(&scratch.0);
    let target = scratch.0.join("deep").join("restored");
    let wal_dir = scratch.0.join("log");
    let line = [
        "snapshot",
        "restore",
        text(&snapshot),
        "--data-dir",
        text(&target),
    ];
    assert_eq!(
        run(&[&line[..], &["--wal-dir", text(&wal_dir)]].concat()),
        0
    );
    assert_eq!(
        run(&["check", text(&target), "--wal-dir", text(&wal_dir)]),
        0
    );
    assert_eq!(names(&target.join("member")), ["snap"]);
    assert_eq!(
        hash(&layout::database(&target)),
        hash(&layout::database(&data_dir))
    );
    let restored = buckets(&layout::database(&target));
    assert_eq!(restored[&b"members"[..]].len(), 1);
    assert_eq!(restored[&b"members"[..]][0].0, b"8e9e05c52164694d");
    let newest = log_entries::newest_record(&wal_dir).unwrap();
    let log = log_entries::read_from(&wal_dir, newest).unwrap();
    assert_eq!((log.at.index, log.at.term, log.state.commit), (1, 1, 1));

    // It is refused where something is.
    assert_eq!(run(&line), 1);
    let other = scratch.0.join("other");
    let line = [
        "snapshot",
        "restore",
        text(&snapshot),
        "--data-dir",
        text(&other),
    ];
    assert_eq!(
        run(&[&line[..], &["--wal-dir", text(&wal_dir)]].concat()),
        1
    );
    // An empty directory is not something.
    fs::create_dir(&other).unwrap();
    assert_eq!(run(&line), 0);
    assert_eq!(names(&other), ["member"]);
    assert_eq!(names(&other.join("member")), ["snap", "wal"]);
    assert_eq!(run(&["check", text(&other)]), 0);
    let mut all = [&before[..], &["deep", "log", "other"].map(str::to_owned)].concat();
    all.sort();
    assert_eq!(names(&scratch.0), all);
}

#[test]
fn a_restored_log_may_lie_within_the_data_directory() {
    let scratch = Scratch::new();
    let (_, snapshot) = sample(&scratch);
    let linked = scratch.0.join("linked");
    std::os::unix::fs::symlink(&scratch.0, &linked).unwrap();
    let before = names(&scratch.0);
    for (is_there, data, log) in [
        (false, "restored", "restored/member/wal"),
        (false, "restored", "restored/../restored/./member//wal"),
        (false, "restored", "linked/restored/member/wal"),
        (false, "deep/restored/", "deep/restored/member/deeper/log"),
        (false, "restored", "restored/log"),
        (false, "restored", "restored/deep/log"),
        (true, "restored", "restored/member/wal"),
        (true, "restored", "linked/restored/./member/wal"),
        (true, "restored", "restored/member/deeper/log"),
        (true, "restored", "restored/log"),
        (true, "restored", "restored/deep/log"),
    ] {
        let (data_dir, wal_dir) = (scratch.0.join(data), scratch.0.join(log));
        if is_there {
            fs::create_dir(&data_dir).unwrap();
        }
        let mut line = vec!["snapshot", "restore", text(&snapshot)];
        line.extend(["--data-dir", text(&data_dir), "--wal-dir", text(&wal_dir)]);
        assert_eq!(run(&line), 0, "{line:?}");
        let line = ["check", text(&data_dir), "--wal-dir", text(&wal_dir)];
        assert_eq!(run(&line), 0, "{line:?}");
        let top = scratch.0.join(data.split('/').next().unwrap());
        let all = all_names(&top);
        assert!(
            !all.iter().any(|name| name.contains("restoring")),
            "{all:?}"
        );
        fs::remove_dir_all(top).unwrap();
        assert_eq!(names(&scratch.0), before);
    }
    // The log's directory is the log's alone.
    for log in ["restored", "restored/member", "restored/member/snap", ""] {
        let (data_dir, wal_dir) = (scratch.0.join("restored"), scratch.0.join(log));
        let mut line = vec!["snapshot", "restore", text(&snapshot)];
        line.extend(["--data-dir", text(&data_dir), "--wal-dir", text(&wal_dir)]);
        assert_eq!(run(&line), 1, "{line:?}");
        assert_eq!(names(&scratch.0), before);
    }
}

#[test]
fn a_restore_leaves_alone_what_another_one_makes() {
    let scratch = Scratch::new();
    let (_, snapshot) = sample(&scratch);
    let id = std::process::id();
    for name in ["restored", "log"] {
        let others = scratch.0.join(format!(".{name}.restoring-{id}"));
        fs::create_dir_all(others.join("member").join("snap")).unwrap();
        fs::write(others.join("member").join("snap").join("db"), b"half").unwrap();
    }
    let others = |names: Vec<String>| -> Vec<String> {
        let others = names.into_iter();
        others.filter(|name| name.contains("restoring")).collect()
    };
    let before = others(all_names(&scratch.0));
    let (data_dir, wal_dir) = (scratch.0.join("restored"), scratch.0.join("log"));
    let bad = scratch.0.join("bad");
    let mut bytes = fs::read(&snapshot).unwrap();
    bytes[9000] ^= 1;
    fs::write(&bad, bytes).unwrap();
    for (snapshot, code) in [(&bad, 1), (&snapshot, 0)] {
        let mut line = vec!["snapshot", "restore", text(snapshot)];
        line.extend(["--data-dir", text(&data_dir), "--wal-dir", text(&wal_dir)]);
        assert_eq!(run(&line), code);
        assert_eq!(data_dir.exists(), code == 0);
        assert_eq!(others(all_names(&scratch.0)), before);
    }
}

#[test]
fn a_raised_revision_is_compacted() {
    let scratch = Scratch::new();
    let (data_dir, snapshot) = sample(&scratch);
    let revision = hash(&layout::database(&data_dir)).1;
    let target = scratch.0.join("restored");
    let mut line = vec![
        "snapshot",
        "restore",
        text(&snapshot),
        "--data-dir",
        text(&target),
    ];
    line.extend(["--bump-revision=1000", "--mark-compacted"]);
    assert_eq!(run(&line), 0);
    let database = layout::database(&target);
    assert_eq!(hash(&database).1, revision + 1000);
    let mut store = quorate_store::open_read_only(disk(), &database).unwrap();
    assert_eq!(store.publish().compact_revision, revision + 1000);
    assert_eq!(run(&["check", text(&target)]), 0);
}

#[test]
fn an_error_leaves_nothing() {
    let scratch = Scratch::new();
    let (_, snapshot) = sample(&scratch);
    let good = fs::read(&snapshot).unwrap();
    let target = scratch.0.join("deep").join("restored");
    let wal_dir = scratch.0.join("deep-log").join("log");
    let bad = scratch.0.join("bad");
    fs::write(&bad, b"").unwrap();
    let before = names(&scratch.0);
    let mut flipped = good.clone();
    flipped[9000] ^= 1;
    // Not verified by a hash, and not a database.
    let mut cut = good[..good.len() - 32 - 4096 * 3].to_vec();
    cut[..8192].fill(0);
    for (bytes, more, code) in [
        (&flipped, &[][..], 1),
        (&cut, &[], 1),
        (&cut, &["--skip-hash-check"], 2),
        (&b"short".to_vec(), &[], 1),
    ] {
        fs::write(&bad, bytes).unwrap();
        let mut line = vec![
            "snapshot",
            "restore",
            text(&bad),
            "--data-dir",
            text(&target),
        ];
        line.extend(["--wal-dir", text(&wal_dir)]);
        line.extend(more);
        assert_eq!(run(&line), code, "{more:?}");
        assert_eq!(names(&scratch.0), before);
    }
    let empty = scratch.0.join("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(&bad, &flipped).unwrap();
    assert_eq!(
        run(&[
            "snapshot",
            "restore",
            text(&bad),
            "--data-dir",
            text(&empty)
        ]),
        1
    );
    assert_eq!(names(&empty), Vec::<String>::new());
}

#[test]
fn defragmentation_keeps_everything() {
    let scratch = Scratch::new();
    let (data_dir, _) = sample(&scratch);
    let database = layout::database(&data_dir);
    let (entries, len) = (buckets(&database), fs::metadata(&database).unwrap().len());
    let before = names(&layout::snap_dir(&data_dir));
    assert_eq!(run(&["defrag", "--data-dir", text(&data_dir)]), 0);
    assert_eq!(buckets(&database), entries);
    assert!(fs::metadata(&database).unwrap().len() < len);
    assert_eq!(names(&layout::snap_dir(&data_dir)), before);
    assert_eq!(run(&["check", text(&data_dir)]), 0);
}

#[test]
fn what_a_killed_defragmentation_left_gets_into_no_database() {
    let scratch = Scratch::new();
    let (data_dir, _) = sample(&scratch);
    let database = layout::database(&data_dir);
    let entries = buckets(&database);
    let name = format!("db.tmp.{}", std::process::id());
    let left = layout::snap_dir(&data_dir).join(&name);
    let db = quorate_bolt::Db::open(disk(), &left, &quorate_bolt::Options::default()).unwrap();
    let mut tx = db.begin_write().unwrap();
    let mut rows = tx.create_bucket_if_missing(b"key").unwrap();
    rows.put(b"of another time", b"").unwrap();
    tx.commit().unwrap();
    drop(db);
    let before = names(&layout::snap_dir(&data_dir));
    let held = fs::read(&left).unwrap();
    assert_eq!(run(&["defrag", "--data-dir", text(&data_dir)]), 0);
    assert_eq!(buckets(&database), entries);
    assert_eq!(names(&layout::snap_dir(&data_dir)), before);
    assert!(fs::read(&left).unwrap() == held);
}

#[test]
fn a_locked_database_is_waited_for_as_long_as_asked() {
    let scratch = Scratch::new();
    let (data_dir, _) = sample(&scratch);
    let database = layout::database(&data_dir);
    let held = disk().open(&database, quorate_disk::Mode::Write).unwrap();
    held.try_lock_exclusive().unwrap();
    for line in [
        &["defrag", "--data-dir", text(&data_dir)][..],
        &["hashkv", text(&database)],
        &["check", text(&data_dir)],
        &[
            "migrate",
            "--target-version=3.6",
            "--data-dir",
            text(&data_dir),
        ],
    ] {
        for timeout in ["--timeout=1ms", "--timeout=-1s"] {
            assert_eq!(run(&[line, &[timeout]].concat()), 2, "{line:?} {timeout}");
        }
    }
    drop(held);
    assert_eq!(run(&["hashkv", text(&database), "--timeout=1ms"]), 0);
}

#[test]
fn a_database_that_cannot_be_opened_ends_a_command_as_a_panic_does() {
    let scratch = Scratch::new();
    let (data_dir, _) = sample(&scratch);
    let database = layout::database(&data_dir);
    fs::remove_file(&database).unwrap();
    let commands = [
        &["defrag", "--data-dir", text(&data_dir)][..],
        &["hashkv", text(&database)],
        &[
            "migrate",
            "--target-version=3.6",
            "--data-dir",
            text(&data_dir),
        ],
    ];
    let run_all = |code| {
        for line in commands {
            assert_eq!(run(line), code, "{line:?}");
        }
    };
    // What is not there is told before.
    run_all(1);
    fs::write(&database, "no database").unwrap();
    run_all(2);
    // What only reads is told by bbolt that this is none.
    assert_eq!(run(&["snapshot", "status", text(&database)]), 1);
    fs::remove_file(&database).unwrap();
    fs::create_dir(&database).unwrap();
    run_all(2);
    assert_eq!(run(&["snapshot", "status", text(&database)]), 1);
}

#[test]
fn migration_there_and_back() {
    let scratch = Scratch::new();
    let (data_dir, _) = sample(&scratch);
    let version = || {
        let meta = buckets(&layout::database(&data_dir)).remove(&b"meta"[..]);
        let entries = meta.unwrap();
        let stored = entries.iter().find(|(key, _)| key == b"storageVersion");
        stored.map(|(_, value)| String::from_utf8(value.clone()).unwrap())
    };
    let migrate = |to: &str, more: &[&str]| {
        let line = [
            "migrate",
            "--data-dir",
            text(&data_dir),
            "--target-version",
            to,
        ];
        run(&[&line[..], more].concat())
    };
    assert_eq!(version(), None);
    assert_eq!(migrate("3.7", &[]), 0);
    assert_eq!(version().as_deref(), Some("3.7.0"));
    assert_eq!(migrate("3.7", &[]), 0);
    assert_eq!(migrate("3.8", &[]), 1);
    assert_eq!(version().as_deref(), Some("3.7.0"));
    assert_eq!(migrate("3.8", &["--force"]), 0);
    assert_eq!(version().as_deref(), Some("3.8.0"));
    assert_eq!(migrate("3.5", &["--force"]), 0);
    assert_eq!(version(), None);
    assert_eq!(migrate("3", &[]), 128);
}

#[test]
fn repair_cuts_off_what_was_never_finished_and_keeps_a_copy() {
    let scratch = Scratch::new();
    let (data_dir, _) = sample(&scratch);
    assert_eq!(run(&["repair", text(&data_dir)]), 0);
    let (snap_dir, wal_dir) = (layout::snap_dir(&data_dir), layout::wal_dir(&data_dir));
    let leftover = snap_dir.join("db.tmp.77");
    fs::write(&leftover, b"half").unwrap();
    let segments = quorate_wal::list_segments(&*disk(), &wal_dir).unwrap();
    let last = wal_dir.join(segments.last().unwrap().to_string());
    let mut reader = quorate_wal::Reader::open_all(&*disk(), &wal_dir).unwrap();
    while let quorate_wal::Next::Record(_) = reader.next().unwrap() {}
    let end = reader.offset() as usize;
    drop(reader);
    // The length of a record, and nothing of the record.
    let mut bytes = fs::read(&last).unwrap();
    bytes.resize(bytes.len().max(end + 1024), 0);
    bytes[end..end + 8].copy_from_slice(&800u64.to_le_bytes());
    fs::write(&last, &bytes).unwrap();

    assert_eq!(run(&["repair", "--dry-run", text(&data_dir)]), 0);
    assert_eq!(fs::read(&last).unwrap(), bytes);
    assert!(leftover.exists());
    assert_eq!(run(&["repair", text(&data_dir)]), 0);
    let copy = wal_dir.join(format!("{}.broken", segments.last().unwrap()));
    assert_eq!(fs::read(copy).unwrap(), bytes);
    assert_eq!(names(&data_dir.join("kept-by-repair")), ["db.tmp.77"]);
    assert!(!leftover.exists());
    let report = crate::check::check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
    assert!(report.is_whole());
    assert!(
        report
            .notes
            .iter()
            .all(|note| note.file.ends_with(".broken"))
    );

    // Damage is left alone.
    let database = layout::database(&data_dir);
    let mut bytes = fs::read(&database).unwrap();
    bytes[16] ^= 1;
    fs::write(&database, &bytes).unwrap();
    fs::write(&leftover, b"half").unwrap();
    assert_eq!(run(&["repair", text(&data_dir)]), 1);
    assert!(leftover.exists());
}

#[test]
fn everything_that_only_reads_leaves_files_as_they_are() {
    let scratch = Scratch::new();
    let (data_dir, snapshot) = sample(&scratch);
    let database = layout::database(&data_dir);
    let before = (fs::read(&database).unwrap(), fs::read(&snapshot).unwrap());
    for line in [
        &["hashkv", text(&snapshot)][..],
        &["snapshot", "status", text(&snapshot), "-w", "table"],
        &["check", text(&snapshot)],
        &["size", text(&data_dir)],
        &["size", text(&data_dir), "-w", "json", "--depth=3"],
        &["dump", "wal", text(&data_dir)],
        &["dump", "wal", text(&data_dir), "--raw"],
        &["dump", "wal", text(&data_dir), "--start-index", "390"],
        &["dump", "db", text(&data_dir)],
        &[
            "dump",
            "db",
            text(&data_dir),
            "key",
            "--decode",
            "--limit=3",
        ],
        &[
            "dump",
            "db",
            text(&data_dir),
            "meta",
            "--decode",
            "--ascending",
        ],
        &["dump", "db", text(&data_dir), "--hash"],
    ] {
        assert_eq!(run(line), 0, "{line:?}");
    }
    let after = (fs::read(&database).unwrap(), fs::read(&snapshot).unwrap());
    assert!(before == after);
    let pages = scratch.0.join("man");
    fs::create_dir(&pages).unwrap();
    assert_eq!(run_as("quorateutl", &["manual", text(&pages)]), 0);
    assert!(names(&pages).contains(&"quorateutl-snapshot-restore.1".to_owned()));
}
