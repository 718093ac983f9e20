//! The open database: its newest state, its readers, its one writer.
//!
//! Invariants:
//! - `shared.newest` is durable: it is published after its meta page was synced.
//! - `shared` is held for moments only, never during a disk call; `writer` is held by one write
//!   transaction for its whole life. Whoever holds both took `writer` first.
//! - Once a sync failed, `poisoned` is set and nothing is written any more.

use crate::checksum;
use crate::error::{Error, Problem};
use crate::freelist::FreeList;
use crate::map::Map;
use crate::meta::{self, Meta, NO_FREELIST};
use crate::page::{FREELIST, Header, LEAF};
use crate::read::ReadTx;
use crate::scan::{self, LeafScan};
use crate::write::WriteTx;
use quorate_disk::{Disk, File, Mode, View};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Page size of new files where none is asked for, in bytes.
const PAGE_BYTES: u32 = 4096;

/// How to open a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Page size of a new file in bytes, a power of two from 1024 to 16 MiB; 4096 where it is
    /// `None`. A file that is there keeps its own.
    pub page_size: Option<u32>,
    /// Address space to reserve for the map, in bytes; a file that outgrows it gets a second map.
    pub initial_map_size: usize,
    /// Read an existing file, under a shared lock. Free pages are not looked for.
    pub read_only: bool,
    /// Take the file's advisory lock, which keeps bbolt and etcd out, too.
    pub lock: bool,
    /// Find the free pages at open, which reads every page. Where it is false, none is known: what
    /// is written goes behind the high-water mark, for a short change of a large file that is known
    /// to be whole.
    pub find_free_pages: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            page_size: None,
            initial_map_size: 64 << 30,
            read_only: false,
            lock: true,
            find_free_pages: true,
        }
    }
}

/// An open database. Clones are the same one; it is closed, and its lock released, when the last
/// clone and the last read transaction are dropped.
#[derive(Clone)]
pub struct Db {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    pub(crate) page_size: u32,
    pub(crate) read_only: bool,
    pub(crate) poisoned: AtomicBool,
    /// Pages of the tree that had no checksum when it was opened.
    unverified_pages: AtomicU64,
    /// Whether all pages of the tree have checksums. They did when it was opened, so they do: all
    /// that is written since has.
    pub(crate) all_sealed: bool,
    shared: Mutex<Shared>,
    writer: Mutex<Writer>,
}

/// What readers and the writer share.
pub(crate) struct Shared {
    pub(crate) newest: Arc<Snapshot>,
    /// Open read transactions by the transaction id of their state.
    pub(crate) readers: BTreeMap<u64, Readers>,
    /// Free pages of the newest state, without those kept for readers.
    pub(crate) free_pages: u64,
}

/// Read transactions of one state.
pub(crate) struct Readers {
    pub(crate) count: usize,
    pub(crate) high_water: u64,
}

/// What only the writer has.
pub(crate) struct Writer {
    pub(crate) free: FreeList,
    /// Length of the file, in bytes.
    pub(crate) file_len: u64,
    /// High-water mark of the meta page that is not the newest one; the highest possible where
    /// that page is invalid.
    pub(crate) other_high_water: u64,
    /// Memory of the transaction before, to be used again.
    pub(crate) spare: crate::memory::Arena,
    /// Likewise, the pages that were written.
    pub(crate) spare_pages: Vec<u8>,
    /// Where the vacuum goes on.
    pub(crate) vacuum: crate::vacuum::Progress,
}

/// A committed state and the map to see it through.
pub(crate) struct Snapshot {
    pub(crate) map: Arc<Map>,
    pub(crate) meta: Meta,
}

impl Snapshot {
    /// Page `id`, sound.
    pub(crate) fn page(&self, id: u64) -> Result<crate::page::Page<'_>, Error> {
        self.map.page(id, self.meta.high_water)
    }
}

impl Inner {
    pub(crate) fn io(&self, action: &'static str, source: io::Error) -> Error {
        io_error(&self.path, action, source)
    }

    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        // Every change under this lock is complete before anything can panic.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer's place; an error where the last writer did not leave it whole.
    pub(crate) fn writer(&self) -> Result<MutexGuard<'_, Writer>, Error> {
        if self.read_only {
            return Err(Error::ReadOnly {
                path: self.path.clone(),
            });
        }
        let poisoned = || Error::Poisoned {
            path: self.path.clone(),
        };
        let writer = self.writer.lock().map_err(|_panicked| poisoned())?;
        if self.poisoned.load(Ordering::Acquire) {
            return Err(poisoned());
        }
        Ok(writer)
    }

    /// Refuses all further writes, and gives back the error that is the reason.
    pub(crate) fn poison(&self, action: &'static str, source: io::Error) -> Error {
        self.poisoned.store(true, Ordering::Release);
        self.io(action, source)
    }
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> Error {
    Error::Io {
        path: path.to_path_buf(),
        action,
        source,
    }
}

