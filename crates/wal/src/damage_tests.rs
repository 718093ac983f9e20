//! Logs with torn writes, flipped bits and missing parts: repaired, or refused with a place.

use crate::error::Damage;
use crate::wal_tests::{at, contents, dir, disk, entry, filled, open, small, state, tail_path};
use crate::{Next, Reader, Wal, WalError, list_segments};
use quorate_disk::Mode;

#[test]
fn every_cut_inside_the_last_records_is_repaired() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 2, 300);
    let whole = wal.offset();
    wal.append(None, &[entry(3, 3, 700), entry(3, 4, 10)])
        .unwrap();
    wal.sync().unwrap();
    let end = wal.offset();
    drop(wal);
    let path = tail_path(&*disk);
    let bytes = contents(&*disk, &path);
    for cut in whole..end {
        let file = disk.open(&path, Mode::Write).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(&bytes[..cut as usize], 0).unwrap();
        drop(file);
        let (mut wal, recovered) = open(&disk).unwrap();
        let kept = recovered.entries.len() as u64;
        assert!(kept == 2 || kept == 3 && cut > whole + 700, "{cut}: {kept}");
        let at_a_boundary = cut == wal.offset();
        assert_eq!(recovered.repaired.is_none(), at_a_boundary, "{cut}");
        if let Some(repair) = recovered.repaired {
            assert_eq!(
                contents(&*disk, &repair.broken_copy),
                &bytes[..cut as usize]
            );
            assert!(
                repair
                    .broken_copy
                    .to_str()
                    .unwrap()
                    .ends_with(".wal.broken")
            );
            disk.remove(&repair.broken_copy).unwrap();
        }
        // What is appended then is read back.
        wal.append(None, &[entry(4, kept + 1, 33)]).unwrap();
        wal.sync().unwrap();
        drop(wal);
        assert_eq!(
            open(&disk).unwrap().1.entries.last(),
            Some(&entry(4, kept + 1, 33))
        );
    }
}

#[test]
fn unwritten_sectors_of_the_last_write_are_repaired() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 2, 300);
    let whole = wal.offset();
    wal.append(
        None,
        &[entry(3, 3, 1500), entry(3, 4, 1500), entry(3, 5, 100)],
    )
    .unwrap();
    let end = wal.offset();
    drop(wal);
    let path = tail_path(&*disk);
    let bytes = contents(&*disk, &path);
    let sectors: Vec<(u64, u64)> = (whole / 512..=end / 512)
        .map(|sector| ((sector * 512).max(whole), ((sector + 1) * 512).min(end)))
        .collect();
    for lost in 1u32..1 << sectors.len() {
        let file = disk.open(&path, Mode::Write).unwrap();
        file.set_len(0).unwrap();
        let mut image = bytes.clone();
        for (number, &(start, end)) in sectors.iter().enumerate() {
            if lost & 1 << number != 0 {
                image[start as usize..end as usize].fill(0);
            }
        }
        file.write_all_at(&image, 0).unwrap();
        drop(file);
        let (mut wal, recovered) = open(&disk).unwrap_or_else(|error| panic!("{lost:b}: {error}"));
        let kept = recovered.entries.len() as u64;
        assert!((2..5).contains(&kept));
        for (entry_read, index) in recovered.entries.iter().zip(1..) {
            assert_eq!(entry_read.index, index);
        }
        // Behind the tail there are zeros only, whatever arrived on disk there.
        let image = contents(&*disk, &path);
        assert!(
            image[wal.offset() as usize..].iter().all(|&byte| byte == 0),
            "{lost:b}"
        );
        wal.append(None, &[entry(4, kept + 1, 600)]).unwrap();
        wal.sync().unwrap();
        drop(wal);
        assert_eq!(
            open(&disk).unwrap().1.entries.last(),
            Some(&entry(4, kept + 1, 600))
        );
    }
}

#[test]
fn a_flipped_bit_is_refused_or_changes_nothing() {
    let (faulty, disk) = disk();
    let mut wal = filled(&disk, 3, 700);
    wal.append(Some(&state(3, 3)), &[entry(3, 4, 40)]).unwrap();
    wal.sync().unwrap();
    let end = wal.offset();
    drop(wal);
    let path = tail_path(&*disk);
    let (_, expected) = open(&disk).unwrap();
    for at in 0..end {
        for bit in 0..8 {
            faulty.corrupt(&path, at, 1 << bit).unwrap();
            match open(&disk) {
                Ok((_, recovered)) => assert_eq!(recovered, expected, "byte {at} bit {bit}"),
                Err(WalError::Damaged {
                    path: named,
                    offset,
                    ..
                }) => {
                    assert_eq!(named, path);
                    // The checksum that a reader starts with shows to be wrong one record later.
                    assert!(offset <= at.max(16), "byte {at} bit {bit}: {offset}");
                }
                Err(other) => panic!("byte {at} bit {bit}: {other}"),
            }
            faulty.corrupt(&path, at, 1 << bit).unwrap();
        }
    }
    assert_eq!(open(&disk).unwrap().1, expected);
}

