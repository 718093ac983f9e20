//! A session: a lease that is kept alive for what is held under it.

use crate::lease_keeper::{Holding, LeaseKeeper, Loss};
use crate::{Client, Error, Result};
use quorate_api::{Error as Known, Method};
use std::time::Duration;
use tokio::time::timeout;

/// How long the end of a lease is asked for of which nothing is known.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// A lease that is kept alive while this lives. Locks and leaderships that were won under it end
/// with it.
#[derive(Debug)]
pub struct Session {
    client: Client,
    keeper: LeaseKeeper,
}

impl Session {
    /// A session under a new lease of so many seconds: what is held becomes free after that time
    /// when this process is gone.
    pub async fn new(client: &Client, ttl_seconds: i64) -> Result<Session> {
        let granted = client.lease_grant(ttl_seconds, 0).await?;
        Session::resume(client, granted.id).await
    }

    /// A session under a lease that there is, of a process before this one. What was locked under it
    /// is this session's as well; sessions of one client under one lease are one.
    pub async fn resume(client: &Client, lease: i64) -> Result<Session> {
        Ok(Session {
            client: client.clone(),
            keeper: client.keep_lease(lease).await?,
        })
    }

    /// The lease.
    pub fn lease(&self) -> i64 {
        self.keeper.id()
    }

    /// The client that the session was made with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What keeps the lease; it tells when it is lost.
    pub fn keeper(&self) -> &LeaseKeeper {
        &self.keeper
    }

    /// Ends the session and all that is held under it. The lease is not renewed from now on; where
    /// no member answers for its TTL, this gives up, and it has ended by then, unless a new leader
    /// has given it more time.
    pub async fn close(self) -> Result<()> {
        let Session { client, keeper, .. } = self;
        let (lease, holding) = (keeper.id(), keeper.holding());
        drop(keeper);
        let limit = match holding {
            Holding::Held { ttl } => ttl,
            Holding::Lost(Loss::Gone) => return Ok(()),
            // It may be there: nobody said that it is not.
            Holding::Lost(Loss::Expired | Loss::Refused) => CLOSE_MAX,
        };
        match timeout(limit, client.lease_revoke(lease)).await {
            // It had ended, by an attempt whose answer was lost, say.
            Ok(Ok(_) | Err(Error::Known(Known::LeaseNotFound))) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Deadline {
                method: Method::LeaseLeaseRevoke.path(),
            }),
        }
    }
}
