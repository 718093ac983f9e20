//! What a follower does with a message.

use crate::config::ReadOnlyOption;
use crate::error::StepError;
use crate::journal::note;
use crate::message::{Message, MessageKind};
use crate::raft::Raft;
use crate::reconfigure::restored;
use crate::storage::Storage;
use crate::types::{EntryId, NONE, ReadState, Role, Snapshot};

impl<S: Storage> Raft<S> {
    pub(crate) fn step_follower(&mut self, mut message: Message) -> Result<(), StepError> {
        match message.kind {
            MessageKind::Prop => {
                if self.lead == NONE {
                    self.note_no_leader("proposal");
                    return Err(StepError::ProposalDropped);
                }
                if self.config.disable_proposal_forwarding {
                    note!(
                        self.journal,
                        Info,
                        "{:x} not forwarding to leader {:x} at term {}; dropping proposal",
                        self.config.id,
                        self.lead,
                        self.term
                    );
                    return Err(StepError::ProposalDropped);
                }
                self.forward(message);
                Ok(())
            }
            MessageKind::App | MessageKind::Heartbeat | MessageKind::Snap => {
                self.election_elapsed = 0;
                self.lead = message.from;
                match message.kind {
                    MessageKind::App => self.handle_append(message),
                    MessageKind::Heartbeat => self.handle_heartbeat(message),
                    _ => self.handle_snapshot(message),
                }
            }
            MessageKind::TransferLeader => {
                if self.lead == NONE {
                    self.note_no_leader("leader transfer msg");
                } else {
                    self.forward(message);
                }
                Ok(())
            }
            MessageKind::ForgetLeader => {
                if self.config.read_only == ReadOnlyOption::LeaseBased {
                    note!(
                        self.journal,
                        Error,
                        "ignoring MsgForgetLeader due to ReadOnlyLeaseBased"
                    );
                } else if self.lead != NONE {
                    note!(
                        self.journal,
                        Info,
                        "{:x} forgetting leader {:x} at term {}",
                        self.config.id,
                        self.lead,
                        self.term
                    );
                    self.lead = NONE;
                }
                Ok(())
            }
            MessageKind::TimeoutNow => {
                note!(
                    self.journal,
                    Info,
                    "{:x} [term {}] received MsgTimeoutNow from {:x} and starts an election to \
                     get leadership.",
                    self.config.id,
                    self.term,
                    message.from
                );
                self.take_over();
                Ok(())
            }
            MessageKind::ReadIndex => {
                if self.lead == NONE {
                    self.note_no_leader("index reading msg");
                } else {
                    self.forward(message);
                }
                Ok(())
            }
            MessageKind::ReadIndexResp => {
                let count = message.entries.len();
                match message.entries.pop() {
                    Some(request) if count == 1 => self.read_states.push(ReadState {
                        index: message.index,
                        context: request.data,
                    }),
                    _ => note!(
                        self.journal,
                        Error,
                        "{:x} invalid format of MsgReadIndexResp from {:x}, entries count: {count}",
                        self.config.id,
                        message.from
                    ),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn note_no_leader(&mut self, what: &str) {
        let (id, term) = (self.config.id, self.term);
        note!(
            self.journal,
            Info,
            "{id:x} no leader at term {term}; dropping {what}"
        );
    }

    /// Passes a request on to the leader, as from its first sender.
    fn forward(&mut self, mut message: Message) {
        if self.lead == self.config.id {
            return;
        }
        message.to = self.lead;
        message.term = 0;
        self.send(message);
    }

    fn handle_append(&mut self, message: Message) -> Result<(), StepError> {
        let prev = EntryId {
            term: message.log_term,
            index: message.index,
        };
        let mut answer = Message::new(MessageKind::AppResp, message.from);
        if prev.index < self.log.committed {
            answer.index = self.log.committed;
            self.send(answer);
            return Ok(());
        }
        let appended =
            self.log
                .maybe_append(prev, message.entries, message.commit, &mut self.journal);
        match appended {
            Ok(Some(last)) => answer.index = last,
            Ok(None) => {
                note!(
                    self.journal,
                    Debug,
                    "{:x} [logterm: {}, index: {}] rejected MsgApp [logterm: {}, index: {}] from \
                     {:x}",
                    self.config.id,
                    self.log.term_or_zero(prev.index),
                    prev.index,
                    prev.term,
                    prev.index,
                    message.from
                );
                // The leader's log has no term above prev's up to prev, so skip what is of later
                // terms here. The leader does the same with our hint.
                let end = prev.index.min(self.log.last_index());
                let hint = self.log.find_conflict_by_term(end, prev.term);
                answer.index = prev.index;
                answer.reject = true;
                answer.reject_hint = hint.index;
                answer.log_term = hint.term;
            }
            Err(index) => {
                let committed = self.log.committed;
                return Err(StepError::CommittedConflict { index, committed });
            }
        }
        self.send(answer);
        Ok(())
    }

    fn handle_heartbeat(&mut self, message: Message) -> Result<(), StepError> {
        let (commit, last_index) = (message.commit, self.log.last_index());
        if commit > last_index {
            return Err(StepError::CommitBeyondLog { commit, last_index });
        }
        self.log.commit_to(commit);
        let mut answer = Message::new(MessageKind::HeartbeatResp, message.from);
        answer.context = message.context;
        self.send(answer);
        Ok(())
    }

    fn handle_snapshot(&mut self, message: Message) -> Result<(), StepError> {
        let snapshot = message
            .snapshot
            .map(|snapshot| *snapshot)
            .unwrap_or_default();
        let EntryId { term, index } = EntryId {
            term: snapshot.metadata.term,
            index: snapshot.metadata.index,
        };
        let mut answer = Message::new(MessageKind::AppResp, message.from);
        let verdict = if self.restore(snapshot)? {
            answer.index = self.log.last_index();
            "restored"
        } else {
            answer.index = self.log.committed;
            "ignored"
        };
        note!(
            self.journal,
            Info,
            "{:x} [commit: {}] {verdict} snapshot [index: {index}, term: {term}]",
            self.config.id,
            self.log.committed
        );
        self.send(answer);
        Ok(())
    }

    /// Puts a snapshot in the place of log and configuration; `false` if it brings nothing new.
    fn restore(&mut self, snapshot: Snapshot) -> Result<bool, StepError> {
        let id = EntryId {
            term: snapshot.metadata.term,
            index: snapshot.metadata.index,
        };
        let own = self.config.id;
        if id.index <= self.log.committed {
            return Ok(false);
        }
        assert!(
            self.role == Role::Follower,
            "only a follower restores a snapshot"
        );
        let state = &snapshot.metadata.conf_state;
        // Those in learners_next are outgoing voters.
        let mut members = state
            .voters
            .iter()
            .chain(&state.learners)
            .chain(&state.voters_outgoing);
        if !members.any(|member| *member == own) {
            note!(
                self.journal,
                Warn,
                "{own:x} attempted to restore snapshot but it is not in the ConfState {state:?}; \
                 should never happen"
            );
            return Ok(false);
        }
        if self.log.matches(id) {
            let last = self.log.last_id();
            note!(
                self.journal,
                Info,
                "{own:x} [commit: {}, lastindex: {}, lastterm: {}] fast-forwarded commit to \
                 snapshot [index: {}, term: {}]",
                self.log.committed,
                last.index,
                last.term,
                id.index,
                id.term
            );
            self.log.commit_to(id.index);
            return Ok(false);
        }
        let changer =
            restored(self.tracker.limits, id.index, state).map_err(StepError::BadConfState)?;
        self.log.restore(snapshot, &mut self.journal);
        self.tracker.reset_votes();
        self.conf_index = id.index;
        self.switch_to(changer.membership, changer.progress);
        let last = self.log.last_id();
        note!(
            self.journal,
            Info,
            "{own:x} [commit: {}, lastindex: {}, lastterm: {}] restored snapshot [index: {}, \
             term: {}]",
            self.log.committed,
            last.index,
            last.term,
            id.index,
            id.term
        );
        Ok(true)
    }
}
