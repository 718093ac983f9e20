//! Branch and leaf pages, byte by byte (bbolt's format, little-endian).
//!
//! ```text
//! header   id u64 | flags u16 | count u16 | overflow u32                         16 bytes
//! branch   pos u32 | key size u32 | child's page id u64                          16 bytes each
//! leaf     flags u32 | pos u32 | key size u32 | value size u32                   16 bytes each
//! then keys (branch), or keys each followed by its value (leaf)
//! ```
//! `pos` counts from the element itself. `overflow` pages follow as part of the same run. A bucket
//! in a leaf has flag 1 and the value `root page u64 | sequence u64`; root 0 means that a leaf
//! page with id 0 follows inline.
//!
//! Invariant: a [`Leaf`] or [`Branch`] exists only over bytes that [`parse`] found sound at some
//! time. The file is mapped, though, and a failing disk may give other bytes later: then accessors
//! give errors, and never reach outside of the page.
//!
//! Source: bbolt 1.5 internal/common (page, inode, bucket).

use crate::error::Problem;

/// Bytes of a page header.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes of an element of either kind.
pub(crate) const ELEMENT_BYTES: usize = 16;
/// Bytes of a bucket's header.
pub(crate) const BUCKET_BYTES: usize = 16;
/// Elements that a page may have at most; 0xFFFF itself is reserved by the format.
pub(crate) const COUNT_MAX: usize = 0xFFFE;
/// Longest key.
pub(crate) const KEY_BYTES_MAX: usize = 32768;
/// Longest value.
pub(crate) const VALUE_BYTES_MAX: usize = (1 << 31) - 2;

pub(crate) const BRANCH: u16 = 0x01;
pub(crate) const LEAF: u16 = 0x02;
pub(crate) const META: u16 = 0x04;
pub(crate) const FREELIST: u16 = 0x10;

/// The element flag of a bucket.
pub(crate) const BUCKET_FLAG: u32 = 0x01;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A page header as it stands in the file; nothing in it is to be trusted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) id: u64,
    pub(crate) flags: u16,
    pub(crate) count: usize,
    pub(crate) overflow: u32,
}

impl Header {
    /// Reads the first 16 of `bytes`, which has them.
    pub(crate) fn read(bytes: &[u8]) -> Header {
        Header {
            id: u64_at(bytes, 0),
            flags: u16_at(bytes, 8),
            count: usize::from(u16_at(bytes, 10)),
            overflow: u32_at(bytes, 12),
        }
    }

    /// Writes it to the first 16 of `bytes`, which has them.
    pub(crate) fn write(&self, bytes: &mut [u8]) {
        assert!(self.count <= COUNT_MAX, "the count fits its field");
        bytes[0..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.flags.to_le_bytes());
        bytes[10..12].copy_from_slice(&(self.count as u16).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.overflow.to_le_bytes());
    }
}

/// A sound page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Page<'a> {
    Branch(Branch<'a>),
    Leaf(Leaf<'a>),
}

/// A sound branch page, with its overflow pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch<'a> {
    bytes: &'a [u8],
    count: usize,
}

/// A sound leaf page, with its overflow pages, or an inline one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a> {
    bytes: &'a [u8],
    count: usize,
}

/// Looks at every element of the run of pages `bytes` and gives it as what it is.
pub(crate) fn parse(bytes: &[u8]) -> Result<Page<'_>, Problem> {
    let page = assume(bytes)?;
    let end = bytes.len() as u64;
    match page {
        Page::Branch(branch) => {
            if branch.count == 0 {
                return Err(Problem::NoChildren);
            }
            for index in 0..branch.count {
                let at = HEADER_BYTES + index * ELEMENT_BYTES;
                let pos = u64::from(u32_at(bytes, at));
                let key_len = u64::from(u32_at(bytes, at + 4));
                check_element(index, at as u64 + pos, key_len, 0, end)?;
            }
        }
        Page::Leaf(leaf) => {
            for index in 0..leaf.count {
                let at = HEADER_BYTES + index * ELEMENT_BYTES;
                let pos = u64::from(u32_at(bytes, at + 4));
                let key_len = u64::from(u32_at(bytes, at + 8));
                let value_len = u64::from(u32_at(bytes, at + 12));
                check_element(index, at as u64 + pos, key_len, value_len, end)?;
            }
        }
    }
    Ok(page)
}

