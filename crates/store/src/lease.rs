//! Leases: keys that live as long as somebody renews them.
//!
//! Grants, revocations and checkpoints come through the log and are the same on every member;
//! expiry is the primary's business alone (the leader's): it proposes the revocation of what is
//! due. Time is an argument, in milliseconds of any steady clock.
//!
//! Invariants: `keys` of a lease and `holder` mirror each other; a due time in the queue that is
//! not the lease's own is stale and skipped; a member that is not primary has no due times.
//! Source: etcd's lease package (minimum TTL, retry interval, checkpoints).

use crate::Error;
use crate::buckets::{BucketId, Edits};
use prost::Message;
use quorate_api as api;
use quorate_api::etcdserverpb::LeaseCheckpoint;
use quorate_api::leasepb;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;

/// Largest TTL that is granted, in seconds.
pub const MAX_TTL_S: i64 = 9_000_000_000;
/// A revocation that was proposed and has not come is proposed again after this time.
const REVOKE_RETRY_MS: u64 = 3_000;
/// Most checkpoints in one proposal.
const CHECKPOINT_BATCH: usize = 1_000;

/// What the lessor is told once.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// A grant below it gets it, in seconds.
    pub min_ttl_s: i64,
    /// How often the remaining time of a long lease is put on the log, in milliseconds; `None`
    /// where the feature is off.
    pub checkpoint_interval_ms: Option<u64>,
}

struct Lease {
    ttl_s: i64,
    /// Seconds that were left at the last checkpoint; 0: none, the whole TTL.
    remaining_s: i64,
    /// When it is due; `None` where this member is not primary.
    due_ms: Option<u64>,
    /// When its revocation may be proposed (again).
    propose_ms: u64,
    keys: BTreeSet<Arc<[u8]>>,
}

impl Lease {
    fn left_s(&self) -> i64 {
        if self.remaining_s > 0 {
            self.remaining_s
        } else {
            self.ttl_s
        }
    }
}

/// What a lease is, for TimeToLive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// As granted, in seconds.
    pub ttl_s: i64,
    /// Until it is due, in milliseconds (0 when it is overdue); `None` where this member is not
    /// primary.
    pub remaining_ms: Option<u64>,
    /// The keys on it, ascending.
    pub keys: Vec<Arc<[u8]>>,
}

/// What became of a keep-alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Renewed; its TTL in seconds. `clear_checkpoint`: a remaining time was checkpointed, and a
    /// checkpoint of 0 must go through the log first.
    Renewed {
        /// As granted, in seconds.
        ttl_s: i64,
        /// Whether a remaining time was on the log.
        clear_checkpoint: bool,
    },
    /// There is none.
    NotFound,
    /// This member is not primary.
    NotPrimary,
    /// It is due and its revocation on its way: the answer is "not found" once that is applied.
    Expiring,
}

/// All leases of the store.
pub struct Lessor {
    config: Config,
    primary: bool,
    leases: HashMap<i64, Lease>,
    holder: HashMap<Arc<[u8]>, i64>,
    due: BinaryHeap<Reverse<(u64, i64)>>,
    checkpoints: BinaryHeap<Reverse<(u64, i64)>>,
}

impl Lessor {
    /// No leases; not primary.
    pub fn new(config: Config) -> Lessor {
        Lessor {
            config,
            primary: false,
            leases: HashMap::new(),
            holder: HashMap::new(),
            due: BinaryHeap::new(),
            checkpoints: BinaryHeap::new(),
        }
    }

