//! What the state machine wants done, in the form for production: asynchronous storage writes.
//!
//! [`Raft::ready`] gives messages to send at once, a job for the log and one for the state machine
//! above. The log's jobs are done in order, and so are apply's; the two do not wait for each
//! other. What must wait for the log hangs on its job: once [`AppendJob`] is durable and visible
//! in the [`Storage`], its responses for others are sent and its own are handed back with
//! [`Raft::append_done`]. An applied [`ApplyJob`] is handed back with [`Raft::apply_done`].
//!
//! Invariants:
//! - `messages` rest on nothing that is not durable, except on the membership in force: a driver
//!   that is not the leader applies a job that ends with a conf change before it sends them, so
//!   that it counts no vote by a configuration that is over;
//! - an apply job ends at its first conf change, and the next comes when that is applied;
//! - entries are applied only once they are durable here.

use crate::log::ApplyRule;
use crate::message::{Message, MessageKind};
use crate::raft::Raft;
use crate::storage::Storage;
use crate::types::{
    Entry, HardState, LOCAL_APPEND_THREAD, ReadState, Snapshot, SoftState, encoded_len, payload_len,
};

/// Everything to be done since the last call.
#[derive(Debug, Default)]
pub struct Output {
    /// Leader and role, if one has changed.
    pub soft_state: Option<SoftState>,
    /// To other members, at once.
    pub messages: Vec<Message>,
    /// Answers to read index requests made here.
    pub read_states: Vec<ReadState>,
    /// For the log.
    pub append: Option<AppendJob>,
    /// For the state machine above.
    pub apply: Option<ApplyJob>,
}

/// What the log is to write, all of it before the next job.
#[derive(Debug, Default)]
pub struct AppendJob {
    /// Entries, from whose first index on the log is overwritten.
    pub entries: Vec<Entry>,
    /// The hard state, if it has changed.
    pub hard_state: Option<HardState>,
    /// A snapshot that replaces log and state machine, to be stored before anything else here;
    /// entries, if there are any, follow it. Apply jobs that are still on their way are older:
    /// what they hold up to the snapshot's index is skipped.
    pub snapshot: Option<Snapshot>,
    /// Whether it must be durable before the responses go out. Otherwise only the commit index
    /// has changed, which may be lost, and everything is durable that was to be.
    pub must_sync: bool,
    /// What to deliver when it is done: to others over the network, and the rest, in order, to
    /// [`Raft::append_done`]. [`AppendJob::split_responses`] parts them.
    pub responses: Vec<Message>,
}

impl AppendJob {
    /// Takes the responses: those for others, and those for member `id` itself.
    pub fn split_responses(&mut self, id: u64) -> (Vec<Message>, Vec<Message>) {
        let responses = std::mem::take(&mut self.responses);
        responses
            .into_iter()
            .partition(|response| response.to != id)
    }
}

/// What the state machine above is to apply, in order.
#[derive(Debug, Default)]
pub struct ApplyJob {
    /// Committed and durable entries; a conf change is the last of them.
    pub entries: Vec<Entry>,
    /// What to hand back when they are applied.
    pub done: ApplyDone,
}

impl ApplyJob {
    /// Whether it ends with a conf change: [`Raft::apply_conf_change`] is due before `done`.
    pub fn ends_with_conf_change(&self) -> bool {
        self.entries
            .last()
            .is_some_and(|entry| entry.kind.is_conf_change())
    }
}

/// That a job is applied: enough to account for it, without its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyDone {
    /// The last index applied.
    pub index: u64,
    encoded_len: u64,
    payload_len: u64,
}

/// What is collected from the state machine before it takes its production or its classic form.
pub(crate) struct Collected {
    pub(crate) soft_state: Option<SoftState>,
    pub(crate) hard_state: Option<HardState>,
    pub(crate) read_states: Vec<ReadState>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) committed_entries: Vec<Entry>,
    pub(crate) messages: Vec<Message>,
    pub(crate) after_append: Vec<Message>,
    /// To this member, when all above is durable.
    pub(crate) append_response: Option<Message>,
    pub(crate) must_sync: bool,
}

impl Collected {
    /// Whether the log has something to do, if only to pass responses on in order.
    pub(crate) fn needs_append(&self) -> bool {
        !self.entries.is_empty()
            || self.hard_state.is_some()
            || self.snapshot.is_some()
            || !self.after_append.is_empty()
    }
}

const PRODUCTION: ApplyRule = ApplyRule {
    allow_unstable: false,
    end_at_conf_change: true,
};

