//! Ids: of members and clusters, which the store spells, and of requests. The latter are as in etcd's idutil: two bytes of the member's id, five of the start time, three
//! of a counter, of which the time's low bits are carried into when it overflows.

pub use quorate_store::ids::{cluster_id, member_id};
use std::sync::atomic::{AtomicU64, Ordering};

/// Draws request ids that no other member, and no earlier run of this one, draws. Any thread may.
#[derive(Debug)]
pub struct RequestIds {
    prefix: u64,
    next: AtomicU64,
}

impl RequestIds {
    /// `start_ms`: wall-clock time in milliseconds.
    pub fn new(member_id: u64, start_ms: u64) -> RequestIds {
        RequestIds {
            prefix: (member_id & 0xffff) << 48,
            next: AtomicU64::new(start_ms << 8),
        }
    }

    /// The next id; never 0.
    pub fn draw(&self) -> u64 {
        let low = self.next.fetch_add(1, Ordering::Relaxed) & ((1 << 48) - 1);
        self.prefix | low.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_differ() {
        let ids = RequestIds::new(0x1234, 1_700_000_000_000);
        let all: std::collections::HashSet<u64> = (0..10_000).map(|_| ids.draw()).collect();
        assert_eq!(all.len(), 10_000);
        assert!(all.iter().all(|id| id >> 48 == 0x1234));
    }
}
