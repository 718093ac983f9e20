use super::*;

fn path(name: &str) -> PathBuf {
    Path::new("/d").join(name)
}

fn with_dir() -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk
}

fn read_all(disk: &FaultyDisk, name: &str) -> Vec<u8> {
    let file = disk.open(&path(name), Mode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A file `f` whose name and 4096 bytes of 1 are durable.
fn with_file() -> (FaultyDisk, Arc<dyn File>) {
    let disk = with_dir();
    let file = disk.open(&path("f"), Mode::Create).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    (disk, file)
}

#[test]
fn a_file_knows_whether_it_was_replaced() {
    let disk = with_dir();
    let (one, other) = (path("one"), path("other"));
    let file = disk.open(&one, Mode::Create).unwrap();
    assert!(file.is_at(&one).unwrap());
    assert!(!file.is_at(&other).unwrap());
    drop(disk.open(&other, Mode::Create).unwrap());
    assert!(!file.is_at(&other).unwrap());
    disk.rename(&other, &one).unwrap();
    assert!(!file.is_at(&one).unwrap());
    let new = disk.open(&one, Mode::Read).unwrap();
    assert!(new.is_at(&one).unwrap());
    disk.remove(&one).unwrap();
    assert!(!new.is_at(&one).unwrap());
}

#[test]
fn synced_bytes_survive_and_unsynced_ones_tear_at_sectors() {
    let (disk, file) = with_file();
    file.write_all_at(&[2; 2048], 1024).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let bytes = read_all(&disk.crash(seed), "f");
        assert_eq!(bytes.len(), 4096);
        assert!(
            bytes[..1024]
                .iter()
                .chain(&bytes[3072..])
                .all(|&byte| byte == 1)
        );
        let mut mask = 0;
        for (number, sector) in bytes[1024..3072].chunks(512).enumerate() {
            assert!(
                sector.iter().all(|&byte| byte == sector[0]),
                "a sector is whole"
            );
            mask |= u32::from(sector[0] == 2) << number;
        }
        seen.insert(mask);
    }
    assert_eq!(
        seen.len(),
        16,
        "every combination of four sectors is found by some seed"
    );
    file.sync_data().unwrap();
    assert_eq!(read_all(&disk.crash(9), "f")[1024..3072], [2; 2048]);
}

#[test]
fn a_length_change_is_kept_or_lost_and_new_bytes_are_zero() {
    let (disk, file) = with_file();
    file.set_len(100).unwrap();
    file.write_all_at(&[3; 8], 4000).unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let bytes = read_all(&disk.crash(seed), "f");
        lengths.insert(bytes.len());
        assert!(bytes[..100].iter().all(|&byte| byte == 1));
        match bytes.len() {
            100 => {}
            4008 => assert!(bytes[100..4000].iter().all(|&byte| byte == 0)),
            4096 => assert!(bytes[100..4000].iter().all(|&byte| byte == 1)),
            other => panic!("length {other} never was"),
        }
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [100, 4008, 4096]);
}

#[test]
fn made_directories_are_durable_at_once() {
    let disk = FaultyDisk::new(1);
    disk.create_dir_all(Path::new("/a/b/c")).unwrap();
    for seed in 0..20 {
        assert!(disk.crash(seed).exists(Path::new("/a/b/c")).unwrap());
    }
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let (disk, file) = with_file();
    for round in 0..20u8 {
        file.write_all_at(&[round; 1500], u64::from(round) * 700)
            .unwrap();
    }
    assert_eq!(read_all(&disk.crash(5), "f"), read_all(&disk.crash(5), "f"));
}

#[test]
fn names_need_the_directory_synced_and_a_rename_is_whole() {
    let (disk, _file) = with_file();
    disk.open(&path("new"), Mode::Create).unwrap();
    disk.rename(&path("f"), &path("g")).unwrap();
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..100 {
        found.insert(disk.crash(seed).list(Path::new("/d")).unwrap().join(","));
    }
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["f", "f,new", "g,new"]
    );
    disk.sync_dir(Path::new("/d")).unwrap();
    for seed in 0..20 {
        assert_eq!(
            disk.crash(seed).list(Path::new("/d")).unwrap(),
            ["g", "new"]
        );
    }
}

