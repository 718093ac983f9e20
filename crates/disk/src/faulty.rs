//! A disk in memory that fails on command, and that can be looked at after a power cut.
//!
//! Everything it does follows from a seed and the calls made. Invariants:
//! - What reads and views see is the live state; what a sync covered is the durable state; the
//!   difference is kept as an ordered list of changes, of which [`FaultyDisk::crash`] keeps some.
//! - Bytes of one write are kept or lost by sectors of 512 bytes, in any combination. Changes of
//!   one file's length are kept in order, up to some point. Bytes never written read as zero.
//! - Changes of names in one directory are kept in order, up to some point; a rename is kept or
//!   lost whole, also between two directories.
//! - After a failed sync the bytes it covered are durable or not, sector by sector, and no later
//!   sync makes up for it, as on Linux.
//!
//! It is harsher than ext4 in that syncing a file does not make its name durable.

mod contents;
mod names;
mod random;

#[cfg(test)]
mod tests;

pub use random::Random;

use crate::{Disk, File, Mode, View, memory};
use contents::Contents;
use names::{Edit, Names, NodeId};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Unit in which space is counted.
const BLOCK_BYTES: u64 = 4096;

/// What a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: u64 = 512;

/// What [`Disk::free_bytes`] says while space is unlimited.
const PLENTY_BYTES: u64 = 1 << 40;

/// On which side of its effect a call stops the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The call changes nothing.
    Before,
    /// The call does all its work, and its caller never learns of it.
    After,
}

/// What was asked of a disk so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Mutating calls: opens that create, `create_dir_all`, renames, removals, writes,
    /// allocations, changes of length and syncs.
    pub calls: u64,
    /// Syncs of files among them.
    pub file_syncs: u64,
    /// Syncs of directories among them.
    pub dir_syncs: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// A deterministic disk in memory; see the module. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    names: Names,
    files: BTreeMap<NodeId, Contents>,
    locks: BTreeMap<NodeId, Locks>,
    random: Random,
    counts: Counts,
    handles: u64,
    stop: Option<(u64, Stop)>,
    stopped: bool,
    space_bytes: Option<u64>,
    /// Syncs of files until one fails.
    sync_fails_in: Option<u64>,
    /// Reads until one fails.
    read_fails_in: Option<u64>,
}

/// Who holds what on one file, by the number of the open file.
#[derive(Default)]
struct Locks {
    /// flock(2): exclusive or not.
    whole: BTreeMap<u64, bool>,
    /// fcntl(2).
    record: Option<u64>,
}

struct FaultyFile {
    state: Arc<Mutex<State>>,
    node: NodeId,
    handle: u64,
    writable: bool,
    path: PathBuf,
}

