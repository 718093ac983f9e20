//! Whoever gets the lock has the file that is the database.

use super::basics::*;
use crate::db::{Db, Options};
use crate::error::Error;
use quorate_disk::faulty::FaultyDisk;
use quorate_disk::{Disk, File, Mode};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE_BYTES: u32 = 4096;
const NEW: &str = "/new";

/// A disk on which another process, which holds the lock, puts a new file in the database's place
/// right after it was opened here.
struct Replacing {
    disk: Arc<FaultyDisk>,
    is_done: AtomicBool,
}

impl Disk for Replacing {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        if path == Path::new(PATH) && !self.is_done.swap(true, Ordering::Relaxed) {
            self.disk.rename(Path::new(NEW), path)?;
        }
        Ok(file)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }
}

#[test]
fn a_file_that_was_replaced_meanwhile_is_not_opened() {
    for read_only in [false, true] {
        let disk = disk();
        drop(open(&disk, PAGE_BYTES));
        let new = Db::open(disk.clone(), Path::new(NEW), &options(PAGE_BYTES)).unwrap();
        let mut tx = new.begin_write().unwrap();
        tx.create_bucket_if_missing(b"new").unwrap();
        tx.commit().unwrap();
        drop(new);
        let replacing = Arc::new(Replacing {
            disk,
            is_done: AtomicBool::new(false),
        });
        let options = Options {
            read_only,
            ..options(PAGE_BYTES)
        };
        let open = || Db::open(replacing.clone(), Path::new(PATH), &options);
        assert!(matches!(open(), Err(Error::Locked { .. })));
        let buckets = open().unwrap().begin_read().buckets().unwrap();
        assert_eq!(buckets, [b"new"]);
    }
}
