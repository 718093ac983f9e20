//! What members tell each other beside raft: who is in the cluster, leases, versions, hashes.
//!
//! Each file is one endpoint of the peer port with both its sides, the answer and the asking.
//! Answers are etcd's to the byte, since its members ask ours and the reverse. Whatever waits here
//! is a task: nothing of it runs on a connection's worker thread or on the member's loop.
//! Source: etcd's etcdhttp, leasehttp, and cluster_util.go.

pub mod exchange;
pub(crate) mod forward;
pub mod hash_kv;
pub mod join;
pub(crate) mod leases;
pub mod members;
mod over_client;
pub(crate) mod promote;
pub mod same_urls;
mod serve;
mod tasks;
pub mod urls;
pub mod versions;

#[cfg(test)]
mod tests;

pub use exchange::Exchange;
pub use over_client::{BeforeTransport, LateClient};
pub(crate) use serve::hash_here;
pub use tasks::Tasks;

use crate::config::Config;
use crate::driver::Handle;
use crate::transport::{HttpReply, HttpRequest};
use std::sync::Arc;
use std::time::Duration;

/// How long things take between members.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// A request, with a possible election.
    pub request: Duration,
    /// Between two looks for a leader.
    pub tick: Duration,
}

impl Timings {
    /// Those of a configuration.
    pub fn of(config: &Config) -> Timings {
        let millis = |flag: &str| Duration::from_millis(config.count(flag));
        Timings {
            request: Duration::from_secs(5) + 2 * millis("election-timeout"),
            tick: millis("heartbeat-interval"),
        }
    }
}

/// The other members, as this one reaches them.
#[derive(Clone)]
pub struct Peers {
    /// This member.
    pub(crate) member: Handle,
    pub(crate) exchange: Arc<dyn Exchange>,
    /// Where tasks run that wait for the network.
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) timings: Timings,
}

impl Peers {
    /// The others of a running member.
    pub fn new(
        member: Handle,
        exchange: Arc<dyn Exchange>,
        runtime: tokio::runtime::Handle,
        timings: Timings,
    ) -> Peers {
        Peers {
            member,
            exchange,
            runtime,
            timings,
        }
    }
}

/// The endpoints of the peer port that are not raft's own.
#[derive(Clone)]
pub struct PeerApi {
    peers: Peers,
}

impl PeerApi {
    /// The endpoints of a member.
    pub fn new(peers: Peers) -> PeerApi {
        PeerApi { peers }
    }

    /// Answers a request; one for no endpoint is not found.
    pub fn serve(&self, request: HttpRequest) -> HttpReply {
        let peers = self.peers.clone();
        Box::pin(async move { serve::answer(&peers, request).await })
    }
}
