//! The appends that were sent to a follower and not acknowledged yet.
//!
//! Invariants: the indexes ascend; `bytes` is the sum over the queue; nothing is added while full.
//! The limit on bytes is soft: one message may cross it.

use std::collections::VecDeque;

/// A window over the appends on their way, limited by count and by bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inflights {
    /// Last index and bytes of each message, oldest first.
    queue: VecDeque<(u64, u64)>,
    bytes: u64,
    count_max: usize,
    bytes_max: u64,
}

impl Inflights {
    /// A window of `count_max` messages and `bytes_max` bytes; 0 bytes means no limit on them.
    pub fn new(count_max: usize, bytes_max: u64) -> Inflights {
        Inflights {
            queue: VecDeque::new(),
            bytes: 0,
            count_max,
            bytes_max,
        }
    }

    /// Whether no further message may be sent.
    pub fn is_full(&self) -> bool {
        self.queue.len() >= self.count_max || (self.bytes_max != 0 && self.bytes >= self.bytes_max)
    }

    /// Messages on their way.
    pub fn count(&self) -> usize {
        self.queue.len()
    }

    /// Bytes on their way.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes a message whose last entry has `index`. Panics if full or out of order.
    pub fn add(&mut self, index: u64, bytes: u64) {
        assert!(!self.is_full(), "cannot add into a full inflights");
        let newest = self.queue.back().map_or(0, |(index, _)| *index);
        assert!(index >= newest, "inflight {index} added behind {newest}");
        self.queue.push_back((index, bytes));
        self.bytes += bytes;
    }

    /// Frees what ends at or below `index`.
    pub fn free_to(&mut self, index: u64) {
        while let Some((last, bytes)) = self.queue.front().copied() {
            if last > index {
                break;
            }
            self.queue.pop_front();
            self.bytes -= bytes;
        }
    }

    /// Frees everything.
    pub fn reset(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_limits() {
        let mut inflights = Inflights::new(3, 0);
        for index in [2, 5, 9] {
            assert!(!inflights.is_full());
            inflights.add(index, 100);
        }
        assert!(inflights.is_full());
        inflights.free_to(1);
        assert_eq!((inflights.count(), inflights.bytes()), (3, 300));
        inflights.free_to(7);
        assert_eq!((inflights.count(), inflights.bytes()), (1, 100));
        inflights.reset();
        assert_eq!((inflights.count(), inflights.bytes()), (0, 0));
    }

    #[test]
    fn one_message_may_cross_the_limit_of_bytes() {
        let mut inflights = Inflights::new(10, 100);
        inflights.add(1, 99);
        assert!(!inflights.is_full());
        inflights.add(2, 1000);
        assert!(inflights.is_full());
        inflights.free_to(1);
        assert!(inflights.is_full());
        inflights.free_to(2);
        assert!(!inflights.is_full());
    }

    #[test]
    #[should_panic(expected = "full inflights")]
    fn a_full_window_takes_no_more() {
        let mut inflights = Inflights::new(1, 0);
        inflights.add(1, 1);
        inflights.add(2, 1);
    }
}
