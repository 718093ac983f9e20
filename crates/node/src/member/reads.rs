//! Linearizable reads: all that wait share one read-index round, and are answered when the view covers
//! its index.
//!
//! One round is under way at a time. What comes meanwhile waits for the next, since it must not be
//! answered by an index from before it came; and the more reads come, the more of them share a round.
//!
//! A round that is not answered in time is asked anew, under a new id, so that an answer from before a
//! pause is never taken for a fresh one. A read that has waited for the request timeout is given up.

use super::{Member, Reply};
use bytes::Bytes;
use quorate_api as api;

/// Time after which an unanswered round is asked anew, in milliseconds.
const RETRY_MS: u64 = 500;

/// A read that waits.
pub(super) struct Read<T> {
    token: T,
    since_ms: u64,
}

/// A round that raft was asked.
pub(super) struct Round<T> {
    id: u64,
    reads: Vec<Read<T>>,
    asked_ms: u64,
}

impl<T> Member<T> {
    /// A linearizable read: its token is told [`Reply::Ready`] once the newest view covers it.
    pub fn read_index(&mut self, token: T) {
        self.reads_new.push(Read {
            token,
            since_ms: self.now_ms,
        });
    }

    /// Tells the token [`Reply::Ready`] once everything that is committed here by now is applied and
    /// in the newest view.
    pub fn when_applied(&mut self, token: T) {
        let committed = self.raft.hard_state().commit;
        self.reads_applying.push((committed, token));
    }

    /// A read of someone who asks whether the member works: linearizable, and where that asks nobody
    /// else, it waits until the log has written what it holds by now. So one whose disk hangs does
    /// not pass for healthy.
    pub fn read_for_health(&mut self, token: T) {
        if self.status().reads_are_local {
            let last = self.raft.last_index();
            self.reads_applying.push((last, token));
        } else {
            self.read_index(token);
        }
    }

    /// Asks raft once for all reads that wait.
    pub(super) fn ask_reads(&mut self) {
        let under_way = self.reads_asked.is_some();
        if under_way || self.reads_new.is_empty() || self.raft.soft_state().lead == 0 {
            return;
        }
        // The leader tells rounds apart by their ids alone, those of all members.
        let id = self.own_ids.draw();
        self.reads_asked = Some(Round {
            id,
            reads: std::mem::take(&mut self.reads_new),
            asked_ms: self.now_ms,
        });
        self.raft
            .read_index(Bytes::copy_from_slice(&id.to_be_bytes()));
    }

    /// Asks anew what was not answered in time, and gives up what has waited too long.
    pub(super) fn retry_reads(&mut self) {
        let now_ms = self.now_ms;
        let is_due = |round: &mut Round<T>| round.asked_ms + RETRY_MS <= now_ms;
        if let Some(round) = self.reads_asked.take_if(is_due) {
            self.reads_new.extend(round.reads);
        }
        let timeout_ms = self.config.request_timeout_ms;
        let waiting = std::mem::take(&mut self.reads_new);
        let (late, waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|read| read.since_ms + timeout_ms <= now_ms);
        self.reads_new = waiting;
        let failed = late
            .into_iter()
            .map(|read| (read.token, Reply::Failed(api::Error::Timeout)));
        self.effects.replies.extend(failed);
    }

    /// Asks anew, under a new id, whatever was asked.
    pub(super) fn ask_reads_anew(&mut self) {
        let round = self.reads_asked.take();
        self.reads_new
            .extend(round.into_iter().flat_map(|round| round.reads));
    }

    pub(super) fn read_state(&mut self, index: u64, context: &[u8]) {
        // Otherwise it is another member's round, or one that was asked anew.
        let is_asked = |round: &mut Round<T>| context == round.id.to_be_bytes();
        if let Some(round) = self.reads_asked.take_if(is_asked) {
            self.reads_applying
                .extend(round.reads.into_iter().map(|read| (index, read.token)));
        }
    }

    pub(super) fn answer_reads(&mut self) {
        let applied = self.view.applied_index;
        let waiting = std::mem::take(&mut self.reads_applying);
        for (index, token) in waiting {
            if index <= applied {
                self.effects.replies.push((token, Reply::Ready));
            } else {
                self.reads_applying.push((index, token));
            }
        }
    }
}
