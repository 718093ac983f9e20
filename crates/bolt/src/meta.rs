//! The two meta pages: which state of the tree is the newest, and how large the file is in use.
//!
//! ```text
//! page header (flags 4), then
//! magic u32 | version u32 | page size u32 | flags u32 | root page u64 | root sequence u64 |
//! freelist page u64 | high-water mark u64 | txid u64 | FNV-1a 64 of the 56 bytes before u64
//! ```
//! Where all pages of the tree have checksums, the meta page has one, too, at the same place as the
//! others. bbolt writes none, so once it has written, the newest meta page says that no more.
//! Transaction t writes page t % 2. The valid page with the higher txid counts; a torn one fails
//! its checksum, and the other one still describes a whole tree. A meta lies within one sector, and
//! the page's own checksum within another, so a power cut may leave the one of a transaction and the
//! other of the one that wrote the page before: the meta counts then as it stands.
//!
//! Source: bbolt 1.5 internal/common/meta.go and db.go (where the page size is looked for).

use crate::checksum;
use crate::error::{Error, Problem};
use crate::page::{HEADER_BYTES, Header, META, u32_at, u64_at};
use quorate_disk::File;
use std::path::Path;

/// Where a meta page says that no freelist is stored.
pub(crate) const NO_FREELIST: u64 = u64::MAX;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

/// Bytes of a page header and the meta behind it.
const META_BYTES: usize = HEADER_BYTES + 64;

/// Smallest and largest page size; bbolt looks for a second meta page within these.
const PAGE_BYTES_MIN: u32 = 1024;
const PAGE_BYTES_MAX: u32 = 1 << 24;

/// A state of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_size: u32,
    pub(crate) root: u64,
    pub(crate) root_sequence: u64,
    pub(crate) freelist: u64,
    /// First page id not in use.
    pub(crate) high_water: u64,
    pub(crate) txid: u64,
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

pub(crate) fn is_page_size(size: u32) -> bool {
    size.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&size)
}

