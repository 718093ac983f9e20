//! Appending to a log.
//!
//! Invariants:
//! - `offset`, `crc`, `state` and `last_index` describe exactly the records that were written
//!   whole; behind `offset` the tail holds zeros.
//! - A batch is one write call. If it fails for want of space, what it wrote is zeroed again before
//!   the error is returned, and the log is as it was.
//! - After a failed sync, or a partial write that could not be taken back, every call fails.
//! - The tail is the last of `segments`; the log holds the record locks of all of them.
//!
//! Source: etcd's `wal` encoder; raft's MustSync.

use crate::WalError;
use crate::cut::PreparedSegment;
use crate::frame::{length_field, padding};
use crate::proto::len_len;
use crate::raftpb::{entry_len, hard_state_len, put_entry_head, put_hard_state};
use crate::reader::{OpenSegment, frame_len};
use crate::walpb::{self, RecordType, put_record_head, record_len};
use bytes::Bytes;
use quorate_disk::Disk;
use quorate_failpoints::fail_point;
use quorate_raft::types::{Entry, HardState};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A buffer that grew beyond this for one batch is given back.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

/// Zeros written at a time when a partial write is taken back.
pub(crate) const ZEROS_BYTES: usize = 64 << 10;

/// Unit in which file systems give out space, or a multiple of it.
const BLOCK_BYTES: u64 = 4096;

/// How a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size in bytes at which a segment is full, and which is reserved for it ahead.
    pub segment_bytes: u64,
    /// Whether syncs are left out (etcd's `--unsafe-no-fsync`): a crash then loses what it likes.
    pub unsafe_no_sync: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64_000_000,
            unsafe_no_sync: false,
        }
    }
}

/// Whether these must be durable before a message that depends on them leaves: entries, a new term
/// and a new vote must, a higher commit index alone need not.
pub fn must_sync(previous: &HardState, state: &HardState, entries: usize) -> bool {
    entries > 0 || state.vote != previous.vote || state.term != previous.term
}

/// A log open for appending; see the module's and the crate's description.
pub struct Wal {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) metadata: Bytes,
    /// The last hard state written.
    pub(crate) state: HardState,
    /// Index of the last entry written, or of a snapshot record ahead of it.
    pub(crate) last_index: u64,
    /// Highest index among the snapshot records that were written, or read and found committed.
    pub(crate) newest_snapshot: u64,
    pub(crate) segments: VecDeque<OpenSegment>,
    /// Offset in the tail behind the last whole record.
    pub(crate) offset: u64,
    /// Rolling checksum up to `offset`.
    pub(crate) crc: u32,
    /// The segment made ready to follow the tail.
    pub(crate) prepared: Option<PreparedSegment>,
    /// Count of segments prepared, which names the next one's temporary file.
    pub(crate) prepared_count: u64,
    pub(crate) failed: bool,
    buffer: Vec<u8>,
}

/// Records being put together for one write.
pub(crate) struct Batch<'a> {
    out: &'a mut Vec<u8>,
    pub crc: u32,
}

impl Batch<'_> {
    fn frame(&mut self, kind: RecordType, data_len: usize, put_data: impl FnOnce(&mut Vec<u8>)) {
        let record_len = record_len(self.crc, data_len);
        self.out
            .extend_from_slice(&length_field(record_len).to_le_bytes());
        let start = self.out.len();
        put_record_head(self.out, kind, self.crc, data_len);
        put_data(self.out);
        assert_eq!(
            self.out.len() - start,
            record_len,
            "a record is as long as its frame says"
        );
        self.out.resize(self.out.len() + padding(record_len), 0);
    }

    /// A record with this data.
    pub fn record(&mut self, kind: RecordType, data: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, data);
        self.frame(kind, data.len(), |out| out.extend_from_slice(data));
    }

    /// The record that links a segment to the one before.
    pub fn link(&mut self) {
        self.frame(RecordType::Crc, 0, |_| {});
    }

    fn entry(&mut self, entry: &Entry, head: &mut Vec<u8>) {
        head.clear();
        put_entry_head(head, entry);
        self.crc = crc32c::crc32c_append(self.crc, head);
        self.crc = crc32c::crc32c_append(self.crc, &entry.data);
        self.frame(RecordType::Entry, head.len() + entry.data.len(), |out| {
            out.extend_from_slice(head);
            out.extend_from_slice(&entry.data);
        });
    }

    /// A hard state; nothing for an empty one, which etcd never writes.
    pub fn state(&mut self, state: &HardState) {
        if !state.is_empty() {
            let mut data = Vec::with_capacity(hard_state_len(state));
            put_hard_state(&mut data, state);
            self.record(RecordType::State, &data);
        }
    }
}

