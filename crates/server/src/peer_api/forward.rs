//! Asking the leader what only the leader knows: renewals and remaining times of leases, whether a
//! learner has caught up.
//!
//! As etcd does: the leader is waited for, each of its peer URLs is tried, and all of it again,
//! until the time for a request is over. Where the leader turns out to be this member, it asks
//! itself, which is rare and needs no words of its own.

use super::Peers;
use bytes::Bytes;
use http::{Request, Response};
use quorate_api::Error;
use quorate_node::store::membership::Member;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pause before a leader is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// What an answer of the leader comes to.
pub(crate) enum Verdict<R> {
    /// It is final.
    Final(R),
    /// It may be another one later, or at another URL.
    Again,
}

impl Peers {
    /// Sends the request to the leader until its answer is final. `Err`: there was no leader, or no
    /// final answer in time.
    pub(super) async fn ask_leader<R>(
        &self,
        request: Request<Bytes>,
        read: impl Fn(&Response<Bytes>) -> Verdict<R>,
    ) -> Result<R, Error> {
        let deadline = Instant::now() + self.timings.request;
        loop {
            let leader = self.leader(deadline).await?;
            for url in &leader.peer_urls {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(Error::Timeout);
                }
                let answer = self.exchange.send(url, request.clone(), left).await;
                if let Ok(answer) = answer
                    && let Verdict::Final(told) = read(&answer)
                {
                    return Ok(told);
                }
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(Error::Timeout);
            }
            sleep(PAUSE).await;
        }
    }

    /// The leader, once there is one.
    async fn leader(&self, deadline: Instant) -> Result<Member, Error> {
        loop {
            let (view, status) = (self.member.view(), self.member.status());
            if let Some(leader) = view.members.get(status.leader) {
                if leader.peer_urls.is_empty() {
                    return Err(Error::NoLeader);
                }
                return Ok(leader.clone());
            }
            if self.member.is_stopping() {
                return Err(Error::Stopped);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::NoLeader);
            }
            sleep(self.timings.tick.min(left)).await;
        }
    }
}