/// Maps the file with `wanted` bytes of address space, or with less where the system has not that
/// much, but not below `least`.
pub(crate) fn map_file(file: &dyn File, wanted: usize, least: usize) -> io::Result<View> {
    let mut reserve = wanted.max(least);
    loop {
        match file.view(reserve) {
            Ok(view) => return Ok(view),
            Err(error) if reserve == least => return Err(error),
            Err(_too_much) => reserve = (reserve / 2).max(least),
        }
    }
}

/// The first four pages of a new file, as bbolt makes them but for the leaf's checksum.
fn initial_pages(page_size: u32) -> Vec<u8> {
    let size = page_size as usize;
    let meta = |txid| Meta {
        page_size,
        root: 3,
        root_sequence: 0,
        freelist: 2,
        high_water: 4,
        txid,
    };
    let mut bytes = meta(0).page();
    bytes.extend(meta(1).page());
    bytes.resize(4 * size, 0);
    Header {
        id: 2,
        flags: FREELIST,
        count: 0,
        overflow: 0,
    }
    .write(&mut bytes[2 * size..]);
    Header {
        id: 3,
        flags: LEAF,
        count: 0,
        overflow: 0,
    }
    .write(&mut bytes[3 * size..]);
    checksum::seal(&mut bytes[3 * size..], 0);
    bytes
}

impl Db {
    /// Opens the database, and creates it where there is none (or an empty file), unless
    /// read-only. Every page in use is read and checked, and the free ones are found.
    pub fn open(disk: Arc<dyn Disk>, path: &Path, options: &Options) -> Result<Db, Error> {
        Db::open_with(disk.as_ref(), path, options, None)
    }

    /// As [`Db::open`]; in the same pass over the file, all entries of the top-level bucket
    /// `bucket` go to `scan`. A bucket that is not there has none. Also read-only, the whole pass
    /// is made.
    pub fn open_scanning(
        disk: Arc<dyn Disk>,
        path: &Path,
        options: &Options,
        bucket: &[u8],
        scan: &dyn LeafScan,
    ) -> Result<Db, Error> {
        Db::open_with(disk.as_ref(), path, options, Some((bucket, scan)))
    }

    fn open_with(
        disk: &dyn Disk,
        path: &Path,
        options: &Options,
        scan: Option<(&[u8], &dyn LeafScan)>,
    ) -> Result<Db, Error> {
        let file = if options.read_only {
            open_locked(disk, path, Mode::Read, options)?
        } else {
            open_or_create(disk, path, options)?
        };
        let len = file
            .len()
            .map_err(|source| io_error(path, "reading the length", source))?;
        let metas = meta::read_both(file.as_ref(), len, path)?;
        let meta = metas.newest;
        let least = usize::try_from(len.max(meta.bytes())).unwrap_or(usize::MAX);
        let view = map_file(file.as_ref(), options.initial_map_size, least)
            .map_err(|source| io_error(path, "mapping the file", source))?;
        let map = Map::new(view, path, meta.page_size);
        if len < meta.bytes() {
            let last_whole = len / u64::from(meta.page_size);
            return Err(map.corrupt(last_whole, Problem::FileTooShort(len)));
        }
        let snapshot = Arc::new(Snapshot {
            map: Arc::new(map),
            meta,
        });
        let pass = scan.is_some() || (options.find_free_pages && !options.read_only);
        let found = if !pass {
            scan::Found::default()
        } else {
            scan::walk(&snapshot, scan)?
        };
        let all_sealed = if pass {
            found.unverified_pages == 0
        } else {
            newest_is_sealed(file.as_ref(), &meta)
                .map_err(|source| io_error(path, "reading a meta page", source))?
        };
        let writer = Writer {
            file_len: len,
            other_high_water: metas.other.map_or(u64::MAX, |other| other.high_water),
            spare: crate::memory::Arena::default(),
            spare_pages: Vec::new(),
            vacuum: crate::vacuum::Progress::default(),
            free: found.free,
        };
        let shared = Shared {
            newest: snapshot,
            readers: BTreeMap::new(),
            free_pages: writer.free.free_pages(),
        };
        Ok(Db {
            inner: Arc::new(Inner {
                file,
                path: path.to_path_buf(),
                page_size: meta.page_size,
                read_only: options.read_only,
                poisoned: AtomicBool::new(false),
                unverified_pages: AtomicU64::new(found.unverified_pages),
                all_sealed,
                shared: Mutex::new(shared),
                writer: Mutex::new(writer),
            }),
        })
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Bytes per page.
    pub fn page_size(&self) -> u32 {
        self.inner.page_size
    }

    /// Bytes of the file in use: the newest state's high-water mark times the page size. The file
    /// itself may be longer.
    pub fn size(&self) -> u64 {
        self.inner.shared().newest.meta.bytes()
    }

    /// [`Db::size`] without the pages that are free. Those that are kept for readers count as used,
    /// as in etcd. Opened read-only without a scan, the free pages are not known and this is the
    /// size.
    pub fn size_in_use(&self) -> u64 {
        let shared = self.inner.shared();
        shared.newest.meta.bytes() - shared.free_pages * u64::from(self.inner.page_size)
    }

    /// Read transactions that are open.
    pub fn open_reads(&self) -> usize {
        self.inner
            .shared()
            .readers
            .values()
            .map(|readers| readers.count)
            .sum()
    }

    /// The newest committed transaction.
    pub fn txid(&self) -> u64 {
        self.inner.shared().newest.meta.txid
    }

    /// Pages of the tree that had no checksum when the pass at open saw them: those that bbolt
    /// wrote.
    pub fn unverified_pages(&self) -> u64 {
        self.inner.unverified_pages.load(Ordering::Relaxed)
    }

    /// The newest committed state, for reading. Neither waits for the writer nor holds it up.
    pub fn begin_read(&self) -> ReadTx {
        let snapshot = {
            let mut shared = self.inner.shared();
            let snapshot = shared.newest.clone();
            let readers = shared.readers.entry(snapshot.meta.txid).or_insert(Readers {
                count: 0,
                high_water: snapshot.meta.high_water,
            });
            readers.count += 1;
            snapshot
        };
        ReadTx::new(self.inner.clone(), snapshot)
    }

    /// Begins to write; waits for the writer before. Dropped without a commit, nothing happened.
    pub fn begin_write(&self) -> Result<WriteTx<'_>, Error> {
        let mut writer = self.inner.writer()?;
        let (base, readers) = {
            let shared = self.inner.shared();
            let readers: Vec<u64> = shared.readers.keys().copied().collect();
            (shared.newest.clone(), readers)
        };
        writer.free.release(&readers);
        Ok(WriteTx::new(&self.inner, writer, base))
    }
}

