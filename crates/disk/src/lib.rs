//! The disk as the rest of the project sees it.
//!
//! `wal` and `bolt` reach files only through [`Disk`] and [`File`], so that a test can put a disk
//! in their place that loses unsynced bytes, tears writes at sectors, runs full, or stops at a
//! chosen call ([`faulty`]). [`real`] is the operating system's.
//!
//! What holds, for every implementation:
//! - Bytes written are visible to later reads and to existing [`View`]s at once; they are durable
//!   only after [`File::sync_data`] (or `sync_all`) returned `Ok`.
//! - A file's length change is durable with the next `sync_data` of that file.
//! - A created, renamed or removed name is durable only after [`Disk::sync_dir`] of its directory;
//!   directories alone are durable as soon as [`Disk::create_dir_all`] returns.
//! - A full file system is `ErrorKind::StorageFull`, whatever the operating system calls it.
//! - After a sync has failed, nothing may be assumed about the bytes it covered: callers treat it
//!   as fatal and never retry (fsync's error is reported once).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub mod faulty;
mod memory;
pub mod real;
mod record_lock;

/// How [`Disk::open`] treats a name that is there, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Existing file, reads only.
    Read,
    /// Existing file, reads and writes.
    Write,
    /// Existing or new file, reads and writes.
    Create,
    /// New file, reads and writes; `AlreadyExists` where the name is taken.
    CreateNew,
}

/// A file system.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>>;
    /// Makes a directory and its parents, readable by the owner only; no error if it is there.
    /// The directories it made are durable when it returns.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Whether a file or a directory of this name is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Gives a file or directory another name, replacing a file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes names created, renamed or removed in this directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Bytes that an unprivileged writer may still allocate on the file system of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. Positions are explicit; there is no cursor.
pub trait File: Send + Sync + 'static {
    /// Where it was opened, for messages.
    fn path(&self) -> PathBuf;
    /// Whether `path` leads to this file now. Another one may have taken its name since it was opened,
    /// also where it was locked between the two.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `buf` from `offset`; `UnexpectedEof` where the file ends before.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`, growing the file where needed. An error may leave a part
    /// of it written.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bufs`, one behind the other, at `offset`.
    fn write_vectored_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.write_all_at(buf, at)?;
            at += buf.len() as u64;
        }
        Ok(())
    }
    /// Reserves space so that writes up to `len` bytes cannot fail for want of it, and grows the
    /// file to at least `len`. New bytes read as zero.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts or grows the file to `len`. New bytes read as zero.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes contents and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes contents, length and metadata durable.
    fn sync_all(&self) -> io::Result<()>;
    /// Takes the file's exclusive advisory lock of the flock(2) kind, the one bbolt takes on a
    /// database; `WouldBlock` where another open file holds it in any way.
    /// Held until this open file is dropped, as are all the locks here.
    fn try_lock_exclusive(&self) -> io::Result<()>;
    /// Takes the file's shared advisory lock of the flock(2) kind; `WouldBlock` where another
    /// open file holds it exclusively.
    fn try_lock_shared(&self) -> io::Result<()>;
    /// Takes an exclusive record lock over the whole file (fcntl(2), owned by the open file), the
    /// one etcd takes on log segments; `WouldBlock` where another open file holds it. It and the
    /// flock(2) kind do not see each other. The file must be open for writing.
    fn try_lock_record(&self) -> io::Result<()>;
    /// A view of the first `reserve` bytes of address space of the file, for reading.
    /// `reserve` may exceed the file's length, so that one view outlives its growth.
    fn view(&self, reserve: usize) -> io::Result<View>;
}

/// Read-only memory over a file's bytes; see [`File::view`]. Cheap to clone; the memory stays
/// mapped until the last clone is dropped.
#[derive(Clone)]
pub struct View {
    memory: Arc<dyn ViewMemory>,
}

/// What a [`View`] is made of.
pub trait ViewMemory: Send + Sync {
    /// Start and length in bytes of the readable address range. The range stays valid, at the
    /// same address, until the value is dropped.
    fn range(&self) -> (*const u8, usize);
    /// Tells the operating system how a part of the range will be read; a hint, never an error.
    fn advise(&self, advice: Advice, offset: usize, len: usize);
}

/// How a part of a [`View`] will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No particular order.
    Normal,
    /// Here and there: reading ahead would be wasted.
    Random,
    /// From its beginning to its end.
    Sequential,
    /// Soon: start to read it in.
    WillNeed,
}

impl View {
    /// Wraps memory that an implementation of [`File`] made.
    pub fn new(memory: Arc<dyn ViewMemory>) -> View {
        View { memory }
    }

    /// Length in bytes of the address range (not of the file).
    pub fn reserved(&self) -> usize {
        self.memory.range().1
    }

    /// Tells how `offset..offset + len` will be read; the part outside the range is ignored.
    pub fn advise(&self, advice: Advice, offset: u64, len: usize) {
        let reserved = self.reserved();
        let Ok(offset) = usize::try_from(offset) else {
            return;
        };
        if offset < reserved && len > 0 {
            self.memory
                .advise(advice, offset, len.min(reserved - offset));
        }
    }

    /// The bytes `offset..offset + len`; `None` where they leave the reserved range.
    ///
    /// The caller guarantees two things, which copy-on-write gives it: the range lies within the
    /// file's current length, and nobody writes to it or cuts it off while the slice lives.
    #[allow(unsafe_code)]
    pub fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let (start, reserved) = self.memory.range();
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(len)?;
        if end > reserved {
            return None;
        }
        // SAFETY: `start..start + reserved` is mapped for as long as `self.memory` lives, and the
        // returned borrow cannot outlive `self`; `end <= reserved`. That the file covers the range
        // and that nobody changes its bytes meanwhile is the caller's rule, stated above.
        Some(unsafe { std::slice::from_raw_parts(start.add(offset), len) })
    }
}
