//! A lease that is kept alive is not revoked: between its last renewal and the proposal of its
//! revocation for being due, the proposing member's own clock went on by the lease's whole time.
//!
//! Its own clock, because that is all a primary has to go by; a client whose clock runs slower must
//! renew in good time. A member that became primary after the renewal gives every lease its whole time
//! anew, so the rule holds for it too, and for one that started after the renewal its clock began at 0.

use super::{Violation, ensure};
use crate::network::Slot;
use std::collections::BTreeMap;

/// The checker's name.
pub const NAME: &str = "lease";

/// A member looks at its clock from time to time, and may have seen less than it has shown.
const SLACK_US: u64 = 50_000;

/// What a member's clock shows: which start of the member it belongs to, and microseconds since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Counts the member's starts.
    pub life: u64,
    /// Since then.
    pub micros: u64,
}

#[derive(Debug)]
struct Renewal {
    ttl_s: i64,
    clocks: Vec<Reading>,
    at_us: u64,
}

#[derive(Debug)]
struct Proposal {
    lease: i64,
    slot: Slot,
    reading: Reading,
    at_us: u64,
}

/// Renewals, and proposals to revoke what was not renewed.
#[derive(Debug, Default)]
pub struct Leases {
    renewals: BTreeMap<i64, Renewal>,
    proposals: BTreeMap<u64, Proposal>,
    expired: u64,
}

impl Leases {
    /// A lease was granted or renewed while the members' clocks showed this.
    pub fn renewed(&mut self, lease: i64, ttl_s: i64, clocks: Vec<Reading>, at_us: u64) {
        let renewal = Renewal {
            ttl_s,
            clocks,
            at_us,
        };
        self.renewals.insert(lease, renewal);
    }

    /// A member proposes, under this request id, to revoke a lease for being due. Only the first
    /// sight of it counts.
    pub fn proposed(&mut self, id: u64, lease: i64, slot: Slot, reading: Reading, at_us: u64) {
        self.proposals.entry(id).or_insert(Proposal {
            lease,
            slot,
            reading,
            at_us,
        });
    }

    /// Such a proposal was committed.
    pub fn revoked(&mut self, id: u64) -> Result<(), Violation> {
        let Some(proposal) = self.proposals.get(&id) else {
            return Err(Violation {
                oracle: NAME,
                what: format!("a revocation {id:x} was committed that nobody proposed"),
            });
        };
        let Some(renewal) = self.renewals.get(&proposal.lease) else {
            return Ok(()); // it was revoked before
        };
        let now = proposal.reading;
        let passed_us = match renewal.clocks.get(proposal.slot) {
            Some(then) if then.life == now.life => now.micros.saturating_sub(then.micros),
            _ => now.micros,
        };
        let owed_us = renewal.ttl_s as u64 * 1_000_000 - SLACK_US;
        ensure!(
            renewal.at_us <= proposal.at_us && passed_us >= owed_us,
            NAME,
            "lease {:x} of {} s was renewed at {} us, and member {} proposed at {} us to revoke it, \
             {passed_us} us later by its own clock",
            proposal.lease,
            renewal.ttl_s,
            renewal.at_us,
            proposal.slot,
            proposal.at_us
        );
        self.expired += 1;
        self.renewals.remove(&proposal.lease);
        Ok(())
    }

    /// Leases that ended for being due.
    pub fn expired(&self) -> u64 {
        self.expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(life: u64, ms: u64) -> Reading {
        Reading {
            life,
            micros: ms * 1000,
        }
    }

    #[test]
    fn a_revocation_comes_after_the_leases_time() {
        let mut leases = Leases::default();
        leases.renewed(7, 2, vec![at(1, 100), at(1, 900)], 1_000);
        leases.proposed(50, 7, 1, at(1, 2900), 2_000_000);
        assert_eq!(leases.revoked(50), Ok(()));

        leases.renewed(8, 2, vec![at(1, 100), at(1, 900)], 1_000);
        leases.proposed(51, 8, 1, at(1, 2500), 1_600_000);
        assert!(leases.revoked(51).is_err());

        // The renewal came when the proposal was on its way.
        leases.renewed(9, 2, vec![at(1, 100)], 1_000);
        leases.proposed(52, 9, 0, at(1, 2100), 2_000_000);
        leases.renewed(9, 2, vec![at(1, 2200)], 2_100_000);
        assert!(leases.revoked(52).is_err());
    }
}
