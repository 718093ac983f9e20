//! What a leader knows about one follower's log, and how fast it may send to it.
//!
//! Three states (etcd raft's design, "Progress"):
//! - probe: the match is unknown; one append, then wait for its answer or the next heartbeat's.
//! - replicate: appends are pipelined, `next` runs ahead, [`Inflights`] holds it back.
//! - snapshot: the log the follower needs is gone; wait until a snapshot arrived or failed.
//!
//! Invariants: `matched < next`; in snapshot state `next == pending_snapshot + 1`.

use std::fmt;

use crate::inflights::Inflights;

/// How a leader sends to a follower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgressState {
    /// One append at a time, to find where the logs match.
    #[default]
    Probe,
    /// Appends in a pipeline.
    Replicate,
    /// Nothing, until a snapshot got there.
    Snapshot,
}

impl fmt::Display for ProgressState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProgressState::Probe => "StateProbe",
            ProgressState::Replicate => "StateReplicate",
            ProgressState::Snapshot => "StateSnapshot",
        })
    }
}

/// A follower as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Up to here the follower's log is known to be the leader's.
    pub matched: u64,
    /// The next index to send; what lies between is on its way.
    pub next: u64,
    /// Highest commit index sent, as far as it can matter.
    sent_commit: u64,
    /// How to send.
    pub state: ProgressState,
    /// In snapshot state: the snapshot's index; otherwise 0.
    pub pending_snapshot: u64,
    /// Whether it was heard of since the last check of the quorum.
    pub recent_active: bool,
    /// Whether appends wait for the next heartbeat's answer.
    pub flow_paused: bool,
    /// Appends on their way.
    pub inflights: Inflights,
    /// Whether it does not vote.
    pub is_learner: bool,
}

impl Progress {
    /// A follower of which nothing is known but where to try first.
    pub fn new(next: u64, inflights: Inflights, is_learner: bool) -> Progress {
        assert!(next > 0, "the log begins at 1");
        Progress {
            matched: 0,
            next,
            sent_commit: 0,
            state: ProgressState::Probe,
            pending_snapshot: 0,
            recent_active: false,
            flow_paused: false,
            inflights,
            is_learner,
        }
    }

    fn enter(&mut self, state: ProgressState) {
        self.flow_paused = false;
        self.pending_snapshot = 0;
        self.state = state;
        self.inflights.reset();
    }

    /// Goes back to probing, behind the match, or behind the pending snapshot if that is later.
    pub fn become_probe(&mut self) {
        // Outside the snapshot state the pending snapshot is 0.
        let pending = self.pending_snapshot;
        self.enter(ProgressState::Probe);
        self.next = self.matched.max(pending) + 1;
        self.sent_commit = self.sent_commit.min(self.next - 1);
    }

    /// Begins to replicate behind the match.
    pub fn become_replicate(&mut self) {
        self.enter(ProgressState::Replicate);
        self.next = self.matched + 1;
    }

    /// Waits for a snapshot of `index` to arrive.
    pub fn become_snapshot(&mut self, index: u64) {
        self.enter(ProgressState::Snapshot);
        self.pending_snapshot = index;
        self.next = index + 1;
        self.sent_commit = index;
    }

    /// Notes an append of `count` entries and `bytes` bytes, sent from `next` on.
    pub fn sent_entries(&mut self, count: usize, bytes: u64) {
        match self.state {
            ProgressState::Replicate => {
                if count > 0 {
                    self.next += count as u64;
                    self.inflights.add(self.next - 1, bytes);
                }
                // With the window full, this append serves as a probe until a heartbeat's answer.
                self.flow_paused = self.inflights.is_full();
            }
            ProgressState::Probe => {
                if count > 0 {
                    self.flow_paused = true;
                }
            }
            ProgressState::Snapshot => panic!("append sent while a snapshot is pending"),
        }
    }

    /// Whether telling the follower this commit index can move its own: not if one at least as
    /// high as all it can take (`next - 1`) was sent before.
    pub fn can_bump_commit(&self, commit: u64) -> bool {
        commit > self.sent_commit && self.sent_commit < self.next - 1
    }

    /// Notes the commit index that went along.
    pub fn sent_commit(&mut self, commit: u64) {
        self.sent_commit = commit;
    }

