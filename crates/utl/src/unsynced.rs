//! A disk whose files are not synced, for a file that nobody needs before it is whole: it is synced
//! once, by whoever gives it its name.

use quorate_disk::real::RealDisk;
use quorate_disk::{Disk, File, Mode, View};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The operating system's disk without syncs of files.
pub struct UnsyncedDisk;

struct UnsyncedFile(Arc<dyn File>);

impl Disk for UnsyncedDisk {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(UnsyncedFile(RealDisk.open(path, mode)?)))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealDisk.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_dir(path)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(path)
    }
}

impl File for UnsyncedFile {
    fn path(&self) -> PathBuf {
        self.0.path()
    }
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.0.is_at(path)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }
    fn write_vectored_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        self.0.write_vectored_at(bufs, offset)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }
    fn try_lock_exclusive(&self) -> io::Result<()> {
        self.0.try_lock_exclusive()
    }
    fn try_lock_shared(&self) -> io::Result<()> {
        self.0.try_lock_shared()
    }
    fn try_lock_record(&self) -> io::Result<()> {
        self.0.try_lock_record()
    }
    fn view(&self, reserve: usize) -> io::Result<View> {
        self.0.view(reserve)
    }
}
