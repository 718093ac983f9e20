//! One member: raft, the log, the store and its watchers as one deterministic machine.
//!
//! [`boot`](boot::boot) starts it from a data directory; [`Member`] is the machine, [`LogStage`]
//! and [`CommitStage`] the two stages that block and so have threads of their own in the server.
//! Knows no socket, no runtime, no TLS, no real time.

pub mod boot;
mod commit_stage;
mod conf_change;
mod error;
pub mod ids;
mod log_stage;
mod member;
mod received;

pub use quorate_api as api;
pub use quorate_bolt as bolt;
pub use quorate_bolt::VacuumNext;
pub use quorate_disk as disk;
pub use quorate_raft as raft;
pub use quorate_raft::Level;
pub use quorate_store as store;
pub use quorate_wal as wal;

pub use commit_stage::{CommitStage, Vacuumed};
pub use error::Error;
pub use log_stage::{Appended, LogDone, LogJob, LogStage};
pub use member::{
    CLUSTER_VERSION, CompactionStep, Config, ETCD_VERSION, Effects, Member, MemberChange, Note,
    PeerChange, Proposal, ProposalKind, Reply, Revocation, RevocationWaiter, SnapshotToSend,
    Status,
};
pub use received::Received;
