//! Leases: grant, revoke, keep alive, look at.

use crate::answers::Answers;
use crate::balancer::Asked;
use crate::token::Token;
use crate::{Client, Error, Result};
use http::Uri;
use quorate_api::Method;
use quorate_api::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Keep-alives that may wait for the connection at once.
const WAITING_MAX: usize = 16;

impl Client {
    /// Grants a lease of about so many seconds; id 0 lets the server choose one.
    pub async fn lease_grant(&self, ttl_seconds: i64, id: i64) -> Result<LeaseGrantResponse> {
        let request = LeaseGrantRequest {
            ttl: ttl_seconds,
            id,
        };
        self.call(Method::LeaseLeaseGrant, request).await
    }

    /// Ends a lease and deletes its keys.
    pub async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse> {
        self.call(Method::LeaseLeaseRevoke, LeaseRevokeRequest { id })
            .await
    }

    /// What is left of a lease, and with `keys` what of the client's namespace is attached to it.
    pub async fn lease_time_to_live(&self, id: i64, keys: bool) -> Result<LeaseTimeToLiveResponse> {
        let request = LeaseTimeToLiveRequest { id, keys };
        let mut answer: LeaseTimeToLiveResponse =
            self.call(Method::LeaseLeaseTimeToLive, request).await?;
        self.namespace.leave_keys(&mut answer.keys);
        Ok(answer)
    }

    /// All leases.
    pub async fn leases(&self) -> Result<LeaseLeasesResponse> {
        self.call(Method::LeaseLeaseLeases, LeaseLeasesRequest {})
            .await
    }

    /// Opens a stream of keep-alives and sends the first, for the lease `id`.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<(KeepAlive, LeaseKeepAliveResponse)> {
        let token = self.token(None).await?;
        self.lease_keep_alive_with(&token, id, None).await
    }

    /// The same with this token, rather of a member that was not asked.
    pub(crate) async fn lease_keep_alive_with(
        &self,
        token: &Token,
        id: i64,
        asked: Option<&Asked>,
    ) -> Result<(KeepAlive, LeaseKeepAliveResponse)> {
        let (requests, receiver) = mpsc::channel(WAITING_MAX);
        // Room for it is there: nothing has been sent.
        let first = requests.try_send(LeaseKeepAliveRequest { id });
        assert!(first.is_ok());
        let answers = self
            .exchange_with(
                token,
                Method::LeaseLeaseKeepAlive,
                ReceiverStream::new(receiver),
                asked,
            )
            .await?;
        let mut stream = KeepAlive {
            requests,
            answers,
            awaited: 0,
        };
        let answer = stream.answers.expect().await?;
        Ok((stream, answer))
    }
}

/// A stream of keep-alives; dropping it ends the stream, not the leases.
#[derive(Debug)]
pub struct KeepAlive {
    requests: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Answers<LeaseKeepAliveResponse>,
    /// Answers that are still to come.
    awaited: u64,
}

impl KeepAlive {
    /// Which member it is a stream of.
    pub(crate) fn origin(&self) -> Uri {
        self.answers.origin()
    }

    /// Renews a lease. A TTL of 0 in the answer says that there is no such lease.
    pub async fn renew(&mut self, id: i64) -> Result<LeaseKeepAliveResponse> {
        let ended = Error::Ended {
            method: Method::LeaseLeaseKeepAlive.path(),
        };
        let request = LeaseKeepAliveRequest { id };
        self.requests.send(request).await.map_err(|_| ended)?;
        self.awaited += 1;
        // Each request has its answer, in order, also those that nobody waits for any more.
        loop {
            let answer = self.answers.expect().await?;
            self.awaited = self.awaited.saturating_sub(1);
            if self.awaited == 0 {
                return Ok(answer);
            }
        }
    }
}
