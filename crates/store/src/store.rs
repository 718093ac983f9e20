//! The state machine: entries in, effects and answers out.
//!
//! Apply decides from the entry and replicated state alone, in etcd's order: corrupt alarm, space
//! alarm, (auth,) quota, then the key space. A put that breaks the quota takes effect and answers
//! "no space", as etcd's does. What an entry changed is in memory at once, visible to readers with
//! the next [`Store::publish`], and durable with the commit of the next [`Store::freeze`].
//!
//! Invariants: entries come in the order of their indexes, each once; `freeze` happens between
//! entries and carries the consistent index of the last one; time is an argument.

use crate::Error;
use crate::alarm::Alarms;
use crate::buckets::{BucketId, Edits};
use crate::commit::{Committed, Frozen};
use crate::compaction::{Batch, Job};
use crate::hash::StoredHashes;
use crate::lease::Lessor;
use crate::membership::Membership;
use crate::mvcc::Mvcc;
use crate::quota::{LEASE_OVERHEAD, Quota, put_cost, txn_cost};
use crate::range::{Keys, range_message};
use crate::revision::{Revision, RowKey};
use crate::rows::Row;
use crate::txn;
use crate::view::View;
use quorate_api as api;
use quorate_api::etcdserverpb::alarm_request::AlarmAction;
use quorate_api::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmType, CompactionRequest, DeleteRangeResponse,
    InternalRaftRequest, PutResponse, RangeResponse, TxnResponse,
};
use quorate_failpoints::fail_point;
use std::collections::VecDeque;
use std::sync::Arc;

/// The replicated store of one member.
pub struct Store {
    pub(crate) mvcc: Mvcc,
    pub(crate) lessor: Lessor,
    pub(crate) edits: Edits,
    pub(crate) deletes: Vec<RowKey>,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) members: Arc<Membership>,
    pub(crate) hashes: Arc<StoredHashes>,
    pub(crate) quota: Quota,
    pub(crate) applied: Applied,
    pub(crate) committed_index: u64,
    pub(crate) sizes: Sizes,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) scheduled_compaction: Option<i64>,
    pub(crate) finished_compaction: Option<i64>,
    pub(crate) storage_version: Option<Arc<str>>,
    pub(crate) freezing: bool,
}

/// The last entry whose effects are in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Its index.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

/// Sizes of the file, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// By the high-water mark.
    pub total: i64,
    /// Without free pages.
    pub in_use: i64,
}

/// What an entry answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Nothing to say (membership attributes, versions, an empty entry).
    Nothing,
    /// A read that went through the log.
    Range(RangeResponse),
    /// A put.
    Put(PutResponse),
    /// A deletion.
    DeleteRange(DeleteRangeResponse),
    /// A transaction.
    Txn(TxnResponse),
    /// A compaction; the newest revision. Its rows go later ([`Store::next_job`]).
    Compaction(i64),
    /// A lease: id, TTL in seconds, the newest revision.
    LeaseGrant {
        /// The id.
        id: i64,
        /// In seconds.
        ttl_s: i64,
        /// The newest revision.
        revision: i64,
    },
    /// A revoked lease; the newest revision.
    LeaseRevoke {
        /// The lease.
        id: i64,
        /// The newest revision.
        revision: i64,
    },
    /// Applied checkpoints; the newest revision.
    LeaseCheckpoint(i64),
    /// Alarms.
    Alarm(Vec<AlarmMember>),
}

/// An entry's outcome: an answer, or the error that etcd gives.
pub type Outcome = Result<Answer, api::Error>;

impl Store {
    /// The last entry applied.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Index of the last entry whose effects are durable in the file.
    pub fn committed_index(&self) -> u64 {
        self.committed_index
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.mvcc.revision
    }

    /// Who is in the cluster.
    pub fn members(&self) -> &Arc<Membership> {
        &self.members
    }

    /// Active alarms.
    pub fn alarms(&self) -> &Arc<Alarms> {
        &self.alarms
    }

    /// Leases, for expiry and keep-alive, which are the primary's business.
    pub fn lessor(&mut self) -> &mut Lessor {
        &mut self.lessor
    }

    /// Sizes of the file as of the last commit.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The storage version of the file, where it is known.
    pub fn storage_version(&self) -> Option<&str> {
        self.storage_version.as_deref()
    }

