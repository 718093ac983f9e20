//! Which connection a call goes over: round robin over the endpoints that are up.
//!
//! Invariants:
//! - Each endpoint has one task that keeps one connection to it, from the first call on; it ends
//!   with the balancer, or when the endpoint is taken out.
//! - A call waits only while no endpoint is up. Those that are down cost it nothing.
//! - After a failure an endpoint is dialled again after a wait that grows to [`WAIT_MAX`]; a
//!   connection that ends sooner than that wait is a failure too.
//!
//! Source: gRPC's connection back-off and its policy round_robin; the waits are shorter, for
//! members that restart are back within seconds.

use crate::connection::{Dialer, Lane};
use crate::retry::Jitter;
use crate::{Error, Result};
use http::Uri;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(3);
const WAIT_JITTER: f64 = 0.2;

/// The endpoints, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Balancer {
    slots: RwLock<Arc<[Arc<Slot>]>>,
    next: AtomicUsize,
    /// Told of every change of a slot's state, and of the list.
    changes: watch::Sender<()>,
    jitter: Arc<Jitter>,
}

/// An endpoint.
#[derive(Debug)]
struct Slot {
    dialer: Arc<Dialer>,
    state: Mutex<State>,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Debug)]
enum State {
    /// Not dialled yet, or dialled after it was up.
    Connecting,
    Up(Lane),
    /// Could not be reached; will be dialled again.
    Down(String),
}

/// What the list gives at a moment.
enum Choice {
    Up(Lane),
    Undecided,
    AllDown(String),
}

/// Members that were asked the same thing already, and have not answered; clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<Uri>>>);

impl Asked {
    pub(crate) fn add(&self, origin: Uri) {
        self.list().push(origin);
    }

    fn has(&self, origin: &Uri) -> bool {
        self.list().contains(origin)
    }

    fn list(&self) -> MutexGuard<'_, Vec<Uri>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Balancer {
    pub(crate) fn new(dialers: Vec<Dialer>, jitter: Arc<Jitter>) -> Balancer {
        let slots = dialers.into_iter().map(Slot::new).collect();
        Balancer {
            slots: RwLock::new(slots),
            next: AtomicUsize::new(0),
            changes: watch::Sender::new(()),
            jitter,
        }
    }

    /// The endpoints, as they were given.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        let slots = self.slots();
        slots
            .iter()
            .map(|slot| slot.dialer.endpoint().to_owned())
            .collect()
    }

    /// Why endpoints are down, where some are.
    pub(crate) fn unreachable(&self) -> Option<String> {
        let slots = self.slots();
        let reasons: Vec<String> = slots
            .iter()
            .filter_map(|slot| match &*slot.state() {
                State::Down(reason) => Some(reason.clone()),
                State::Connecting | State::Up(_) => None,
            })
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// How many endpoints there are.
    pub(crate) fn len(&self) -> usize {
        self.slots().len()
    }

    /// Takes these endpoints from now on. Those that stay keep their connection; one that goes ends
    /// with the last call over it.
    pub(crate) fn replace(&self, dialers: Vec<Dialer>) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        *slots = dialers
            .into_iter()
            .map(|dialer| {
                let kept = slots
                    .iter()
                    .find(|s| s.dialer.endpoint() == dialer.endpoint());
                kept.cloned().unwrap_or_else(|| Slot::new(dialer))
            })
            .collect();
        drop(slots);
        self.changes.send_replace(());
    }

    /// A connection that is up; with `wait`, as soon as there is one.
    /// Of those, one that was asked comes last.
    pub(crate) async fn pick(
        &self,
        method: &'static str,
        wait: bool,
        asked: Option<&Asked>,
    ) -> Result<Lane> {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            match self.choose(asked) {
                Choice::Up(lane) => {
                    if let Some(asked) = asked {
                        asked.add(lane.origin());
                    }
                    return Ok(lane);
                }
                Choice::AllDown(reason) if !wait => {
                    return Err(Error::Connection {
                        method,
                        unsent: true,
                        reason,
                    });
                }
                Choice::Undecided | Choice::AllDown(_) => {
                    // The sender lives as long as `self`.
                    let _ = changes.changed().await;
                }
            }
        }
    }

    fn choose(&self, asked: Option<&Asked>) -> Choice {
        let slots = self.slots();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut undecided = false;
        let mut reasons = Vec::new();
        let mut again = None;
        for turn in 0..slots.len() {
            let slot = &slots[first.wrapping_add(turn) % slots.len()];
            slot.start(&self.changes, &self.jitter);
            match &*slot.state() {
                State::Up(lane) if !lane.is_closed() => {
                    if asked.is_none_or(|asked| !asked.has(&lane.origin())) {
                        return Choice::Up(lane.clone());
                    }
                    again.get_or_insert_with(|| lane.clone());
                }
                State::Up(_) | State::Connecting => undecided = true,
                State::Down(reason) => reasons.push(reason.clone()),
            }
        }
        match (again, undecided) {
            (Some(lane), _) => Choice::Up(lane),
            (None, true) => Choice::Undecided,
            (None, false) => Choice::AllDown(reasons.join("; ")),
        }
    }

    fn slots(&self) -> Arc<[Arc<Slot>]> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.clone()
    }
}

impl Slot {
    fn new(dialer: Dialer) -> Arc<Slot> {
        Arc::new(Slot {
            dialer: Arc::new(dialer),
            state: Mutex::new(State::Connecting),
            task: Mutex::new(None),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets its task run, if it does not.
    fn start(self: &Arc<Slot>, changes: &watch::Sender<()>, jitter: &Arc<Jitter>) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            let (slot, dialer) = (Arc::downgrade(self), self.dialer.clone());
            let keep = keep(slot, dialer, changes.clone(), jitter.clone());
            *task = Some(tokio::spawn(keep).abort_handle());
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// Keeps an endpoint connected; its slot's end aborts it.
async fn keep(
    slot: Weak<Slot>,
    dialer: Arc<Dialer>,
    changes: watch::Sender<()>,
    jitter: Arc<Jitter>,
) {
    let become_ = |state: State| {
        if let Some(slot) = slot.upgrade() {
            *slot.state() = state;
            changes.send_replace(());
        }
    };
    let mut wait = WAIT_MIN;
    loop {
        match dialer.dial().await {
            Ok((lane, driver)) => {
                let since = Instant::now();
                become_(State::Up(lane));
                // How it ended was told to those whose calls were on it.
                let _ = driver.await;
                if since.elapsed() >= wait {
                    wait = WAIT_MIN;
                    become_(State::Connecting);
                    continue;
                }
                become_(State::Down(format!(
                    "{}: the connection ended at once",
                    dialer.endpoint()
                )));
            }
            Err(reason) => become_(State::Down(reason)),
        }
        tokio::time::sleep(jitter.spread(wait, WAIT_JITTER)).await;
        wait = (wait * 8 / 5).min(WAIT_MAX);
    }
}