impl Meta {
    /// The meta page of this state, `page_size` bytes.
    pub(crate) fn page(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.page_size as usize];
        Header {
            id: self.txid % 2,
            flags: META,
            count: 0,
            overflow: 0,
        }
        .write(&mut bytes);
        self.write_body(&mut bytes);
        bytes
    }

    fn write_body(&self, page: &mut [u8]) {
        let body = &mut page[HEADER_BYTES..META_BYTES];
        body[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        body[4..8].copy_from_slice(&VERSION.to_le_bytes());
        body[8..12].copy_from_slice(&self.page_size.to_le_bytes());
        body[12..16].fill(0);
        body[16..24].copy_from_slice(&self.root.to_le_bytes());
        body[24..32].copy_from_slice(&self.root_sequence.to_le_bytes());
        body[32..40].copy_from_slice(&self.freelist.to_le_bytes());
        body[40..48].copy_from_slice(&self.high_water.to_le_bytes());
        body[48..56].copy_from_slice(&self.txid.to_le_bytes());
        let sum = fnv1a(&body[..56]);
        body[56..64].copy_from_slice(&sum.to_le_bytes());
    }

    /// The meta page `id` of this state; `sealed` where all pages of its tree have checksums.
    pub(crate) fn page_with(&self, id: u64, sealed: bool) -> Vec<u8> {
        let mut bytes = self.page();
        bytes[0..8].copy_from_slice(&id.to_le_bytes());
        if sealed {
            checksum::seal(&mut bytes, self.txid);
        }
        bytes
    }

    /// Whether this page of it says that all pages of its tree have checksums.
    pub(crate) fn is_sealed(&self, page: &[u8]) -> bool {
        let sealed = checksum::verify(page, META_BYTES, self.txid);
        sealed == Ok(Some(self.txid))
    }

    /// Reads a meta page from its first bytes.
    pub(crate) fn read(bytes: &[u8]) -> Result<Meta, Problem> {
        let Some(body) = bytes.get(HEADER_BYTES..META_BYTES) else {
            return Err(Problem::FileTooShort(bytes.len() as u64));
        };
        if u32_at(body, 0) != MAGIC {
            return Err(Problem::Magic);
        }
        if u32_at(body, 4) != VERSION {
            return Err(Problem::Version(u32_at(body, 4)));
        }
        if u64_at(body, 56) != fnv1a(&body[..56]) {
            return Err(Problem::MetaChecksum);
        }
        let meta = Meta {
            page_size: u32_at(body, 8),
            root: u64_at(body, 16),
            root_sequence: u64_at(body, 24),
            freelist: u64_at(body, 32),
            high_water: u64_at(body, 40),
            txid: u64_at(body, 48),
        };
        meta.check()?;
        Ok(meta)
    }

    /// Checks all of meta page `id`, what its checksum does not cover included.
    pub(crate) fn check_page(bytes: &[u8], id: u64) -> Result<Meta, Problem> {
        let meta = Meta::read(bytes)?;
        let header = Header::read(bytes);
        if header.id != id {
            return Err(Problem::Id(header.id));
        }
        if header.flags != META {
            return Err(Problem::Type(header.flags));
        }
        if header.count != 0 || header.overflow != 0 {
            return Err(Problem::Meta("page header"));
        }
        let trailer = match checksum::verify(bytes, META_BYTES, meta.txid)? {
            Some(_txid) => checksum::TRAILER_BYTES,
            None => 0,
        };
        let behind = &bytes[META_BYTES..bytes.len() - trailer];
        if behind.iter().any(|byte| *byte != 0) {
            return Err(Problem::Meta("bytes behind it"));
        }
        Ok(meta)
    }

    /// Whether page `id` is what a torn write leaves: this meta, which `other` stands beside, and
    /// behind it the page's checksum of the transaction that wrote the page before, or of the one that
    /// was to write it next.
    pub(crate) fn is_torn(&self, bytes: &[u8], id: u64, other: &Meta) -> bool {
        let Some(trailer) = checksum::of_other_bytes(bytes, self.txid) else {
            return false;
        };
        let behind = &bytes[META_BYTES..bytes.len() - checksum::TRAILER_BYTES];
        if behind.iter().any(|byte| *byte != 0) {
            return false;
        }
        let (old, new) = (self.txid.min(trailer), self.txid.max(trailer));
        // Only in a copy has a page the other one's transactions: t and t - 1, whatever t is.
        let between = match (old % 2 == id, id) {
            (true, _) => 2,
            (false, 0) => 1,
            (false, _) => 3,
        };
        if new % 2 != id || new - old != between {
            return false;
        }
        // What was newest when the write began, and may have been followed since by another one.
        let base = other.txid.max(old);
        base + 1 == new || self.txid == new && other.txid == new + 1
    }

    fn check(&self) -> Result<(), Problem> {
        if !is_page_size(self.page_size) {
            return Err(Problem::Meta("page size"));
        }
        // Positions in the file must fit into 63 bits.
        if self.high_water < 3 || self.high_water > (i64::MAX as u64) / u64::from(self.page_size) {
            return Err(Problem::Meta("high-water mark"));
        }
        if self.root < 2 || self.root >= self.high_water {
            return Err(Problem::Meta("root page"));
        }
        if self.freelist != NO_FREELIST && (self.freelist < 2 || self.freelist >= self.high_water) {
            return Err(Problem::Meta("freelist page"));
        }
        if self.txid == u64::MAX {
            return Err(Problem::Meta("transaction id"));
        }
        Ok(())
    }

    /// Bytes of the file in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.high_water * u64::from(self.page_size)
    }
}

/// Both meta pages of a file, the newest valid one first.
pub(crate) struct Metas {
    pub(crate) newest: Meta,
    /// The other one, where it is valid.
    pub(crate) other: Option<Meta>,
}