    /// Takes an acknowledgement up to `index`; `false` if it says nothing new.
    pub fn maybe_update(&mut self, index: u64) -> bool {
        if index <= self.matched {
            return false;
        }
        self.matched = index;
        self.next = self.next.max(index + 1);
        self.flow_paused = false;
        true
    }

    /// Takes the refusal of an append behind `rejected`, with the follower's hint where the logs
    /// may match; `false` if it is an old one, overtaken by what is known.
    pub fn maybe_decrease_to(&mut self, rejected: u64, hint: u64) -> bool {
        if self.state == ProgressState::Replicate {
            if rejected <= self.matched {
                return false;
            }
            self.next = self.matched + 1;
            self.sent_commit = self.sent_commit.min(self.next - 1);
            return true;
        }
        // One probe is out at a time, so a refusal of anything but it is late.
        if self.next - 1 != rejected {
            return false;
        }
        let hinted = rejected.min(hint.saturating_add(1));
        self.next = hinted.max(self.matched + 1);
        self.sent_commit = self.sent_commit.min(self.next - 1);
        self.flow_paused = false;
        true
    }

    /// Whether no append may be sent now.
    pub fn is_paused(&self) -> bool {
        match self.state {
            ProgressState::Probe | ProgressState::Replicate => self.flow_paused,
            ProgressState::Snapshot => true,
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} match={} next={}",
            self.state, self.matched, self.next
        )?;
        if self.is_learner {
            f.write_str(" learner")?;
        }
        if self.is_paused() {
            f.write_str(" paused")?;
        }
        if self.pending_snapshot > 0 {
            write!(f, " pendingSnap={}", self.pending_snapshot)?;
        }
        if !self.recent_active {
            f.write_str(" inactive")?;
        }
        let inflight = self.inflights.count();
        if inflight > 0 {
            write!(f, " inflight={inflight}")?;
            if self.inflights.is_full() {
                f.write_str("[full]")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(matched: u64, next: u64, state: ProgressState) -> Progress {
        let mut progress = Progress::new(next, Inflights::new(2, 0), false);
        progress.matched = matched;
        progress.state = state;
        progress
    }

    #[test]
    fn after_a_snapshot_probing_starts_behind_it() {
        let mut after_success = progress(1, 5, ProgressState::Probe);
        after_success.become_snapshot(10);
        assert!(after_success.is_paused());
        assert_eq!(after_success.next, 11);
        after_success.become_probe();
        assert_eq!(after_success.next, 11);

        let mut after_failure = progress(1, 5, ProgressState::Probe);
        after_failure.become_snapshot(10);
        after_failure.pending_snapshot = 0;
        after_failure.become_probe();
        assert_eq!(after_failure.next, 2);
    }

    #[test]
    fn a_full_window_pauses_until_acknowledged() {
        let mut replicating = progress(1, 2, ProgressState::Replicate);
        replicating.sent_entries(1, 10);
        assert!(!replicating.is_paused());
        replicating.sent_entries(3, 10);
        assert!(replicating.is_paused());
        assert_eq!(replicating.next, 6);
        assert!(replicating.maybe_update(2));
        assert!(!replicating.is_paused());
        assert!(!replicating.maybe_update(2));
    }

    #[test]
    fn refusals() {
        let mut replicating = progress(5, 10, ProgressState::Replicate);
        assert!(!replicating.maybe_decrease_to(5, 5));
        assert!(replicating.maybe_decrease_to(9, 9));
        assert_eq!(replicating.next, 6);

        let mut probing = progress(0, 10, ProgressState::Probe);
        assert!(!probing.maybe_decrease_to(5, 5));
        assert!(probing.maybe_decrease_to(9, 2));
        assert_eq!(probing.next, 3);
        assert!(probing.maybe_decrease_to(2, u64::MAX));
        assert_eq!(probing.next, 2);
        assert!(probing.maybe_decrease_to(1, 0));
        assert_eq!(probing.next, 1);
    }

    #[test]
    fn a_commit_index_is_sent_early_only_if_it_can_matter() {
        let mut probing = progress(4, 5, ProgressState::Replicate);
        assert!(probing.can_bump_commit(3));
        probing.sent_commit(4);
        assert!(!probing.can_bump_commit(9));
        probing.sent_entries(2, 1);
        assert!(probing.can_bump_commit(9));
        assert!(!probing.can_bump_commit(4));
    }
}