    /// Records an entry without effect on the store.
    pub fn advance(&mut self, at: Applied) {
        assert!(
            at.index > self.applied.index,
            "entries come once and in order"
        );
        self.applied = at;
    }

    /// Applies an entry. `Err` is for what stops the member: unsound bytes, a failing file.
    pub fn apply(
        &mut self,
        at: Applied,
        request: &InternalRaftRequest,
        now_ms: u64,
    ) -> Result<Outcome, Error> {
        self.advance(at);
        match self.dispatch(request, now_ms) {
            Ok(answer) => Ok(Ok(answer)),
            Err(Error::Api(error)) => Ok(Err(error)),
            Err(fatal) => Err(fatal),
        }
    }

    fn dispatch(&mut self, request: &InternalRaftRequest, now_ms: u64) -> Result<Answer, Error> {
        // Membership and versions first: they pass whatever the alarms say.
        if let Some(set) = &request.cluster_version_set {
            self.set_cluster_version(&set.ver);
            return Ok(Answer::Nothing);
        }
        if let Some(set) = &request.cluster_member_attr_set {
            let attributes = set.member_attributes.clone().unwrap_or_default();
            Arc::make_mut(&mut self.members).set_attributes(
                set.member_id,
                &attributes.name,
                &attributes.client_urls,
                &mut self.edits,
            );
            return Ok(Answer::Nothing);
        }
        if let Some(set) = &request.downgrade_info_set {
            let members = Arc::make_mut(&mut self.members);
            members.set_downgrade(set.enabled, &set.ver, &mut self.edits);
            return Ok(Answer::Nothing);
        }
        if request.downgrade_version_test.is_some() {
            return Ok(Answer::Nothing);
        }

        let corrupt = self.alarms.any(AlarmType::Corrupt);
        let refuse_corrupt = || {
            if corrupt {
                Err(Error::Api(api::Error::Corrupt))
            } else {
                Ok(())
            }
        };
        let full = self.alarms.any(AlarmType::Nospace);
        let refuse_full = || {
            if full {
                Err(Error::Api(api::Error::NoSpace))
            } else {
                Ok(())
            }
        };

        if let Some(range) = &request.range {
            refuse_corrupt()?;
            return Ok(Answer::Range(
                self.mvcc.read(|source| range_message(source, range))?,
            ));
        }
        if let Some(put) = &request.put {
            refuse_corrupt()?;
            refuse_full()?;
            let fits = self.quota.allows(self.sizes.total, put_cost(put));
            let response = txn::put(&mut self.mvcc, &mut self.lessor, put)?;
            return if fits {
                Ok(Answer::Put(response))
            } else {
                Err(api::Error::NoSpace.into())
            };
        }
        if let Some(delete) = &request.delete_range {
            refuse_corrupt()?;
            let response = txn::delete_range(&mut self.mvcc, &mut self.lessor, delete)?;
            return Ok(Answer::DeleteRange(response));
        }
        if let Some(transaction) = &request.txn {
            refuse_corrupt()?;
            let cost = txn_cost(transaction);
            if cost > 0 {
                refuse_full()?;
            }
            let fits = self.quota.allows(self.sizes.total, cost);
            let response = txn::txn(&mut self.mvcc, &mut self.lessor, transaction)?;
            return if fits {
                Ok(Answer::Txn(response))
            } else {
                Err(api::Error::NoSpace.into())
            };
        }
        if let Some(compaction) = &request.compaction {
            refuse_corrupt()?;
            return self.compact(compaction);
        }
        if let Some(grant) = &request.lease_grant {
            refuse_corrupt()?;
            refuse_full()?;
            let fits = self.quota.allows(self.sizes.total, LEASE_OVERHEAD);
            let ttl_s = self
                .lessor
                .grant(grant.id, grant.ttl, now_ms, &mut self.edits)?;
            let answer = Answer::LeaseGrant {
                id: grant.id,
                ttl_s,
                revision: self.mvcc.revision,
            };
            return if fits {
                Ok(answer)
            } else {
                Err(api::Error::NoSpace.into())
            };
        }
        if let Some(revoke) = &request.lease_revoke {
            refuse_corrupt()?;
            return self.revoke(revoke.id);
        }
        if let Some(checkpoint) = &request.lease_checkpoint {
            let stored = self.cluster_is_at_least(3, 6);
            let edits = &mut self.edits;
            self.lessor
                .checkpoint(&checkpoint.checkpoints, stored, now_ms, edits);
            return Ok(Answer::LeaseCheckpoint(self.mvcc.revision));
        }
        if let Some(alarm) = &request.alarm {
            return Ok(Answer::Alarm(self.alarm(alarm)));
        }
        if is_without_effect(request) {
            return Ok(Answer::Nothing);
        }
        Err(Error::Unsupported(format!(
            "entry {} carries a request that is not served yet",
            self.applied.index
        )))
    }

