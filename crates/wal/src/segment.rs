//! The names of a log's segments, and which of them a reader needs.
//!
//! A name is `SEQ-INDEX.wal`: sequence numbers count up by one; INDEX is one more than the last
//! entry's when the segment was begun, so it is where the segment's entries start, unless they
//! overwrite older ones.

use crate::WalError;
use quorate_disk::Disk;
use std::fmt;
use std::path::Path;

/// Name of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Its place among the segments.
    pub seq: u64,
    /// Index of the entry that it was begun for.
    pub index: u64,
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}.wal", self.seq, self.index)
    }
}

impl SegmentName {
    /// Reads a name; `None` if a segment is not called so.
    pub fn parse(name: &str) -> Option<SegmentName> {
        let (seq, index) = name.strip_suffix(".wal")?.split_once('-')?;
        Some(SegmentName {
            seq: parse_hex(seq)?,
            index: parse_hex(index)?,
        })
    }
}

/// Reads a number written as exactly 16 hexadecimal digits.
pub(crate) fn parse_hex(digits: &str) -> Option<u64> {
    let hexadecimal = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if hexadecimal {
        u64::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// Whether the directory holds a log. A directory that is not there does not.
pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool, WalError> {
    let there = disk
        .exists(dir)
        .map_err(|source| WalError::io("look for", dir, source))?;
    Ok(there && names(disk, dir)?.iter().any(|name| name.ends_with(".wal")))
}

/// The segments of a log, oldest first. Other files are left out.
pub fn list_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<SegmentName>, WalError> {
    let mut segments: Vec<_> = names(disk, dir)?
        .iter()
        .filter_map(|name| SegmentName::parse(name))
        .collect();
    segments.sort();
    if segments.is_empty() {
        return Err(WalError::NoSegments {
            dir: dir.to_path_buf(),
        });
    }
    Ok(segments)
}

pub(crate) fn names(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>, WalError> {
    disk.list(dir)
        .map_err(|source| WalError::io("list", dir, source))
}

/// The segments that a reader needs who starts behind `index`: the last one that begins at or below
/// it, and all that follow, without a gap.
pub(crate) fn segments_from(
    disk: &dyn Disk,
    dir: &Path,
    index: u64,
) -> Result<Vec<SegmentName>, WalError> {
    let mut segments = list_segments(disk, dir)?;
    let Some(first) = segments.iter().rposition(|segment| segment.index <= index) else {
        return Err(WalError::NoSegmentFor {
            dir: dir.to_path_buf(),
            index,
        });
    };
    segments.drain(..first);
    without_gap(dir, &segments)?;
    Ok(segments)
}

pub(crate) fn without_gap(dir: &Path, segments: &[SegmentName]) -> Result<(), WalError> {
    for pair in segments.windows(2) {
        let (before, after) = (pair[0].seq, pair[1].seq);
        if before.checked_add(1) != Some(after) {
            return Err(WalError::SequenceGap {
                dir: dir.to_path_buf(),
                before,
                after,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_etcd_writes_them() {
        let name = SegmentName {
            seq: 0x1f,
            index: 0xabcdef,
        };
        assert_eq!(name.to_string(), "000000000000001f-0000000000abcdef.wal");
        assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
        for other in [
            "0.tmp",
            "1-2.wal",
            "000000000000001f-0000000000abcdef.wal.broken",
            "000000000000001f_0000000000abcdef.wal",
            "+00000000000001f-0000000000abcdef.wal",
        ] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }
}
