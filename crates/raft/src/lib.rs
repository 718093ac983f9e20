//! Consensus, pure: one member of a Raft group as a deterministic state machine.
//!
//! It knows no file, socket, clock, thread or protobuf. Inputs are calls on [`Raft`] (a tick, a
//! peer's message, a proposal, "this job is durable", "this job is applied"); what follows from
//! them is fetched with [`Raft::ready`]: messages to send, a job for the log, a job for the state
//! machine above. The algorithm and the messages are those of etcd raft 3.7, so that members can
//! share a group with etcd's; [`RawNode`] is etcd raft's own interface, which its traces replay on.

mod changer;
mod conf_change;
mod config;
mod describe;
mod election;
mod error;
mod follower;
mod inflights;
mod journal;
mod leader;
mod log;
mod memory_storage;
mod message;
mod progress;
mod quorum;
mod raft;
mod random;
mod raw_node;
mod read_only;
mod ready;
mod receive;
mod reconfigure;
mod status;
mod storage;
mod tracker;
pub mod types;
mod unstable;

pub use changer::{Changer, ConfChangeError};
pub use conf_change::{
    ConfChange, ConfChangeKind, ConfChangeSingle, ConfChangeTransition, ConfChangeV2,
    DecodeConfChange,
};
pub use config::{Config, ConfigError, ReadOnlyOption};
pub use describe::{
    describe_changes, describe_conf_change, describe_conf_state, describe_entries, describe_entry,
    describe_hard_state, describe_message, describe_ready, describe_snapshot, describe_soft_state,
    quoted,
};
pub use error::StepError;
pub use inflights::Inflights;
pub use journal::{JOURNAL_LINES_MAX, JournalLine, Level};
pub use memory_storage::MemoryStorage;
pub use message::{Message, MessageKind};
pub use progress::{Progress, ProgressState};
pub use quorum::{IdSet, JointConfig, VoteResult};
pub use raft::Raft;
pub use raw_node::{RawNode, Ready};
pub use ready::{AppendJob, ApplyDone, ApplyJob, Output};
pub use status::{BasicStatus, Status};
pub use storage::{Storage, StorageError};
pub use tracker::{InflightLimits, Membership, ProgressMap, Tracker};
pub use types::*;
