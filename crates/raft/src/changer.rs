//! Computes the configuration that a change leads to, or why it leads nowhere.
//!
//! Simple changes move one voter; larger ones go through a joint configuration in which both the
//! old and the new voters must agree (Raft thesis, sections 4.1 and 4.3). Nothing here touches the
//! configuration in force: a caller takes the result or leaves it.

use std::fmt;

use crate::conf_change::{ConfChangeKind, ConfChangeSingle, ConfChangeV2};
use crate::progress::Progress;
use crate::quorum::IdSet;
use crate::tracker::{InflightLimits, Membership, ProgressMap};
use crate::types::ConfState;

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfChangeError {
    /// A joint configuration must be left before the next is entered.
    AlreadyJoint,
    /// A joint configuration needs voters.
    NoVotersToJoin,
    /// There is no joint configuration to leave.
    NotJoint,
    /// A simple change does not go with a joint configuration.
    SimpleWhileJoint,
    /// The change would leave nobody to vote.
    NoVotersLeft,
    /// A simple change may move one voter only.
    TooManyVoters,
    /// The configuration contradicts itself; the text says where.
    Inconsistent(String),
}

impl fmt::Display for ConfChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfChangeError::AlreadyJoint => "config is already joint",
            ConfChangeError::NoVotersToJoin => "can't make a zero-voter config joint",
            ConfChangeError::NotJoint => "can't leave a non-joint config",
            ConfChangeError::SimpleWhileJoint => "can't apply simple config change in joint config",
            ConfChangeError::NoVotersLeft => "removed all voters",
            ConfChangeError::TooManyVoters => {
                "more than one voter changed without entering joint config"
            }
            ConfChangeError::Inconsistent(text) => text,
        })
    }
}

impl std::error::Error for ConfChangeError {}

/// A configuration with the progress of its members: the start of a change, and its result.
#[derive(Clone, Debug)]
pub struct Changer {
    /// The configuration.
    pub membership: Membership,
    /// Its members' progress.
    pub progress: ProgressMap,
    /// Windows of members that are added.
    pub limits: InflightLimits,
    /// Where to begin with members that are added.
    pub last_index: u64,
}

impl Changer {
    /// Carries out a change of any form.
    pub fn change(self, change: &ConfChangeV2) -> Result<Changer, ConfChangeError> {
        if change.leaves_joint() {
            self.leave_joint()
        } else if let Some(auto_leave) = change.enters_joint() {
            self.enter_joint(auto_leave, &change.changes)
        } else {
            self.simple(&change.changes)
        }
    }

    /// Moves one voter at most, and any number of learners.
    pub fn simple(mut self, changes: &[ConfChangeSingle]) -> Result<Changer, ConfChangeError> {
        self.check()?;
        if self.membership.voters.is_joint() {
            return Err(ConfChangeError::SimpleWhileJoint);
        }
        let before = self.membership.voters.incoming.clone();
        self.apply(changes)?;
        let after = &self.membership.voters.incoming;
        let left = before.iter().filter(|id| !after.contains(*id)).count();
        let came = after.iter().filter(|id| !before.contains(*id)).count();
        if left + came > 1 {
            return Err(ConfChangeError::TooManyVoters);
        }
        self.check()?;
        Ok(self)
    }

    /// Keeps the voters as the outgoing half and applies the changes to the incoming one.
    pub fn enter_joint(
        mut self,
        auto_leave: bool,
        changes: &[ConfChangeSingle],
    ) -> Result<Changer, ConfChangeError> {
        self.check()?;
        if self.membership.voters.is_joint() {
            return Err(ConfChangeError::AlreadyJoint);
        }
        if self.membership.voters.incoming.is_empty() {
            return Err(ConfChangeError::NoVotersToJoin);
        }
        self.membership.voters.outgoing = self.membership.voters.incoming.clone();
        self.apply(changes)?;
        self.membership.auto_leave = auto_leave;
        self.check()?;
        Ok(self)
    }

