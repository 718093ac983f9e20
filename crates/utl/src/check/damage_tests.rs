//! Damage drawn by a seed, uniformly over the live bytes of each kind of file, is found; what a crash
//! may leave is not called damage.

use super::*;
use crate::sample::{Scratch, live_pages, member};
use quorate_wal::types::{Entry, EntryKind};
use quorate_wal::walpb::RecordType;
use quorate_wal::{Reader, SegmentName, Wal};
use std::fs;
use std::iter::once;
use std::ops::Range;
use std::path::PathBuf;

const PAGE_BYTES: usize = 4096;
const META_BYTES: usize = 80;
const SECTOR_BYTES: usize = 512;
const ROUNDS: u64 = 1500;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A file and where its bytes count.
struct Target {
    path: PathBuf,
    bytes: Vec<u8>,
    live: Vec<Range<usize>>,
    /// Units that may be exchanged.
    units: Vec<Range<usize>>,
}

impl Target {
    fn live_at(&self, random: &mut Random) -> usize {
        let total: usize = self.live.iter().map(Range::len).sum();
        let mut at = random.below(total);
        for range in &self.live {
            if at < range.len() {
                return range.start + at;
            }
            at -= range.len();
        }
        unreachable!("the place lies within the ranges")
    }

    fn is_live(&self, changed: Range<usize>) -> bool {
        self.live
            .iter()
            .any(|live| live.start < changed.end && changed.start < live.end)
    }
}

fn targets(data_dir: &Path) -> Vec<Target> {
    let mut all = Vec::new();
    let path = layout::database(data_dir);
    let bytes = fs::read(&path).unwrap();
    let pages = live_pages(&bytes, PAGE_BYTES);
    assert!(pages.len() > 10, "the sample has a tree");
    let pages = pages
        .iter()
        .map(|(page, count)| page * PAGE_BYTES..(page + count) * PAGE_BYTES);
    let metas = [0..META_BYTES, PAGE_BYTES..PAGE_BYTES + META_BYTES];
    all.push(Target {
        path,
        live: metas.into_iter().chain(pages.clone()).collect(),
        units: pages.filter(|unit| unit.len() == PAGE_BYTES).collect(),
        bytes,
    });

    let wal_dir = layout::wal_dir(data_dir);
    let names = quorate_wal::list_segments(&*disk(), &wal_dir).unwrap();
    assert!(names.len() > 3, "the sample has segments");
    let mut reader = Reader::open_all(&*disk(), &wal_dir).unwrap();
    let mut ends = std::collections::BTreeMap::new();
    while let quorate_wal::Next::Record(located) = reader.next().unwrap() {
        ends.insert(located.segment, reader.offset() as usize);
    }
    for (name, end) in ends {
        let path = wal_dir.join(name.to_string());
        all.push(Target {
            bytes: fs::read(&path).unwrap(),
            path,
            live: once(0..end).collect(),
            units: (0..end / SECTOR_BYTES)
                .map(|sector| sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES)
                .collect(),
        });
    }
    let snap_dir = layout::snap_dir(data_dir);
    for entry in fs::read_dir(&snap_dir).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "snap")
        {
            let bytes = fs::read(&path).unwrap();
            all.push(Target {
                path,
                live: once(0..bytes.len()).collect(),
                units: Vec::new(),
                bytes,
            });
        }
    }
    all
}

/// A damaged copy of the file's bytes and what was done; `None` where that changes nothing live.
fn damaged(target: &Target, random: &mut Random) -> Option<(Vec<u8>, String)> {
    let mut bytes = target.bytes.clone();
    let at = target.live_at(random);
    let what = match random.below(4) {
        0 => {
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            format!("flip of bit {bit} at {at}")
        }
        1 => {
            let start = at / SECTOR_BYTES * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(bytes.len());
            bytes[start..end].fill(0);
            format!("sector zeroed at {start}")
        }
        2 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        _ => {
            if target.units.len() < 2 {
                return None;
            }
            let one = target.units[random.below(target.units.len())].clone();
            let other = target.units[random.below(target.units.len())].clone();
            bytes[one.clone()].copy_from_slice(&target.bytes[other.clone()]);
            bytes[other.clone()].copy_from_slice(&target.bytes[one.clone()]);
            format!("{} and {} exchanged", one.start, other.start)
        }
    };
    let first = bytes
        .iter()
        .zip(&target.bytes)
        .position(|(new, old)| new != old)
        .unwrap_or(bytes.len());
    let last = (0..bytes.len())
        .rev()
        .find(|at| bytes[*at] != target.bytes[*at]);
    let changed = match last {
        Some(last) => first..last + 1,
        None => first..target.bytes.len(),
    };
    (bytes != target.bytes && target.is_live(changed)).then_some((bytes, what))
}