impl<S: Storage> Raft<S> {
    /// Whether [`Raft::ready`] has something.
    pub fn has_ready(&self) -> bool {
        self.has_work(PRODUCTION)
    }

    /// Takes everything that is to be done. All of it must be done.
    pub fn ready(&mut self) -> Output {
        let mut collected = self.collect(PRODUCTION);
        let append = collected.needs_append().then(|| {
            let mut responses = std::mem::take(&mut collected.after_append);
            responses.extend(collected.append_response.take());
            AppendJob {
                must_sync: collected.must_sync || collected.snapshot.is_some(),
                entries: std::mem::take(&mut collected.entries),
                hard_state: collected.hard_state,
                snapshot: collected.snapshot.take(),
                responses,
            }
        });
        let entries = collected.committed_entries;
        let apply = entries.last().map(|last| last.index).map(|index| ApplyJob {
            done: ApplyDone {
                index,
                encoded_len: encoded_len(&entries),
                payload_len: payload_len(&entries),
            },
            entries,
        });
        Output {
            soft_state: collected.soft_state,
            messages: collected.messages,
            read_states: collected.read_states,
            append,
            apply,
        }
    }

    /// Takes back an [`AppendJob`]'s responses to this member, in order, after what the job holds
    /// is durable, visible in the storage, and its snapshot in force.
    pub fn append_done(&mut self, responses: Vec<Message>) {
        for response in responses {
            assert!(
                response.to == self.config.id,
                "a response to {:x} is not ours",
                response.to
            );
            let handled = self.handle(response);
            handled.expect("this member's own responses are never refused");
        }
    }

    /// Takes back an [`ApplyJob`] that is applied, its conf change put into force.
    pub fn apply_done(&mut self, done: ApplyDone) {
        self.applied_entries(done.index, done.encoded_len, done.payload_len);
    }

    pub(crate) fn has_work(&self, rule: ApplyRule) -> bool {
        let hard_state = self.hard_state();
        self.soft_state() != self.last_soft_state
            || (!hard_state.is_empty() && hard_state != self.last_hard_state)
            || self.log.unstable.next_snapshot().is_some()
            || !self.messages.is_empty()
            || !self.after_append.is_empty()
            || !self.log.unstable.next_entries().is_empty()
            || self.log.has_next_committed(rule)
            || !self.read_states.is_empty()
    }

    /// Takes everything out and marks it as under way.
    pub(crate) fn collect(&mut self, rule: ApplyRule) -> Collected {
        let (soft_state, hard_state) = (self.soft_state(), self.hard_state());
        let entries = self.log.unstable.next_entries().to_vec();
        let snapshot = self.log.unstable.next_snapshot().cloned();
        let last = self.last_hard_state;
        // The commit index alone need not survive.
        let must_sync =
            !entries.is_empty() || hard_state.vote != last.vote || hard_state.term != last.term;
        let append_response = self.append_response(snapshot.as_ref());
        let committed_entries = self.log.next_committed(rule);
        self.log.unstable.accept_in_progress();
        self.log.accept_applying(&committed_entries, rule);
        let collected = Collected {
            soft_state: (soft_state != self.last_soft_state).then_some(soft_state),
            hard_state: (hard_state != last).then_some(hard_state),
            read_states: std::mem::take(&mut self.read_states),
            entries,
            snapshot,
            committed_entries,
            messages: std::mem::take(&mut self.messages),
            after_append: std::mem::take(&mut self.after_append),
            append_response,
            must_sync,
        };
        self.last_soft_state = soft_state;
        self.last_hard_state = hard_state;
        collected
    }

    /// The response that tells this member what has become durable.
    ///
    /// It attests the end of the log as of now, in the term of now, and is ignored in any other:
    /// after a change of term, writes under way may overwrite in the durable log what has come
    /// back in the meantime to the unstable one (same index and term, an "ABA"), and the entries
    /// must stay until those are through. So each job attests the whole log, not its own entries:
    /// the first job of a new term makes up for the responses ignored.
    fn append_response(&self, snapshot: Option<&Snapshot>) -> Option<Message> {
        let has_entries = !self.log.unstable.entries.is_empty();
        if !has_entries && snapshot.is_none() {
            return None;
        }
        let mut response = Message::new(MessageKind::StorageAppendResp, self.config.id);
        response.from = LOCAL_APPEND_THREAD;
        response.term = self.term;
        if has_entries {
            let last = self.log.last_id();
            response.index = last.index;
            response.log_term = last.term;
        }
        response.snapshot = snapshot.map(|snapshot| Box::new(snapshot.clone()));
        Some(response)
    }
}
