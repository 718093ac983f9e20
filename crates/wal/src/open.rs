//! Opening a log: lock, read, repair, and stand ready to append.
//!
//! Invariants:
//! - Nothing is changed before everything was read and found sound.
//! - What is cut off or zeroed is only what an interrupted write left behind the last whole record,
//!   and none of it was ever reported durable. A copy of the segment is kept as `NAME.wal.broken`
//!   if a frame is cut off.
//! - When this returns, the tail holds zeros behind the last record, durably: were some left from
//!   before, later records could be written over a part of them, and the rest would look like
//!   damage.
//!
//! Source: etcd's `wal.Open`, `ReadAll` and `Repair`.

use crate::WalError;
use crate::append::{Options, Wal, ZEROS_BYTES, segment_head, write_zeros};
use crate::create::{locked, with_suffix};
use crate::error::Damage;
use crate::raftpb::decode_entry;
use crate::reader::{Located, Next, OpenSegment, Reader};
use crate::records::{check_metadata, known_type, matches_start, snapshot_of, state_of};
use crate::segment::{names, segments_from};
use crate::walpb::{RecordType, Snapshot};
use bytes::Bytes;
use quorate_disk::{Disk, Mode};
use quorate_raft::types::{Entry, HardState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a log held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The bytes that head each segment.
    pub metadata: Bytes,
    /// The last hard state; empty if none was ever written.
    pub hard_state: HardState,
    /// The entries behind the snapshot record it was opened at, without a gap. Those above
    /// `hard_state.commit` may yet be overwritten.
    pub entries: Vec<Entry>,
    /// The unfinished write that was cut off, if there was one.
    pub repaired: Option<Repair>,
}

/// An unfinished write that was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The segment.
    pub path: PathBuf,
    /// Its length in bytes now: where the unfinished frame began.
    pub offset: u64,
    /// The copy of what it was.
    pub broken_copy: PathBuf,
}

/// What reading gathers.
struct Gathered {
    metadata: Option<Bytes>,
    state: HardState,
    entries: Vec<Entry>,
    found: bool,
    /// Indexes of the snapshot records.
    snapshots: Vec<u64>,
    /// Term of the entry that stands where the log is opened at, if one does.
    term_at_start: Option<u64>,
}

impl Wal {
    /// Opens a log at a snapshot record (of which only index and term count), reads what follows it,
    /// and stands ready to append. The segments are locked, so that no other process, etcd included,
    /// opens them for writing.
    pub fn open(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        at: &Snapshot,
        options: Options,
    ) -> Result<(Wal, Recovered), WalError> {
        let mut segments = Vec::new();
        for name in segments_from(&**disk, dir, at.index)? {
            let segment = OpenSegment::open(&**disk, dir, name, Mode::Write)?;
            segment
                .file
                .try_lock_record()
                .map_err(|source| locked(&segment.path, source))?;
            segments.push(segment);
        }
        let mut reader = Reader::of(segments);
        let mut gathered = Gathered {
            metadata: None,
            state: HardState::default(),
            entries: Vec::new(),
            found: false,
            snapshots: Vec::new(),
            term_at_start: None,
        };
        let torn = loop {
            match reader.next()? {
                Next::Record(located) => gathered.take(&reader, located, at)?,
                Next::End => break false,
                Next::Torn(_) => break true,
            }
        };
        if !gathered.found {
            return Err(WalError::SnapshotNotFound {
                dir: dir.to_path_buf(),
                index: at.index,
            });
        }
        let Some(metadata) = gathered.metadata else {
            return Err(WalError::damaged(
                reader.path(),
                reader.offset(),
                Damage::NoMetadata,
            ));
        };

        let (offset, crc) = (reader.offset(), reader.crc());
        let garbage = if torn {
            None
        } else {
            reader.first_nonzero_behind(offset)?
        };
        let mut segments = reader.into_segments();
        let tail = segments.last_mut().expect("a reader has segments");
        let mut repaired = None;
        if torn {
            repaired = Some(cut_off(&**disk, dir, tail, offset)?);
        } else if let Some(start) = garbage {
            write_zeros(tail, start, tail.len)
                .map_err(|source| WalError::io("zero the end of", &tail.path, source))?;
            tail.file
                .sync_data()
                .map_err(|source| WalError::sync("sync", &tail.path, source))?;
        }
        if tail.len < options.segment_bytes {
            match tail.file.allocate(options.segment_bytes) {
                Ok(()) => tail.len = options.segment_bytes,
                // Without a reservation it grows as it is written to.
                Err(source) if source.kind() == io::ErrorKind::StorageFull => {}
                Err(source) => return Err(WalError::io("reserve space for", &tail.path, source)),
            }
        }
        remove_prepared(&**disk, dir)?;

        let last_index = gathered
            .entries
            .last()
            .map_or(at.index, |entry| entry.index);
        let mut wal = Wal::of(
            disk.clone(),
            dir.to_path_buf(),
            options,
            metadata.clone(),
            segments.into(),
            offset,
            crc,
        );
        wal.state = gathered.state;
        wal.last_index = last_index;
        // One that is not committed was being received when the member went down; what is received
        // instead may be older.
        let commit = gathered.state.commit;
        let committed = gathered.snapshots.into_iter().filter(|it| *it <= commit);
        wal.newest_snapshot = committed.max().unwrap_or(0);
        if offset == 0 {
            wal.write_missing_head()?;
        }
        let recovered = Recovered {
            metadata,
            hard_state: gathered.state,
            entries: gathered.entries,
            repaired,
        };
        Ok((wal, recovered))
    }