    /// Takes in a lease from the file.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let stored = leasepb::Lease::decode(value)
            .map_err(|e| Error::corrupt("lease", key, e.to_string()))?;
        if key != stored.id.to_be_bytes() {
            return Err(Error::corrupt("lease", key, "the lease has another id"));
        }
        self.leases.insert(
            stored.id,
            Lease {
                ttl_s: stored.ttl.max(self.config.min_ttl_s),
                remaining_s: stored.remaining_ttl,
                due_ms: None,
                propose_ms: 0,
                keys: BTreeSet::new(),
            },
        );
        Ok(())
    }

    /// Whether there is such a lease.
    pub fn exists(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// Number of leases.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Whether this member is primary.
    pub fn is_primary(&self) -> bool {
        self.primary
    }

    /// Grants a lease; its TTL in seconds, which may be longer than asked.
    pub fn grant(
        &mut self,
        id: i64,
        ttl_s: i64,
        now_ms: u64,
        edits: &mut Edits,
    ) -> Result<i64, api::Error> {
        if id == 0 {
            return Err(api::Error::LeaseNotFound);
        }
        if ttl_s > MAX_TTL_S {
            return Err(api::Error::LeaseTTLTooLarge);
        }
        if self.exists(id) {
            return Err(api::Error::LeaseExist);
        }
        let ttl_s = ttl_s.max(self.config.min_ttl_s);
        let lease = Lease {
            ttl_s,
            remaining_s: 0,
            due_ms: None,
            propose_ms: 0,
            keys: BTreeSet::new(),
        };
        persist(id, &lease, edits);
        self.leases.insert(id, lease);
        if self.primary {
            self.refresh(id, now_ms);
            self.schedule_checkpoint(id, now_ms);
        }
        Ok(ttl_s)
    }

    /// Takes a lease away; its keys, ascending, which the caller deletes.
    pub fn revoke(&mut self, id: i64, edits: &mut Edits) -> Option<Vec<Arc<[u8]>>> {
        let lease = self.leases.remove(&id)?;
        edits.delete(BucketId::Lease, &id.to_be_bytes());
        for key in &lease.keys {
            self.holder.remove(key);
        }
        Some(lease.keys.into_iter().collect())
    }

    /// Applies checkpoints; an unknown lease's is ignored. `persist`: the cluster is on 3.6 or
    /// later, where they are stored.
    pub fn checkpoint(
        &mut self,
        checkpoints: &[LeaseCheckpoint],
        store: bool,
        now_ms: u64,
        edits: &mut Edits,
    ) {
        for checkpoint in checkpoints {
            if let Some(lease) = self.leases.get_mut(&checkpoint.id) {
                lease.remaining_s = checkpoint.remaining_ttl;
                if store {
                    persist(checkpoint.id, lease, edits);
                }
                if self.primary {
                    self.schedule_checkpoint(checkpoint.id, now_ms);
                }
            }
        }
    }

    /// The lease that holds a key; 0 for none.
    pub fn holder(&self, key: &[u8]) -> i64 {
        self.holder.get(key).copied().unwrap_or(0)
    }

    /// Hangs a key on a lease that exists, taking it off another.
    pub fn attach(&mut self, id: i64, key: &[u8]) {
        let lease = self
            .leases
            .get_mut(&id)
            .expect("the lease of a put was looked up before");
        let key: Arc<[u8]> = key.into();
        lease.keys.insert(key.clone());
        if let Some(before) = self.holder.insert(key.clone(), id)
            && before != id
            && let Some(lease) = self.leases.get_mut(&before)
        {
            lease.keys.remove(&key);
        }
    }

    /// Takes a key off its lease, if it is on one.
    pub fn detach(&mut self, key: &[u8]) {
        if let Some(id) = self.holder.remove(key)
            && let Some(lease) = self.leases.get_mut(&id)
        {
            lease.keys.remove(key);
        }
    }

    /// Becomes primary: every lease gets its whole (or checkpointed) time, and `extend_ms` more,
    /// since the clients could not renew while there was no primary.
    pub fn promote(&mut self, now_ms: u64, extend_ms: u64) {
        self.primary = true;
        self.due.clear();
        self.checkpoints.clear();
        let ids: Vec<i64> = self.leases.keys().copied().collect();
        for id in ids {
            self.refresh(id, now_ms + extend_ms);
            self.schedule_checkpoint(id, now_ms);
        }
    }

    /// Is no longer primary: nothing is due here.
    pub fn demote(&mut self) {
        self.primary = false;
        self.due.clear();
        self.checkpoints.clear();
        for lease in self.leases.values_mut() {
            lease.due_ms = None;
        }
    }

    /// Renews a lease.
    pub fn renew(&mut self, id: i64, now_ms: u64) -> Renewal {
        if !self.primary {
            return Renewal::NotPrimary;
        }
        let Some(lease) = self.leases.get_mut(&id) else {
            return Renewal::NotFound;
        };
        if lease.due_ms.is_some_and(|due| due <= now_ms) {
            return Renewal::Expiring;
        }
        let clear_checkpoint =
            self.config.checkpoint_interval_ms.is_some() && lease.remaining_s > 0;
        if clear_checkpoint {
            lease.remaining_s = 0;
        }
        let ttl_s = lease.ttl_s;
        self.refresh(id, now_ms);
        Renewal::Renewed {
            ttl_s,
            clear_checkpoint,
        }
    }

    /// What is known of a lease.
    pub fn info(&self, id: i64, now_ms: u64, with_keys: bool) -> Option<Info> {
        let lease = self.leases.get(&id)?;
        Some(Info {
            ttl_s: lease.ttl_s,
            remaining_ms: lease.due_ms.map(|due| due.saturating_sub(now_ms)),
            keys: if with_keys {
                lease.keys.iter().cloned().collect()
            } else {
                Vec::new()
            },
        })
    }

    /// All ids, those due first before the others.
    pub fn ids(&self) -> Vec<i64> {
        let mut all: Vec<(u64, i64)> = self
            .leases
            .iter()
            .map(|(id, lease)| (lease.due_ms.unwrap_or(u64::MAX), *id))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// When something here is to be done next; `None` for never.
    pub fn next_due_ms(&self) -> Option<u64> {
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        let checkpoint = self.checkpoints.peek().map(|Reverse((at, _))| *at);
        [due, checkpoint].into_iter().flatten().min()
    }

    /// Up to `most` leases that are due and whose revocation is to be proposed now.
    pub fn expired(&mut self, now_ms: u64, most: usize) -> Vec<i64> {
        let mut expired = Vec::new();
        while expired.len() < most {
            let Some(&Reverse((at, id))) = self.due.peek() else {
                break;
            };
            if at > now_ms {
                break;
            }
            self.due.pop();
            let Some(lease) = self.leases.get_mut(&id) else {
                continue;
            };
            if lease.propose_ms != at {
                continue; // renewed since, or queued twice
            }
            lease.propose_ms = now_ms + REVOKE_RETRY_MS;
            self.due.push(Reverse((lease.propose_ms, id)));
            expired.push(id);
        }
        expired
    }

    /// Up to a batch of checkpoints that are to be proposed now.
    pub fn due_checkpoints(&mut self, now_ms: u64) -> Vec<LeaseCheckpoint> {
        let mut due = Vec::new();
        while due.len() < CHECKPOINT_BATCH {
            let Some(&Reverse((at, id))) = self.checkpoints.peek() else {
                break;
            };
            if at > now_ms {
                break;
            }
            self.checkpoints.pop();
            let Some(lease) = self.leases.get(&id) else {
                continue;
            };
            let Some(left_ms) = lease.due_ms.and_then(|at| at.checked_sub(now_ms)) else {
                continue;
            };
            let remaining_ttl = left_ms.div_ceil(1000) as i64;
            if left_ms > 0 && remaining_ttl < lease.ttl_s {
                due.push(LeaseCheckpoint { id, remaining_ttl });
            }
        }
        due
    }

    fn refresh(&mut self, id: i64, now_ms: u64) {
        let lease = self
            .leases
            .get_mut(&id)
            .expect("only a lease that exists is refreshed");
        let due = now_ms.saturating_add((lease.left_s() as u64).saturating_mul(1000));
        lease.due_ms = Some(due);
        lease.propose_ms = due;
        self.due.push(Reverse((due, id)));
        // A lease that is renewed often leaves stale entries behind: sweep before they outweigh.
        if self.due.len() > 64 + 4 * self.leases.len() {
            let leases = &self.leases;
            self.due
                .retain(|Reverse((at, id))| leases.get(id).is_some_and(|l| l.propose_ms == *at));
        }
    }

    fn schedule_checkpoint(&mut self, id: i64, now_ms: u64) {
        if let Some(interval) = self.config.checkpoint_interval_ms
            && self.leases[&id].left_s() > (interval / 1000) as i64
        {
            self.checkpoints.push(Reverse((now_ms + interval, id)));
        }
    }
}

fn persist(id: i64, lease: &Lease, edits: &mut Edits) {
    let stored = leasepb::Lease {
        id,
        ttl: lease.ttl_s,
        remaining_ttl: lease.remaining_s,
    };
    edits.put(BucketId::Lease, &id.to_be_bytes(), &stored.encode_to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lessor() -> (Lessor, Edits) {
        let config = Config {
            min_ttl_s: 2,
            checkpoint_interval_ms: Some(300_000),
        };
        (Lessor::new(config), Edits::default())
    }

    #[test]
    fn extremes_of_a_grant() {
        let (mut lessor, mut edits) = lessor();
        assert_eq!(
            lessor.grant(1, 9_000_000_001, 0, &mut edits),
            Err(api::Error::LeaseTTLTooLarge)
        );
        assert_eq!(lessor.grant(1, -5, 0, &mut edits), Ok(2));
        assert_eq!(
            lessor.grant(1, 5, 0, &mut edits),
            Err(api::Error::LeaseExist)
        );
        assert_eq!(
            lessor.grant(0, 5, 0, &mut edits),
            Err(api::Error::LeaseNotFound)
        );
        assert_eq!(
            lessor.grant(2, MAX_TTL_S, u64::MAX / 2, &mut edits),
            Ok(MAX_TTL_S)
        );
    }

    #[test]
    fn due_only_where_primary_and_proposed_again_after_the_retry() {
        let (mut lessor, mut edits) = lessor();
        lessor.grant(1, 10, 0, &mut edits).unwrap();
        assert_eq!(lessor.expired(u64::MAX / 2, 10), [0i64; 0]);
        lessor.promote(1_000, 500);
        assert_eq!(lessor.expired(11_499, 10), [0i64; 0]);
        assert_eq!(lessor.expired(11_500, 10), [1]);
        assert_eq!(lessor.renew(1, 11_600), Renewal::Expiring);
        assert_eq!(lessor.expired(14_499, 10), [0i64; 0]);
        assert_eq!(lessor.expired(14_500, 10), [1]);
        lessor.demote();
        assert_eq!(lessor.expired(u64::MAX / 2, 10), [0i64; 0]);
        assert_eq!(lessor.renew(1, 0), Renewal::NotPrimary);
    }

    #[test]
    fn a_renewed_lease_is_not_due_at_its_old_time() {
        let (mut lessor, mut edits) = lessor();
        lessor.promote(0, 0);
        lessor.grant(1, 10, 0, &mut edits).unwrap();
        for now in (0..1_000_000).step_by(1000) {
            assert_eq!(lessor.expired(now, 10), [0i64; 0]);
            assert!(matches!(
                lessor.renew(1, now),
                Renewal::Renewed { ttl_s: 10, .. }
            ));
        }
        assert!(lessor.due.len() < 100, "stale due times are swept");
        assert_eq!(lessor.expired(1_009_000, 10), [1]);
        assert_eq!(lessor.renew(7, 0), Renewal::NotFound);
    }

    #[test]
    fn keys_follow_attach_detach_and_revoke() {
        let (mut lessor, mut edits) = lessor();
        lessor.grant(1, 10, 0, &mut edits).unwrap();
        lessor.grant(2, 10, 0, &mut edits).unwrap();
        lessor.attach(1, b"b");
        lessor.attach(1, b"a");
        lessor.attach(2, b"a");
        assert_eq!((lessor.holder(b"a"), lessor.holder(b"b")), (2, 1));
        lessor.detach(b"b");
        lessor.detach(b"never");
        assert_eq!(lessor.revoke(1, &mut edits), Some(vec![]));
        assert_eq!(lessor.revoke(2, &mut edits), Some(vec![b"a"[..].into()]));
        assert_eq!(lessor.holder(b"a"), 0);
        assert_eq!(lessor.revoke(2, &mut edits), None);
    }

    #[test]
    fn what_is_stored_comes_back() {
        let (mut lessor, mut edits) = lessor();
        lessor.grant(-7, 100, 0, &mut edits).unwrap();
        lessor.checkpoint(
            &[LeaseCheckpoint {
                id: -7,
                remaining_ttl: 30,
            }],
            true,
            0,
            &mut edits,
        );
        let (mut again, _) = self::lessor();
        for (bucket, key, value) in edits.iter() {
            assert_eq!(bucket, BucketId::Lease);
            again.restore(key, value.unwrap()).unwrap();
        }
        again.promote(0, 0);
        assert_eq!(again.info(-7, 0, false).unwrap().ttl_s, 100);
        assert_eq!(again.info(-7, 0, false).unwrap().remaining_ms, Some(30_000));
        assert!(again.restore(b"12345678", b"\x08\x01").is_err());
    }

    #[test]
    fn a_long_lease_is_checkpointed_and_cleared_when_renewed() {
        let (mut lessor, mut edits) = lessor();
        lessor.promote(0, 0);
        lessor.grant(1, 1000, 0, &mut edits).unwrap();
        assert!(lessor.due_checkpoints(299_999).is_empty());
        let due = lessor.due_checkpoints(300_000);
        assert_eq!(
            due,
            [LeaseCheckpoint {
                id: 1,
                remaining_ttl: 700
            }]
        );
        lessor.checkpoint(&due, false, 300_000, &mut edits);
        assert_eq!(
            lessor.renew(1, 300_001),
            Renewal::Renewed {
                ttl_s: 1000,
                clear_checkpoint: true
            }
        );
    }
}
