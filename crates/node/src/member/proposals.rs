//! Proposals: taken or refused before they reach the log, and given up when their time is over.

use super::{Member, Pending, Proposal, ProposalKind, Reply};
use prost::Message as _;
use quorate_api as api;
use quorate_api::etcdserverpb::{InternalRaftRequest, RequestHeader};
use quorate_api::membershippb::{Attributes, ClusterMemberAttrSetRequest};
use quorate_failpoints::fail_point;

impl<T> Member<T> {
    /// Proposes requests that came together.
    pub fn propose(&mut self, mut proposals: Vec<Proposal<T>>) {
        self.proposed_ms = Some(self.now_ms);
        if self.log_full {
            return self.refuse(proposals, api::Error::NoSpace);
        }
        let gap = self
            .raft
            .hard_state()
            .commit
            .saturating_sub(self.store.applied().index);
        if gap > self.config.max_apply_gap_of_revocations
            || self.pending.len() + self.early.len() + proposals.len() > self.config.max_proposals
        {
            return self.refuse(proposals, api::Error::RequestTooManyRequests);
        }
        if gap > self.config.max_apply_gap {
            let is_revocation = |p: &Proposal<T>| p.kind == ProposalKind::Revocation;
            let (revocations, others) = proposals.into_iter().partition(is_revocation);
            self.refuse(others, api::Error::RequestTooManyRequests);
            proposals = revocations;
            if proposals.is_empty() {
                return;
            }
        }
        if self.raft.soft_state().lead == 0 {
            // etcd's raft takes no proposal without a leader either, and the caller waits.
            for proposal in proposals {
                self.deadline(proposal.id);
                self.early.push_back(proposal);
            }
            return;
        }
        self.propose_now(proposals);
    }

    pub(super) fn propose_now(&mut self, proposals: Vec<Proposal<T>>) {
        let batch = proposals
            .iter()
            .map(|proposal| proposal.data.clone())
            .collect();
        if self.raft.propose_batch(batch).is_err() {
            // Uncommitted entries beyond the limit, or a leadership transfer under way.
            return self.refuse(proposals, api::Error::RequestTooManyRequests);
        }
        for proposal in proposals {
            self.deadline(proposal.id);
            let Proposal {
                id, token, kind, ..
            } = proposal;
            self.pending.insert(id, Pending { token, kind });
        }
    }

    pub(super) fn refuse(&mut self, proposals: Vec<Proposal<T>>, error: api::Error) {
        self.failed += proposals.len() as u64;
        let told = proposals.into_iter().filter_map(|proposal| proposal.token);
        self.effects
            .replies
            .extend(told.map(|token| (token, Reply::Failed(error))));
    }

    pub(super) fn deadline(&mut self, id: u64) {
        self.deadlines
            .push_back((self.now_ms + self.config.request_timeout_ms, id));
    }

    pub(super) fn expire_proposals(&mut self) {
        while let Some(&(at_ms, id)) = self.deadlines.front()
            && at_ms <= self.now_ms
        {
            self.deadlines.pop_front();
            if let Some(pending) = self.pending.remove(&id) {
                self.failed += 1;
                let reply = Reply::Failed(self.timeout(at_ms));
                self.effects
                    .replies
                    .extend(pending.token.map(|token| (token, reply)));
            }
            if let Some(at) = self.early.iter().position(|proposal| proposal.id == id) {
                let error = self.timeout(at_ms);
                let proposal = self.early.remove(at);
                self.refuse(proposal.into_iter().collect(), error);
            }
        }
    }

    /// What a request is told whose time is over, with the likely cause. `at_ms`: its deadline.
    fn timeout(&self, at_ms: u64) -> api::Error {
        let since_ms = at_ms.saturating_sub(self.config.request_timeout_ms);
        let two_elections = 2 * u64::from(self.config.election_ticks) * self.config.tick_ms;
        let lost_ms = self.leader_since_ms.saturating_sub(two_elections);
        if lost_ms < since_ms && since_ms < self.leader_since_ms {
            return api::Error::TimeoutDueToLeaderFail;
        }
        let members = self.store.members();
        let is_connected = match self.raft.soft_state().lead {
            0 => true,
            lead if lead == self.config.member_id => {
                let ids = members.iter().map(|member| member.id);
                self.count_connected(ids, since_ms) > members.len() / 2
            }
            lead => self.is_connected_since(lead, since_ms),
        };
        if is_connected {
            api::Error::Timeout
        } else {
            api::Error::TimeoutDueToConnectionLost
        }
    }

    /// Draws a request id and proposes on the member's own behalf.
    pub(super) fn propose_own(&mut self, request: InternalRaftRequest) -> u64 {
        self.propose_with(request, None)
    }

    /// The same, with somebody who is told; the id it was given.
    pub(super) fn propose_with(&mut self, request: InternalRaftRequest, token: Option<T>) -> u64 {
        let id = self.own_ids.draw();
        let request = InternalRaftRequest {
            header: Some(RequestHeader {
                id,
                ..Default::default()
            }),
            ..request
        };
        let kind = match request.lease_revoke {
            Some(_) => ProposalKind::Revocation,
            None => ProposalKind::Ordinary,
        };
        let data = request.encode_to_vec().into();
        self.propose(vec![Proposal {
            id,
            data,
            token,
            kind,
        }]);
        id
    }

    /// Tells the cluster what this member says of itself, until the cluster has taken note of it.
    pub(super) fn publish_attributes(&mut self) {
        let under_way = self
            .publishing
            .is_some_and(|id| self.pending.contains_key(&id));
        if self.published || under_way || self.raft.soft_state().lead == 0 {
            return;
        }
        fail_point!("beforePublishing");
        let attributes = Attributes {
            name: self.config.name.clone(),
            client_urls: self.config.client_urls.clone(),
        };
        let id = self.propose_own(InternalRaftRequest {
            cluster_member_attr_set: Some(ClusterMemberAttrSetRequest {
                member_id: self.config.member_id,
                member_attributes: Some(attributes),
            }),
            ..Default::default()
        });
        self.publishing = Some(id);
    }
}