/// Upper bound of the bytes that an entry's frame takes.
fn entry_frame_bound(entry: &Entry) -> usize {
    frame_len(record_len(u32::MAX, len_len(entry_len(entry))))
}

impl Wal {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn of(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: Options,
        metadata: Bytes,
        segments: VecDeque<OpenSegment>,
        offset: u64,
        crc: u32,
    ) -> Wal {
        assert!(!segments.is_empty());
        Wal {
            disk,
            dir,
            options,
            metadata,
            state: HardState::default(),
            last_index: 0,
            newest_snapshot: 0,
            segments,
            offset,
            crc,
            prepared: None,
            prepared_count: 0,
            failed: false,
            buffer: Vec::new(),
        }
    }

    /// The directory it lives in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The metadata that heads each segment.
    pub fn metadata(&self) -> &Bytes {
        &self.metadata
    }

    /// The last hard state written; not necessarily durable.
    pub fn hard_state(&self) -> &HardState {
        &self.state
    }

    /// Index of the last entry written, or of a snapshot record ahead of it.
    pub fn last_index(&self) -> u64 {
        self.last_index
    }

    /// Offset in bytes, within the newest segment, behind the last record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Writes entries, then the hard state, and tells whether [`Wal::sync`] must follow before any
    /// message that depends on them leaves.
    ///
    /// Entries follow each other and what is there, or overwrite its end. On
    /// [`WalError::StorageFull`] nothing was written, and the log can be used on.
    pub fn append(
        &mut self,
        state: Option<&HardState>,
        entries: &[Entry],
    ) -> Result<bool, WalError> {
        if let Some(first) = entries.first() {
            assert!(
                0 < first.index && first.index <= self.last_index + 1,
                "entries leave no gap in the log"
            );
        }
        assert!(
            entries
                .windows(2)
                .all(|pair| pair[0].index + 1 == pair[1].index),
            "the entries of a batch follow each other"
        );
        let state = state.filter(|state| !state.is_empty());
        if state.is_none() && entries.is_empty() {
            return Ok(false);
        }
        let bound: usize = entries.iter().map(entry_frame_bound).sum();
        let mut head = Vec::with_capacity(48);
        self.write(bound + 128, |batch| {
            for entry in entries {
                batch.entry(entry, &mut head);
            }
            if let Some(state) = state {
                batch.state(state);
            }
        })?;
        let must_sync = must_sync(&self.state, state.unwrap_or(&self.state), entries.len());
        if let Some(last) = entries.last() {
            self.last_index = last.index;
        }
        if let Some(state) = state {
            self.state = *state;
        }
        Ok(must_sync)
    }

    /// Writes and syncs a snapshot record, which tells where the log may be read from. To be called
    /// once the snapshot itself is durable.
    ///
    /// A record below a committed one that is there is not written, and `false` returned: etcd takes
    /// the last one for the newest, and would miss what has been released since.
    pub fn save_snapshot_record(&mut self, snapshot: &walpb::Snapshot) -> Result<bool, WalError> {
        if snapshot.index > 0 && snapshot.conf_state.is_none() {
            return Err(WalError::SnapshotWithoutConfState {
                index: snapshot.index,
            });
        }
        if snapshot.index < self.newest_snapshot {
            return Ok(false);
        }
        let data = walpb::encode_snapshot(snapshot);
        self.write(data.len() + 64, |batch| {
            batch.record(RecordType::Snapshot, &data)
        })?;
        self.newest_snapshot = snapshot.index;
        self.last_index = self.last_index.max(snapshot.index);
        self.sync()?;
        Ok(true)
    }