#[test]
fn a_flipped_bit_in_an_older_segment_is_refused_or_changes_nothing() {
    let (faulty, disk) = disk();
    drop(filled(&disk, 20, 1000));
    let path = dir().join(list_segments(&*disk, dir()).unwrap()[1].to_string());
    let (_, expected) = open(&disk).unwrap();
    let len = contents(&*disk, &path).len() as u64;
    let mut refused = 0;
    for at in (0..len).filter(|at| at % 7 == 0 || *at < 200 || len - at < 100) {
        for bit in [0, 3, 6, 7] {
            faulty.corrupt(&path, at, 1 << bit).unwrap();
            match open(&disk) {
                Ok((_, recovered)) => assert_eq!(recovered, expected, "byte {at} bit {bit}"),
                Err(WalError::Damaged { .. }) => refused += 1,
                Err(other) => panic!("byte {at} bit {bit}: {other}"),
            }
            faulty.corrupt(&path, at, 1 << bit).unwrap();
        }
    }
    assert!(refused > 1000);
}

#[test]
fn an_older_segment_that_ends_early_is_refused() {
    let (_, disk) = disk();
    drop(filled(&disk, 20, 1000));
    let path = dir().join(list_segments(&*disk, dir()).unwrap()[0].to_string());
    let file = disk.open(&path, Mode::Write).unwrap();
    let len = file.len().unwrap();
    file.set_len(len - 100).unwrap();
    let error = open(&disk).err().unwrap();
    assert!(
        matches!(
            error,
            WalError::Damaged {
                damage: Damage::EndsInsideRecord,
                ..
            }
        ),
        "{error}"
    );
    // Ending between two records shows in the checksum of the next segment.
    let mut reader = Reader::open_all(&*disk, dir()).unwrap();
    let mut last = 0;
    while let Ok(Next::Record(located)) = reader.next() {
        last = located.offset;
    }
    file.set_len(last).unwrap();
    let error = open(&disk).err().unwrap();
    assert!(
        matches!(
            error,
            WalError::Damaged {
                damage: Damage::Chain { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_record_of_a_type_to_come_is_refused() {
    let (_, disk) = disk();
    let wal = filled(&disk, 1, 10);
    let (offset, crc) = (wal.offset(), wal.crc);
    drop(wal);
    let data = b"from the future";
    let crc = crc32c::crc32c_append(crc, data);
    let mut record = vec![8, 6, 16];
    crate::proto::put_varint(&mut record, u64::from(crc));
    record.extend([26, data.len() as u8]);
    record.extend(data);
    let mut frame = crate::frame::length_field(record.len())
        .to_le_bytes()
        .to_vec();
    frame.extend(&record);
    disk.open(&tail_path(&*disk), Mode::Write)
        .unwrap()
        .write_all_at(&frame, offset)
        .unwrap();
    let error = open(&disk).err().unwrap();
    assert!(
        matches!(
            error,
            WalError::Damaged {
                damage: Damage::RecordType(6),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn an_entry_that_follows_nothing_is_refused() {
    let (_, disk) = disk();
    let mut wal = filled(&disk, 3, 10);
    wal.save_snapshot_record(&at(10, 3)).unwrap();
    wal.append(Some(&state(3, 10)), &[entry(3, 11, 10)])
        .unwrap();
    wal.sync().unwrap();
    drop(wal);
    let error = open(&disk).err().unwrap();
    assert!(
        matches!(
            error,
            WalError::Damaged {
                damage: Damage::EntryGap {
                    index: 11,
                    term: 3,
                    last: 3
                },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_segment_that_lost_its_head_gets_one() {
    let (_, disk) = disk();
    drop(filled(&disk, 20, 1000));
    let segments = list_segments(&*disk, dir()).unwrap();
    let path = tail_path(&*disk);
    let file = disk.open(&path, Mode::Write).unwrap();
    file.set_len(0).unwrap();
    drop(file);
    let (mut wal, recovered) = open(&disk).unwrap();
    let next = recovered.entries.len() as u64 + 1;
    assert_eq!(next, segments.last().unwrap().index);
    wal.append(Some(&state(3, next)), &[entry(3, next, 10)])
        .unwrap();
    wal.save_snapshot_record(&at(next, 3)).unwrap();
    drop(wal);
    // It can be read without the segments before it.
    Wal::open(&disk, dir(), &at(next, 3), small()).unwrap();
}

#[test]
fn a_failed_read_is_no_damage() {
    let (faulty, disk) = disk();
    drop(filled(&disk, 3, 10));
    faulty.fail_read(1);
    assert!(matches!(
        open(&disk),
        Err(WalError::Io { action: "read", .. })
    ));
    assert!(open(&disk).is_ok());
}