/// Reads both meta pages of `file`, which is `len` bytes long.
pub(crate) fn read_both(file: &dyn File, len: u64, path: &Path) -> Result<Metas, Error> {
    let at = |offset: u64| -> Result<Result<Meta, Problem>, Error> {
        let mut bytes = vec![0; META_BYTES.min(len.saturating_sub(offset) as usize)];
        file.read_exact_at(&mut bytes, offset)
            .map_err(|source| Error::Io {
                path: path.to_path_buf(),
                action: "reading a meta page",
                source,
            })?;
        Ok(Meta::read(&bytes))
    };
    let first = at(0)?;
    let second = match &first {
        Ok(meta) => at(u64::from(meta.page_size))?,
        // Without the first page the page size is unknown: try them all.
        Err(_) => {
            let mut found = Err(Problem::Magic);
            let mut size = PAGE_BYTES_MIN;
            while size <= PAGE_BYTES_MAX && u64::from(size) < len {
                match at(u64::from(size))? {
                    Ok(meta) if meta.page_size == size => {
                        found = Ok(meta);
                        break;
                    }
                    Ok(_) | Err(Problem::Magic) => {}
                    Err(problem) => found = Err(problem),
                }
                size *= 2;
            }
            found
        }
    };
    match (first, second) {
        (Ok(first), Ok(second)) if second.txid > first.txid => Ok(Metas {
            newest: second,
            other: Some(first),
        }),
        (Ok(first), second) => Ok(Metas {
            newest: first,
            other: second.ok(),
        }),
        (Err(_), Ok(second)) => Ok(Metas {
            newest: second,
            other: None,
        }),
        (Err(first), Err(second)) => Err(Error::NoMeta {
            path: path.to_path_buf(),
            first,
            second,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_disk::faulty::FaultyDisk;
    use quorate_disk::{Disk, Mode};

    fn meta(page_size: u32, txid: u64) -> Meta {
        Meta {
            page_size,
            root: 3,
            root_sequence: 0,
            freelist: NO_FREELIST,
            high_water: 4,
            txid,
        }
    }

    #[test]
    fn what_is_written_is_read_and_every_flip_is_noticed() {
        let meta = meta(4096, 9);
        let page = meta.page();
        assert_eq!(Meta::read(&page), Ok(meta));
        for bit in HEADER_BYTES * 8..META_BYTES * 8 {
            let mut bytes = page.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Meta::read(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn the_second_page_is_found_at_every_page_size() {
        for shift in 10..=16 {
            let size = 1 << shift;
            let disk = FaultyDisk::new(0);
            let file = disk.open(Path::new("/f"), Mode::Create).unwrap();
            file.write_all_at(&meta(size, 3).page(), u64::from(size))
                .unwrap();
            file.set_len(u64::from(size) * 4).unwrap();
            let found = read_both(file.as_ref(), u64::from(size) * 4, Path::new("/f")).unwrap();
            assert_eq!(found.newest, meta(size, 3));
            assert!(found.other.is_none());
        }
    }

    #[test]
    fn the_higher_txid_counts_and_a_short_file_is_none() {
        let disk = FaultyDisk::new(0);
        let file = disk.open(Path::new("/f"), Mode::Create).unwrap();
        let path = Path::new("/f");
        file.write_all_at(&meta(4096, 6).page(), 0).unwrap();
        file.write_all_at(&meta(4096, 7).page(), 4096).unwrap();
        assert_eq!(read_both(file.as_ref(), 8192, path).unwrap().newest.txid, 7);
        file.write_all_at(&meta(4096, 8).page(), 0).unwrap();
        assert_eq!(read_both(file.as_ref(), 8192, path).unwrap().newest.txid, 8);
        assert!(matches!(
            read_both(file.as_ref(), 40, path),
            Err(Error::NoMeta { .. })
        ));
    }
}
