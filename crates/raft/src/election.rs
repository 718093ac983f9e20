//! Elections: who asks, who is asked, and what becomes of the answers.
//!
//! A candidate votes for itself like anyone else: by a message to itself that waits until the vote
//! is durable. It asks the others meanwhile.
//!
//! Invariant: who leads a term has its own vote for it on disk (stricter than etcd raft, which with
//! asynchronous writes can let a member lead the same term twice).

use bytes::Bytes;

use crate::error::StepError;
use crate::journal::note;
use crate::message::{Message, MessageKind};
use crate::quorum::VoteResult;
use crate::raft::Raft;
use crate::storage::Storage;
use crate::types::{EntryId, NONE, Role};

/// The context of vote requests that a leader asked for; they override stickiness.
const CAMPAIGN_TRANSFER: &[u8] = b"CampaignTransfer";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Campaign {
    /// Ask whether an election can be won.
    PreElection,
    /// An election, after the timeout or the pre-election.
    Election,
    /// An election at the leader's wish.
    Transfer,
}

impl<S: Storage> Raft<S> {
    pub(crate) fn tick_election(&mut self) {
        self.election_elapsed = self.election_elapsed.saturating_add(1);
        if self.is_promotable() && self.election_elapsed >= self.randomized_election_ticks {
            self.election_elapsed = 0;
            self.hup();
        }
    }

    /// The election timeout, or a caller, wants an election.
    pub(crate) fn hup(&mut self) {
        let campaign = if self.config.pre_vote {
            Campaign::PreElection
        } else {
            Campaign::Election
        };
        self.start_campaign(campaign);
    }

    /// The leader wants this member to take over. There is no pre-vote: the member was not cut
    /// off, and the round trip would be lost.
    pub(crate) fn take_over(&mut self) {
        self.start_campaign(Campaign::Transfer);
    }

    fn start_campaign(&mut self, campaign: Campaign) {
        let id = self.config.id;
        if self.role == Role::Leader {
            note!(
                self.journal,
                Debug,
                "{id:x} ignoring MsgHup because already leader"
            );
            return;
        }
        if !self.is_promotable() {
            note!(
                self.journal,
                Warn,
                "{id:x} is unpromotable and can not campaign"
            );
            return;
        }
        if self.log.has_unapplied_conf_change() {
            // Votes would be counted by a configuration that is over.
            note!(
                self.journal,
                Warn,
                "{id:x} cannot campaign at term {} since there are still pending configuration \
                 changes to apply",
                self.term
            );
            return;
        }
        if self.term == u64::MAX {
            note!(
                self.journal,
                Error,
                "{id:x} cannot campaign: there is no later term"
            );
            return;
        }
        note!(
            self.journal,
            Info,
            "{id:x} is starting a new election at term {}",
            self.term
        );
        self.campaign_as(campaign);
    }

    fn campaign_as(&mut self, campaign: Campaign) {
        let (kind, term) = if campaign == Campaign::PreElection {
            self.become_pre_candidate();
            // For the term to come, which is not entered yet.
            (MessageKind::PreVote, self.term + 1)
        } else {
            self.become_candidate();
            (MessageKind::Vote, self.term)
        };
        let last = self.log.last_id();
        for to in self.tracker.membership.voters.ids().iter() {
            if to == self.config.id {
                let mut own = Message::new(response_kind(kind), to);
                own.term = term;
                self.send(own);
                continue;
            }
            note!(
                self.journal,
                Info,
                "{:x} [logterm: {}, index: {}] sent {kind} request to {to:x} at term {}",
                self.config.id,
                last.term,
                last.index,
                self.term
            );
            let mut request = Message::new(kind, to);
            request.term = term;
            request.index = last.index;
            request.log_term = last.term;
            if campaign == Campaign::Transfer {
                request.context = Bytes::from_static(CAMPAIGN_TRANSFER);
            }
            self.send(request);
        }
    }

    fn become_candidate(&mut self) {
        assert!(
            self.role != Role::Leader,
            "a leader does not become candidate"
        );
        self.reset(self.term + 1);
        self.vote = self.config.id;
        self.role = Role::Candidate;
        let (id, term) = (self.config.id, self.term);
        note!(self.journal, Info, "{id:x} became candidate at term {term}");
    }

    /// Only the role changes: neither term nor vote.
    fn become_pre_candidate(&mut self) {
        assert!(
            self.role != Role::Leader,
            "a leader does not become pre-candidate"
        );
        self.tracker.reset_votes();
        self.lead = NONE;
        self.role = Role::PreCandidate;
        let (id, term) = (self.config.id, self.term);
        note!(
            self.journal,
            Info,
            "{id:x} became pre-candidate at term {term}"
        );
    }

