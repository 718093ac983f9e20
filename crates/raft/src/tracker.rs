//! The configuration in force, what is known of each member, and the votes of an election.
//!
//! Invariants (checked by `changer` at each change): each voter and learner has a [`Progress`];
//! no one is voter and learner at once; `learners_next` holds voters of the outgoing half only,
//! and is empty, as is `auto_leave` false, while the configuration is not joint.

use std::collections::BTreeMap;
use std::fmt;

use crate::inflights::Inflights;
use crate::progress::Progress;
use crate::quorum::{IdSet, JointConfig, VoteResult};
use crate::types::ConfState;

/// Who votes, who learns, and how a joint configuration ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The voters.
    pub voters: JointConfig,
    /// Whether the leader leaves the joint configuration by itself.
    pub auto_leave: bool,
    /// Who receives the log without a vote.
    pub learners: IdSet,
    /// Voters of the outgoing half that become learners when it is left: they cannot be both at
    /// once, so the wish is kept here.
    pub learners_next: IdSet,
}

impl Membership {
    /// In the form that snapshots carry; ids ascend.
    pub fn conf_state(&self) -> ConfState {
        ConfState {
            voters: self.voters.incoming.as_slice().to_vec(),
            learners: self.learners.as_slice().to_vec(),
            voters_outgoing: self.voters.outgoing.as_slice().to_vec(),
            learners_next: self.learners_next.as_slice().to_vec(),
            auto_leave: self.auto_leave,
        }
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "voters={}", self.voters)?;
        if !self.learners.is_empty() {
            write!(f, " learners={}", self.learners)?;
        }
        if !self.learners_next.is_empty() {
            write!(f, " learners_next={}", self.learners_next)?;
        }
        if self.auto_leave {
            f.write_str(" autoleave")?;
        }
        Ok(())
    }
}

/// Progress by member id.
pub type ProgressMap = BTreeMap<u64, Progress>;

/// How wide the window to each follower is.
#[derive(Clone, Copy, Debug)]
pub struct InflightLimits {
    /// Messages.
    pub count_max: usize,
    /// Bytes; 0 for no limit.
    pub bytes_max: u64,
}

impl InflightLimits {
    /// An empty window of this width.
    pub fn window(self) -> Inflights {
        Inflights::new(self.count_max, self.bytes_max)
    }
}

/// Configuration, progress and votes.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// The configuration in force.
    pub membership: Membership,
    /// What is known of each member of it.
    pub progress: ProgressMap,
    votes: BTreeMap<u64, bool>,
    /// The width of new windows.
    pub limits: InflightLimits,
}

impl Tracker {
    /// Nobody yet.
    pub fn new(limits: InflightLimits) -> Tracker {
        Tracker {
            membership: Membership::default(),
            progress: ProgressMap::new(),
            votes: BTreeMap::new(),
            limits,
        }
    }

    /// The highest index that a quorum has.
    pub fn committed(&self) -> u64 {
        let matched = |id| self.progress.get(&id).map(|progress| progress.matched);
        self.membership.voters.committed_index(matched)
    }

    /// Whether a quorum was heard of since the last check.
    pub fn is_quorum_active(&self) -> bool {
        let active = |id| {
            let progress = self.progress.get(&id)?;
            (!progress.is_learner).then_some(progress.recent_active)
        };
        self.membership.voters.vote_result(active) == VoteResult::Won
    }

    /// Begins a new count.
    pub fn reset_votes(&mut self) {
        self.votes.clear();
    }

    /// Takes a vote; a member's first one counts.
    pub fn record_vote(&mut self, id: u64, granted: bool) {
        // Who is not in the configuration cannot change the result, and would only take memory.
        if self.progress.contains_key(&id) {
            self.votes.entry(id).or_insert(granted);
        }
    }

    /// Whether `id` has voted in this count.
    pub fn has_vote(&self, id: u64) -> bool {
        self.votes.contains_key(&id)
    }

    /// Granted, refused, and what follows from them.
    pub fn tally_votes(&self) -> (usize, usize, VoteResult) {
        let (mut granted, mut refused) = (0, 0);
        for (id, progress) in &self.progress {
            match self.votes.get(id) {
                _ if progress.is_learner => {}
                Some(true) => granted += 1,
                Some(false) => refused += 1,
                None => {}
            }
        }
        let vote = |id| self.votes.get(&id).copied();
        (granted, refused, self.membership.voters.vote_result(vote))
    }
}
