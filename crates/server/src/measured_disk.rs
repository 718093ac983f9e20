//! A disk that measures what the log and the database do to it, for the metrics.
//!
//! It knows files by their names: `*.wal` (and the ones being prepared), `*.snap`, and the database.
//! Reads are not measured.

use crate::metrics::METRICS;
use quorate_node::disk::{Disk, File, Mode, View};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Log,
    Snapshot,
    Database,
    Other,
}

impl Role {
    fn of(path: &Path) -> Role {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let name = name.as_deref().unwrap_or("");
        let name = name.strip_suffix(".tmp").unwrap_or(name);
        if name.ends_with(".wal") || path.parent().is_some_and(|dir| dir.ends_with("wal")) {
            Role::Log
        } else if name.ends_with(".snap") {
            Role::Snapshot
        } else if name == "db" || name.ends_with(".snap.db") {
            Role::Database
        } else {
            Role::Other
        }
    }
}

/// Nanoseconds that writes and syncs of the database have taken.
static DATABASE_NS: AtomicU64 = AtomicU64::new(0);

/// Time that writes and syncs of the database have taken since the start.
pub fn database_time() -> Duration {
    Duration::from_nanos(DATABASE_NS.load(Ordering::Relaxed))
}

/// Measures another disk.
pub struct MeasuredDisk<D>(pub D);

impl<D: Disk> Disk for MeasuredDisk<D> {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let file = self.0.open(path, mode)?;
        let role = Role::of(path);
        if role == Role::Other || mode == Mode::Read {
            return Ok(file);
        }
        Ok(Arc::new(MeasuredFile {
            file,
            role,
            opened: Instant::now(),
        }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.0.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }
}

struct MeasuredFile {
    file: Arc<dyn File>,
    role: Role,
    opened: Instant,
}

impl MeasuredFile {
    fn write(&self, bytes: usize, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let began = Instant::now();
        let outcome = write();
        let took = began.elapsed();
        match self.role {
            Role::Log => {
                METRICS.wal_write.observe(took);
                METRICS.wal_write_bytes.add(bytes as u64);
            }
            Role::Database => add_database_time(took),
            Role::Snapshot | Role::Other => {}
        }
        outcome
    }

    fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let began = Instant::now();
        let outcome = sync();
        let took = began.elapsed();
        match self.role {
            Role::Log => METRICS.wal_fsync.observe(took),
            Role::Snapshot => {
                METRICS.snap_fsync.observe(took);
                METRICS.snap_save.observe(self.opened.elapsed());
            }
            Role::Database => add_database_time(took),
            Role::Other => {}
        }
        outcome
    }
}

fn add_database_time(took: Duration) {
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    DATABASE_NS.fetch_add(ns, Ordering::Relaxed);
}

impl File for MeasuredFile {
    fn path(&self) -> PathBuf {
        self.file.path()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.file.is_at(path)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf.len(), || self.file.write_all_at(buf, offset))
    }

    fn write_vectored_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        self.write(bytes, || self.file.write_vectored_at(bufs, offset))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(|| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(|| self.file.sync_all())
    }

    fn try_lock_exclusive(&self) -> io::Result<()> {
        self.file.try_lock_exclusive()
    }

    fn try_lock_shared(&self) -> io::Result<()> {
        self.file.try_lock_shared()
    }

    fn try_lock_record(&self) -> io::Result<()> {
        self.file.try_lock_record()
    }

    fn view(&self, reserve: usize) -> io::Result<View> {
        self.file.view(reserve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_node::disk::faulty::FaultyDisk;

    #[test]
    fn files_are_known_by_their_names() {
        for (path, role) in [
            (
                "/d/member/wal/0000000000000000-0000000000000000.wal",
                Role::Log,
            ),
            ("/d/member/wal/0.tmp", Role::Log),
            (
                "/elsewhere/0000000000000001-0000000000000010.wal",
                Role::Log,
            ),
            (
                "/d/member/snap/0000000000000002-0000000000002711.snap",
                Role::Snapshot,
            ),
            (
                "/d/member/snap/0000000000000002-0000000000002711.snap.tmp",
                Role::Snapshot,
            ),
            ("/d/member/snap/db", Role::Database),
            ("/d/other", Role::Other),
        ] {
            assert_eq!(Role::of(Path::new(path)), role, "{path}");
        }
    }

    #[test]
    fn writes_and_syncs_of_the_log_are_measured() {
        let disk = MeasuredDisk(FaultyDisk::new(1));
        let dir = Path::new("/wal");
        disk.create_dir_all(dir).unwrap();
        let (bytes, syncs) = (
            METRICS.wal_write_bytes.get(),
            METRICS.wal_fsync.read().count(),
        );
        let file = disk.open(&dir.join("1.wal"), Mode::CreateNew).unwrap();
        file.write_all_at(b"12345", 0).unwrap();
        file.write_vectored_at(&[b"67", b"8"], 5).unwrap();
        file.sync_data().unwrap();
        assert_eq!(METRICS.wal_write_bytes.get() - bytes, 8);
        assert_eq!(METRICS.wal_fsync.read().count() - syncs, 1);
        let mut read = [0; 8];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"12345678");
    }
}
