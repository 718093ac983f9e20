//! The log on disk and the snapshot files, in etcd's formats.
//!
//! A log directory holds segments (`SEQ-INDEX.wal`, both as 16 hexadecimal digits), each a chain of
//! records under one rolling CRC-32C that runs on from segment to segment. [`Wal`] appends to it,
//! [`Reader`] reads it without a lock, [`snap`] keeps the `.snap` and `.snap.db` files beside it.
//! The encoders of raft's structs live here too ([`raftpb`]), since log, snapshots and peers share
//! them.
//!
//! Invariants:
//! - What [`Wal::sync`] returned `Ok` for is read back by [`Wal::open`] after any crash; beyond it
//!   only a prefix of what was written can appear.
//! - Behind the last record there are zeros only: etcd's reader stops at a zero length.
//! - After a failed sync a [`Wal`] takes nothing any more.
//! - Bytes from disk give an error with file and offset, never a panic. A record, entry or field
//!   that is not known is an error: skipping it would let this member diverge from the others.
//!
//! What this crate does not know: what an entry's data means, time, threads, any consensus rule
//! beyond "what must be durable before a message leaves".
//!
//! Source: the formats of etcd 3.7.3 (`server/storage/wal`, `server/etcdserver/api/snap`, raft's
//! `raft.proto`).

mod append;
mod create;
mod cut;
mod error;
mod frame;
mod open;
mod proto;
mod purge;
pub mod raftpb;
mod reader;
mod records;
mod segment;
pub mod snap;
pub mod types;
pub mod walpb;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod wal_tests;

pub use append::{Options, Wal, must_sync};
pub use cut::{NextSegment, PreparedSegment};
pub use error::{Damage, WalError};
pub use open::{Recovered, Repair};
pub use proto::{DecodeError, Fault};
pub use purge::purge;
pub use reader::{Located, Next, Reader, Torn};
pub use records::{Verified, snapshot_records, verify};
pub use segment::{SegmentName, exists, list_segments};
