//! Changes of the membership, checked before they are proposed.
//!
//! The checks here protect the quorum of now, as --strict-reconfig-check wants: they know who is
//! connected, which is no replicated state. Whether the change is valid at all is judged when it is
//! applied ([`crate::conf_change`]).

use super::{Member, Note, Pending, ProposalKind, Reply};
use quorate_api as api;
use quorate_raft::{ConfChange, ConfChangeKind, EntryKind};
use quorate_store::membership::{ChangeContext, Member as ClusterMember, go_json};
use quorate_wal::raftpb;

/// How long a member must have been connected to count as healthy, in milliseconds.
const HEALTHY_MS: u64 = 5_000;
/// How much of the leader's log a learner must have before it may vote, in percent.
const READY_PERCENT: u64 = 90;

/// What is to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A voter or a learner comes.
    Add(ClusterMember),
    /// A member goes for good.
    Remove(u64),
    /// A member is reached elsewhere.
    Update {
        /// Whose URLs.
        id: u64,
        /// The new ones.
        peer_urls: Vec<String>,
    },
    /// A learner becomes a voter.
    Promote(u64),
}

impl MemberChange {
    /// Whose membership it changes.
    pub fn id(&self) -> u64 {
        match self {
            MemberChange::Add(member) => member.id,
            MemberChange::Remove(id)
            | MemberChange::Update { id, .. }
            | MemberChange::Promote(id) => *id,
        }
    }

    fn conf_change(&self, id: u64) -> ConfChange {
        let (kind, context) = match self {
            MemberChange::Add(member) => {
                let kind = if member.is_learner {
                    ConfChangeKind::AddLearnerNode
                } else {
                    ConfChangeKind::AddNode
                };
                (kind, go_json(member))
            }
            MemberChange::Remove(_) => (ConfChangeKind::RemoveNode, Vec::new()),
            MemberChange::Update { id, peer_urls } => {
                let member = ClusterMember {
                    id: *id,
                    peer_urls: peer_urls.clone(),
                    ..Default::default()
                };
                (ConfChangeKind::UpdateNode, go_json(&member))
            }
            MemberChange::Promote(id) => {
                let member = ClusterMember {
                    id: *id,
                    ..Default::default()
                };
                let context = ChangeContext {
                    member,
                    is_promote: true,
                };
                (ConfChangeKind::AddNode, go_json(&context))
            }
        };
        ConfChange {
            id,
            kind,
            node_id: self.id(),
            context: context.into(),
        }
    }
}

impl<T> Member<T> {
    /// Proposes a change of the membership. The token is told its outcome once it is applied, or why
    /// it was not proposed.
    pub fn change_membership(&mut self, change: &MemberChange, token: T) {
        if let Err(error) = self.check_change(change) {
            let change = change.clone();
            self.effects
                .notes
                .push(Note::ChangeRefused { change, error });
            self.effects.replies.push((token, Reply::Failed(error)));
            return;
        }
        let id = self.own_ids.draw();
        let mut data = Vec::new();
        raftpb::put_conf_change(&mut data, &change.conf_change(id));
        self.deadline(id);
        self.pending.insert(
            id,
            Pending {
                token: Some(token),
                kind: ProposalKind::Ordinary,
            },
        );
        self.changes_waiting.push((id, data.into()));
        self.propose_changes();
    }

    /// Proposes the changes that wait for a leader.
    pub(super) fn propose_changes(&mut self) {
        if self.raft.soft_state().lead == 0 {
            return;
        }
        for (id, data) in std::mem::take(&mut self.changes_waiting) {
            if !self.pending.contains_key(&id) {
                continue; // its time is over
            }
            let proposed = self.raft.propose_conf_change(EntryKind::ConfChange, data);
            if proposed.is_err()
                && let Some(token) = self.pending.remove(&id).and_then(|p| p.token)
            {
                let reply = Reply::Failed(api::Error::RequestTooManyRequests);
                self.effects.replies.push((token, reply));
            }
        }
    }

    fn check_change(&self, change: &MemberChange) -> Result<(), api::Error> {
        if self.log_full {
            return Err(api::Error::NoSpace);
        }
        let strict = self.config.strict_reconfiguration;
        match change {
            MemberChange::Add(member) if strict => self.check_add(member.is_learner),
            MemberChange::Remove(id) if strict => self.check_remove(*id),
            MemberChange::Promote(id) => {
                self.check_learner(*id)?;
                // The learner counts as a voter that has started.
                let (voters, started) = self.voters_but(0);
                if strict && started + 1 < quorum(voters + 1) {
                    return Err(api::Error::MemberNotEnoughStarted);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// How many voters there are but for this one, and how many of them have started.
    fn voters_but(&self, id: u64) -> (usize, usize) {
        let voters = self.store.members().voters().filter(|m| m.id != id);
        voters.fold((0, 0), |(all, started), member| {
            (all + 1, started + usize::from(!member.name.is_empty()))
        })
    }

    fn count_healthy(&self) -> usize {
        let Some(since_ms) = self.now_ms.checked_sub(HEALTHY_MS) else {
            return 1; // nobody has been connected for that long
        };
        let voters = self.store.members().voters().map(|member| member.id);
        self.count_connected(voters, since_ms)
    }

    fn check_add(&self, learns: bool) -> Result<(), api::Error> {
        let (voters, started) = self.voters_but(0);
        // One member of its own may always be joined by another.
        let first = voters == 1 && started == 1;
        if !learns && !first && started < quorum(voters + 1) {
            return Err(api::Error::MemberNotEnoughStarted);
        }
        if voters > 1 && self.count_healthy() < quorum(voters + 1) {
            return Err(api::Error::Unhealthy);
        }
        Ok(())
    }

    fn check_remove(&self, id: u64) -> Result<(), api::Error> {
        let members = self.store.members();
        if members.get(id).is_some_and(|member| member.is_learner) {
            return Ok(());
        }
        let (left, started) = self.voters_but(id);
        if started < quorum(left) {
            return Err(api::Error::MemberNotEnoughStarted);
        }
        if id != self.config.member_id && !self.connected.contains_key(&id) {
            return Ok(()); // it takes no part in the quorum of now
        }
        let voters = members.voters().count();
        if self.count_healthy() < 2 + voters.saturating_sub(1) / 2 {
            return Err(api::Error::Unhealthy);
        }
        Ok(())
    }

    /// Whether a learner has nearly all of the leader's log.
    fn check_learner(&self, id: u64) -> Result<(), api::Error> {
        if !self.is_leader() {
            return Err(api::Error::NotLeader);
        }
        let progress = self.raft.progress();
        let learner = progress.get(&id).ok_or(api::Error::MemberNotFound)?;
        let own = progress.get(&self.config.member_id);
        let matched = own.map_or(0, |own| own.matched);
        if learner.matched.saturating_mul(100) < matched.saturating_mul(READY_PERCENT) {
            return Err(api::Error::LearnerNotReady);
        }
        Ok(())
    }
}

fn quorum(members: usize) -> usize {
    members / 2 + 1
}
