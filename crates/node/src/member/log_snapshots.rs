//! Snapshots of the log: a record at an entry, from which this member starts again.
//!
//! Invariants:
//! - the entry is the first at which one was due, as in etcd, and what is written is the membership
//!   as of it; it is written once a durable commit covers the entry;
//! - none is written below a received one.
//!
//! Source: when etcd snapshots (server.go).

use super::Member;
use crate::log_stage::LogJob;
use quorate_raft::{Snapshot, SnapshotMetadata};
use quorate_store::legacy_tree;
use quorate_store::membership::Membership;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct LogSnapshots {
    /// The newest that is known to be stored.
    stored: u64,
    /// The newest that was due.
    last: u64,
    /// Whether one is due however few entries it covers.
    is_forced: bool,
    waiting: Option<Waiting>,
}

/// One that waits for a commit.
struct Waiting {
    metadata: SnapshotMetadata,
    members: Arc<Membership>,
}

impl LogSnapshots {
    /// One at `index` is there.
    pub fn at(index: u64) -> LogSnapshots {
        LogSnapshots {
            stored: index,
            last: index,
            ..Default::default()
        }
    }

    /// The newest that is known to be stored.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    pub fn force(&mut self) {
        self.is_forced = true;
    }

    /// One is stored; a received one may have overtaken it.
    pub fn now_stored(&mut self, index: u64) {
        self.stored = self.stored.max(index);
    }

    fn is_due(&self, applied: u64, count: u64) -> bool {
        let enough = if self.is_forced { 0 } else { count };
        self.waiting.is_none() && applied > self.last + enough
    }
}

impl<T> Member<T> {
    /// Notes what a snapshot has to hold, where one is due at what is applied.
    pub(super) fn plan_log_snapshot(&mut self) {
        let applied = self.store.applied();
        let is_due = self
            .log_snapshots
            .is_due(applied.index, self.config.snapshot_count);
        if !is_due || self.store.pending().entries == 0 {
            return;
        }
        self.log_snapshots.is_forced = false;
        self.log_snapshots.last = applied.index;
        self.log_snapshots.waiting = Some(Waiting {
            metadata: SnapshotMetadata {
                conf_state: self.raft.membership().conf_state(),
                index: applied.index,
                term: applied.term,
            },
            members: self.store.members().clone(),
        });
        self.force_commit = true;
        self.shortening.due();
    }

    /// What is applied up to `durable` is in the file.
    pub(super) fn write_log_snapshot(&mut self, durable: u64) {
        // While a received one is being stored, an older one must not follow it.
        if self.received.is_some() {
            return;
        }
        let waiting = &mut self.log_snapshots.waiting;
        if let Some(Waiting { metadata, members }) =
            waiting.take_if(|waiting| waiting.metadata.index <= durable)
        {
            let data = legacy_tree::encode(&members).into();
            self.effects
                .log
                .push(LogJob::Snapshot(Snapshot { data, metadata }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_due_beyond_a_count_or_when_it_is_forced() {
        let mut snapshots = LogSnapshots::at(5);
        assert!(!snapshots.is_due(15, 10));
        assert!(snapshots.is_due(16, 10));
        snapshots.force();
        assert!(!snapshots.is_due(5, 10));
        assert!(snapshots.is_due(6, 10));
    }

    #[test]
    fn an_older_one_that_is_stored_late_is_not_the_newest() {
        let mut snapshots = LogSnapshots::at(20);
        snapshots.now_stored(10);
        assert_eq!(snapshots.stored(), 20);
    }
}
