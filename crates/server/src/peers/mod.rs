//! Messages between members, as etcd's rafthttp carries them, so that members of both kinds share a
//! cluster.
//!
//! Everything is HTTP/1.1 on the peer port. Each member dials each other one twice and keeps what
//! it gets open: the answers to `GET /raft/stream/msgapp/ID` and `GET /raft/stream/message/ID` are
//! the streams that the *other* member writes its appends and its other messages to. What finds no
//! stream goes as a `POST /raft` of its own; snapshots go as a `POST /raft/snapshot`, the message
//! and then the database.
//!
//! One thread with one runtime serves all peers. A batch of messages costs one wake-up of that
//! thread and one write per stream. Files are read and written by other threads.
//!
//! Invariants:
//! - Nothing here waits for the member, nor the member for anything here. Queues are bounded; what
//!   finds no room is dropped and told ([`Host::unreachable`]), which raft makes up for.
//! - Bytes from a peer give an error, never a panic, and take memory only as they arrive.
//! - A snapshot is handed over only when its database is whole and durable.
//!
//! Not known here: what a message means, beyond which way its kind goes.
//!
//! Source: `server/etcdserver/api/rafthttp` of etcd 3.7.3 and 3.6.13.

mod address;
pub mod client;
mod codec;
mod dial;
mod host;
mod hub;
mod identity;
mod local;
pub mod metrics;
mod msgapp;
mod peer;
mod picker;
mod pipeline;
mod post;
mod probe;
mod queue;
mod serve;
mod snapshot_receiver;
mod snapshot_sender;
mod status;
mod stream_reader;
mod stream_writer;
mod transport;

pub use host::{Failure, Fallback, Host, Refusal, Settings, SnapshotSource};
pub use transport::Transport;

#[cfg(test)]
mod tests;
