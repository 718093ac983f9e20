//! What can go wrong, with the place where it did.

use std::io;
use std::path::PathBuf;

/// An error of the database file or of its use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk refused.
    #[error("{path}: {action}: {source}", path = path.display())]
    Io {
        /// The database file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// What the disk said.
        source: io::Error,
    },
    /// The file holds bytes that cannot be right.
    #[error("{path}: page {page} at offset {offset}: {problem}", path = path.display())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// The page's id.
        page: u64,
        /// Where the page begins in the file, in bytes.
        offset: u64,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Neither meta page is valid.
    #[error("{path}: not a database: meta page 0: {first}; meta page 1: {second}", path = path.display())]
    NoMeta {
        /// The file.
        path: PathBuf,
        /// Why the first meta page is not taken.
        first: Problem,
        /// Why the second is not.
        second: Problem,
    },
    /// Another process has it open, or had it a moment ago and put another file in its place.
    #[error("{path}: locked by another process", path = path.display())]
    Locked {
        /// The database file.
        path: PathBuf,
    },
    /// A sync failed earlier, so what is on disk is unknown and nothing more may be written.
    #[error("{path}: refusing to write after a failed sync", path = path.display())]
    Poisoned {
        /// The database file.
        path: PathBuf,
    },
    /// It was opened for reading.
    #[error("{path}: opened read-only", path = path.display())]
    ReadOnly {
        /// The database file.
        path: PathBuf,
    },
    /// A page size that the format does not take.
    #[error("page size {0}: not a power of two from 1024 to 16777216")]
    PageSize(u32),
    /// A key or a bucket's name without bytes.
    #[error("key required")]
    KeyRequired,
    /// A key or a bucket's name that is too long.
    #[error("key too large: {0} bytes")]
    KeyTooLarge(usize),
    /// A value that is too long.
    #[error("value too large: {0} bytes")]
    ValueTooLarge(usize),
    /// The key is a bucket's name and the call is about plain values, or the reverse.
    #[error("incompatible value: a bucket where a value is meant, or the reverse")]
    IncompatibleValue,
    /// No such bucket.
    #[error("bucket not found")]
    BucketMissing,
    /// The receiver of the entries at open refused them.
    #[error("{path}: {problem}", path = path.display())]
    Scan {
        /// The database file.
        path: PathBuf,
        /// What it said.
        problem: String,
    },
}

impl Error {
    /// Whether the cause is a full disk; the database is as before and stays usable.
    pub fn is_storage_full(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}

/// What is wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An id that is a meta page's or beyond the high-water mark.
    #[error("out of bounds: high-water mark is {high_water}")]
    OutOfBounds {
        /// The first page id not in use.
        high_water: u64,
    },
    /// The page says that it is another one.
    #[error("says it is page {0}")]
    Id(u64),
    /// Neither branch nor leaf.
    #[error("unexpected page type {0:#x}")]
    Type(u16),
    /// Its overflow pages lie beyond the high-water mark.
    #[error("{0} overflow pages reach beyond the high-water mark")]
    Overflow(u32),
    /// More elements than it has room for.
    #[error("{0} elements do not fit into it")]
    Count(usize),
    /// A branch without children.
    #[error("branch without children")]
    NoChildren,
    /// An element that points outside of its page.
    #[error("element {0} lies outside of it")]
    Element(usize),
    /// An element that does not stand right behind the one before, where writers put it.
    #[error("element {0} stands apart from the one before")]
    Apart(usize),
    /// An element with flags that no writer sets.
    #[error("element {0} has unknown flags")]
    Flags(usize),
    /// An element without a key.
    #[error("element {0} has no key")]
    EmptyKey(usize),
    /// A bucket's value that is none.
    #[error("element {0} is no valid bucket")]
    Bucket(usize),
    /// A tree too deep to be one: a cycle.
    #[error("deeper than any tree: a cycle")]
    Depth,
    /// Something leads to a page that something else leads to.
    #[error("reached twice")]
    ReachedTwice,
    /// A page in use that is listed as free.
    #[error("in use, but listed as free")]
    UsedButFree,
    /// A page that nothing leads to and that is not listed as free.
    #[error("not in use, but not listed as free")]
    Lost,
    /// A page that is twice in the list of free ones.
    #[error("listed as free twice")]
    FreeTwice,
    /// Keys that do not increase.
    #[error("key of element {0} is not above the one before")]
    KeyOrder(usize),
    /// A key outside of what the parent says.
    #[error("key of element {0} lies outside of the parent's bounds")]
    KeyBounds(usize),
    /// A first key that is not the one by which the parent knows the page.
    #[error("first key differs from the parent's")]
    FirstKey,
    /// A leaf without elements below a branch.
    #[error("empty leaf below a branch")]
    EmptyLeaf,
    /// Its bytes changed since they were written.
    #[error(
        "checksum mismatch: written by transaction {txid} with {expected:#010x}, now {found:#010x}"
    )]
    Checksum {
        /// The transaction that the page says wrote it.
        txid: u64,
        /// The checksum it was written with.
        expected: u32,
        /// The checksum of its bytes now.
        found: u32,
    },
    /// A page without a checksum, where the newest meta page says that all have one.
    #[error("its checksum is gone")]
    ChecksumLost,
    /// A page from a transaction that is still to come.
    #[error("written by transaction {0}, which is in the future")]
    Future(u64),
    /// A meta page that is not one.
    #[error("meta: bad magic")]
    Magic,
    /// A meta page of another format version.
    #[error("meta: version {0} instead of 2")]
    Version(u32),
    /// A meta page whose bytes changed.
    #[error("meta: bad checksum")]
    MetaChecksum,
    /// A meta page with numbers that contradict each other.
    #[error("meta: impossible {0}")]
    Meta(&'static str),
    /// The file ends before the page does.
    #[error("file of {0} bytes is too short")]
    FileTooShort(u64),
}
