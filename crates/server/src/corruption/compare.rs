//! What members' hashes say of each other: decided from what was told, and told to the operator.
//!
//! Hashes are comparable only where they were computed at one revision with one compact revision.
//! Source: etcd's corrupt.go.

use crate::peer_api::hash_kv::{HashError, PeerHash, RemoteHash};
use quorate_node::store::hash::KeyValueHash;
use quorate_node::store::membership::spell_id;
use std::collections::BTreeMap;

/// How many members differ from this one's hash, before it serves.
pub fn initial(own_id: u64, own: KeyValueHash, peers: &[PeerHash]) -> usize {
    let mut mismatches = 0;
    for peer in peers {
        let told = match &peer.told {
            Ok(told) => told,
            Err(error) => {
                tell_unknown(own_id, own, peer, error);
                continue;
            }
        };
        if told.hash.hash == own.hash {
            continue;
        }
        if told.hash.compact_revision == own.compact_revision {
            mismatches += 1;
            tell_difference(
                own_id,
                own,
                peer,
                told,
                "found different hash values from remote peer",
            );
        } else {
            let what = "found different compact revision values from remote peer";
            tell_difference(own_id, own, peer, told, what);
        }
    }
    mismatches
}

fn tell_difference(
    own_id: u64,
    own: KeyValueHash,
    peer: &PeerHash,
    told: &RemoteHash,
    what: &'static str,
) {
    tracing::warn!(
        "local-member-id" = spell_id(own_id),
        "local-member-revision" = own.revision,
        "local-member-compact-revision" = own.compact_revision,
        "local-member-hash" = own.hash,
        "remote-peer-id" = spell_id(peer.id),
        "remote-peer-endpoints" = crate::logging::list(&peer.urls),
        "remote-peer-revision" = told.newest_revision,
        "remote-peer-compact-revision" = told.hash.compact_revision,
        "remote-peer-hash" = told.hash.hash,
        "{what}"
    );
}

fn tell_unknown(own_id: u64, own: KeyValueHash, peer: &PeerHash, error: &HashError) {
    let what = match error {
        HashError::FutureRevision => "cannot fetch hash from slow remote peer",
        HashError::Compacted => "cannot fetch hash from remote peer; local member is behind",
        HashError::OtherCluster => "cluster ID mismatch",
        // Told when the request failed.
        HashError::Failed(_) => return,
    };
    tracing::warn!(
        "local-member-id" = spell_id(own_id),
        "local-member-revision" = own.revision,
        "local-member-compact-revision" = own.compact_revision,
        "local-member-hash" = own.hash,
        "remote-peer-id" = spell_id(peer.id),
        "remote-peer-endpoints" = crate::logging::list(&peer.urls),
        "error" = %error,
        "{what}"
    );
}

/// This leader's hashes around those of its followers: before they were asked, and after all that
/// they can have had was applied here too.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Before.
    pub before: KeyValueHash,
    /// After.
    pub after: KeyValueHash,
    /// The newest revision after.
    pub newest_revision: i64,
}

/// The first member that is found to be corrupt.
pub fn periodic(own_id: u64, own: Around, peers: &[PeerHash]) -> Option<u64> {
    let Around { before, after, .. } = own;
    let mut corrupt = None;
    if after.hash != before.hash
        && after.revision == before.revision
        && after.compact_revision == before.compact_revision
    {
        tracing::warn!(
            "revision-1" = before.revision,
            "compact-revision-1" = before.compact_revision,
            "hash-1" = before.hash,
            "revision-2" = after.revision,
            "compact-revision-2" = after.compact_revision,
            "hash-2" = after.hash,
            "found hash mismatch"
        );
        corrupt = Some(own_id);
    }
    let mut checked = 0u64;
    for peer in peers {
        let Ok(told) = &peer.told else { continue };
        checked += 1;
        if is_corrupt(own, peer.id, told) {
            corrupt = corrupt.or(Some(peer.id));
        }
    }
    tracing::info!(
        "number-of-peers-checked" = checked,
        "finished peer corruption check"
    );
    corrupt
}

