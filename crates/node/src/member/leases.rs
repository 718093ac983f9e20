//! The primary's duties to leases: proposing the revocation of those that are due, and checkpoints.

use super::{Member, REVOKE_BATCH, Revocation, RevocationWaiter};
use quorate_api as api;
use quorate_api::etcdserverpb::InternalRaftRequest;

impl<T> Member<T> {
    /// Calls `then` once the lease, which is due, is gone and the view without it is out, or once this
    /// member is no longer its primary.
    pub fn when_revoked(&mut self, id: i64, then: RevocationWaiter) {
        self.revocation_waiters.entry(id).or_default().push(then);
    }

    /// To be called when the view of the last [`Member::advance`] is published.
    pub fn tell_revoked(&mut self) {
        let lessor = self.store.lessor();
        let gone: Vec<i64> = self
            .revocation_waiters
            .keys()
            .copied()
            .filter(|id| !lessor.exists(*id))
            .collect();
        for id in gone {
            let waiting = self.revocation_waiters.remove(&id).unwrap_or_default();
            waiting.into_iter().for_each(|then| then(Revocation::Gone));
        }
    }

    /// Tells who waits that the leases are another member's to revoke from now on.
    pub(super) fn tell_demoted(&mut self) {
        for waiting in std::mem::take(&mut self.revocation_waiters).into_values() {
            waiting
                .into_iter()
                .for_each(|then| then(Revocation::Demoted));
        }
    }

    pub(super) fn expire_leases(&mut self) {
        // Raft may have learnt of another leader since the last advance: what was proposed then would
        // go to that one, who may have renewed what seems due here.
        if !self.is_leader() || !self.term_begun || self.log_full {
            return;
        }
        let now_ms = self.now_ms;
        for id in self.store.lessor().expired(now_ms, REVOKE_BATCH) {
            self.propose_own(InternalRaftRequest {
                lease_revoke: Some(api::etcdserverpb::LeaseRevokeRequest { id }),
                ..Default::default()
            });
        }
        loop {
            let checkpoints = self.store.lessor().due_checkpoints(now_ms);
            if checkpoints.is_empty() {
                break;
            }
            self.propose_own(InternalRaftRequest {
                lease_checkpoint: Some(api::etcdserverpb::LeaseCheckpointRequest { checkpoints }),
                ..Default::default()
            });
        }
    }

    /// Proposes a lease's checkpoint of 0: it was renewed, and the time left on the log is void.
    pub fn clear_checkpoint(&mut self, id: i64) {
        let checkpoints = vec![api::etcdserverpb::LeaseCheckpoint {
            id,
            remaining_ttl: 0,
        }];
        self.propose_own(InternalRaftRequest {
            lease_checkpoint: Some(api::etcdserverpb::LeaseCheckpointRequest { checkpoints }),
            ..Default::default()
        });
    }
}
