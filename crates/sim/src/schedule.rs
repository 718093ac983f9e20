//! What happens when: events in the order of the simulation's time.
//!
//! Invariant: events of one moment come in the order in which they were scheduled, so the order is
//! a matter of the seed alone.

use std::collections::BTreeMap;

/// Events to come.
pub struct Schedule<E> {
    now_us: u64,
    drawn: u64,
    events: BTreeMap<(u64, u64), E>,
}

impl<E> Schedule<E> {
    /// Nothing yet, at time 0.
    pub fn new() -> Schedule<E> {
        Schedule {
            now_us: 0,
            drawn: 0,
            events: BTreeMap::new(),
        }
    }

    /// The simulation's time, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Lets an event happen after a while.
    pub fn after(&mut self, delay_us: u64, event: E) {
        self.drawn += 1;
        self.events
            .insert((self.now_us + delay_us, self.drawn), event);
    }

    /// Keeps only some of the events to come.
    pub fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
        self.events.retain(|_, event| keep(event));
    }

    /// The next event; time goes on to it.
    pub fn next(&mut self) -> Option<E> {
        let ((at_us, _), event) = self.events.pop_first()?;
        self.now_us = at_us;
        Some(event)
    }
}

impl<E> Default for Schedule<E> {
    fn default() -> Schedule<E> {
        Schedule::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order() {
        let mut schedule = Schedule::new();
        schedule.after(5, "c");
        schedule.after(1, "a");
        schedule.after(1, "b");
        assert_eq!(schedule.next(), Some("a"));
        schedule.after(0, "b'");
        assert_eq!(schedule.next(), Some("b"));
        assert_eq!(schedule.next(), Some("b'"));
        assert_eq!((schedule.next(), schedule.now_us()), (Some("c"), 5));
        assert_eq!(schedule.next(), None);
    }
}