    /// Drops the outgoing half; those who waited to become learners become it.
    pub fn leave_joint(mut self) -> Result<Changer, ConfChangeError> {
        self.check()?;
        if !self.membership.voters.is_joint() {
            return Err(ConfChangeError::NotJoint);
        }
        for id in std::mem::take(&mut self.membership.learners_next).iter() {
            self.membership.learners.insert(id);
            if let Some(progress) = self.progress.get_mut(&id) {
                progress.is_learner = true;
            }
        }
        for id in std::mem::take(&mut self.membership.voters.outgoing).iter() {
            let stays = self.membership.voters.incoming.contains(id)
                || self.membership.learners.contains(id);
            if !stays {
                self.progress.remove(&id);
            }
        }
        self.membership.auto_leave = false;
        self.check()?;
        Ok(self)
    }

    /// Builds, from nobody, the configuration that `state` describes.
    pub fn restore(self, state: &ConfState) -> Result<Changer, ConfChangeError> {
        let each = |kind, ids: &[u64]| -> Vec<ConfChangeSingle> {
            let single = |node_id: &u64| ConfChangeSingle {
                kind,
                node_id: *node_id,
            };
            ids.iter().map(single).collect()
        };
        // What leads from the outgoing voters to the incoming configuration.
        let mut incoming = each(ConfChangeKind::RemoveNode, &state.voters_outgoing);
        incoming.extend(each(ConfChangeKind::AddNode, &state.voters));
        incoming.extend(each(ConfChangeKind::AddLearnerNode, &state.learners));
        incoming.extend(each(ConfChangeKind::AddLearnerNode, &state.learners_next));

        let mut changer = self;
        if state.voters_outgoing.is_empty() {
            for change in &incoming {
                changer = changer.simple(std::slice::from_ref(change))?;
            }
            return Ok(changer);
        }
        for change in each(ConfChangeKind::AddNode, &state.voters_outgoing) {
            changer = changer.simple(&[change])?;
        }
        changer.enter_joint(state.auto_leave, &incoming)
    }

    fn apply(&mut self, changes: &[ConfChangeSingle]) -> Result<(), ConfChangeError> {
        for change in changes {
            // Node 0 stands for a change that the state machine above refused.
            if change.node_id == 0 {
                continue;
            }
            match change.kind {
                ConfChangeKind::AddNode => self.make_voter(change.node_id),
                ConfChangeKind::AddLearnerNode => self.make_learner(change.node_id),
                ConfChangeKind::RemoveNode => self.remove(change.node_id),
                ConfChangeKind::UpdateNode => {}
            }
        }
        if self.membership.voters.incoming.is_empty() {
            return Err(ConfChangeError::NoVotersLeft);
        }
        Ok(())
    }

    fn make_voter(&mut self, id: u64) {
        match self.progress.get_mut(&id) {
            None => self.add_progress(id, false),
            Some(progress) => progress.is_learner = false,
        }
        self.membership.learners.remove(id);
        self.membership.learners_next.remove(id);
        self.membership.voters.incoming.insert(id);
    }

    fn make_learner(&mut self, id: u64) {
        let Some(progress) = self.progress.get(&id) else {
            self.add_progress(id, true);
            self.membership.learners.insert(id);
            return;
        };
        if progress.is_learner {
            return;
        }
        let mut kept = progress.clone();
        self.remove(id);
        // A voter of the outgoing half becomes a learner only when that half is left.
        if self.membership.voters.outgoing.contains(id) {
            self.membership.learners_next.insert(id);
        } else {
            kept.is_learner = true;
            self.membership.learners.insert(id);
        }
        self.progress.insert(id, kept);
    }

    fn remove(&mut self, id: u64) {
        if !self.progress.contains_key(&id) {
            return;
        }
        self.membership.voters.incoming.remove(id);
        self.membership.learners.remove(id);
        self.membership.learners_next.remove(id);
        if !self.membership.voters.outgoing.contains(id) {
            self.progress.remove(&id);
        }
    }

    fn add_progress(&mut self, id: u64, is_learner: bool) {
        let next = self.last_index.max(1);
        let mut progress = Progress::new(next, self.limits.window(), is_learner);
        // Else a check of the quorum could depose the leader before the new member could answer.
        progress.recent_active = true;
        self.progress.insert(id, progress);
    }

