//! What the transport is to its member, and its member to it.

use crate::transport::{HttpReply, HttpRequest};
use quorate_node::disk::Disk;
use quorate_node::raft::Message;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Who this member is and where it keeps what it receives.
#[derive(Clone)]
pub struct Settings {
    /// This member's id.
    pub member_id: u64,
    /// The cluster's id. Members of another one are refused.
    pub cluster_id: u64,
    /// Where others reach this member; told with each request, so that those who do not know this
    /// member yet can answer it.
    pub advertise_peer_urls: Vec<String>,
    /// Where databases that come with snapshots are kept.
    pub snapshot_dir: PathBuf,
    /// What they are written to.
    pub disk: Arc<dyn Disk>,
    /// How long connecting may take; etcd takes a second and an election timeout.
    pub dial_timeout: Duration,
}

/// Why this member cannot go on with its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A peer said so.
    #[error("the member has been permanently removed from the cluster")]
    Removed,
}

/// Why a member does not take a snapshot that came whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has no room for messages.
    #[error("the member is overloaded")]
    Overloaded,
    /// It stops.
    #[error("etcdserver: server stopped")]
    Stopping,
}

/// The member behind the transport. Called from the transport's thread, which must not wait.
pub trait Host: Send + Sync + 'static {
    /// Takes messages that came together, all of them for this member, none of a local kind and
    /// none from a removed member. Gives back those that there is no room for: they are dropped,
    /// logged and counted.
    fn receive(&self, messages: Vec<Message>) -> Vec<Message>;

    /// Takes a snapshot message whose database lies whole and durable at `database`, the place that
    /// the log crate's snapshot directory has for the snapshot's index.
    fn received_snapshot(&self, message: Message, database: PathBuf) -> Result<(), Refusal>;

    /// Whether a member of this id was in the cluster once and is no more.
    fn is_removed(&self, id: u64) -> bool;

    /// A message to this member was lost.
    fn unreachable(&self, id: u64);

    /// How a snapshot that was handed to [`super::Transport::send_snapshot`] ended.
    fn snapshot_sent(&self, id: u64, ok: bool);

    /// The connections with a peer came up, or broke.
    fn active(&self, id: u64, active: bool);

    /// The peer's server is quorate, as it said when the stream was opened that is open now; or that
    /// stream has ended, and what is there next is not known.
    fn is_kin(&self, id: u64, kin: bool);

    /// The member has to stop. Told as often as it is found.
    fn failed(&self, failure: Failure);
}

/// A database to send. Read in order, in bounded pieces, by a thread that may wait; dropped when it
/// is sent or has failed.
pub trait SnapshotSource: Send + 'static {
    /// Length in bytes. It does not change.
    fn len(&self) -> u64;

    /// Fills `into` from `offset`; the range lies within the length.
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// Who answers what the peer port is asked beside raft's own paths.
pub trait Fallback: Send + Sync + 'static {
    /// Answers a request. The reply runs on the transport's thread, which must not wait.
    fn http(&self, request: HttpRequest) -> HttpReply;
}