fn check_element(index: usize, start: u64, key: u64, value: u64, end: u64) -> Result<(), Problem> {
    if key == 0 {
        return Err(Problem::EmptyKey(index));
    }
    if start + key + value > end {
        return Err(Problem::Element(index));
    }
    Ok(())
}

/// As [`parse`], for bytes that were parsed before: only the header is looked at.
pub(crate) fn assume(bytes: &[u8]) -> Result<Page<'_>, Problem> {
    let header = Header::read(bytes);
    let count = header.count;
    if HEADER_BYTES + count * ELEMENT_BYTES > bytes.len() {
        return Err(Problem::Count(count));
    }
    match header.flags {
        BRANCH => Ok(Page::Branch(Branch { bytes, count })),
        LEAF => Ok(Page::Leaf(Leaf { bytes, count })),
        other => Err(Problem::Type(other)),
    }
}

impl<'a> Branch<'a> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn key_range(&self, index: usize) -> (usize, usize) {
        let at = HEADER_BYTES + index * ELEMENT_BYTES;
        (
            at + u32_at(self.bytes, at) as usize,
            u32_at(self.bytes, at + 4) as usize,
        )
    }

    /// The key at a place below [`Branch::count`]. An error means that the bytes changed since
    /// they were found sound.
    pub(crate) fn key(&self, index: usize) -> Result<&'a [u8], Problem> {
        let (start, len) = self.key_range(index);
        self.bytes
            .get(start..start + len)
            .ok_or(Problem::Element(index))
    }

    /// Where the key stands in the page, and its length.
    pub(crate) fn key_at(&self, index: usize) -> (usize, usize) {
        self.key_range(index)
    }

    pub(crate) fn child(&self, index: usize) -> u64 {
        u64_at(self.bytes, HEADER_BYTES + index * ELEMENT_BYTES + 8)
    }

    /// The child below which `key` belongs: the last one that does not begin above it, or the
    /// first of all.
    pub(crate) fn child_for(&self, key: &[u8]) -> Result<usize, Problem> {
        let wanted = head(key);
        let begins_at_or_below = |index: usize| -> Result<bool, Problem> {
            let first = self.key(index)?;
            let beginning = head(first);
            Ok(beginning < wanted || (beginning == wanted && first <= key))
        };
        let (mut low, mut high) = (0, self.count);
        if high >= INTERPOLATED {
            // Keys that count up are spread evenly: guess, then widen until the guess is caught.
            let (first, last) = (head(self.key(0)?), head(self.key(high - 1)?));
            if first < wanted && wanted < last {
                let place = u128::from(wanted - first) * (high as u128 - 1);
                let mut at = (place / u128::from(last - first)) as usize;
                let mut step = 1;
                if begins_at_or_below(at)? {
                    while at < high && begins_at_or_below(at)? {
                        low = at + 1;
                        at += step;
                        step *= 2;
                    }
                    high = high.min(at);
                } else {
                    while !begins_at_or_below(at)? {
                        high = at;
                        if at == 0 {
                            break;
                        }
                        at = at.saturating_sub(step);
                        step *= 2;
                    }
                    low = if high == 0 { 0 } else { at };
                }
            }
        }
        while low < high {
            let middle = (low + high) / 2;
            if begins_at_or_below(middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// Bytes up to the end of the last element's data.
    pub(crate) fn used_bytes(&self) -> usize {
        let ends = (0..self.count).map(|index| {
            let (start, len) = self.key_range(index);
            start + len
        });
        ends.max().unwrap_or(HEADER_BYTES)
    }
}

/// Children of a branch that make a guess worth it.
const INTERPOLATED: usize = 16;

/// The first eight bytes as a number, zeros behind the end: where two keys differ in it, it tells
/// their order.
fn head(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

impl<'a> Leaf<'a> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn flags(&self, index: usize) -> u32 {
        u32_at(self.bytes, HEADER_BYTES + index * ELEMENT_BYTES)
    }

    pub(crate) fn header(&self) -> Header {
        Header::read(self.bytes)
    }

    pub(crate) fn is_bucket(&self, index: usize) -> bool {
        self.flags(index) & BUCKET_FLAG != 0
    }

    /// Where the key stands in the page, its length and that of the value behind it.
    pub(crate) fn entry_at(&self, index: usize) -> (usize, usize, usize) {
        let at = HEADER_BYTES + index * ELEMENT_BYTES;
        let element = &self.bytes[at..at + ELEMENT_BYTES];
        (
            at + u32_at(element, 4) as usize,
            u32_at(element, 8) as usize,
            u32_at(element, 12) as usize,
        )
    }

    /// The key and value at a place below [`Leaf::count`]. An error means that the bytes changed
    /// since they were found sound.
    pub(crate) fn entry(&self, index: usize) -> Result<(&'a [u8], &'a [u8]), Problem> {
        let (start, key_len, value_len) = self.entry_at(index);
        let both = self.bytes.get(start..start + key_len + value_len);
        Ok(both.ok_or(Problem::Element(index))?.split_at(key_len))
    }

    /// As [`Leaf::entry`].
    pub(crate) fn key(&self, index: usize) -> Result<&'a [u8], Problem> {
        Ok(self.entry(index)?.0)
    }

    /// As [`Leaf::entry`].
    pub(crate) fn value(&self, index: usize) -> Result<&'a [u8], Problem> {
        Ok(self.entry(index)?.1)
    }

    /// Index of the first key not below `key`, and whether it is that key.
    pub(crate) fn search(&self, key: &[u8]) -> Result<(usize, bool), Problem> {
        let mut low = 0;
        let mut high = self.count;
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle)?.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok((middle, true)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }

    /// Bytes up to the end of the last element's data.
    pub(crate) fn used_bytes(&self) -> usize {
        let ends = (0..self.count).map(|index| {
            let (start, key_len, value_len) = self.entry_at(index);
            start + key_len + value_len
        });
        ends.max().unwrap_or(HEADER_BYTES)
    }
}

