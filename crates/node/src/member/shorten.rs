//! The log in memory, and what of it may be let go.
//!
//! The log on disk is not touched by it. Who needs an older entry gets a database; so that the
//! receiver of one can go on from there, what follows it stays until it has arrived and for a while
//! after. Source: when etcd compacts its raft log (server.go).

use super::Member;
use bytes::Bytes;
use quorate_raft::Storage as _;
use std::collections::BTreeMap;

/// Entries applied since the log was last shortened that make it due again.
const ENTRIES: u64 = 100;
/// How long what follows a database stays after the database has arrived, in milliseconds.
const AFTER_ARRIVAL_MS: u64 = 30_000;

#[derive(Default)]
pub(super) struct Shortening {
    /// A snapshot in memory stands for the log up to here.
    index: u64,
    /// Whether it is due, however few entries there are.
    is_due: bool,
    /// Databases on their way, by receiver; one a receiver.
    databases: BTreeMap<u64, Database>,
}

struct Database {
    /// The last entry that it covers.
    index: u64,
    /// When it may be forgotten; `None`: it is on its way.
    until_ms: Option<u64>,
}

impl Shortening {
    /// The log begins behind a snapshot at `index`.
    pub fn at(index: u64) -> Shortening {
        Shortening {
            index,
            ..Default::default()
        }
    }

    /// A received snapshot has taken the log's place.
    pub fn replaced(&mut self, index: u64) {
        self.index = index;
        self.is_due = false;
    }

    /// A snapshot goes to disk: the log in memory follows.
    pub fn due(&mut self) {
        self.is_due = true;
    }

    /// A database that covers what is up to `index` goes to a member.
    pub fn database_leaves(&mut self, to: u64, index: u64) {
        let until_ms = None;
        self.databases.insert(to, Database { index, until_ms });
    }

    /// How sending it ended.
    pub fn database_sent(&mut self, to: u64, arrived: bool, now_ms: u64) {
        if !arrived {
            self.databases.remove(&to);
        } else if let Some(database) = self.databases.get_mut(&to) {
            database.until_ms = Some(now_ms + AFTER_ARRIVAL_MS);
        }
    }

    /// The last entry that no receiver of a database asks for.
    fn unasked(&mut self, now_ms: u64, is_member: impl Fn(u64) -> bool) -> u64 {
        self.databases.retain(|to, database| {
            database.until_ms.is_none_or(|until| now_ms < until) && is_member(*to)
        });
        let covered = self.databases.values().map(|database| database.index);
        covered.min().unwrap_or(u64::MAX)
    }
}

impl<T> Member<T> {
    /// Lets go of entries in memory that no member is expected to ask for any more.
    pub(super) fn shorten_log(&mut self) {
        let applied = self.store.applied().index;
        let shortening = &mut self.shortening;
        let is_due = applied > shortening.index + ENTRIES
            || (shortening.is_due && applied > shortening.index);
        if !is_due || !self.apply_queue.is_empty() {
            return;
        }
        let conf_state = self.raft.membership().conf_state();
        let storage = self.raft.storage_mut();
        if storage.last_index() < applied {
            return; // a received snapshot has not reached it yet
        }
        let noted = storage.create_snapshot(applied, Some(conf_state), Bytes::new());
        assert!(noted.is_ok(), "what is applied is in the log: {noted:?}");
        shortening.replaced(applied);
        let members = self.store.members();
        let unasked = shortening.unasked(self.now_ms, |id| members.get(id).is_some());
        let last = applied
            .saturating_sub(self.config.snapshot_catch_up)
            .min(unasked);
        if last >= storage.first_index() {
            let compacted = storage.compact(last);
            assert!(
                compacted.is_ok(),
                "applied entries can be let go: {compacted:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_database_stays_until_a_while_after_its_arrival() {
        let mut shortening = Shortening::at(1);
        let unasked = |shortening: &mut Shortening, now_ms| shortening.unasked(now_ms, |_| true);
        assert_eq!(unasked(&mut shortening, 0), u64::MAX);
        shortening.database_leaves(2, 50);
        shortening.database_leaves(3, 40);
        assert_eq!(unasked(&mut shortening, 1_000_000), 40);
        shortening.database_sent(3, false, 1_000_000);
        assert_eq!(unasked(&mut shortening, 1_000_000), 50);
        shortening.database_sent(2, true, 1_000_000);
        assert_eq!(unasked(&mut shortening, 1_029_999), 50);
        assert_eq!(unasked(&mut shortening, 1_030_000), u64::MAX);
    }

    #[test]
    fn nothing_stays_for_who_is_no_member_any_more() {
        let mut shortening = Shortening::at(1);
        shortening.database_leaves(2, 50);
        assert_eq!(shortening.unasked(0, |id| id != 2), u64::MAX);
        assert!(shortening.databases.is_empty());
    }
}
