//! The wakers that a connection hands to its streams.
//!
//! A stream's waker marks the stream, so that a round looks only at streams that can move. While
//! the connection runs, waking it sets a flag instead of bothering the runtime: the round goes on
//! until the flag stays down.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

#[derive(Default)]
struct Shared {
    /// Streams that can move.
    ready: Mutex<Vec<u32>>,
    /// Something happened that the round has not seen.
    again: AtomicBool,
    /// Whether a round runs.
    running: AtomicBool,
    task: Mutex<Option<Waker>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn notify(&self) {
        // First the flag: a round that ends meanwhile looks at it after it has said that it ends.
        self.again.store(true, Ordering::SeqCst);
        if !self.running.load(Ordering::SeqCst)
            && let Some(task) = &*lock(&self.task)
        {
            task.wake_by_ref();
        }
    }
}

struct ConnectionWake(Arc<Shared>);

impl Wake for ConnectionWake {
    fn wake(self: Arc<ConnectionWake>) {
        self.0.notify();
    }

    fn wake_by_ref(self: &Arc<ConnectionWake>) {
        self.0.notify();
    }
}

struct StreamWake {
    shared: Arc<Shared>,
    slot: u32,
    /// Whether the slot is on the list.
    listed: AtomicBool,
}

impl StreamWake {
    fn mark(&self) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            lock(&self.shared.ready).push(self.slot);
        }
    }
}

impl Wake for StreamWake {
    fn wake(self: Arc<StreamWake>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<StreamWake>) {
        self.mark();
        self.shared.notify();
    }
}

/// A slot's waker, used by one stream after the other.
pub(super) struct SlotWaker {
    wake: Arc<StreamWake>,
    waker: Waker,
}

impl SlotWaker {
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The slot is being looked at: what happens from now on puts it on the list again.
    pub fn unlist(&self) {
        self.wake.listed.store(false, Ordering::Release);
    }
}

/// A connection's wakers.
pub(super) struct Wakers {
    shared: Arc<Shared>,
    connection: Waker,
}

impl Wakers {
    pub fn new() -> Wakers {
        let shared = Arc::new(Shared::default());
        let connection = Waker::from(Arc::new(ConnectionWake(shared.clone())));
        Wakers { shared, connection }
    }

    /// Wakes the connection as a whole.
    pub fn connection(&self) -> &Waker {
        &self.connection
    }

    pub fn slot(&self, slot: u32) -> SlotWaker {
        let wake = Arc::new(StreamWake {
            shared: self.shared.clone(),
            slot,
            listed: AtomicBool::new(false),
        });
        SlotWaker {
            waker: Waker::from(wake.clone()),
            wake,
        }
    }

    /// A round begins, in the task that this waker wakes.
    pub fn begin(&self, task: &Waker) {
        let mut known = lock(&self.shared.task);
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
        self.shared.running.store(true, Ordering::SeqCst);
    }

    /// Whether something happened since this was last asked.
    pub fn take_again(&self) -> bool {
        self.shared.again.swap(false, Ordering::SeqCst)
    }

    /// Whether something happened since [`Wakers::take_again`] was last asked.
    pub fn has_news(&self) -> bool {
        self.shared.again.load(Ordering::SeqCst)
    }

    /// The slots that can move.
    pub fn take_ready(&self, into: &mut Vec<u32>) {
        into.append(&mut lock(&self.shared.ready));
    }

    /// The round ends. What happened since [`Wakers::take_again`] was last asked wakes the task.
    pub fn end(&self) {
        self.shared.running.store(false, Ordering::SeqCst);
        if self.shared.again.load(Ordering::SeqCst) {
            self.shared.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn within_a_round_nobody_is_woken_and_nothing_is_lost() {
        let count = Arc::new(Count::default());
        let task = Waker::from(count.clone());
        let wakers = Wakers::new();
        let slot = wakers.slot(7);
        wakers.begin(&task);
        slot.waker().wake_by_ref();
        slot.waker().wake_by_ref();
        assert!(wakers.take_again() && !wakers.take_again());
        let mut ready = Vec::new();
        wakers.take_ready(&mut ready);
        assert_eq!(ready, [7]);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);

        // It happens too late for the round: the end sees to it.
        wakers.connection().wake_by_ref();
        wakers.end();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        slot.unlist();
        slot.waker().wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        wakers.take_ready(&mut ready);
        assert_eq!(ready, [7, 7]);
    }
}