    /// Makes all that was written durable, then begins a new segment if this one is full.
    ///
    /// If there is no space for a new segment the old one grows on, and the next sync tries again.
    /// An error is fatal to the log; see [`WalError::SyncFailed`].
    pub fn sync(&mut self) -> Result<(), WalError> {
        self.check_usable()?;
        fail_point!("walBeforeSync");
        self.sync_tail()?;
        fail_point!("walAfterSync");
        if self.offset < self.options.segment_bytes {
            return Ok(());
        }
        match self.cut() {
            Ok(()) | Err(WalError::StorageFull { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the newest segment is full, so that the next [`Wal::sync`] begins another.
    pub fn is_full(&self) -> bool {
        self.offset >= self.options.segment_bytes
    }

    /// Makes all durable and gives the locks back. Dropping a log gives the locks back too.
    pub fn close(mut self) -> Result<(), WalError> {
        self.check_usable()?;
        self.sync_tail()?;
        self.discard_prepared()
    }

    pub(crate) fn sync_tail(&mut self) -> Result<(), WalError> {
        if self.options.unsafe_no_sync {
            return Ok(());
        }
        let tail = self.tail();
        let outcome = tail
            .file
            .sync_data()
            .map_err(|source| WalError::sync("sync", &tail.path, source));
        self.fatal(outcome)
    }

    /// Notes a failure after which nothing is known.
    pub(crate) fn fatal<T>(&mut self, outcome: Result<T, WalError>) -> Result<T, WalError> {
        self.failed |= outcome.is_err();
        outcome
    }

    pub(crate) fn check_usable(&self) -> Result<(), WalError> {
        if self.failed {
            Err(WalError::Failed {
                dir: self.dir.clone(),
            })
        } else {
            Ok(())
        }
    }

    pub(crate) fn tail(&self) -> &OpenSegment {
        self.segments.back().expect("a log has a tail")
    }

    /// Puts records together and writes them at the end, all or none.
    fn write(&mut self, capacity: usize, put: impl FnOnce(&mut Batch<'_>)) -> Result<(), WalError> {
        self.check_usable()?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.reserve(capacity);
        let mut batch = Batch {
            out: &mut buffer,
            crc: self.crc,
        };
        put(&mut batch);
        let crc = batch.crc;
        let outcome = self.write_bytes(&buffer);
        if outcome.is_ok() {
            self.crc = crc;
            self.offset += buffer.len() as u64;
        }
        if buffer.capacity() <= BUFFER_KEPT_BYTES {
            self.buffer = buffer;
        }
        outcome
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), WalError> {
        assert!(
            self.offset.is_multiple_of(8),
            "frames begin at multiples of eight"
        );
        let offset = self.offset;
        let tail = self.segments.back_mut().expect("a log has a tail");
        match tail.file.write_all_at(bytes, offset) {
            Ok(()) => {
                tail.len = tail.len.max(offset + bytes.len() as u64);
                Ok(())
            }
            Err(source) => {
                let error = WalError::io("write", &tail.path, source);
                if !matches!(error, WalError::StorageFull { .. }) {
                    return self.fatal(Err(error));
                }
                let taken_back = take_back(tail, offset, bytes.len() as u64).map_err(|source| {
                    WalError::sync("take back a partial write to", &tail.path, source)
                });
                self.fatal(taken_back)?;
                Err(error)
            }
        }
    }
}

/// Makes the tail what it was before a write of `len` bytes at `offset` failed in the middle: the
/// length of before, zeros up to there.
fn take_back(tail: &OpenSegment, offset: u64, len: u64) -> std::io::Result<()> {
    if tail.file.len()? > tail.len {
        tail.file.set_len(tail.len)?;
    }
    let end = (offset + len).min(tail.len);
    let mut at = offset;
    while at < end {
        let next = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        let next = next.min(end);
        match write_zeros(tail, at, next) {
            // Where space was reserved, zeros need none. A tail that came without its reservation (a
            // copy of a log, say) has holes instead, which the failed write did not reach.
            Err(error) if error.kind() == ErrorKind::StorageFull && is_zero(tail, at, next)? => {}
            other => other?,
        }
        at = next;
    }
    Ok(())
}

fn is_zero(segment: &OpenSegment, start: u64, end: u64) -> std::io::Result<bool> {
    let mut bytes = vec![0; (end - start) as usize];
    segment.file.read_exact_at(&mut bytes, start)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// Overwrites `start..end` of a segment with zeros.
pub(crate) fn write_zeros(segment: &OpenSegment, start: u64, end: u64) -> std::io::Result<()> {
    let zeros = vec![0; end.saturating_sub(start).min(ZEROS_BYTES as u64) as usize];
    let mut at = start;
    while at < end {
        let part = (end - at).min(ZEROS_BYTES as u64);
        segment.file.write_all_at(&zeros[..part as usize], at)?;
        at += part;
    }
    Ok(())
}

/// The records that head a segment: the link to the one before, the metadata, the hard state.
pub(crate) fn segment_head(crc: u32, metadata: &[u8], state: &HardState) -> (Vec<u8>, u32) {
    let mut out = Vec::with_capacity(metadata.len() + 256);
    let mut batch = Batch { out: &mut out, crc };
    batch.link();
    batch.record(RecordType::Metadata, metadata);
    batch.state(state);
    let crc = batch.crc;
    (out, crc)
}

/// The records that a new log begins with: a head, and the snapshot record of index 0.
pub(crate) fn first_records(metadata: &[u8]) -> (Vec<u8>, u32) {
    let (mut out, crc) = segment_head(0, metadata, &HardState::default());
    let mut batch = Batch { out: &mut out, crc };
    batch.record(
        RecordType::Snapshot,
        &walpb::encode_snapshot(&walpb::Snapshot::default()),
    );
    let crc = batch.crc;
    (out, crc)
}