#[test]
fn damage_is_found() {
    let scratch = Scratch::new();
    let data_dir = scratch.0.join("data");
    member(&data_dir);
    let wal_dir = layout::wal_dir(&data_dir);
    let check = || check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
    let report = check();
    assert!(report.is_whole(), "{:#?}", report.findings);
    let facts = report.database.unwrap();
    assert_eq!(facts.unverified_pages, 0);
    let targets = targets(&data_dir);
    let mut tried = 0;
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        // Each kind of file as often as the others.
        let kind = random.below(3);
        let of_kind: Vec<&Target> = targets
            .iter()
            .filter(|target| match target.path.extension() {
                None => kind == 0,
                Some(extension) if extension == "wal" => kind == 1,
                Some(_) => kind == 2,
            })
            .collect();
        let target = of_kind[random.below(of_kind.len())];
        let Some((bytes, what)) = damaged(target, &mut random) else {
            continue;
        };
        tried += 1;
        fs::write(&target.path, &bytes).unwrap();
        let report = check();
        let told = report
            .notes
            .iter()
            .any(|note| note.what.contains("never finished"));
        assert!(
            !report.is_whole() || told,
            "seed {seed}: {} {what}: {report:#?}",
            target.path.display()
        );
        fs::write(&target.path, &target.bytes).unwrap();
    }
    assert!(tried > ROUNDS / 2);
    assert!(check().is_whole());
}

#[test]
fn a_write_that_was_never_finished_is_no_damage() {
    let scratch = Scratch::new();
    let data_dir = scratch.0.join("data");
    member(&data_dir);
    let wal_dir = layout::wal_dir(&data_dir);
    let names = quorate_wal::list_segments(&*disk(), &wal_dir).unwrap();
    let path = wal_dir.join(names.last().unwrap().to_string());
    let mut reader = Reader::open_all(&*disk(), &wal_dir).unwrap();
    while let quorate_wal::Next::Record(_) = reader.next().unwrap() {}
    let end = reader.offset() as usize;
    drop(reader);
    let whole = fs::read(&path).unwrap();
    // A frame of 2000 bytes, of which a writer that was killed wrote the first sectors.
    let mut frame = 2000u64.to_le_bytes().to_vec();
    frame.extend_from_slice(&[8, 2, 16, 1, 26, 0xc8, 15]);
    frame.resize(2008, b'x');
    let first = SECTOR_BYTES - end % SECTOR_BYTES;
    for written in [first, first + SECTOR_BYTES, first + 2 * SECTOR_BYTES] {
        let mut bytes = whole.clone();
        bytes.resize(bytes.len().max(end + 2008), 0);
        bytes[end..end + written].copy_from_slice(&frame[..written]);
        fs::write(&path, &bytes).unwrap();
        let report = check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
        assert!(report.is_whole(), "{written}: {:#?}", report.findings);
        assert_eq!(report.notes.len(), 1, "{written}: {:#?}", report.notes);
    }
}

/// Entries behind those of the sample.
fn entries() -> Vec<Entry> {
    let entry = |index| Entry {
        term: 2,
        index,
        kind: EntryKind::Normal,
        data: vec![b'e'; 100 * (index % 12) as usize].into(),
    };
    (401..420).map(entry).collect()
}