    /// Whether `dir` holds a log.
    pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool, WalError> {
        crate::segment::exists(disk, dir)
    }

    /// Heads a segment that lost all its records, so that it can be read without the one before.
    fn write_missing_head(&mut self) -> Result<(), WalError> {
        let (head, crc) = segment_head(self.crc, &self.metadata, &self.state);
        let tail = self.tail();
        tail.file
            .write_all_at(&head, 0)
            .map_err(|source| WalError::io("write", &tail.path, source))?;
        self.offset = head.len() as u64;
        self.crc = crc;
        self.sync_tail()
    }
}

impl Gathered {
    fn take(&mut self, reader: &Reader, located: Located, at: &Snapshot) -> Result<(), WalError> {
        match known_type(reader, &located)? {
            RecordType::Entry => {
                let entry = decode_entry(&located.record.data)
                    .map_err(|error| reader.damaged(&located, error))?;
                if entry.index <= at.index {
                    // What stands behind an entry that is replaced goes with it.
                    self.term_at_start = (entry.index == at.index).then_some(entry.term);
                    self.entries.clear();
                } else {
                    let place = entry.index - at.index - 1;
                    if place > self.entries.len() as u64 {
                        let last = at.index + self.entries.len() as u64;
                        let damage = Damage::EntryGap {
                            index: entry.index,
                            term: entry.term,
                            last,
                        };
                        return Err(reader.damaged(&located, damage));
                    }
                    // A leader may have replaced what was not committed.
                    self.entries.truncate(place as usize);
                    self.entries.push(entry);
                }
            }
            RecordType::State => self.state = state_of(reader, &located)?,
            RecordType::Metadata => check_metadata(reader, &located, &mut self.metadata)?,
            RecordType::Snapshot => {
                let snapshot = snapshot_of(reader, &located)?;
                if matches_start(&snapshot, at)? {
                    self.found = true;
                    // A received snapshot that the log did not lead to took its place.
                    if self.term_at_start != Some(at.term) {
                        self.entries.clear();
                    }
                }
                self.snapshots.push(snapshot.index);
            }
            RecordType::Crc => {}
        }
        Ok(())
    }
}

/// Copies the segment to `.broken`, then cuts it off at `offset`; both are durable afterwards.
fn cut_off(
    disk: &dyn Disk,
    dir: &Path,
    tail: &mut OpenSegment,
    offset: u64,
) -> Result<Repair, WalError> {
    let broken_copy = with_suffix(&tail.path, ".broken");
    copy(disk, tail, &broken_copy)?;
    disk.sync_dir(dir)
        .map_err(|source| WalError::sync("sync directory", dir, source))?;
    tail.file
        .set_len(offset)
        .map_err(|source| WalError::io("shorten", &tail.path, source))?;
    tail.file
        .sync_all()
        .map_err(|source| WalError::sync("sync", &tail.path, source))?;
    tail.len = offset;
    Ok(Repair {
        path: tail.path.clone(),
        offset,
        broken_copy,
    })
}

fn copy(disk: &dyn Disk, from: &OpenSegment, to: &Path) -> Result<(), WalError> {
    let io = |action, path: &Path| {
        let path = path.to_path_buf();
        move |source| WalError::io(action, &path, source)
    };
    let file = disk.open(to, Mode::Create).map_err(io("make", to))?;
    file.set_len(0).map_err(io("empty", to))?;
    let mut buffer = vec![0; ZEROS_BYTES];
    let mut at = 0;
    while at < from.len {
        let part = &mut buffer[..(from.len - at).min(ZEROS_BYTES as u64) as usize];
        from.file
            .read_exact_at(part, at)
            .map_err(io("read", &from.path))?;
        file.write_all_at(part, at).map_err(io("write", to))?;
        at += part.len() as u64;
    }
    file.sync_all()
        .map_err(|source| WalError::sync("sync", to, source))
}

/// Removes segments that were prepared and never used. Nobody else prepares any: the log is locked.
fn remove_prepared(disk: &dyn Disk, dir: &Path) -> Result<(), WalError> {
    for name in names(disk, dir)? {
        if matches!(name.as_str(), "0.tmp" | "1.tmp") {
            let path = dir.join(name);
            disk.remove(&path)
                .map_err(|source| WalError::io("remove", &path, source))?;
        }
    }
    Ok(())
}