    /// Whether a candidate of a later term is ignored because a leader was heard of a moment ago:
    /// it may be a member that was removed, or cut off, and would only disturb.
    pub(crate) fn ignores_candidate(&mut self, message: &Message) -> bool {
        let in_lease = self.config.check_quorum
            && self.lead != NONE
            && self.election_elapsed < self.config.election_ticks;
        if !in_lease || message.context == CAMPAIGN_TRANSFER {
            return false;
        }
        let last = self.log.last_id();
        note!(
            self.journal,
            Info,
            "{:x} [logterm: {}, index: {}, vote: {:x}] ignored {} from {:x} [logterm: {}, index: \
             {}] at term {}: lease is not expired (remaining ticks: {})",
            self.config.id,
            last.term,
            last.index,
            self.vote,
            message.kind,
            message.from,
            message.log_term,
            message.index,
            self.term,
            self.config.election_ticks - self.election_elapsed
        );
        true
    }

    /// Answers a request of this term, or the question of a pre-candidate for a later one.
    ///
    /// A learner answers too: it may be a voter by now without knowing it, and its vote may be
    /// needed to find that out.
    pub(crate) fn answer_vote(&mut self, message: &Message) {
        let can_vote = self.vote == message.from
            || (self.vote == NONE && self.lead == NONE)
            || (message.kind == MessageKind::PreVote && message.term > self.term);
        let theirs = EntryId {
            term: message.log_term,
            index: message.index,
        };
        let mut answer = Message::new(response_kind(message.kind), message.from);
        if can_vote && self.log.is_up_to_date(theirs) {
            self.note_vote("cast", message);
            // The request's term: a pre-candidate that was cut off would ignore our old one.
            answer.term = message.term;
            self.send(answer);
            if message.kind == MessageKind::Vote {
                self.election_elapsed = 0;
                self.vote = message.from;
            }
        } else {
            self.note_vote("rejected", message);
            answer.term = self.term;
            answer.reject = true;
            if answer.term == 0 {
                // Term 0 has no votes yet; a message could not say so.
                return;
            }
            self.send(answer);
        }
    }

    pub(crate) fn note_vote(&mut self, verdict: &str, message: &Message) {
        let last = self.log.last_id();
        let toward = if verdict == "cast" { "for" } else { "from" };
        note!(
            self.journal,
            Info,
            "{:x} [logterm: {}, index: {}, vote: {:x}] {verdict} {} {toward} {:x} [logterm: {}, \
             index: {}] at term {}",
            self.config.id,
            last.term,
            last.index,
            self.vote,
            message.kind,
            message.from,
            message.log_term,
            message.index,
            self.term
        );
    }

    /// What candidates and pre-candidates do with a message.
    pub(crate) fn step_candidate(&mut self, message: Message) -> Result<(), StepError> {
        // Late answers to our own pre-vote arrive within the election's term.
        let own_answer = if self.role == Role::PreCandidate {
            MessageKind::PreVoteResp
        } else {
            MessageKind::VoteResp
        };
        match message.kind {
            MessageKind::Prop => {
                self.note_no_leader("proposal");
                Err(StepError::ProposalDropped)
            }
            // Someone else leads this term.
            MessageKind::App | MessageKind::Heartbeat | MessageKind::Snap => {
                self.become_follower(self.term, message.from);
                self.step_follower(message)
            }
            kind if kind == own_answer => {
                self.count_vote(&message);
                Ok(())
            }
            MessageKind::TimeoutNow => {
                note!(
                    self.journal,
                    Debug,
                    "{:x} [term {} state {}] ignored MsgTimeoutNow from {:x}",
                    self.config.id,
                    self.term,
                    self.role,
                    message.from
                );
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn count_vote(&mut self, message: &Message) {
        let (id, kind) = (self.config.id, message.kind);
        let rejection = if message.reject { " rejection" } else { "" };
        note!(
            self.journal,
            Info,
            "{id:x} received {kind}{rejection} from {:x} at term {}",
            message.from,
            self.term
        );
        self.tracker.record_vote(message.from, !message.reject);
        let (granted, refused, result) = self.tracker.tally_votes();
        note!(
            self.journal,
            Info,
            "{id:x} has received {granted} {kind} votes and {refused} vote rejections"
        );
        match result {
            // The others' votes may suffice before our own is durable. To lead now, and to forget
            // it in a crash, would mean to ask for the same votes in the same term once more, get
            // them, and lead the term a second time with another log.
            VoteResult::Won if self.role == Role::Candidate && !self.tracker.has_vote(id) => {}
            VoteResult::Won if self.role == Role::PreCandidate => {
                self.campaign_as(Campaign::Election);
            }
            VoteResult::Won => {
                self.become_leader();
                self.broadcast_append();
            }
            // In our own term: a pre-vote's answer may carry a later one.
            VoteResult::Lost => self.become_follower(self.term, NONE),
            VoteResult::Pending => {}
        }
    }
}

fn response_kind(request: MessageKind) -> MessageKind {
    match request {
        MessageKind::Vote => MessageKind::VoteResp,
        MessageKind::PreVote => MessageKind::PreVoteResp,
        other => panic!("{other} is not a vote request"),
    }
}
