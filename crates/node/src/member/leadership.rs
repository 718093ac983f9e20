//! Handing leadership over: when somebody asks for it, and before a leader stops.

use super::{Member, Reply};
use quorate_api as api;

/// A transfer that somebody waits for.
pub(super) struct Transfer<T> {
    to: u64,
    token: T,
    deadline_ms: u64,
}

impl<T> Member<T> {
    /// Hands leadership to a voter; the token is told [`Reply::Ready`] once that one leads.
    pub fn transfer_leader(&mut self, to: u64, token: T) {
        let members = self.store.members();
        let error = if !self.is_leader() {
            Some(api::Error::NotLeader)
        } else if members.voters().all(|member| member.id != to) {
            Some(api::Error::BadLeaderTransferee)
        } else {
            None
        };
        if let Some(error) = error {
            self.effects.replies.push((token, Reply::Failed(error)));
            return;
        }
        if to == self.config.member_id {
            self.effects.replies.push((token, Reply::Ready));
            return;
        }
        self.raft.transfer_leader(to);
        self.transfers.push(Transfer {
            to,
            token,
            deadline_ms: self.now_ms + self.config.request_timeout_ms,
        });
    }

    /// Before a stop: hands leadership, where this member has it and there is somebody to take it, to
    /// the voter that has been connected longest.
    pub fn hand_over(&mut self, token: T) {
        if !self.is_leader() || self.is_sole_voter() {
            self.effects.replies.push((token, Reply::Ready));
            return;
        }
        let own = self.config.member_id;
        let longest = self
            .store
            .members()
            .voters()
            .filter(|member| member.id != own)
            .filter_map(|member| Some((*self.connected.get(&member.id)?, member.id)))
            .min();
        match longest {
            Some((_, to)) => self.transfer_leader(to, token),
            None => {
                let reply = Reply::Failed(api::Error::Unhealthy);
                self.effects.replies.push((token, reply));
            }
        }
    }

    /// Tells those who waited for this leader.
    pub(super) fn transfers_ended(&mut self, leader: u64) {
        let (ended, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.transfers)
            .into_iter()
            .partition(|transfer| transfer.to == leader);
        self.transfers = waiting;
        let replies = ended.into_iter().map(|t| (t.token, Reply::Ready));
        self.effects.replies.extend(replies);
    }

    pub(super) fn expire_transfers(&mut self) {
        let now_ms = self.now_ms;
        let (late, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.transfers)
            .into_iter()
            .partition(|transfer| transfer.deadline_ms <= now_ms);
        self.transfers = waiting;
        let error = api::Error::TimeoutLeaderTransfer;
        let replies = late.into_iter().map(|t| (t.token, Reply::Failed(error)));
        self.effects.replies.extend(replies);
    }
}