#[test]
fn a_rename_between_directories_never_loses_the_file() {
    let (disk, _file) = with_file();
    disk.create_dir_all(Path::new("/e")).unwrap();
    disk.open(&path("x"), Mode::Create).unwrap();
    disk.rename(&path("x"), Path::new("/e/x")).unwrap();
    disk.rename(&path("f"), Path::new("/e/f")).unwrap();
    for seed in 0..100 {
        let after = disk.crash(seed);
        let in_d = after.exists(&path("f")).unwrap();
        let in_e = after.exists(Path::new("/e/f")).unwrap();
        assert!(in_d != in_e);
        // The later rename depends on what came before in its directories.
        assert!(in_d || after.exists(Path::new("/e/x")).unwrap());
    }
    disk.sync_dir(Path::new("/e")).unwrap();
    assert_eq!(
        disk.crash(1).list(Path::new("/d")).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn a_renamed_directory_takes_its_files_along() {
    let (disk, _file) = with_file();
    disk.rename(Path::new("/d"), Path::new("/moved")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let after = disk.crash(3);
    assert!(after.exists(Path::new("/moved/f")).unwrap());
    assert!(!after.exists(Path::new("/d")).unwrap());
}

#[test]
fn a_removed_file_may_come_back_with_its_bytes() {
    let (disk, file) = with_file();
    drop(file);
    disk.remove(&path("f")).unwrap();
    assert_eq!(disk.used_bytes(), 0);
    let back = (0..50)
        .map(|seed| disk.crash(seed))
        .filter(|disk| disk.exists(&path("f")).unwrap());
    let back: Vec<_> = back.collect();
    assert!(!back.is_empty() && back.len() < 50);
    for disk in back {
        assert_eq!(read_all(&disk, "f"), [1; 4096]);
    }
}

#[test]
fn the_machine_stops_before_or_after_a_call() {
    for stop in [Stop::Before, Stop::After] {
        let (disk, file) = with_file();
        let next = disk.counts().calls + 2;
        disk.stop_at(next, stop);
        file.write_all_at(&[2; 512], 0).unwrap();
        assert!(!disk.stopped());
        assert!(file.sync_data().is_err());
        assert!(disk.stopped());
        assert!(file.write_all_at(&[2; 512], 0).is_err());
        assert!(file.read_exact_at(&mut [0], 0).is_err());
        assert!(disk.list(Path::new("/d")).is_err());
        assert!(disk.open(&path("f"), Mode::Read).is_err());
        let kept = (0..50)
            .filter(|&seed| read_all(&disk.crash(seed), "f")[0] == 2)
            .count();
        match stop {
            Stop::Before => assert!(kept < 50),
            Stop::After => assert_eq!(kept, 50),
        }
    }
}

#[test]
fn a_full_disk_says_so_and_may_keep_a_part() {
    let mut parts = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let file = disk.open(Path::new("/f"), Mode::Create).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        disk.set_space(Some(3 * 4096));
        assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 2 * 4096);
        let full = file
            .write_vectored_at(&[&[2; 8192], &[2; 8192]], 4000)
            .unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let len = file.len().unwrap();
        assert!(len <= 3 * 4096);
        parts.insert(len);
        // Space that is taken already stays writable.
        file.write_all_at(&[3; 4096], 0).unwrap();
        let full = file.allocate(4 * 4096).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        file.set_len(0).unwrap();
        file.allocate(3 * 4096).unwrap();
        file.write_all_at(&[4; 3 * 4096], 0).unwrap();
        assert_eq!(disk.used_bytes(), 3 * 4096);
    }
    assert!(parts.len() > 2);
}

#[test]
fn a_failed_sync_is_never_made_good() {
    let mut kept = 0;
    for seed in 0..40 {
        let disk = FaultyDisk::new(seed);
        let file = disk.open(Path::new("/f"), Mode::Create).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        file.write_all_at(&[1; 512], 0).unwrap();
        disk.fail_sync(1);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        let mut live = [0; 512];
        file.read_exact_at(&mut live, 0).unwrap();
        assert_eq!(live, [1; 512]);
        let after = disk.crash(seed);
        let found = after.open(Path::new("/f"), Mode::Read).unwrap();
        kept += usize::from(found.len().unwrap() == 512);
    }
    assert!(kept > 0 && kept < 40);
}

#[test]
fn a_read_fails_when_told_to() {
    let (disk, file) = with_file();
    disk.fail_read(2);
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    assert!(file.read_exact_at(&mut byte, 0).is_err());
    file.read_exact_at(&mut byte, 0).unwrap();
}

#[test]
fn locks_exclude_and_a_crash_releases_them() {
    let (disk, first) = with_file();
    let second = disk.open(&path("f"), Mode::Write).unwrap();
    let blocked = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::WouldBlock;
    first.try_lock_exclusive().unwrap();
    first.try_lock_record().unwrap();
    assert!(blocked(second.try_lock_exclusive()));
    assert!(blocked(second.try_lock_shared()));
    assert!(blocked(second.try_lock_record()));
    let after = disk.crash(1).open(&path("f"), Mode::Write).unwrap();
    after.try_lock_exclusive().unwrap();
    after.try_lock_record().unwrap();
    drop(first);
    second.try_lock_shared().unwrap();
    let third = disk.open(&path("f"), Mode::Write).unwrap();
    third.try_lock_shared().unwrap();
    assert!(blocked(third.try_lock_exclusive()));
}

#[test]
fn views_follow_writes_and_outlive_a_crash() {
    let (disk, file) = with_file();
    let view = file.view(1 << 30).unwrap();
    file.write_all_at(&[7; 4096], 8192).unwrap();
    assert_eq!(view.bytes(8192, 4096).unwrap(), [7; 4096]);
    drop((disk.crash(1), file, disk));
    assert_eq!(view.bytes(0, 4096).unwrap(), [1; 4096]);
}

#[test]
fn corruption_is_live_and_durable() {
    let (disk, file) = with_file();
    disk.corrupt(&path("f"), 10, 0x81).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 10).unwrap();
    assert_eq!(byte, [0x80]);
    assert_eq!(read_all(&disk.crash(1), "f")[10], 0x80);
}

#[test]
fn wrong_names_and_modes_are_refused() {
    let (disk, _file) = with_file();
    let kind = |result: io::Result<Arc<dyn File>>| result.err().unwrap().kind();
    assert_eq!(
        kind(disk.open(&path("none"), Mode::Write)),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        kind(disk.open(&path("f"), Mode::CreateNew)),
        io::ErrorKind::AlreadyExists
    );
    assert_eq!(
        kind(disk.open(Path::new("/d"), Mode::Read)),
        io::ErrorKind::IsADirectory
    );
    assert_eq!(
        kind(disk.open(&path("f/x"), Mode::Create)),
        io::ErrorKind::NotADirectory
    );
    let reader = disk.open(&path("f"), Mode::Read).unwrap();
    assert_eq!(
        reader.write_all_at(b"x", 0).unwrap_err().kind(),
        io::ErrorKind::PermissionDenied
    );
}
