//! A lease that is kept alive until it is lost or let go.
//!
//! Invariants:
//! - A lease is renewed after a third of its TTL, over as many streams as that takes.
//! - It is reported as lost when the server says so, or once its TTL has passed since the last
//!   answer's request was sent: not later than the server can revoke it.

use crate::lease::KeepAlive;
use crate::{Client, Error, Result};
use quorate_api::error::Code;
use quorate_api::{Error as Known, Method};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};

/// The longest TTL that a lease can have, in seconds.
const TTL_MAX: u64 = 9_000_000_000;
/// Between streams.
const WAIT: Duration = Duration::from_millis(500);
const WAIT_JITTER: f64 = 0.2;
/// How long a first answer may take, on top of the time to connect.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// Whether a lease is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It was renewed for so long.
    Held {
        /// From the last renewal on.
        ttl: Duration,
    },
    /// It is gone, or may be.
    Lost(Loss),
}

/// Why a lease is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The server knows no such lease.
    Gone,
    /// There was no answer for a TTL: it may be gone.
    Expired,
    /// The server refuses to renew it (a permission is missing).
    Refused,
}

impl Client {
    /// Renews a lease until it is lost or the keeper is dropped. Returns after the first renewal.
    pub async fn keep_lease(&self, id: i64) -> Result<LeaseKeeper> {
        let deadline = Instant::now() + self.options().connect_timeout + FIRST_ANSWER;
        let mut keeping = Keeping::new(self.clone(), id, deadline);
        let ttl = match keeping.renew().await {
            Ok(ttl) => ttl,
            Err(Loss::Gone) => return Err(Error::Known(Known::LeaseNotFound)),
            Err(Loss::Expired) => {
                let method = Method::LeaseLeaseKeepAlive.path();
                return Err(Error::Deadline { method });
            }
            Err(Loss::Refused) => return Err(Error::Known(Known::PermissionDenied)),
        };
        let held = (Holding::Held { ttl }, keeping.deadline);
        let (state, holding) = watch::channel(held);
        let task = tokio::spawn(keeping.keep(ttl, state)).abort_handle();
        Ok(LeaseKeeper { id, holding, task })
    }
}

/// Keeps a lease; dropping it stops that, and the lease ends with its TTL.
#[derive(Debug)]
pub struct LeaseKeeper {
    id: i64,
    /// What the task has found, and how long that holds.
    holding: watch::Receiver<(Holding, Instant)>,
    task: AbortHandle,
}

impl LeaseKeeper {
    /// The lease.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Whether it is held. It is not after its TTL, even if nothing has run since that would have
    /// renewed it.
    pub fn holding(&self) -> Holding {
        match *self.holding.borrow() {
            (Holding::Held { .. }, until) if Instant::now() >= until => {
                Holding::Lost(Loss::Expired)
            }
            (holding, _) => holding,
        }
    }

    /// Returns when the lease is lost, and why.
    pub async fn lost(&self) -> Loss {
        let mut holding = self.holding.clone();
        let state = holding
            .wait_for(|(state, _)| matches!(state, Holding::Lost(_)))
            .await;
        match state.as_deref() {
            Ok((Holding::Lost(loss), _)) => *loss,
            // The task ended without a word: its runtime is gone.
            _ => Loss::Expired,
        }
    }
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task's state.
struct Keeping {
    client: Client,
    id: i64,
    stream: Option<KeepAlive>,
    /// When the lease may be gone.
    deadline: Instant,
}

impl Keeping {
    fn new(client: Client, id: i64, deadline: Instant) -> Keeping {
        Keeping {
            client,
            id,
            stream: None,
            deadline,
        }
    }

    async fn keep(mut self, mut ttl: Duration, state: watch::Sender<(Holding, Instant)>) {
        loop {
            sleep(ttl / 3).await;
            match self.renew().await {
                Ok(renewed) => ttl = renewed,
                Err(loss) => {
                    state.send_replace((Holding::Lost(loss), self.deadline));
                    return;
                }
            }
            state.send_replace((Holding::Held { ttl }, self.deadline));
        }
    }

    /// One renewal, over new streams if need be; what it gives is the TTL.
    async fn renew(&mut self) -> std::result::Result<Duration, Loss> {
        loop {
            let sent = Instant::now();
            let renewed = timeout_at(self.deadline, self.ask()).await;
            let Ok(answer) = renewed else {
                return Err(Loss::Expired);
            };
            match answer {
                Ok(0) => return Err(Loss::Gone),
                Ok(seconds) => {
                    let ttl = Duration::from_secs(seconds.min(TTL_MAX));
                    self.deadline = sent + ttl;
                    return Ok(ttl);
                }
                Err(error) => {
                    self.stream = None;
                    self.judge(&error).await?;
                }
            }
            let wait = self.client.jitter().spread(WAIT, WAIT_JITTER);
            if timeout_at(self.deadline, sleep(wait)).await.is_err() {
                return Err(Loss::Expired);
            }
        }
    }

    /// Seconds to live; none if the lease is gone.
    async fn ask(&mut self) -> Result<u64> {
        let answer = match &mut self.stream {
            Some(stream) => stream.renew(self.id).await?,
            None => {
                let (stream, answer) = self.client.lease_keep_alive(self.id).await?;
                self.stream = Some(stream);
                answer
            }
        };
        Ok(u64::try_from(answer.ttl).unwrap_or(0))
    }

    async fn judge(&self, error: &Error) -> std::result::Result<(), Loss> {
        match error {
            Error::Known(Known::InvalidAuthToken | Known::AuthOldRevision | Known::UserEmpty)
                if self.client.has_password() =>
            {
                // Without one the next attempt fails, until the deadline.
                let _ = timeout_at(self.deadline, self.client.refresh_token()).await;
                Ok(())
            }
            Error::Known(Known::LeaseNotFound) => Err(Loss::Gone),
            Error::Known(known) if known.code() == Code::PermissionDenied => Err(Loss::Refused),
            _ => Ok(()),
        }
    }
}
