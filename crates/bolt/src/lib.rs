//! A copy-on-write B+tree file in bbolt's format, version 2.
//!
//! One writer at a time makes a new tree that shares all untouched pages with the one before, and
//! a meta page that points to it; readers keep the state they began with and are never waited for.
//! bbolt and etcd open what this crate writes, and the reverse.
//!
//! Beyond bbolt:
//! - the pages written here carry checksums ([`Db::check`], [`Db::scrub_step`]);
//! - no list of free pages is stored or believed: it is found at open, in the same pass that can
//!   hand out a bucket's entries ([`Db::open_scanning`]), so a kill and a clean stop cost the same;
//! - the file is compacted in small steps while it is in use ([`Db::vacuum_step`]).
//!
//! It knows no key's meaning, reads no clock and starts no thread that outlives a call.

mod bucket_node;
mod check;
mod checksum;
mod commit;
mod copy;
mod cursor;
mod cut;
mod db;
mod error;
mod freelist;
mod map;
mod memory;
mod meta;
mod node;
mod page;
mod read;
mod scan;
mod scrub;
mod settle;
mod vacuum;
mod walk;
mod window;
mod write;

#[cfg(test)]
mod tests;

pub use check::{Check, Finding, MetaCheck};
pub use commit::CommitStats;
pub use cursor::{BackwardCursor, Cursor, Entry};
pub use db::{Db, Options};
pub use error::{Error, Problem};
pub use read::{Bucket, Extent, ReadTx};
pub use scan::LeafScan;
pub use scrub::{ScrubCursor, ScrubStep};
pub use vacuum::{VacuumNext, VacuumStep};
pub use write::{BucketMut, WriteTx};
