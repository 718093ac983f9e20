//! A lease that is kept alive until it is lost or let go.
//!
//! Invariants:
//! - A lease is renewed after a third of its TTL, over as many streams as that takes. Where
//!   one gives no answer for a third of the time that is left, another member is asked as well:
//!   one that was not asked yet, while such a one is up.
//! - It is reported as lost when the server says so, or once its TTL has passed since the last
//!   answer's request was sent: not later than the server can revoke it.

use crate::balancer::Asked;
use crate::lease::KeepAlive;
use crate::token::Token;
use crate::{Client, Error, Result};
use quorate_api::error::Code;
use quorate_api::etcdserverpb::LeaseKeepAliveResponse;
use quorate_api::{Error as Known, Method};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};

/// The longest TTL that a lease can have, in seconds.
const TTL_MAX: u64 = 9_000_000_000;
/// Between streams.
const WAIT: Duration = Duration::from_millis(500);
const WAIT_JITTER: f64 = 0.2;
/// Attempts that are under way at once.
const ATTEMPTS_MAX: usize = 3;
/// How long a first answer may take, on top of the time to connect.
const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// The most that is waited for a connection, whatever the options have.
const CONNECT_MAX: Duration = Duration::from_secs(24 * 3600);

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
        let first = self.options().connect_timeout.min(CONNECT_MAX) + FIRST_ANSWER;
        let deadline = Instant::now() + first;
        let mut keeping = Keeping::new(self.clone(), id, deadline);
        let ttl = match keeping.renew().await {
            Ok(ttl) => ttl,
            Err(Loss::Gone) => return Err(Error::Known(Known::LeaseNotFound)),
            Err(Loss::Expired) => return Err(no_answer()),
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
    /// The stream that the last answer came over.
    stream: Option<(KeepAlive, Option<Token>)>,
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
            // From when the last answer was asked for.
            sleep_until(self.deadline - ttl + ttl / 3).await;
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
        let mut attempts = JoinSet::new();
        let asked = Asked::default();
        let mut next = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.deadline) => return Err(Loss::Expired),
                Some(ended) = attempts.join_next() => {
                    let Attempt { sent, token, answer } = finished(ended)?;
                    match answer {
                        Ok((_, answer)) if answer.ttl <= 0 => return Err(Loss::Gone),
                        Ok((stream, answer)) => {
                            let seconds = answer.ttl.unsigned_abs().min(TTL_MAX);
                            let ttl = Duration::from_secs(seconds);
                            self.stream = Some((stream, token));
                            self.deadline = sent + ttl;
                            return Ok(ttl);
                        }
                        Err(error) => self.judge(&error, token.as_ref()).await?,
                    }
                    next = Instant::now() + self.client.jitter().spread(WAIT, WAIT_JITTER);
                }
                () = sleep_until(next), if attempts.len() < ATTEMPTS_MAX => {
                    let stream = self.stream.take();
                    let client = self.client.clone();
                    attempts.spawn(Attempt::make(client, self.id, stream, asked.clone()));
                    let now = Instant::now();
                    next = now + self.deadline.saturating_duration_since(now) / 3;
                }
            }
        }
    }

    async fn judge(&self, error: &Error, token: Option<&Token>) -> std::result::Result<(), Loss> {
        match error {
            Error::Known(Known::InvalidAuthToken | Known::AuthOldRevision | Known::UserEmpty)
                if self.client.has_password() =>
            {
                // Without one the next attempt fails, until the deadline.
                let renewed = self.client.token(token);
                let _ = timeout_at(self.deadline, renewed).await;
                Ok(())
            }
            Error::Known(Known::LeaseNotFound) => Err(Loss::Gone),
            Error::Known(known) if known.code() == Code::PermissionDenied => Err(Loss::Refused),
            _ => Ok(()),
        }
    }
}

/// One request, and what came of it.
struct Attempt {
    /// Not later than the server has seen it.
    sent: Instant,
    /// What its stream was opened with, where that came so far.
    token: Option<Token>,
    answer: Result<(KeepAlive, LeaseKeepAliveResponse)>,
}

impl Attempt {
    async fn make(
        client: Client,
        id: i64,
        stream: Option<(KeepAlive, Option<Token>)>,
        asked: Asked,
    ) -> Attempt {
        let sent = Instant::now();
        let (token, answer) = match stream {
            Some((mut stream, token)) => {
                asked.add(stream.origin());
                let renewed = stream.renew(id).await;
                (token, renewed.map(|answer| (stream, answer)))
            }
            None => match client.token(None).await {
                Ok(token) => {
                    let opened = client.lease_keep_alive_with(&token, id, Some(&asked)).await;
                    (Some(token), opened)
                }
                Err(error) => (None, Err(error)),
            },
        };
        Attempt {
            sent,
            token,
            answer,
        }
    }
}

/// What a task gives, with its panic.
fn finished(ended: std::result::Result<Attempt, JoinError>) -> std::result::Result<Attempt, Loss> {
    ended.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime goes down.
        Err(_) => Loss::Expired,
    })
}

fn no_answer() -> Error {
    Error::Deadline {
        method: Method::LeaseLeaseKeepAlive.path(),
    }
}