fn is_corrupt(own: Around, id: u64, told: &RemoteHash) -> bool {
    let Around {
        before,
        after,
        newest_revision,
    } = own;
    let mut corrupt = false;
    if told.newest_revision > newest_revision {
        tracing::warn!(
            "leader-revision" = newest_revision,
            "follower-revision" = told.newest_revision,
            "follower-peer-id" = spell_id(id),
            "revision from follower must be less than or equal to leader's"
        );
        corrupt = true;
    }
    if told.hash.compact_revision > after.compact_revision {
        tracing::warn!(
            "leader-compact-revision" = after.compact_revision,
            "follower-compact-revision" = told.hash.compact_revision,
            "follower-peer-id" = spell_id(id),
            "compact revision from follower must be less than or equal to leader's"
        );
        corrupt = true;
    }
    if told.hash.compact_revision == before.compact_revision && told.hash.hash != before.hash {
        tracing::warn!(
            "leader-compact-revision" = after.compact_revision,
            "leader-hash" = before.hash,
            "follower-compact-revision" = told.hash.compact_revision,
            "follower-hash" = told.hash.hash,
            "follower-peer-id" = spell_id(id),
            "same compact revision then hashes must match"
        );
        corrupt = true;
    }
    corrupt
}

/// What members' hashes of one compaction come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// All members have the same one.
    Same,
    /// Those that told have the same one; others did not tell.
    Incomplete,
    /// They differ. These members are corrupt; 0: nobody knows which.
    Corrupt(Vec<u64>),
}

/// Compares the leader's hash of a compaction with those of its followers.
pub fn compaction(own_id: u64, own: KeyValueHash, peers: &[PeerHash]) -> Compaction {
    let mut by_hash = BTreeMap::from([(own.hash, vec![own_id])]);
    let mut checked = 0u64;
    for peer in peers {
        let reason = match &peer.told {
            Ok(told) if told.hash.compact_revision == own.compact_revision => {
                checked += 1;
                by_hash.entry(told.hash.hash).or_default().push(peer.id);
                continue;
            }
            Ok(told) => format!(
                "the peer's CompactRevision {} doesn't match leader's CompactRevision {}",
                told.hash.compact_revision, own.compact_revision
            ),
            Err(_) => "no response".to_owned(),
        };
        tracing::warn!(
            "number-of-peers" = peers.len() as u64,
            "leader-id" = spell_id(own_id),
            "peer-id" = spell_id(peer.id),
            "reason" = reason.as_str(),
            "Skipped peer's hash"
        );
    }
    if by_hash.len() == 1 {
        return tell_same(own, checked, peers.len() as u64);
    }

    // Who is in the majority is right.
    let members = peers.len() + 1;
    let quorum = members / 2 + 1;
    let right = by_hash
        .iter()
        .find(|(_, ids)| ids.len() >= quorum)
        .map(|(hash, _)| *hash);
    let mut corrupt = Vec::new();
    if let Some(right) = right {
        by_hash.remove(&right);
        corrupt.extend(by_hash.values().flatten());
    } else {
        tracing::error!(
            "leader-id" = spell_id(own_id),
            "leader-revision" = own.revision,
            "leader-compact-revision" = own.compact_revision,
            "leader-hash" = own.hash,
            "Detected compaction hash mismatch but cannot identify the corrupted members, so \
             intentionally set the memberID as 0"
        );
        corrupt.push(0);
    }
    for (hash, ids) in &by_hash {
        let ids: Vec<String> = ids.iter().map(|id| spell_id(*id)).collect();
        tracing::error!(
            "leader-id" = spell_id(own_id),
            "leader-revision" = own.revision,
            "leader-compact-revision" = own.compact_revision,
            "leader-hash" = own.hash,
            "peer-hash" = hash,
            "peer-ids" = ids.join(","),
            "quorum-exist" = right.is_some(),
            "Detected compaction hash mismatch"
        );
    }
    Compaction::Corrupt(corrupt)
}