fn machine_off() -> io::Error {
    io::Error::other("the machine is off")
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A test that panicked elsewhere must still be able to look at the disk.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultyDisk {
    /// An empty disk without limits. `seed` decides how partial its partial failures are.
    pub fn new(seed: u64) -> FaultyDisk {
        FaultyDisk::with(Names::new(), BTreeMap::new(), seed)
    }

    fn with(names: Names, files: BTreeMap<NodeId, Contents>, seed: u64) -> FaultyDisk {
        let state = State {
            names,
            files,
            locks: BTreeMap::new(),
            random: Random::new(seed),
            counts: Counts::default(),
            handles: 0,
            stop: None,
            stopped: false,
            space_bytes: None,
            sync_fails_in: None,
            read_fails_in: None,
        };
        FaultyDisk {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// What was asked of it since it was made, by [`FaultyDisk::new`] or by a crash.
    pub fn counts(&self) -> Counts {
        lock(&self.state).counts
    }

    /// Lets the machine stop at the mutating call with this number, counted from 1 as
    /// [`Counts::calls`] does: that call and all later ones, reads too, give an error.
    pub fn stop_at(&self, call: u64, stop: Stop) {
        lock(&self.state).stop = Some((call, stop));
    }

    /// Whether the machine has stopped.
    pub fn stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    /// Limits the space of all files together; `None` lifts the limit. A write that does not fit
    /// may leave a part of itself.
    pub fn set_space(&self, bytes: Option<u64>) {
        lock(&self.state).space_bytes = bytes;
    }

    /// Space that the files take now, in whole blocks of 4096 bytes.
    pub fn used_bytes(&self) -> u64 {
        lock(&self.state).used_bytes()
    }

    /// Lets the `nth` sync of a file from now fail (1 is the next one).
    pub fn fail_sync(&self, nth: u64) {
        lock(&self.state).sync_fails_in = Some(nth);
    }

    /// Lets the `nth` read of a file from now fail (1 is the next one). Views do not count.
    pub fn fail_read(&self, nth: u64) {
        lock(&self.state).read_fails_in = Some(nth);
    }

    /// Flips the bits of `mask` in one byte, durably, behind everybody's back.
    pub fn corrupt(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let mut state = lock(&self.state);
        let node = state.names.find_file(path)?;
        state.contents(node).corrupt(offset, mask)
    }

    /// The disk as the machine finds it after its power was cut now. `seed` decides what of the
    /// unsynced changes is there. This disk stays as it is.
    pub fn crash(&self, seed: u64) -> FaultyDisk {
        let state = lock(&self.state);
        let mut random = Random::new(seed);
        let names = state.names.crash(&mut random);
        let mut files = BTreeMap::new();
        for (&node, contents) in &state.files {
            files.insert(node, contents.crash(&mut random));
        }
        FaultyDisk::with(names, files, random.bits())
    }
}

impl State {
    /// Counts a mutating call. `Ok(true)`: carry it out, then say that the machine is off.
    fn begin(&mut self) -> io::Result<bool> {
        self.check_on()?;
        self.counts.calls += 1;
        match self.stop {
            Some((call, stop)) if call == self.counts.calls => {
                self.stopped = true;
                match stop {
                    Stop::Before => Err(machine_off()),
                    Stop::After => Ok(true),
                }
            }
            _ => Ok(false),
        }
    }

    fn check_on(&self) -> io::Result<()> {
        if self.stopped {
            Err(machine_off())
        } else {
            Ok(())
        }
    }

    fn used_bytes(&self) -> u64 {
        let blocks: u64 = self.files.values().map(Contents::charged_blocks).sum();
        blocks * BLOCK_BYTES
    }

    fn contents(&mut self, node: NodeId) -> &mut Contents {
        self.files
            .get_mut(&node)
            .expect("every file node has contents")
    }

    /// Bytes that may still be charged.
    fn room_bytes(&self) -> u64 {
        match self.space_bytes {
            Some(space) => space.saturating_sub(self.used_bytes()),
            None => PLENTY_BYTES,
        }
    }

    fn write(&mut self, node: NodeId, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        let bytes = bufs.concat();
        self.counts.written_bytes += bytes.len() as u64;
        let wanted = self
            .contents(node)
            .uncharged_blocks(offset, bytes.len() as u64);
        if wanted * BLOCK_BYTES > self.room_bytes() {
            // What fits of it, some of it, or nothing. File systems copy whole blocks, so the part ends
            // where a sector does.
            let fits = self.fitting_prefix(node, offset, bytes.len() as u64);
            let end = offset + self.random.below(fits + 1);
            let part = (end - end % SECTOR_BYTES).saturating_sub(offset);
            self.contents(node).write(&bytes[..part as usize], offset)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.contents(node).write(&bytes, offset)
    }

    /// Length of the longest beginning of a write that there is room for.
    fn fitting_prefix(&mut self, node: NodeId, offset: u64, len: u64) -> u64 {
        let room = self.room_bytes() / BLOCK_BYTES;
        let mut fits = 0;
        loop {
            let block_end = ((offset + fits) / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let next = (block_end - offset).min(len);
            if self.contents(node).uncharged_blocks(offset, next) > room {
                return fits;
            }
            assert!(fits < len, "called only where the whole does not fit");
            fits = next;
        }
    }

    fn sync(&mut self, node: NodeId) -> io::Result<()> {
        self.counts.file_syncs += 1;
        if fails_now(&mut self.sync_fails_in) {
            let mut random = self.random.clone();
            self.contents(node).sync_failed(&mut random);
            self.random = random;
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.contents(node).sync();
        Ok(())
    }

    /// Gives back the space of a file that no name and no open file leads to.
    fn release_if_unused(&mut self, node: NodeId) {
        if !self.names.is_linked(node) && self.contents(node).handles == 0 {
            self.contents(node).release();
        }
    }
}

/// Counts down to a planned failure.
fn fails_now(countdown: &mut Option<u64>) -> bool {
    match countdown {
        Some(1) => {
            *countdown = None;
            true
        }
        Some(left) => {
            *left = left.saturating_sub(1);
            false
        }
        None => false,
    }
}

/// Ends a mutating call that was carried out.
fn end(off: bool) -> io::Result<()> {
    if off { Err(machine_off()) } else { Ok(()) }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let mut state = lock(&self.state);
        state.check_on()?;
        let (dir, name) = state.names.parent(path)?;
        let found = state.names.entry(dir, &name);
        let node = match (found, mode) {
            (Some(_), Mode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), _) if state.names.is_dir(node) => {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            (Some(node), _) => node,
            (None, Mode::Read | Mode::Write) => return Err(io::ErrorKind::NotFound.into()),
            (None, Mode::Create | Mode::CreateNew) => {
                let off = state.begin()?;
                let node = state.names.new_file();
                state.files.insert(node, Contents::new()?);
                state.names.change(vec![Edit {
                    dir,
                    name,
                    node: Some(node),
                }]);
                end(off)?;
                node
            }
        };
        state.handles += 1;
        let handle = state.handles;
        state.contents(node).handles += 1;
        Ok(Arc::new(FaultyFile {
            state: self.state.clone(),
            node,
            handle,
            writable: mode != Mode::Read,
            path: path.to_path_buf(),
        }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let off = state.begin()?;
        state.names.create_dir_all(path)?;
        end(off)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        state.check_on()?;
        state.names.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = lock(&self.state);
        state.check_on()?;
        Ok(state.names.find(path).is_ok())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let off = state.begin()?;
        if let Some(replaced) = state.names.rename(from, to)? {
            state.release_if_unused(replaced);
        }
        end(off)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let off = state.begin()?;
        let (dir, name) = state.names.parent(path)?;
        let node = state.names.find_file(path)?;
        state.names.change(vec![Edit {
            dir,
            name,
            node: None,
        }]);
        state.release_if_unused(node);
        end(off)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let off = state.begin()?;
        state.counts.dir_syncs += 1;
        state.names.sync_dir(path)?;
        end(off)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let state = lock(&self.state);
        state.check_on()?;
        state.names.find(path)?;
        Ok(state.room_bytes())
    }
}

impl FaultyFile {
    /// Carries out a mutating call.
    fn mutate(&self, change: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let mut state = lock(&self.state);
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let off = state.begin()?;
        change(&mut state)?;
        end(off)
    }
}

impl File for FaultyFile {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let state = lock(&self.state);
        state.check_on()?;
        Ok(state.names.find(path).is_ok_and(|node| node == self.node))
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = lock(&self.state);
        state.check_on()?;
        Ok(state.contents(self.node).len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.check_on()?;
        if fails_now(&mut state.read_fails_in) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        state.contents(self.node).read_exact(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.mutate(|state| state.write(self.node, &[buf], offset))
    }

    fn write_vectored_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        self.mutate(|state| state.write(self.node, bufs, offset))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.mutate(|state| {
            let wanted = state.contents(self.node).uncharged_blocks(0, len);
            if wanted * BLOCK_BYTES > state.room_bytes() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.contents(self.node).allocate(len)
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.mutate(|state| state.contents(self.node).set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.mutate(|state| state.sync(self.node))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.mutate(|state| state.sync(self.node))
    }

    fn try_lock_exclusive(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        let locks = state.locks.entry(self.node).or_default();
        if locks.whole.keys().any(|&handle| handle != self.handle) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        locks.whole.insert(self.handle, true);
        Ok(())
    }

    fn try_lock_shared(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        let locks = state.locks.entry(self.node).or_default();
        if locks
            .whole
            .iter()
            .any(|(&handle, &exclusive)| handle != self.handle && exclusive)
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        locks.whole.insert(self.handle, false);
        Ok(())
    }

    fn try_lock_record(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let locks = state.locks.entry(self.node).or_default();
        match locks.record {
            Some(holder) if holder != self.handle => Err(io::ErrorKind::WouldBlock.into()),
            _ => {
                locks.record = Some(self.handle);
                Ok(())
            }
        }
    }

    fn view(&self, reserve: usize) -> io::Result<View> {
        let mut state = lock(&self.state);
        state.check_on()?;
        memory::map(state.contents(self.node).memory(), reserve)
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let Some(locks) = state.locks.get_mut(&self.node) {
            locks.whole.remove(&self.handle);
            if locks.record == Some(self.handle) {
                locks.record = None;
            }
        }
        state.contents(self.node).handles -= 1;
        state.release_if_unused(self.node);
    }
}
