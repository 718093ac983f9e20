//! Reads the records of a log, segment after segment, and judges what is wrong with them.
//!
//! Invariants:
//! - Records are given in file order, each checked against the rolling checksum.
//! - [`Next::Torn`] appears only in the last segment, and only for what an interrupted write can
//!   leave behind. Everything else that does not fit is [`WalError::Damaged`]. Two cases that etcd
//!   takes for the log's end, and so loses what follows, are refused here: a length that is zero or
//!   too large although the record behind it is whole.
//! - Memory: one chunk at a time; records share its memory.
//!
//! Source: etcd's `wal` decoder for what counts as torn.

use crate::error::Damage;
use crate::frame::{LENGTH_BYTES, is_torn, length_shares_sector, parse_length_field};
use crate::segment::{SegmentName, list_segments, segments_from, without_gap};
use crate::walpb::{Record, RecordType, decode_record, record_prefix};
use crate::{WalError, frame};
use bytes::{Bytes, BytesMut};
use quorate_disk::{Disk, File, Mode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at once; more only for a larger record.
const CHUNK_BYTES: u64 = 1 << 20;

/// A record and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its segment.
    pub segment: SegmentName,
    /// Offset in bytes of its frame in the segment.
    pub offset: u64,
    /// Itself.
    pub record: Record,
}

/// A write that was never finished, at the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The last segment.
    pub segment: SegmentName,
    /// Where the unfinished frame begins; what is before it is whole.
    pub offset: u64,
}

/// What comes next in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A record.
    Record(Located),
    /// Nothing: the log ends cleanly.
    End,
    /// Nothing: the log ends in an unfinished write.
    Torn(Torn),
}

pub(crate) struct OpenSegment {
    pub name: SegmentName,
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    /// Length of the file when it was opened.
    pub len: u64,
}

impl OpenSegment {
    pub fn open(
        disk: &dyn Disk,
        dir: &Path,
        name: SegmentName,
        mode: Mode,
    ) -> Result<OpenSegment, WalError> {
        let path = dir.join(name.to_string());
        let file = disk
            .open(&path, mode)
            .map_err(|source| WalError::io("open", &path, source))?;
        let len = file
            .len()
            .map_err(|source| WalError::io("measure", &path, source))?;
        Ok(OpenSegment {
            name,
            path,
            file,
            len,
        })
    }
}

/// Reads a log without locking it; see the module's description.
pub struct Reader {
    segments: Vec<OpenSegment>,
    /// Which segment is being read.
    current: usize,
    /// Offset in it of the next frame.
    offset: u64,
    /// Rolling checksum of what was read.
    crc: u32,
    chunk: Bytes,
    chunk_offset: u64,
    /// Whether the padding behind the record before was zero.
    padding_is_zero: bool,
}

impl Reader {
    /// Opens the segments that hold what follows `index`.
    pub fn open(disk: &dyn Disk, dir: &Path, index: u64) -> Result<Reader, WalError> {
        Reader::open_these(disk, dir, segments_from(disk, dir, index)?)
    }

    /// Opens all segments that are there.
    pub fn open_all(disk: &dyn Disk, dir: &Path) -> Result<Reader, WalError> {
        let names = list_segments(disk, dir)?;
        without_gap(dir, &names)?;
        Reader::open_these(disk, dir, names)
    }

    fn open_these(
        disk: &dyn Disk,
        dir: &Path,
        names: Vec<SegmentName>,
    ) -> Result<Reader, WalError> {
        let open = |name| OpenSegment::open(disk, dir, name, Mode::Read);
        Ok(Reader::of(
            names.into_iter().map(open).collect::<Result<_, _>>()?,
        ))
    }

    pub(crate) fn of(segments: Vec<OpenSegment>) -> Reader {
        assert!(!segments.is_empty());
        Reader {
            segments,
            current: 0,
            offset: 0,
            crc: 0,
            chunk: Bytes::new(),
            chunk_offset: 0,
            padding_is_zero: true,
        }
    }

