//! Reads that never go back in time.
//!
//! A serializable read is answered by a member from what it has, which may be older than what
//! another member answered before. A client with an order remembers the newest revision it has
//! seen and asks on, member after member, until an answer is at least that new.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The rounds over all endpoints after which none is taken to be new enough.
const ROUNDS: usize = 5;

/// The newest revision that was seen; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order(Arc<AtomicI64>);

/// What to do with an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InOrder {
    Yes,
    AskAgain,
    No,
}

/// One read under an order.
#[derive(Debug)]
pub(crate) struct Reading {
    order: Option<Order>,
    /// What was seen when it began.
    revision_min: i64,
    left: usize,
}

impl Reading {
    pub(crate) fn begin(order: Option<&Order>, endpoints: usize) -> Reading {
        Reading {
            revision_min: order.map_or(0, |order| order.0.load(Ordering::Acquire)),
            order: order.cloned(),
            left: ROUNDS * endpoints,
        }
    }

    /// Judges an answer by the revision in its header.
    pub(crate) fn judge(&mut self, revision: i64) -> InOrder {
        let Some(order) = &self.order else {
            return InOrder::Yes;
        };
        if revision >= self.revision_min {
            order.0.fetch_max(revision, Ordering::AcqRel);
            return InOrder::Yes;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                InOrder::AskAgain
            }
            None => InOrder::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_answer_is_asked_for_again_and_given_up_at_last() {
        let order = Order::default();
        assert_eq!(Reading::begin(Some(&order), 2).judge(7), InOrder::Yes);
        let mut reading = Reading::begin(Some(&order), 2);
        for _ in 0..2 * ROUNDS {
            assert_eq!(reading.judge(6), InOrder::AskAgain);
        }
        assert_eq!(reading.judge(6), InOrder::No);
        assert_eq!(Reading::begin(Some(&order), 2).judge(7), InOrder::Yes);
    }

    #[test]
    fn reads_that_overlap_are_bound_by_what_was_seen_before_them() {
        let order = Order::default();
        let mut early = Reading::begin(Some(&order), 1);
        assert_eq!(Reading::begin(Some(&order), 1).judge(9), InOrder::Yes);
        assert_eq!(early.judge(3), InOrder::Yes);
        assert_eq!(Reading::begin(Some(&order), 1).judge(8), InOrder::AskAgain);
    }

    #[test]
    fn without_an_order_every_answer_will_do() {
        assert_eq!(Reading::begin(None, 1).judge(-1), InOrder::Yes);
    }
}
