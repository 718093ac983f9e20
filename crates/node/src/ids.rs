//! Ids: of members, clusters and requests.
//!
//! A member's id is the first eight bytes of the SHA-1 of its peer URLs (sorted, side by side) and
//! the cluster's token; a cluster's, of its members' ids (sorted, big-endian). So members that are
//! started with the same flags agree without talking. Source: etcd's membership package; request
//! ids as in its idutil (two bytes of the member's id, five of the start time, three of a counter,
//! of which the time's low bits are carried into when it overflows).

use sha1::{Digest, Sha1};
use std::sync::atomic::{AtomicU64, Ordering};

fn first_eight(digest: Sha1) -> u64 {
    let digest = digest.finalize();
    u64::from_be_bytes(digest[..8].try_into().expect("a SHA-1 has twenty bytes"))
}

/// The id of a member that the cluster began with.
pub fn member_id(peer_urls: &[String], token: &str) -> u64 {
    let mut urls = peer_urls.to_vec();
    urls.sort();
    let mut digest = Sha1::new();
    for url in &urls {
        digest.update(url.as_bytes());
    }
    digest.update(token.as_bytes());
    first_eight(digest)
}

/// The id of a cluster that began with these members.
pub fn cluster_id(member_ids: &[u64]) -> u64 {
    let mut ids = member_ids.to_vec();
    ids.sort_unstable();
    let mut digest = Sha1::new();
    for id in ids {
        digest.update(id.to_be_bytes());
    }
    first_eight(digest)
}

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
    fn ids_are_etcds() {
        let id = member_id(&["http://localhost:2380".into()], "etcd-cluster");
        assert_eq!(id, 0x8e9e05c52164694d);
        assert_eq!(cluster_id(&[id]), 0xcdf818194e3a8c32);
    }

    #[test]
    fn request_ids_differ() {
        let ids = RequestIds::new(0x1234, 1_700_000_000_000);
        let all: std::collections::HashSet<u64> = (0..10_000).map(|_| ids.draw()).collect();
        assert_eq!(all.len(), 10_000);
        assert!(all.iter().all(|id| id >> 48 == 0x1234));
    }
}