    /// The rolling checksum of all that was read.
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// Offset in the segment being read behind the last whole record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the bytes between the last record and its frame's end were zero, as every writer
    /// leaves them. No checksum covers them, and nothing depends on them.
    pub fn padding_is_zero(&self) -> bool {
        self.padding_is_zero
    }

    /// First byte of the segment being read, behind `offset`, that is not zero. Behind the end of a
    /// log that was closed there is none.
    pub fn nonzero_behind(&mut self, offset: u64) -> Result<Option<u64>, WalError> {
        self.first_nonzero_behind(offset)
    }

    /// Path of the segment being read.
    pub fn path(&self) -> &Path {
        &self.segments[self.current].path
    }

    pub(crate) fn into_segments(self) -> Vec<OpenSegment> {
        self.segments
    }

    /// An error at a record that this reader gave.
    pub(crate) fn damaged(&self, located: &Located, damage: impl Into<Damage>) -> WalError {
        // Only the segment being read gives records.
        WalError::damaged(self.path(), located.offset, damage)
    }

    /// The next record. After anything but a record, the same again.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Next, WalError> {
        loop {
            let remaining = self.segments[self.current].len - self.offset;
            if remaining > 0 {
                if remaining < LENGTH_BYTES {
                    return self.unfinished();
                }
                let head = self.bytes(self.offset, LENGTH_BYTES)?;
                let field =
                    u64::from_le_bytes(head[..].try_into().expect("eight bytes were asked for"));
                if field != 0 {
                    return self.frame(field, remaining - LENGTH_BYTES);
                }
                // A sector boundary between the two lets the record arrive without its length.
                if length_shares_sector(self.offset) {
                    self.refuse_if_contradicted(field, 0, remaining - LENGTH_BYTES)?;
                }
            }
            if self.current + 1 == self.segments.len() {
                return Ok(Next::End);
            }
            self.current += 1;
            self.offset = 0;
            self.chunk = Bytes::new();
            self.chunk_offset = 0;
        }
    }

    fn frame(&mut self, field: u64, remaining: u64) -> Result<Next, WalError> {
        let Some((len, padding)) = parse_length_field(field) else {
            return Err(self.error(Damage::Length { field, remaining }));
        };
        if len + padding > remaining {
            self.refuse_if_contradicted(field, len, remaining)?;
            return self.unfinished();
        }
        let content = self.bytes(self.offset + LENGTH_BYTES, len + padding)?;
        let damage = match decode_record(&content.slice(..len as usize)) {
            Err(error) => Damage::Decode(error),
            Ok(record) => match self.checked_crc(&record) {
                Ok(crc) => {
                    let segment = self.segments[self.current].name;
                    let located = Located {
                        segment,
                        offset: self.offset,
                        record,
                    };
                    self.padding_is_zero = content[len as usize..].iter().all(|byte| *byte == 0);
                    self.offset += LENGTH_BYTES + len + padding;
                    self.crc = crc;
                    return Ok(Next::Record(located));
                }
                // A segment's head is made durable before it gets its name.
                Err(damage @ Damage::Chain { .. }) => return Err(self.error(damage)),
                Err(damage) => damage,
            },
        };
        if self.is_last() && is_torn(&content, self.offset + LENGTH_BYTES) {
            self.refuse_if_contradicted(field, len, remaining)?;
            return self.unfinished();
        }
        Err(self.error(damage))
    }

    /// The rolling checksum with this record, if the record confirms it.
    fn checked_crc(&self, record: &Record) -> Result<u32, Damage> {
        let recorded = record.crc;
        if RecordType::from_number(record.number) == Some(RecordType::Crc) {
            // A reader that starts here has nothing to compare with yet.
            if self.crc != 0 && recorded != self.crc {
                return Err(Damage::Chain {
                    recorded,
                    computed: self.crc,
                });
            }
            return Ok(recorded);
        }
        let computed = crc32c::crc32c_append(self.crc, &record.data);
        if recorded == computed {
            Ok(computed)
        } else {
            Err(Damage::Crc { recorded, computed })
        }
    }

    /// An error if, behind the length at the current offset, a whole record stands that continues
    /// the checksum and is not as long as that says. Then the length is what is wrong, not the
    /// write unfinished.
    fn refuse_if_contradicted(
        &mut self,
        field: u64,
        len: u64,
        remaining: u64,
    ) -> Result<(), WalError> {
        let at = self.offset + LENGTH_BYTES;
        // Behind the last record of a reserved segment there is nothing but zeros: read no further.
        if self.bytes(at, remaining.min(1))?[..] != [1 << 3] {
            return Ok(());
        }
        let content = self.bytes(at, remaining)?;
        let Some(prefix) = record_prefix(&content) else {
            return Ok(());
        };
        let record = Record {
            number: prefix.number,
            crc: prefix.crc,
            data: Bytes::copy_from_slice(prefix.data),
        };
        let intact =
            RecordType::from_number(record.number).is_some() && self.checked_crc(&record).is_ok();
        if intact && prefix.len as u64 != len {
            return Err(self.error(Damage::LengthOfIntactRecord { field }));
        }
        Ok(())
    }

    fn unfinished(&self) -> Result<Next, WalError> {
        if !self.is_last() {
            return Err(self.error(Damage::EndsInsideRecord));
        }
        Ok(Next::Torn(Torn {
            segment: self.segments[self.current].name,
            offset: self.offset,
        }))
    }

    fn is_last(&self) -> bool {
        self.current + 1 == self.segments.len()
    }

    fn error(&self, damage: Damage) -> WalError {
        WalError::damaged(self.path(), self.offset, damage)
    }

    /// `len` bytes of the segment being read; the caller checked that the file has them.
    fn bytes(&mut self, offset: u64, len: u64) -> Result<Bytes, WalError> {
        let segment = &self.segments[self.current];
        assert!(offset + len <= segment.len);
        let inside = offset >= self.chunk_offset
            && offset + len <= self.chunk_offset + self.chunk.len() as u64;
        if !inside {
            let want = len.max(CHUNK_BYTES).min(segment.len - offset);
            let mut chunk = BytesMut::zeroed(want as usize);
            segment
                .file
                .read_exact_at(&mut chunk, offset)
                .map_err(|source| WalError::io("read", &segment.path, source))?;
            self.chunk = chunk.freeze();
            self.chunk_offset = offset;
        }
        let start = (offset - self.chunk_offset) as usize;
        Ok(self.chunk.slice(start..start + len as usize))
    }

    /// First byte behind `offset` of the last segment that is not zero.
    pub(crate) fn first_nonzero_behind(&mut self, offset: u64) -> Result<Option<u64>, WalError> {
        assert!(self.is_last());
        let mut at = offset;
        let end = self.segments[self.current].len;
        while at < end {
            let part = self.bytes(at, (end - at).min(CHUNK_BYTES))?;
            if let Some(found) = first_nonzero(&part) {
                return Ok(Some(at + found as u64));
            }
            at += part.len() as u64;
        }
        Ok(None)
    }
}

/// Where `bytes` stop being zero.
fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    let zeros = [0u8; 4096];
    let mut at = 0;
    for part in bytes.chunks(zeros.len()) {
        // Comparing slices is one call that the processor does 32 bytes at a time.
        if part != &zeros[..part.len()] {
            return part
                .iter()
                .position(|&byte| byte != 0)
                .map(|found| at + found);
        }
        at += part.len();
    }
    None
}

/// Bytes that a frame with a record of `len` bytes takes.
pub(crate) const fn frame_len(len: usize) -> usize {
    LENGTH_BYTES as usize + len + frame::padding(len)
}