    fn revoke(&mut self, id: i64) -> Result<Answer, Error> {
        let Some(keys) = self.lessor.revoke(id, &mut self.edits) else {
            return Err(api::Error::LeaseNotFound.into());
        };
        let mut txn = self.mvcc.write(&mut self.lessor);
        for key in keys {
            txn.delete_range(&Keys::One(&key));
        }
        let revision = txn.end();
        Ok(Answer::LeaseRevoke { id, revision })
    }

    fn compact(&mut self, request: &CompactionRequest) -> Result<Answer, Error> {
        let revision = request.revision;
        if revision <= self.mvcc.compact_revision {
            return Err(api::Error::Compacted.into());
        }
        if revision > self.mvcc.revision {
            return Err(api::Error::FutureRev.into());
        }
        let previous_finished = self.scheduled_compaction == self.finished_compaction;
        self.schedule(revision, previous_finished);
        fail_point!("compactBeforeCommitScheduledCompact");
        Ok(Answer::Compaction(self.mvcc.revision))
    }

    pub(crate) fn schedule(&mut self, revision: i64, previous_finished: bool) {
        let previous = std::mem::replace(&mut self.mvcc.compact_revision, revision);
        self.scheduled_compaction = Some(revision);
        self.edits.put(
            BucketId::Meta,
            b"scheduledCompactRev",
            &spell_mark(revision),
        );
        let index = self.applied.index;
        self.jobs.push_back(Job {
            revision,
            previous,
            previous_finished,
            index,
        });
    }

    /// The oldest compaction whose rows are still there.
    pub fn next_job(&self) -> Option<Job> {
        self.jobs.front().copied()
    }

    /// Executes a planner's batch of the oldest job. Whether the job is finished with it.
    pub fn compact_batch(&mut self, batch: Batch) -> bool {
        let job = *self.jobs.front().expect("a batch belongs to a job");
        assert_eq!(
            batch.revision, job.revision,
            "a batch belongs to the oldest job"
        );
        for key in &batch.keys {
            self.mvcc.index.compact(key, job.revision);
        }
        self.deletes.extend(batch.rows);
        let Some(hash) = batch.finished else {
            fail_point!("compactBeforeCommitBatch");
            return false;
        };
        fail_point!("compactBeforeSetFinishedCompact");
        self.edits.put(
            BucketId::Meta,
            b"finishedCompactRev",
            &spell_mark(job.revision),
        );
        self.finished_compaction = Some(job.revision);
        if job.previous_finished {
            Arc::make_mut(&mut self.hashes).store(hash);
        }
        self.jobs.pop_front();
        fail_point!("compactAfterSetFinishedCompact");
        true
    }

