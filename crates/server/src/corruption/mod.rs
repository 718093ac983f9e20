//! Looking for members whose data differ from the others': before serving, from time to time, and
//! after compactions.
//!
//! A member that finds itself different at its start does not begin to serve. The leader compares
//! its followers with itself and raises the alarm CORRUPT, after which the cluster takes no more
//! writes. What is compared with what is in [`compare`]. Source: etcd's corrupt.go.

pub mod compare;

use crate::config::Config;
use crate::driver::Handle;
use crate::peer_api::hash_kv::{Asker, PeerHash, fetch_hashes};
use crate::peer_api::{Exchange, Peers, Tasks, hash_here};
use compare::{Around, Compaction};
use quorate_api::Error;
use quorate_api::etcdserverpb::AlarmType;
use quorate_go::duration;
use quorate_node::store::View;
use quorate_node::store::hash::{KeyValueHash, hash_by_revision};
use quorate_node::store::membership::spell_id;
use std::sync::Arc;
use std::time::Duration;

/// Why a member does not begin to serve.
#[derive(Debug, thiserror::Error)]
pub enum InitialError {
    /// Its own hash cannot be had.
    #[error("{} failed to fetch hash ({source})", spell_id(*.id))]
    NoHash {
        /// The member.
        id: u64,
        /// Why.
        source: quorate_node::store::Error,
    },
    /// Others have another hash.
    #[error("{} found data inconsistency with peers", spell_id(*.id))]
    Inconsistent {
        /// The member.
        id: u64,
    },
}

/// Compares what a member finds on its disk with what its peers have. It takes time and is to be
/// called before the member serves.
pub async fn check_at_start(
    exchange: &Arc<dyn Exchange>,
    asker: Asker,
    view: &View,
) -> Result<(), InitialError> {
    let id = asker.member_id;
    tracing::info!(
        "local-member-id" = spell_id(id),
        "timeout" = %duration::format(asker.timeout),
        "starting initial corruption check"
    );
    let own = hash_by_revision(view, &view.hashes, 0)
        .map_err(|source| InitialError::NoHash { id, source })?;
    let peers = fetch_hashes(exchange, asker, view.members.iter(), own.revision).await;
    if compare::initial(id, own, &peers) > 0 {
        return Err(InitialError::Inconsistent { id });
    }
    tracing::info!(
        "local-member-id" = spell_id(id),
        "initial corruption checking passed; no corruption"
    );
    Ok(())
}

/// When a running member looks.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// --corrupt-check-time; zero: never.
    pub periodic: Duration,
    /// --compact-hash-check-time, where compactions' hashes are compared.
    pub compaction: Option<Duration>,
}

impl Intervals {
    /// Those of a configuration.
    pub fn of(config: &Config) -> Intervals {
        let compared = config.feature("CompactHashCheck", false);
        Intervals {
            periodic: config.duration("corrupt-check-time"),
            compaction: compared.then(|| config.duration("compact-hash-check-time")),
        }
    }
}

/// Starts looking.
pub fn start(peers: &Peers, intervals: Intervals) -> Tasks {
    let mut tasks = Tasks::default();
    if !intervals.periodic.is_zero() {
        tracing::info!(
            "local-member-id" = spell_id(peers.member.member_id()),
            "interval" = %duration::format(intervals.periodic),
            "enabled corruption checking"
        );
        let checker = Checker::new(peers);
        tasks.push(peers.runtime.spawn(async move {
            let mut ticks = tokio::time::interval(intervals.periodic);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            // The first tick is at once.
            ticks.tick().await;
            loop {
                ticks.tick().await;
                if !checker.is_leader() {
                    continue;
                }
                if let Err(error) = checker.check().await {
                    tracing::warn!("error" = error.as_str(), "failed to check hash KV");
                }
            }
        }));
    }
    if let Some(interval) = intervals.compaction {
        let mut checker = Checker::new(peers);
        tasks.push(peers.runtime.spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                if checker.is_leader() {
                    checker.check_compactions().await;
                }
            }
        }));
    }
    tasks
}

struct Checker {
    peers: Peers,
    /// The newest revision whose compaction has the same hash on all members.
    checked_revision: i64,
}

impl Checker {
    fn new(peers: &Peers) -> Checker {
        Checker {
            peers: peers.clone(),
            checked_revision: 0,
        }
    }

    fn is_leader(&self) -> bool {
        self.peers.member.leads()
    }

    async fn hashes_of_peers(&self, revision: i64) -> Vec<PeerHash> {
        let (member, view) = (&self.peers.member, self.peers.member.view());
        let asker = Asker {
            member_id: member.member_id(),
            cluster_id: member.cluster_id(),
            timeout: self.peers.timings.request,
        };
        fetch_hashes(&self.peers.exchange, asker, view.members.iter(), revision).await
    }

    async fn check(&self) -> Result<(), String> {
        let member = &self.peers.member;
        let (before, _) = hash_here(&self.peers, 0).await?;
        let peers = self.hashes_of_peers(before.revision).await;
        let read = tokio::time::timeout(self.peers.timings.request, member.linearized());
        let read = read.await.unwrap_or(Err(Error::Timeout));
        read.map_err(|error| error.to_string())?;
        let (after, newest_revision) = hash_here(&self.peers, 0).await?;
        let own = Around {
            before,
            after,
            newest_revision,
        };
        if let Some(id) = compare::periodic(member.member_id(), own, &peers) {
            raise(member, id);
        }
        Ok(())
    }

    /// Compares the hashes of the newest compactions until one is told by all members.
    async fn check_compactions(&mut self) {
        let member = self.peers.member.clone();
        tracing::info!(
            "local-member-id" = spell_id(member.member_id()),
            "timeout" = %duration::format(self.peers.timings.request),
            "starting compact hash check"
        );
        let view = member.view();
        let unchecked: Vec<KeyValueHash> = view
            .hashes
            .newest_first()
            .take_while(|hash| hash.revision > self.checked_revision)
            .collect();
        let mut looked_at = unchecked.len();
        for (at, own) in unchecked.into_iter().enumerate() {
            let peers = self.hashes_of_peers(own.revision).await;
            if peers.is_empty() {
                continue;
            }
            match compare::compaction(member.member_id(), own, &peers) {
                Compaction::Incomplete => continue,
                Compaction::Same => {
                    self.checked_revision = self.checked_revision.max(own.revision);
                }
                Compaction::Corrupt(ids) => ids.into_iter().for_each(|id| raise(&member, id)),
            }
            looked_at = at + 1;
            break;
        }
        tracing::info!(
            "number-of-hashes-checked" = looked_at as u64,
            "finished compaction hash check"
        );
    }
}

fn raise(member: &Handle, id: u64) {
    member.raise_alarm(id, AlarmType::Corrupt, None);
    member.flush();
}