#[test]
fn a_power_cut_within_an_append_is_no_damage_and_repair_clears_it() {
    let scratch = Scratch::new();
    let data_dir = scratch.0.join("data");
    member(&data_dir);
    let wal_dir = layout::wal_dir(&data_dir);
    let names = quorate_wal::list_segments(&*disk(), &wal_dir).unwrap();
    let path = wal_dir.join(names.last().unwrap().to_string());
    let entries = entries();
    let at = crate::log_entries::newest_record(&wal_dir).unwrap();
    let options = quorate_wal::Options {
        segment_bytes: 64 << 10,
        ..quorate_wal::Options::default()
    };
    let (mut wal, _) = Wal::open(&disk(), &wal_dir, &at, options).unwrap();
    let before = fs::read(&path).unwrap();
    wal.append(None, &entries).unwrap();
    wal.close().unwrap();
    let after = fs::read(&path).unwrap();
    let changed: Vec<usize> = (0..after.len())
        .step_by(SECTOR_BYTES)
        .filter(|at| before[*at..at + SECTOR_BYTES] != after[*at..at + SECTOR_BYTES])
        .collect();
    assert!(changed.len() > 16, "the append takes several pages");
    let check = || check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
    let mut cleared = 0;
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut bytes = before.clone();
        for at in &changed {
            if random.below(2) == 0 {
                bytes[*at..at + SECTOR_BYTES].copy_from_slice(&after[*at..at + SECTOR_BYTES]);
            }
        }
        fs::write(&path, &bytes).unwrap();
        let report = check();
        assert!(report.is_whole(), "seed {seed}: {:#?}", report.findings);
        assert_eq!(report.notes.len(), 1, "seed {seed}: {:#?}", report.notes);
        let line = ["quorateutl", "repair", data_dir.to_str().unwrap()];
        assert_eq!(crate::run("quorateutl", &line.map(Into::into)), 0);
        let report = check();
        assert!(report.is_whole(), "seed {seed}: {:#?}", report.findings);
        assert_eq!(report.notes.len(), 0, "seed {seed}: {:#?}", report.notes);
        // The first one stays, and those after it have another place.
        let name = names.last().unwrap();
        let number = if cleared == 0 { "" } else { ".1" };
        let copy = data_dir.join(format!("kept-by-repair/{name}{number}"));
        if copy.exists() {
            assert!(fs::read(&copy).unwrap() == bytes);
            if cleared > 0 {
                fs::remove_file(copy).unwrap();
            }
            cleared += 1;
        }
    }
    assert!(cleared > 0 && cleared < 60);
}

#[test]
fn segments_that_a_start_needs_are_missed() {
    let disk = disk();
    for keep_record in [false, true] {
        let scratch = Scratch::new();
        let data_dir = scratch.0.join("data");
        member(&data_dir);
        let wal_dir = layout::wal_dir(&data_dir);
        let at = crate::log_entries::newest_record(&wal_dir).unwrap();
        let (mut wal, _) =
            Wal::open(&disk, &wal_dir, &at, quorate_wal::Options::default()).unwrap();
        wal.append(None, &entries()).unwrap();
        wal.close().unwrap();
        let mut reader = Reader::open(&*disk, &wal_dir, at.index).unwrap();
        let mut with_record = None;
        while let quorate_wal::Next::Record(located) = reader.next().unwrap() {
            let number = located.record.number;
            if RecordType::from_number(number) == Some(RecordType::Snapshot) {
                with_record = Some(located.segment);
            }
        }
        let with_record = with_record.unwrap();
        for name in quorate_wal::list_segments(&*disk, &wal_dir).unwrap() {
            let path = wal_dir.join(name.to_string());
            if name < with_record || name == with_record && !keep_record {
                fs::remove_file(path).unwrap();
            } else if name == with_record {
                // As it is called where it was begun for the entry behind the snapshot.
                let index = at.index + 1;
                fs::rename(
                    path,
                    wal_dir.join(SegmentName { index, ..name }.to_string()),
                )
                .unwrap();
            }
        }
        let report = check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
        let found: Vec<&str> = report.findings.iter().map(|it| &it.what[..]).collect();
        assert!(
            found.iter().any(|what| what.contains("no server starts")),
            "{found:#?}"
        );
        let opened = Wal::open(&disk, &wal_dir, &at, quorate_wal::Options::default());
        assert!(opened.is_err());
    }
}

#[test]
fn a_received_database_is_looked_at_as_well() {
    let scratch = Scratch::new();
    let data_dir = scratch.0.join("data");
    member(&data_dir);
    let wal_dir = layout::wal_dir(&data_dir);
    let received = layout::snap_dir(&data_dir).join("00000000000001f4.snap.db");
    let mut bytes = fs::read(layout::database(&data_dir)).unwrap();
    fs::write(&received, &bytes).unwrap();
    let report = check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
    assert!(report.is_whole(), "{:#?}", report.findings);
    let (page, _) = live_pages(&bytes, PAGE_BYTES)[0];
    bytes[page * PAGE_BYTES + 2000] ^= 1;
    fs::write(&received, &bytes).unwrap();
    let report = check_member(&data_dir, &wal_dir, Wait::Forever).unwrap();
    assert!(!report.is_whole());
    let of_it = |finding: &report::Finding| finding.file.ends_with(".snap.db");
    assert!(report.findings.iter().all(of_it));
}