    /// The invariants of the tracker's header.
    fn check(&self) -> Result<(), ConfChangeError> {
        let fail = |text: String| Err(ConfChangeError::Inconsistent(text));
        let membership = &self.membership;
        let known = |ids: &IdSet| ids.iter().find(|id| !self.progress.contains_key(id));
        let sets = [
            &membership.voters.ids(),
            &membership.learners,
            &membership.learners_next,
        ];
        for ids in sets {
            if let Some(id) = known(ids) {
                return fail(format!("no progress for {id}"));
            }
        }
        for id in membership.learners_next.iter() {
            if !membership.voters.outgoing.contains(id) {
                return fail(format!("{id} is in LearnersNext, but not Voters[1]"));
            }
            if self.progress[&id].is_learner {
                return fail(format!(
                    "{id} is in LearnersNext, but is already marked as learner"
                ));
            }
        }
        for id in membership.learners.iter() {
            if membership.voters.outgoing.contains(id) {
                return fail(format!("{id} is in Learners and Voters[1]"));
            }
            if membership.voters.incoming.contains(id) {
                return fail(format!("{id} is in Learners and Voters[0]"));
            }
            if !self.progress[&id].is_learner {
                return fail(format!("{id} is in Learners, but is not marked as learner"));
            }
        }
        if !membership.voters.is_joint() {
            if !membership.learners_next.is_empty() {
                return fail("cfg.LearnersNext must be nil when not joint".to_owned());
            }
            if membership.auto_leave {
                return fail("AutoLeave must be false when not joint".to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn nobody() -> Changer {
        Changer {
            membership: Membership::default(),
            progress: ProgressMap::new(),
            limits: InflightLimits {
                count_max: 10,
                bytes_max: 0,
            },
            last_index: 10,
        }
    }

    fn some_changes(random: &mut Random) -> Vec<ConfChangeSingle> {
        (0..1 + random.below(4))
            .map(|_| ConfChangeSingle {
                kind: ConfChangeKind::from_number(u64::from(random.below(4))).unwrap(),
                node_id: u64::from(random.below(6)),
            })
            .collect()
    }

    /// Any configuration that changes lead to can be restored from its description.
    #[test]
    fn restore_rebuilds_what_changes_built() {
        let mut random = Random::new(3);
        let mut joint_seen = 0;
        for _ in 0..3_000 {
            let mut changer = nobody();
            for _ in 0..8 {
                let changes = some_changes(&mut random);
                let next = match random.below(3) {
                    0 => changer.clone().simple(&changes[..1]),
                    1 => changer.clone().enter_joint(random.below(2) == 0, &changes),
                    _ => changer.clone().leave_joint(),
                };
                if let Ok(next) = next {
                    changer = next;
                }
                let described = changer.membership.conf_state();
                let restored = nobody().restore(&described).unwrap();
                assert_eq!(restored.membership, changer.membership);
                assert!(restored.progress.keys().eq(changer.progress.keys()));
                joint_seen += usize::from(changer.membership.voters.is_joint());
            }
        }
        assert!(joint_seen > 1_000, "{joint_seen}");
    }

    /// A joint change and the simple changes it consists of end in the same place.
    #[test]
    fn joint_and_simple_changes_agree() {
        let mut random = Random::new(4);
        let mut compared = 0;
        for _ in 0..3_000 {
            let first = ConfChangeSingle {
                kind: ConfChangeKind::AddNode,
                node_id: 1,
            };
            let start = nobody().simple(&[first]).unwrap();
            let changes = some_changes(&mut random);
            let at_once = start
                .clone()
                .enter_joint(false, &changes)
                .and_then(Changer::leave_joint);
            let mut one_by_one = Ok(start);
            for change in &changes {
                one_by_one =
                    one_by_one.and_then(|c: Changer| c.simple(std::slice::from_ref(change)));
            }
            // On the way, single steps may pass a configuration without voters.
            let (Ok(at_once), Ok(one_by_one)) = (at_once, one_by_one) else {
                continue;
            };
            assert_eq!(at_once.membership, one_by_one.membership, "{changes:?}");
            compared += 1;
        }
        assert!(compared > 1_000, "{compared}");
    }

    #[test]
    fn a_refused_change_of_node_zero_changes_nothing() {
        let one = ConfChangeSingle {
            kind: ConfChangeKind::AddNode,
            node_id: 1,
        };
        let start = nobody().simple(&[one]).unwrap();
        let nothing = ConfChangeSingle {
            kind: ConfChangeKind::RemoveNode,
            node_id: 0,
        };
        let same = start.clone().simple(&[nothing]).unwrap();
        assert_eq!(same.membership, start.membership);
    }
}
