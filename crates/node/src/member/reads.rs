//! Linearizable reads: all that wait share one read-index round, and are answered when the view covers
//! its index.
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

    /// Asks raft once for all reads that wait.
    pub(super) fn ask_reads(&mut self) {
        if self.reads_new.is_empty() || self.raft.soft_state().lead == 0 {
            return;
        }
        // The leader tells rounds apart by their ids alone, those of all members.
        let round = self.own_ids.draw();
        let reads = std::mem::take(&mut self.reads_new);
        self.reads_asked.insert(
            round,
            Round {
                reads,
                asked_ms: self.now_ms,
            },
        );
        self.raft
            .read_index(Bytes::copy_from_slice(&round.to_be_bytes()));
    }

    /// Asks anew what was not answered in time, and gives up what has waited too long.
    pub(super) fn retry_reads(&mut self) {
        let now_ms = self.now_ms;
        let due: Vec<u64> = self
            .reads_asked
            .iter()
            .filter(|(_, round)| round.asked_ms + RETRY_MS <= now_ms)
            .map(|(round, _)| *round)
            .collect();
        for round in due {
            let round = self.reads_asked.remove(&round).expect("it was listed");
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

    /// Asks anew, under new ids, whatever was asked.
    pub(super) fn ask_reads_anew(&mut self) {
        let rounds = std::mem::take(&mut self.reads_asked);
        self.reads_new
            .extend(rounds.into_values().flat_map(|round| round.reads));
    }

    pub(super) fn read_state(&mut self, index: u64, context: &[u8]) {
        let round = <[u8; 8]>::try_from(context).map(u64::from_be_bytes);
        // Otherwise it is another member's round, or one that was asked anew.
        if let Ok(round) = round
            && let Some(round) = self.reads_asked.remove(&round)
        {
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
