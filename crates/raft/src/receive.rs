//! The way in for messages: refuse what no member sends, then follow or answer the sender's term,
//! then leave the rest to the role.
//!
//! Invariants: [`Raft::step`] takes any bytes a peer can make of a message and gives an error, not
//! a panic; a message of a lower term changes nothing but what is term-independent.

use crate::error::StepError;
use crate::journal::note;
use crate::message::{Message, MessageKind};
use crate::raft::Raft;
use crate::storage::Storage;
use crate::types::{EntryId, NONE, Role, encoded_len, is_local_target, payload_len};

/// No log gets here at a million entries a second within 100,000 years; a snapshot that claims to
/// would leave no room for the entries behind it.
const INDEX_MAX: u64 = u64::MAX / 2;

impl<S: Storage> Raft<S> {
    /// Takes a message from another member. Nothing it can contain makes this member panic.
    pub fn step(&mut self, message: Message) -> Result<(), StepError> {
        if message.kind.is_local() || message.kind == MessageKind::ForgetLeader {
            return Err(StepError::LocalMessage);
        }
        let from = message.from;
        // What is forwarded keeps its first sender, and may come back to it.
        let is_forwarded = matches!(
            message.kind,
            MessageKind::Prop | MessageKind::ReadIndex | MessageKind::TransferLeader
        );
        if from == NONE || is_local_target(from) || (from == self.config.id && !is_forwarded) {
            return Err(StepError::Malformed("its sender is no other member"));
        }
        if message.term == 0 && !is_forwarded {
            return Err(StepError::Malformed("it has no term"));
        }
        if message.kind.is_response() && !self.tracker.progress.contains_key(&from) {
            return Err(StepError::PeerNotFound);
        }
        self.check(&message)?;
        self.handle(message)
    }

    /// Refuses what no member sends, before it can do anything.
    pub(crate) fn check(&self, message: &Message) -> Result<(), StepError> {
        match message.kind {
            MessageKind::App => {
                let mut before = EntryId {
                    term: message.log_term,
                    index: message.index,
                };
                for entry in &message.entries {
                    let follows = before.index.checked_add(1) == Some(entry.index);
                    if !follows || entry.term < before.term {
                        return Err(StepError::Malformed("its entries do not follow each other"));
                    }
                    before = entry.id();
                }
                if before.term > message.term || before.index == u64::MAX {
                    return Err(StepError::Malformed("its entries are of a later term"));
                }
            }
            MessageKind::Snap => {
                let metadata = message.snapshot.as_ref().map(|snapshot| &snapshot.metadata);
                if metadata.is_some_and(|metadata| metadata.index > INDEX_MAX) {
                    return Err(StepError::Malformed("its snapshot is beyond any log"));
                }
                if metadata.is_some_and(|metadata| metadata.term > message.term) {
                    return Err(StepError::Malformed("its snapshot is of a later term"));
                }
            }
            MessageKind::Prop | MessageKind::ReadIndex if message.entries.is_empty() => {
                return Err(StepError::Malformed("it has no entries"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes any message, a local one too: first its term, then what it says.
    pub(crate) fn handle(&mut self, message: Message) -> Result<(), StepError> {
        if message.term > self.term {
            if !self.take_higher_term(&message) {
                return Ok(());
            }
        } else if message.term != 0 && message.term < self.term {
            self.answer_lower_term(message);
            return Ok(());
        }
        match message.kind {
            MessageKind::Hup => self.hup(),
            MessageKind::StorageAppendResp => {
                if message.index != 0 {
                    let id = EntryId {
                        term: message.log_term,
                        index: message.index,
                    };
                    self.log.unstable.stable_to(id, &mut self.journal);
                }
                if let Some(snapshot) = message.snapshot {
                    self.applied_snapshot(snapshot.metadata.index);
                }
            }
            MessageKind::StorageApplyResp => {
                if let Some(last) = message.entries.last() {
                    let (size, payload) =
                        (encoded_len(&message.entries), payload_len(&message.entries));
                    self.applied_entries(last.index, size, payload);
                }
            }
            MessageKind::Vote | MessageKind::PreVote => self.answer_vote(&message),
            _ => {
                return match self.role {
                    Role::Leader => self.step_leader(message),
                    Role::Follower => self.step_follower(message),
                    Role::Candidate | Role::PreCandidate => self.step_candidate(message),
                };
            }
        }
        Ok(())
    }

    /// Follows a message into its term; `false` if the message is to be ignored.
    fn take_higher_term(&mut self, message: &Message) -> bool {
        let kind = message.kind;
        if matches!(kind, MessageKind::Vote | MessageKind::PreVote)
            && self.ignores_candidate(message)
        {
            return false;
        }
        match kind {
            // A question; and the answer yes to our own, for a term we are not in yet.
            MessageKind::PreVote => {}
            MessageKind::PreVoteResp if !message.reject => {}
            _ => {
                note!(
                    self.journal,
                    Info,
                    "{:x} [term: {}] received a {kind} message with higher term from {:x} \
                     [term: {}]",
                    self.config.id,
                    self.term,
                    message.from,
                    message.term
                );
                let from_leader = matches!(
                    kind,
                    MessageKind::App | MessageKind::Heartbeat | MessageKind::Snap
                );
                let lead = if from_leader { message.from } else { NONE };
                self.become_follower(message.term, lead);
            }
        }
        true
    }

    fn answer_lower_term(&mut self, message: Message) {
        let kind = message.kind;
        match kind {
            // A leader of an old term. If candidates' terms are ignored around here (check of the
            // quorum, pre-vote), only an answer can tell it, or free a member whose term ran
            // ahead while it was cut off.
            MessageKind::Heartbeat | MessageKind::App
                if self.config.check_quorum || self.config.pre_vote =>
            {
                self.send(Message::new(MessageKind::AppResp, message.from));
            }
            // Silence could leave a group stuck in which pre-vote was switched on one by one.
            MessageKind::PreVote => {
                self.note_vote("rejected", &message);
                let mut answer = Message::new(MessageKind::PreVoteResp, message.from);
                answer.term = self.term;
                answer.reject = true;
                self.send(answer);
            }
            MessageKind::StorageAppendResp => {
                if message.index != 0 {
                    // In the new term other entries may be on their way to the same places.
                    note!(
                        self.journal,
                        Info,
                        "{:x} [term: {}] ignored entry appends from a {kind} message with lower \
                         term [term: {}]",
                        self.config.id,
                        self.term,
                        message.term
                    );
                }
                // A snapshot is committed state, good in any term.
                if let Some(snapshot) = message.snapshot {
                    self.applied_snapshot(snapshot.metadata.index);
                }
            }
            _ => note!(
                self.journal,
                Info,
                "{:x} [term: {}] ignored a {kind} message with lower term from {:x} [term: {}]",
                self.config.id,
                self.term,
                message.from,
                message.term
            ),
        }
    }
}