fn tell_same(own: KeyValueHash, checked: u64, peers: u64) -> Compaction {
    if checked == peers {
        tracing::info!(
            "number-of-peers-checked" = checked,
            "revision" = own.revision,
            "compactRevision" = own.compact_revision,
            "successfully checked hash on whole cluster"
        );
        return Compaction::Same;
    }
    tracing::warn!(
        "number-of-peers-checked" = checked,
        "number-of-peers" = peers,
        "revision" = own.revision,
        "compactRevision" = own.compact_revision,
        "skipped revision in compaction hash check; was not able to check all peers"
    );
    Compaction::Incomplete
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(hash: u32, compact_revision: i64, revision: i64) -> KeyValueHash {
        KeyValueHash {
            hash,
            compact_revision,
            revision,
        }
    }

    fn told(id: u64, hash: KeyValueHash, newest_revision: i64) -> PeerHash {
        PeerHash {
            id,
            urls: vec!["http://h:1".into()],
            told: Ok(RemoteHash {
                hash,
                newest_revision,
            }),
        }
    }

    fn silent(id: u64, error: HashError) -> PeerHash {
        PeerHash {
            id,
            urls: vec!["http://h:1".into()],
            told: Err(error),
        }
    }

    #[test]
    fn at_start_only_like_is_compared_with_like() {
        let own = hash(1, 5, 9);
        let differing = |peers: &[PeerHash]| initial(1, own, peers);
        assert_eq!(
            differing(&[told(2, hash(1, 5, 9), 9), told(3, hash(1, 4, 9), 9)]),
            0
        );
        assert_eq!(differing(&[told(2, hash(2, 4, 9), 9)]), 0);
        assert_eq!(
            differing(&[told(2, hash(2, 5, 9), 9), told(3, hash(3, 5, 9), 9)]),
            2
        );
        assert_eq!(
            differing(&[
                silent(2, HashError::FutureRevision),
                silent(3, HashError::Compacted),
                silent(4, HashError::OtherCluster),
                silent(5, HashError::Failed("x".into())),
            ]),
            0
        );
    }

    fn around(before: KeyValueHash, after: KeyValueHash) -> Around {
        Around {
            before,
            after,
            newest_revision: after.revision,
        }
    }

    #[test]
    fn a_leader_whose_hash_changed_by_itself_is_corrupt() {
        let corrupt = |after| periodic(1, around(hash(1, 5, 9), after), &[]);
        assert_eq!(corrupt(hash(2, 5, 9)), Some(1));
        assert_eq!(corrupt(hash(2, 5, 10)), None);
        assert_eq!(corrupt(hash(2, 6, 9)), None);
    }

    #[test]
    fn a_follower_ahead_or_different_is_corrupt() {
        let own = around(hash(1, 5, 9), hash(1, 6, 10));
        let corrupt = |peers: &[PeerHash]| periodic(1, own, peers);
        assert_eq!(corrupt(&[told(2, hash(1, 5, 9), 10)]), None);
        assert_eq!(corrupt(&[told(2, hash(1, 5, 9), 11)]), Some(2));
        assert_eq!(corrupt(&[told(2, hash(1, 7, 9), 10)]), Some(2));
        assert_eq!(corrupt(&[told(2, hash(3, 5, 9), 9)]), Some(2));
        // Compacted since it was asked at: not comparable.
        assert_eq!(corrupt(&[told(2, hash(3, 6, 9), 9)]), None);
        assert_eq!(corrupt(&[silent(2, HashError::Failed("x".into()))]), None);
        // One alarm is enough.
        let both = [told(2, hash(3, 5, 9), 9), told(3, hash(4, 5, 9), 9)];
        assert_eq!(corrupt(&both), Some(2));
    }

    #[test]
    fn the_minority_of_a_compaction_is_corrupt() {
        let own = hash(1, 5, 9);
        let verdict = |peers: &[PeerHash]| compaction(1, own, peers);
        let like = |id| told(id, own, 9);
        let unlike = |id, value| told(id, hash(value, 5, 9), 9);
        assert_eq!(verdict(&[like(2), like(3)]), Compaction::Same);
        assert_eq!(
            verdict(&[like(2), silent(3, HashError::FutureRevision)]),
            Compaction::Incomplete
        );
        assert_eq!(
            verdict(&[like(2), told(3, hash(2, 4, 9), 9)]),
            Compaction::Incomplete
        );
        assert_eq!(
            verdict(&[like(2), unlike(3, 2)]),
            Compaction::Corrupt(vec![3])
        );
        // The leader itself.
        assert_eq!(
            verdict(&[unlike(2, 2), unlike(3, 2)]),
            Compaction::Corrupt(vec![1])
        );
        // No majority: two of two, three of three, and one that is silent.
        assert_eq!(verdict(&[unlike(2, 2)]), Compaction::Corrupt(vec![0]));
        assert_eq!(
            verdict(&[unlike(2, 2), unlike(3, 3)]),
            Compaction::Corrupt(vec![0])
        );
        assert_eq!(
            verdict(&[unlike(2, 2), silent(3, HashError::Compacted)]),
            Compaction::Corrupt(vec![0])
        );
        let four = [like(2), like(3), unlike(4, 2), unlike(5, 3)];
        assert_eq!(verdict(&four), Compaction::Corrupt(vec![4, 5]));
    }
}