impl Page<'_> {
    /// Whether it is as writers lay pages out; readers take more than that.
    pub(crate) fn is_laid_out(&self) -> Result<(), Problem> {
        let count = match self {
            Page::Branch(branch) => branch.count,
            Page::Leaf(leaf) => leaf.count,
        };
        let mut expected = HEADER_BYTES + count * ELEMENT_BYTES;
        for index in 0..count {
            let (start, len) = match self {
                Page::Branch(branch) => branch.key_at(index),
                Page::Leaf(leaf) => {
                    if leaf.flags(index) & !BUCKET_FLAG != 0 {
                        return Err(Problem::Flags(index));
                    }
                    let (start, key, value) = leaf.entry_at(index);
                    (start, key + value)
                }
            };
            if start != expected {
                return Err(Problem::Apart(index));
            }
            expected = start + len;
        }
        Ok(())
    }

    pub(crate) fn used_bytes(&self) -> usize {
        let elements = match self {
            Page::Branch(branch) => branch
                .used_bytes()
                .max(HEADER_BYTES + branch.count * ELEMENT_BYTES),
            Page::Leaf(leaf) => leaf
                .used_bytes()
                .max(HEADER_BYTES + leaf.count * ELEMENT_BYTES),
        };
        elements.max(HEADER_BYTES)
    }
}

/// What a bucket's value says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BucketRoot<'a> {
    /// The page at the root of its tree.
    Page(u64),
    /// Its only leaf.
    Inline(Leaf<'a>),
}