    fn alarm(&mut self, request: &AlarmRequest) -> Vec<AlarmMember> {
        let alarms = Arc::make_mut(&mut self.alarms);
        match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => alarms.of_kind(request.alarm),
            Ok(AlarmAction::Activate) if request.alarm != AlarmType::None as i32 => {
                vec![alarms.activate(request.member_id, request.alarm, &mut self.edits)]
            }
            Ok(AlarmAction::Deactivate) => alarms
                .deactivate(request.member_id, request.alarm, &mut self.edits)
                .into_iter()
                .collect(),
            _ => Vec::new(),
        }
    }

    fn set_cluster_version(&mut self, version: &str) {
        Arc::make_mut(&mut self.members).set_cluster_version(version, &mut self.edits);
    }

    /// Records the version of the file's layout; it is no replicated state.
    pub fn set_storage_version(&mut self, version: &str) {
        self.edits
            .put(BucketId::Meta, b"storageVersion", version.as_bytes());
        self.storage_version = Some(version.into());
    }

    fn cluster_is_at_least(&self, major: u64, minor: u64) -> bool {
        let Some(version) = &self.members.cluster_version else {
            return false;
        };
        let mut parts = version
            .split('.')
            .map(|part| part.parse::<u64>().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
    }

    /// Changes the members as an applied configuration change says.
    pub fn change_members(&mut self, f: impl FnOnce(&mut Membership, &mut Edits)) {
        f(Arc::make_mut(&mut self.members), &mut self.edits);
    }

    /// Records the configuration, as JSON, beside the consistent index.
    pub fn set_conf_state(&mut self, json: &[u8]) {
        self.edits.put(BucketId::Meta, b"confState", json);
    }

    /// A view of everything applied so far.
    pub fn publish(&mut self) -> Arc<View> {
        Arc::new(View {
            root: self.mvcc.index.root(),
            revision: self.mvcc.revision,
            compact_revision: self.mvcc.compact_revision,
            applied_index: self.applied.index,
            applied_term: self.applied.term,
            frozen: self.mvcc.frozen.clone(),
            live: self.mvcc.rows.snapshot().clone(),
            file: self.mvcc.file.clone(),
            alarms: self.alarms.clone(),
            members: self.members.clone(),
            hashes: self.hashes.clone(),
            sizes: self.sizes,
            quota: self.quota,
            storage_version: self.storage_version.clone(),
        })
    }

    /// Rows that were applied since the last call, for watchers.
    pub fn take_untold(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.mvcc.untold)
    }

    /// Bytes and keys that wait for a commit.
    pub fn pending(&self) -> Pending {
        Pending {
            writes: self.mvcc.rows.snapshot().len() + self.edits.len() + self.deletes.len(),
            bytes: self.mvcc.rows.bytes(),
            entries: self.applied.index - self.committed_index,
            committing: self.freezing,
        }
    }

    /// Takes what was applied since the last freeze, to be committed; `None` while a commit is
    /// under way, or where there is nothing.
    pub fn freeze(&mut self) -> Option<Frozen> {
        let idle = self.edits.is_empty()
            && self.deletes.is_empty()
            && self.applied.index == self.committed_index;
        if self.freezing || idle {
            return None;
        }
        self.freezing = true;
        let Applied { index, term } = self.applied;
        if index > 0 {
            self.edits
                .put(BucketId::Meta, b"consistent_index", &index.to_be_bytes());
            if term > 0 {
                self.edits.put(BucketId::Meta, b"term", &term.to_be_bytes());
            }
        }
        self.mvcc.frozen = self.mvcc.rows.take();
        Some(Frozen {
            rows: self.mvcc.frozen.clone(),
            deletes: std::mem::take(&mut self.deletes),
            edits: std::mem::take(&mut self.edits),
            index,
        })
    }

    /// The commit of the last freeze is durable.
    pub fn committed(&mut self, committed: Committed) {
        assert!(self.freezing, "a commit follows a freeze");
        self.freezing = false;
        self.mvcc.frozen = Default::default();
        self.mvcc.file = committed.file;
        self.committed_index = committed.index;
        self.sizes = Sizes {
            total: committed.size,
            in_use: committed.size_in_use,
        };
    }

    /// The file changed its pages and not its contents (vacuum): read it anew. Comes in order with
    /// [`Store::committed`].
    pub fn file_moved(&mut self, committed: Committed) {
        self.sizes = Sizes {
            total: committed.size,
            in_use: committed.size_in_use,
        };
        self.mvcc.file = committed.file;
    }
}

/// What waits for a commit.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Keys to write or remove.
    pub writes: usize,
    /// Bytes of rows in memory.
    pub bytes: usize,
    /// Entries applied beyond the consistent index of the file.
    pub entries: u64,
    /// Whether a commit is under way.
    pub committing: bool,
}

/// Requests about authentication that change nothing as long as it is off, which it is here: a log
/// that etcd wrote may hold them.
fn is_without_effect(request: &InternalRaftRequest) -> bool {
    request.auth_status.is_some()
        || request.authenticate.is_some()
        || request.auth_disable.is_some()
        || request.auth_user_get.is_some()
        || request.auth_user_list.is_some()
        || request.auth_role_get.is_some()
        || request.auth_role_list.is_some()
}

/// How `meta` spells a compaction's revision.
fn spell_mark(revision: i64) -> Vec<u8> {
    RowKey {
        revision: Revision::new(revision, 0),
        tombstone: false,
    }
    .encode()
    .to_vec()
}
