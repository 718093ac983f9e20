//! Read index requests that wait for a quorum to confirm the leader.
//!
//! Requests form a sequence. Each heartbeat carries the sequence's current end as its context, and
//! a follower's answer with it confirms all requests up to there: so one round serves all that
//! wait (Raft thesis, section 6.4).
//!
//! Invariants: `waiting[0]` has position `confirmed + 1`; positions never go back within a term.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::config::ReadOnlyOption;
use crate::journal::note;
use crate::message::{Message, MessageKind};
use crate::quorum::JointConfig;
use crate::raft::Raft;
use crate::storage::Storage;
use crate::types::{NONE, ReadState};

/// Read index requests a leader keeps at most; more are dropped, and asked for again.
const WAITING_READS_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct ReadOnly {
    /// The highest position that each member confirmed.
    acks: BTreeMap<u64, u64>,
    /// Requests with the commit index at their arrival.
    waiting: VecDeque<(Message, u64)>,
    /// Requests confirmed so far.
    confirmed: u64,
}

impl ReadOnly {
    /// Adds a request that will be answered with `index`; `false` if there are too many.
    pub(crate) fn add(&mut self, request: Message, index: u64) -> bool {
        if self.waiting.len() >= WAITING_READS_MAX {
            return false;
        }
        self.waiting.push_back((request, index));
        true
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn end(&self) -> u64 {
        self.confirmed + self.waiting.len() as u64
    }

    /// What a heartbeat must carry to confirm all that waits: little-endian, empty for nothing.
    pub(crate) fn heartbeat_context(&self) -> Bytes {
        if self.waiting.is_empty() {
            return Bytes::new();
        }
        Bytes::copy_from_slice(&self.end().to_le_bytes())
    }

    /// Takes a heartbeat's answer. A context that this leader did not send is ignored.
    pub(crate) fn receive_ack(&mut self, from: u64, context: &[u8]) {
        let Ok(context) = context.try_into() else {
            return;
        };
        let position = u64::from_le_bytes(context);
        if position <= self.end() {
            let known = self.acks.entry(from).or_insert(0);
            *known = position.max(*known);
        }
    }

    /// Requests that a quorum has confirmed by now, with the index of each.
    pub(crate) fn take_confirmed(&mut self, voters: &JointConfig) -> Vec<(Message, u64)> {
        let acks = &self.acks;
        let confirmed = voters
            .committed_index(|id| acks.get(&id).copied())
            .min(self.end());
        if confirmed <= self.confirmed {
            return Vec::new();
        }
        let count = usize::try_from(confirmed - self.confirmed).expect("at most what waits");
        self.confirmed = confirmed;
        self.waiting.drain(..count).collect()
    }
}

/// What a leader does with read index requests.
impl<S: Storage> Raft<S> {
    /// Takes a request. One that comes before the first commit of the term waits for that: until
    /// then the commit index may be behind what the last leader has answered for, for a lone voter
    /// too.
    pub(crate) fn take_read(&mut self, request: Message) {
        if self.has_committed_in_term() {
            self.start_reads(vec![request]);
        } else if self.early_reads.len() < WAITING_READS_MAX {
            self.early_reads.push(request);
        } else {
            self.note_read_dropped();
        }
    }

    fn note_read_dropped(&mut self) {
        let id = self.config.id;
        note!(
            self.journal,
            Debug,
            "{id:x} too many read index requests wait; dropping one"
        );
    }

    fn has_committed_in_term(&self) -> bool {
        // A leader's term is never 0.
        self.log.term_or_zero(self.log.committed) == self.term
    }

    /// Asks, in one round, for as many as came together. A leader that is the only voter has its
    /// quorum at once; one that was removed, and leads on for a while, has not.
    fn start_reads(&mut self, requests: Vec<Message>) {
        let index = self.log.committed;
        for request in requests {
            match self.config.read_only {
                ReadOnlyOption::LeaseBased => self.answer_read(request, index),
                ReadOnlyOption::Safe => {
                    if !self.read_only.add(request, index) {
                        self.note_read_dropped();
                    }
                }
            }
        }
        let context = self.read_only.heartbeat_context();
        self.read_only.receive_ack(self.config.id, &context);
        self.answer_confirmed_reads();
        if self.read_only.is_waiting() {
            self.broadcast_heartbeat();
        }
    }

    fn answer_read(&mut self, mut request: Message, index: u64) {
        if request.from == NONE || request.from == self.config.id {
            let context = request.entries.swap_remove(0).data;
            self.read_states.push(ReadState { index, context });
            return;
        }
        let mut answer = Message::new(MessageKind::ReadIndexResp, request.from);
        answer.index = index;
        answer.entries = request.entries;
        self.send(answer);
    }

    pub(crate) fn release_early_reads(&mut self) {
        if self.early_reads.is_empty() || !self.has_committed_in_term() {
            return;
        }
        let requests = std::mem::take(&mut self.early_reads);
        self.start_reads(requests);
    }

    /// Takes a heartbeat's answer that carries a context.
    pub(crate) fn confirm_reads(&mut self, message: &Message) {
        self.read_only.receive_ack(message.from, &message.context);
        self.answer_confirmed_reads();
    }

    /// Answers what the voters in force have confirmed.
    pub(crate) fn answer_confirmed_reads(&mut self) {
        let voters = &self.tracker.membership.voters;
        for (request, index) in self.read_only.take_confirmed(voters) {
            self.answer_read(request, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_confirms_all_that_waited_when_it_was_asked_for() {
        let voters = JointConfig {
            incoming: [1, 2, 3].into_iter().collect(),
            ..JointConfig::default()
        };
        let mut reads = ReadOnly::default();
        assert!(reads.heartbeat_context().is_empty());
        assert!(reads.add(Message::default(), 5));
        assert!(reads.add(Message::default(), 7));
        let context = reads.heartbeat_context();
        assert!(reads.add(Message::default(), 9));
        reads.receive_ack(1, &reads.heartbeat_context());
        assert!(reads.take_confirmed(&voters).is_empty());
        // Not ours: too short, and beyond the end.
        reads.receive_ack(2, b"abc");
        reads.receive_ack(2, &9u64.to_le_bytes());
        assert!(reads.take_confirmed(&voters).is_empty());
        reads.receive_ack(2, &context);
        let indexes: Vec<u64> = reads
            .take_confirmed(&voters)
            .iter()
            .map(|read| read.1)
            .collect();
        assert_eq!(indexes, [5, 7]);
        // An older answer takes nothing back.
        reads.receive_ack(2, &1u64.to_le_bytes());
        reads.receive_ack(3, &reads.heartbeat_context());
        assert_eq!(reads.take_confirmed(&voters).len(), 1);
        assert!(reads.heartbeat_context().is_empty());
    }
}
