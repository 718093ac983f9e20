//! The operating system's disk.
//!
//! Directories are made with mode 0700 and files with 0600, as etcd makes them. Interrupted calls
//! are repeated, except where a sync failed. Source: etcd's `fileutil` and bbolt for which kind of
//! lock guards which file.

use crate::{Disk, File, Mode, View, memory, record_lock};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::{Errno, retry_on_intr};
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Buffers that one writev(2) takes; Linux's IOV_MAX.
const VECTORS_MAX: usize = 1024;

/// Zeros written at a time where the file system cannot reserve space.
const ZEROS_BYTES: usize = 1 << 20;

/// The operating system's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile {
    file: fs::File,
    path: PathBuf,
}

/// A used-up quota is a full disk to whoever writes.
fn full_is_full(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => io::Error::new(io::ErrorKind::StorageFull, error),
        _ => error,
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(0o600);
        match mode {
            Mode::Read => {}
            Mode::Write => {
                options.write(true);
            }
            Mode::Create => {
                options.write(true).create(true).truncate(false);
            }
            Mode::CreateNew => {
                options.write(true).create_new(true);
            }
        }
        let file = options.open(path).map_err(full_is_full)?;
        Ok(Arc::new(RealFile {
            file,
            path: path.to_path_buf(),
        }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        // Highest missing ancestor last.
        let mut missing = Vec::new();
        for ancestor in path.ancestors() {
            if ancestor.as_os_str().is_empty() || ancestor.is_dir() {
                break;
            }
            missing.push(ancestor);
        }
        for directory in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(0o700).create(directory) {
                Ok(()) => {}
                // Another process was faster.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
                Err(error) => return Err(full_is_full(error)),
            }
            match directory.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
                _ => sync_directory(Path::new("."))?,
            }
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to).map_err(full_is_full)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        sync_directory(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let about = rustix::fs::statvfs(path)?;
        Ok(about.f_bavail.saturating_mul(about.f_frsize))
    }
}

impl RealFile {
    /// Makes the file at least `len` long by writing zeros, for file systems without fallocate(2).
    fn fill_with_zeros(&self, len: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = self.len()?;
        while at < len {
            let part = (len - at).min(ZEROS_BYTES as u64);
            self.write_all_at(&zeros[..part as usize], at)?;
            at += part;
        }
        Ok(())
    }

    fn flock(&self, operation: FlockOperation) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::flock(&self.file, operation))?;
        Ok(())
    }
}