/// Reads the value of the bucket at element `index`: its root and its sequence.
pub(crate) fn parse_bucket(value: &[u8], index: usize) -> Result<(BucketRoot<'_>, u64), Problem> {
    if value.len() < BUCKET_BYTES {
        return Err(Problem::Bucket(index));
    }
    let root = u64_at(value, 0);
    let sequence = u64_at(value, 8);
    if root != 0 {
        return Ok((BucketRoot::Page(root), sequence));
    }
    let inline = &value[BUCKET_BYTES..];
    if inline.len() < HEADER_BYTES {
        return Err(Problem::Bucket(index));
    }
    match parse(inline) {
        Ok(Page::Leaf(leaf)) => Ok((BucketRoot::Inline(leaf), sequence)),
        Ok(Page::Branch(_)) | Err(_) => Err(Problem::Bucket(index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leaf of two entries: "a" = "xy", "bc" = "".
    fn leaf() -> Vec<u8> {
        let mut bytes = vec![0; 128];
        Header {
            id: 7,
            flags: LEAF,
            count: 2,
            overflow: 0,
        }
        .write(&mut bytes);
        bytes[20..24].copy_from_slice(&32u32.to_le_bytes());
        bytes[24..28].copy_from_slice(&1u32.to_le_bytes());
        bytes[28..32].copy_from_slice(&2u32.to_le_bytes());
        bytes[36..40].copy_from_slice(&19u32.to_le_bytes());
        bytes[40..44].copy_from_slice(&2u32.to_le_bytes());
        bytes[48..53].copy_from_slice(b"axybc");
        bytes
    }

    #[test]
    fn a_layout_that_no_writer_makes_is_seen() {
        let problem = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = leaf();
            change(&mut bytes);
            // Readers take it.
            parse(&bytes).expect("a sound page").is_laid_out().err()
        };
        assert_eq!(problem(&|_| {}), None);
        assert_eq!(problem(&|bytes| bytes[16] = 1), None);
        assert_eq!(problem(&|bytes| bytes[19] = 1), Some(Problem::Flags(0)));
        assert_eq!(problem(&|bytes| bytes[32] = 3), Some(Problem::Flags(1)));
        assert_eq!(problem(&|bytes| bytes[20] += 1), Some(Problem::Apart(0)));
        assert_eq!(problem(&|bytes| bytes[36] += 1), Some(Problem::Apart(1)));
        assert_eq!(problem(&|bytes| bytes[28] -= 1), Some(Problem::Apart(1)));
    }

    #[test]
    fn a_leaf_is_read() {
        let bytes = leaf();
        let Page::Leaf(leaf) = parse(&bytes).unwrap() else {
            panic!("a leaf")
        };
        assert_eq!(leaf.entry(0), Ok((&b"a"[..], &b"xy"[..])));
        assert_eq!(leaf.entry(1), Ok((&b"bc"[..], &b""[..])));
        assert_eq!(leaf.search(b"b"), Ok((1, false)));
        assert_eq!(leaf.search(b"bc"), Ok((1, true)));
        assert_eq!(leaf.search(b"c"), Ok((2, false)));
        assert_eq!(leaf.used_bytes(), 53);
    }

    #[test]
    fn no_change_of_the_header_and_elements_makes_parse_or_its_page_panic() {
        let sound = leaf();
        for at in 8..48 {
            for value in 0..=255 {
                let mut bytes = sound.clone();
                bytes[at] = value;
                match parse(&bytes) {
                    Ok(Page::Leaf(leaf)) => {
                        for index in 0..leaf.count() {
                            assert!(!leaf.entry(index).unwrap().0.is_empty());
                        }
                    }
                    Ok(Page::Branch(branch)) => {
                        for index in 0..branch.count() {
                            assert!(!branch.key(index).unwrap().is_empty());
                        }
                    }
                    Err(_) => {}
                }
            }
        }
    }

    #[test]
    fn elements_outside_of_the_page_are_refused() {
        let mut bytes = leaf();
        bytes[44..48].copy_from_slice(&1000u32.to_le_bytes());
        assert_eq!(parse(&bytes).unwrap_err(), Problem::Element(1));
        let mut bytes = leaf();
        bytes[24] = 0;
        assert_eq!(parse(&bytes).unwrap_err(), Problem::EmptyKey(0));
        let mut bytes = leaf();
        bytes[11] = 9;
        assert!(matches!(parse(&bytes).unwrap_err(), Problem::Count(_)));
        assert!(parse_bucket(&[0; 15], 3).is_err());
        assert!(parse_bucket(&[0; 40], 3).is_err());
    }
}