impl Inner {
    /// Ends a read transaction of state `txid`.
    pub(crate) fn end_read(&self, txid: u64) {
        let mut shared = self.shared();
        let readers = shared
            .readers
            .get_mut(&txid)
            .expect("a reader is counted while it lives");
        readers.count -= 1;
        if readers.count == 0 {
            shared.readers.remove(&txid);
        }
    }
}

fn open_locked(
    disk: &dyn Disk,
    path: &Path,
    mode: Mode,
    options: &Options,
) -> Result<Arc<dyn File>, Error> {
    let file = disk
        .open(path, mode)
        .map_err(|source| io_error(path, "opening", source))?;
    if options.lock {
        let locked = match mode {
            Mode::Read => file.try_lock_shared(),
            Mode::Write | Mode::Create | Mode::CreateNew => file.try_lock_exclusive(),
        };
        let is_locked = || Error::Locked {
            path: path.to_path_buf(),
        };
        locked.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => is_locked(),
            _ => io_error(path, "locking", error),
        })?;
        // Who held the lock may have put another file in its place, as a defragmentation does. The
        // lock is on what is no database any more, and nobody else minds it.
        let is_there = file.is_at(path);
        if !is_there.map_err(|source| io_error(path, "looking for it", source))? {
            return Err(is_locked());
        }
    }
    Ok(file)
}

/// Whether the newest meta page says that all pages of the tree have checksums. Of a state that was
/// copied, both meta pages may tell.
pub(crate) fn newest_is_sealed(file: &dyn File, newest: &Meta) -> io::Result<bool> {
    let mut bytes = vec![0; newest.page_size as usize];
    for page in 0..2 {
        file.read_exact_at(&mut bytes, page * u64::from(newest.page_size))?;
        if Meta::read(&bytes) == Ok(*newest) && newest.is_sealed(&bytes) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn open_or_create(disk: &dyn Disk, path: &Path, options: &Options) -> Result<Arc<dyn File>, Error> {
    let there = disk
        .exists(path)
        .map_err(|source| io_error(path, "looking for it", source))?;
    if there {
        let file = open_locked(disk, path, Mode::Write, options)?;
        let empty = file
            .is_empty()
            .map_err(|source| io_error(path, "reading the length", source))?;
        if !empty {
            return Ok(file);
        }
    }
    // Under another name until it is whole, so that no crash leaves half a database. etcd removes
    // a leftover of this name by itself.
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".tmp");
    let unfinished = PathBuf::from(name);
    let page_size = options.page_size.unwrap_or(PAGE_BYTES);
    if !meta::is_page_size(page_size) {
        return Err(Error::PageSize(page_size));
    }
    let file = open_locked(disk, &unfinished, Mode::Create, options)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let create = || -> io::Result<()> {
        file.set_len(0)?;
        file.write_all_at(&initial_pages(page_size), 0)?;
        file.sync_all()?;
        disk.rename(&unfinished, path)?;
        disk.sync_dir(directory)
    };
    create().map_err(|source| io_error(path, "creating", source))?;
    Ok(file)
}

impl Meta {
    /// Whether a freelist page belongs to this state.
    pub(crate) fn has_freelist(&self) -> bool {
        self.freelist != NO_FREELIST
    }
}
