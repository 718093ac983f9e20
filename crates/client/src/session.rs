//! A session: a lease that is kept alive for what is held under it.

use crate::lease_keeper::LeaseKeeper;
use crate::queue::Places;
use crate::{Client, Error, Result};
use quorate_api::Error as Known;
use std::sync::Arc;

/// A lease that is kept alive while this lives. Locks and leaderships that were won under it end
/// with it.
#[derive(Debug)]
pub struct Session {
    client: Client,
    keeper: LeaseKeeper,
    places: Arc<Places>,
}

impl Session {
    /// A session under a new lease of so many seconds: what is held becomes free after that time
    /// when this process is gone.
    pub async fn new(client: &Client, ttl_seconds: i64) -> Result<Session> {
        let granted = client.lease_grant(ttl_seconds, 0).await?;
        Session::resume(client, granted.id).await
    }

    /// A session under a lease that there is, of a process before this one.
    pub async fn resume(client: &Client, lease: i64) -> Result<Session> {
        Ok(Session {
            client: client.clone(),
            keeper: client.keep_lease(lease).await?,
            places: Arc::default(),
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

    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// Ends the session and all that is held under it.
    pub async fn close(self) -> Result<()> {
        match self.client.lease_revoke(self.lease()).await {
            // It had ended, by an attempt whose answer was lost, say.
            Ok(_) | Err(Error::Known(Known::LeaseNotFound)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