impl File for RealFile {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::metadata(path) {
            Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset).map_err(full_is_full)
    }

    fn write_vectored_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for group in bufs.chunks(VECTORS_MAX) {
            let mut slices: Vec<IoSlice<'_>> = group.iter().map(|buf| IoSlice::new(buf)).collect();
            let mut rest = &mut slices[..];
            // Drops leading empty buffers, so that a written count of zero means no progress.
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                let written = retry_on_intr(|| rustix::io::pwritev(&self.file, rest, at))
                    .map_err(|errno| full_is_full(errno.into()))?;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                at += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
        }
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // EINTR: some file systems give up again and again on a large request.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => self.fill_with_zeros(len),
            Err(errno) => Err(full_is_full(errno.into())),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len).map_err(full_is_full)
    }

    fn sync_data(&self) -> io::Result<()> {
        rustix::fs::fdatasync(&self.file).map_err(|errno| full_is_full(errno.into()))
    }

    fn sync_all(&self) -> io::Result<()> {
        rustix::fs::fsync(&self.file).map_err(|errno| full_is_full(errno.into()))
    }

    fn try_lock_exclusive(&self) -> io::Result<()> {
        self.flock(FlockOperation::NonBlockingLockExclusive)
    }

    fn try_lock_shared(&self) -> io::Result<()> {
        self.flock(FlockOperation::NonBlockingLockShared)
    }

    fn try_lock_record(&self) -> io::Result<()> {
        record_lock::try_lock(self.file.as_fd())
    }

    fn view(&self, reserve: usize) -> io::Result<View> {
        memory::map(&self.file, reserve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory of its own under the system's temporary one, gone with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("quorate-disk-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            RealDisk.create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _left_behind = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_knows_whether_it_was_replaced() {
        let scratch = Scratch::new();
        let (one, other) = (scratch.0.join("one"), scratch.0.join("other"));
        let file = RealDisk.open(&one, Mode::Create).unwrap();
        assert!(file.is_at(&one).unwrap());
        assert!(!file.is_at(&other).unwrap());
        drop(RealDisk.open(&other, Mode::Create).unwrap());
        assert!(!file.is_at(&other).unwrap());
        RealDisk.rename(&other, &one).unwrap();
        assert!(!file.is_at(&one).unwrap());
        let new = RealDisk.open(&one, Mode::Read).unwrap();
        assert!(new.is_at(&one).unwrap());
        RealDisk.remove(&one).unwrap();
        assert!(!new.is_at(&one).unwrap());
    }

    #[test]
    fn names_and_permissions() {
        let scratch = Scratch::new();
        let deep = scratch.0.join("a/b");
        RealDisk.create_dir_all(&deep).unwrap();
        RealDisk.create_dir_all(&deep).unwrap();
        assert_eq!(
            fs::metadata(&deep).unwrap().permissions().mode() & 0o777,
            0o700
        );

        let one = deep.join("1");
        let missing = RealDisk.open(&one, Mode::Write).err().unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        RealDisk.open(&one, Mode::CreateNew).unwrap();
        let taken = RealDisk.open(&one, Mode::CreateNew).err().unwrap();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            fs::metadata(&one).unwrap().permissions().mode() & 0o777,
            0o600
        );

        RealDisk.open(&deep.join("0"), Mode::Create).unwrap();
        RealDisk.rename(&one, &deep.join("2")).unwrap();
        RealDisk.sync_dir(&deep).unwrap();
        assert_eq!(RealDisk.list(&deep).unwrap(), ["0", "2"]);
        RealDisk.remove(&deep.join("0")).unwrap();
        assert!(!RealDisk.exists(&deep.join("0")).unwrap());
        assert!(RealDisk.exists(&deep.join("2")).unwrap());
        assert!(RealDisk.free_bytes(&deep).unwrap() > 0);
    }

    #[test]
    fn writes_show_in_a_view_that_is_longer_than_the_file() {
        let scratch = Scratch::new();
        let file = RealDisk.open(&scratch.0.join("f"), Mode::Create).unwrap();
        let view = file.view(1 << 30).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        assert_eq!(view.bytes(0, 3).unwrap(), b"abc");
        file.allocate(10_000).unwrap();
        assert_eq!(file.len().unwrap(), 10_000);
        file.allocate(5_000).unwrap();
        assert_eq!(file.len().unwrap(), 10_000);
        let many: Vec<Vec<u8>> = (0..3000u32)
            .map(|n| n.to_le_bytes()[..n as usize % 5].to_vec())
            .collect();
        let all: Vec<u8> = many.concat();
        let slices: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
        file.write_vectored_at(&slices, 9_999).unwrap();
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.len().unwrap(), 9_999 + all.len() as u64);
        view.advise(Advice::WillNeed, 4096, 1 << 20);
        assert_eq!(view.bytes(9_999, all.len()).unwrap(), all);
        assert!(view.bytes(u64::MAX, 1).is_none());
        assert!(view.bytes(1 << 30, 1).is_none());
        file.set_len(2).unwrap();
        let mut buf = [0; 3];
        let short = file.read_exact_at(&mut buf, 0).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn zeros_stand_in_for_reserved_space() {
        let scratch = Scratch::new();
        let path = scratch.0.join("f");
        let file = RealFile {
            file: fs::File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path)
                .unwrap(),
            path,
        };
        file.write_all_at(b"x", 0).unwrap();
        file.fill_with_zeros(3 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 3 << 20);
        let mut head = [9; 2];
        file.read_exact_at(&mut head, 0).unwrap();
        assert_eq!(&head, b"x\0");
    }

    #[test]
    fn each_kind_of_lock_excludes_its_own_kind() {
        let scratch = Scratch::new();
        let path = scratch.0.join("f");
        let first = RealDisk.open(&path, Mode::Create).unwrap();
        let second = RealDisk.open(&path, Mode::Write).unwrap();
        let blocked =
            |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::WouldBlock;

        first.try_lock_shared().unwrap();
        second.try_lock_shared().unwrap();
        assert!(blocked(first.try_lock_exclusive()));
        drop(second);
        first.try_lock_exclusive().unwrap();
        let second = RealDisk.open(&path, Mode::Write).unwrap();
        assert!(blocked(second.try_lock_shared()));
        second.try_lock_record().unwrap();
        assert!(blocked(first.try_lock_record()));
        drop(second);
        first.try_lock_record().unwrap();
    }

    #[test]
    fn a_full_quota_is_a_full_disk() {
        let error = full_is_full(io::Error::from(Errno::DQUOT));
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let error = full_is_full(io::Error::from(Errno::NOSPC));
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    use crate::Advice;
}
