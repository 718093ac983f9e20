//! Entries between the log and their outcome: what was applied, and how long it took.
//!
//! The member applies what is committed in one go, so its time is known for all of it, and shared
//! out evenly among the entries. Where it took longer than --warning-apply-duration, the operator is
//! told, with the entry that has most to it named.
//!
//! Entries that are replayed at the start were not appended here and are not counted.

use super::Waiter;
use crate::metrics::{METRICS, Operation};
use crate::request_text;
use bytes::Bytes;
use prost::Message as _;
use quorate_go::duration;
use quorate_node::store::revision::Revision;
use quorate_node::store::{Answer, View};
use quorate_node::{LogJob, Reply};
use std::collections::VecDeque;
use std::time::Duration;

/// Entries that are on their way.
pub struct Entries {
    waiting: VecDeque<(u64, Bytes)>,
    slow: Duration,
}

impl Entries {
    /// None yet; applying that takes longer than `slow` is told.
    pub fn new(slow: Duration) -> Entries {
        Entries {
            waiting: VecDeque::new(),
            slow,
        }
    }

    /// Takes note of what goes to the log.
    pub fn appended(&mut self, jobs: &[LogJob]) {
        for job in jobs {
            let LogJob::Append(append) = job else {
                continue;
            };
            for entry in &append.entries {
                // An entry that takes another one's place takes all behind it away.
                while self
                    .waiting
                    .back()
                    .is_some_and(|(index, _)| *index >= entry.index)
                {
                    self.waiting.pop_back();
                }
                self.waiting.push_back((entry.index, entry.data.clone()));
            }
        }
    }

    /// Counts what was applied up to `index` in one go, with the replies that it brought. `before`
    /// and `after` are the views around it.
    pub fn applied(
        &mut self,
        index: u64,
        took: Duration,
        replies: &[(Waiter, Reply)],
        before: &View,
        after: &View,
    ) {
        let count = self
            .waiting
            .partition_point(|(waiting, _)| *waiting <= index);
        if count == 0 {
            return;
        }
        let mut by_operation = [0u64; Operation::ALL.len()];
        let mut heaviest: Option<Bytes> = None;
        let mut requests = 0u64;
        for (_, data) in self.waiting.drain(..count) {
            let Some(operation) = Operation::of(&data) else {
                continue;
            };
            requests += 1;
            by_operation[operation as usize] += 1;
            if took > self.slow
                && heaviest
                    .as_ref()
                    .is_none_or(|known| known.len() < data.len())
            {
                heaviest = Some(data);
            }
        }
        if requests == 0 {
            return;
        }
        let each_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / requests;
        let revoked = by_operation[Operation::LeaseRevoke as usize];
        let (mut revoked_by_clients, mut revoke_failures, mut deleted) = (0, 0, 0);
        for (waiter, reply) in replies {
            let Waiter::Answer(_, tally) = waiter else {
                continue;
            };
            match reply {
                Reply::Outcome(Ok(answer)) => {
                    tally.count(answer);
                    revoked_by_clients += u64::from(matches!(answer, Answer::LeaseRevoke { .. }));
                    deleted += deleted_keys(answer);
                }
                Reply::Outcome(Err(_)) => {
                    let failed = tally.operation() as usize;
                    METRICS.applied[failed][0].observe_units(each_ns);
                    by_operation[failed] = by_operation[failed].saturating_sub(1);
                    revoke_failures += u64::from(tally.operation() == Operation::LeaseRevoke);
                }
                Reply::Ready | Reply::Failed(_) => {}
            }
        }
        for (histograms, count) in METRICS.applied.iter().zip(by_operation) {
            if count > 0 {
                histograms[1].observe_many(each_ns, count);
            }
        }
        if revoked > 0 {
            let revoked = revoked.saturating_sub(revoke_failures);
            METRICS.leases_revoked.add(revoked);
            let expired = revoked.saturating_sub(revoked_by_clients);
            METRICS.leases_expired.add(expired);
            // What was deleted and no answer speaks of went with its lease.
            let tombstones = tombstones(before, after);
            METRICS.deletes.add(tombstones.saturating_sub(deleted));
        }
        if let Some(entry) = heaviest {
            let response = match replies {
                [(_, Reply::Outcome(Ok(answer)))] if requests == 1 => answer_size(answer),
                _ => None,
            };
            let response = response.map_or_else(String::new, |bytes| format!("size:{bytes}"));
            METRICS.slow_applies.inc();
            tracing::warn!(
                "took" = %duration::format(took),
                "expected-duration" = %duration::format(self.slow),
                "prefix" = if requests > 1 { format!("largest of {requests} requests: ") } else { String::new() },
                "request" = request_text::of_entry(&entry),
                "response" = response.as_str(),
                "apply request took too long"
            );
        }
    }
}

/// Bytes of an answer, where it is a message already.
fn answer_size(answer: &Answer) -> Option<usize> {
    match answer {
        Answer::Put(put) => Some(put.encoded_len()),
        Answer::DeleteRange(delete) => Some(delete.encoded_len()),
        Answer::Txn(txn) => Some(txn.encoded_len()),
        _ => None,
    }
}

fn deleted_keys(answer: &Answer) -> u64 {
    use quorate_api::etcdserverpb::TxnResponse;
    use quorate_api::etcdserverpb::response_op::Response;
    fn of_txn(txn: &TxnResponse) -> i64 {
        let each = txn.responses.iter().map(|op| match &op.response {
            Some(Response::ResponseDeleteRange(delete)) => delete.deleted,
            Some(Response::ResponseTxn(inner)) => of_txn(inner),
            _ => 0,
        });
        each.sum()
    }
    let deleted = match answer {
        Answer::DeleteRange(delete) => delete.deleted,
        Answer::Txn(txn) => of_txn(txn),
        _ => 0,
    };
    deleted.max(0) as u64
}

/// Keys deleted between two views.
fn tombstones(before: &View, after: &View) -> u64 {
    let first_new = Revision {
        main: before.revision + 1,
        sub: 0,
    };
    let new = [&after.frozen, &after.live].into_iter().flat_map(|rows| {
        let from = rows.position(first_new);
        (from..rows.len()).map(|i| rows.get(i))
    });
    new.filter(|row| row.key.tombstone).count() as u64
}
