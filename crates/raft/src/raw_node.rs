//! The classic interface: [`Ready`], then advance.
//!
//! An adapter over the same state machine, in etcd raft's two forms: synchronous, in which all of
//! a `Ready` is done before [`RawNode::advance`], and asynchronous, in which storage work comes as
//! messages to the local threads. Traces and tools use it; a member uses [`Raft::ready`].

use std::ops::{Deref, DerefMut};

use crate::config::{Config, ConfigError};
use crate::error::StepError;
use crate::log::ApplyRule;
use crate::message::{Message, MessageKind};
use crate::raft::Raft;
use crate::ready::Collected;
use crate::storage::Storage;
use crate::types::{
    Entry, HardState, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, ReadState, Snapshot, SoftState,
    is_local_target,
};

/// All that is to be done, of every sort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Leader and role, if one has changed.
    pub soft_state: Option<SoftState>,
    /// To be stored, if it has changed.
    pub hard_state: Option<HardState>,
    /// Answers to read index requests.
    pub read_states: Vec<ReadState>,
    /// To be stored before messages are sent.
    pub entries: Vec<Entry>,
    /// To be stored, and put in the state machine's place.
    pub snapshot: Option<Snapshot>,
    /// To be applied.
    pub committed_entries: Vec<Entry>,
    /// To be sent; in the asynchronous form also to the local threads.
    pub messages: Vec<Message>,
    /// Whether hard state and entries must be synced.
    pub must_sync: bool,
}

/// A [`Raft`] behind the classic interface.
#[derive(Debug)]
pub struct RawNode<S> {
    raft: Raft<S>,
    asynchronous: bool,
    on_advance: Vec<Message>,
}

impl<S: Storage> RawNode<S> {
    /// Starts from what the storage holds. `asynchronous`: storage work comes as messages.
    pub fn new(config: Config, storage: S, asynchronous: bool) -> Result<RawNode<S>, ConfigError> {
        Ok(RawNode {
            raft: Raft::new(config, storage)?,
            asynchronous,
            on_advance: Vec::new(),
        })
    }

    fn rule(&self) -> ApplyRule {
        ApplyRule {
            allow_unstable: !self.asynchronous,
            end_at_conf_change: false,
        }
    }

    /// Takes a message, from another member or a local thread.
    pub fn step(&mut self, message: Message) -> Result<(), StepError> {
        let from_thread = is_local_target(message.from);
        if message.kind.is_local() && !from_thread {
            return Err(StepError::LocalMessage);
        }
        let is_known = self.raft.tracker.progress.contains_key(&message.from);
        if message.kind.is_response() && !from_thread && !is_known {
            return Err(StepError::PeerNotFound);
        }
        self.raft.check(&message)?;
        self.raft.handle(message)
    }

    /// Whether [`RawNode::ready`] has something.
    pub fn has_ready(&self) -> bool {
        self.raft.has_work(self.rule())
    }

    /// Takes all that is to be done. In the synchronous form, [`RawNode::advance`] must follow
    /// before the next.
    pub fn ready(&mut self) -> Ready {
        let id = self.raft.id();
        let mut collected = self.raft.collect(self.rule());
        let mut messages = std::mem::take(&mut collected.messages);
        if self.asynchronous {
            if collected.needs_append() {
                messages.push(append_message(id, &mut collected));
            }
            if !collected.committed_entries.is_empty() {
                let mut apply = Message::new(MessageKind::StorageApply, LOCAL_APPLY_THREAD);
                apply.from = id;
                apply.entries = collected.committed_entries.clone();
                apply
                    .responses
                    .push(apply_response(id, &collected.committed_entries));
                messages.push(apply);
            }
        } else {
            assert!(
                self.on_advance.is_empty(),
                "two Ready without advance between them"
            );
            let after = std::mem::take(&mut collected.after_append);
            let (own, others): (Vec<_>, Vec<_>) = after.into_iter().partition(|m| m.to == id);
            messages.extend(others);
            self.on_advance = own;
            self.on_advance.extend(collected.append_response.take());
            if !collected.committed_entries.is_empty() {
                self.on_advance
                    .push(apply_response(id, &collected.committed_entries));
            }
        }
        Ready {
            soft_state: collected.soft_state,
            hard_state: collected.hard_state,
            read_states: collected.read_states,
            entries: collected.entries,
            snapshot: collected.snapshot,
            committed_entries: collected.committed_entries,
            messages,
            must_sync: collected.must_sync,
        }
    }

    /// All of the last [`Ready`] is stored and applied. Synchronous form only.
    pub fn advance(&mut self) {
        assert!(!self.asynchronous, "responses take the place of advance");
        for message in std::mem::take(&mut self.on_advance) {
            self.raft
                .handle(message)
                .expect("this member's own responses are never refused");
        }
    }
}

fn append_message(id: u64, collected: &mut Collected) -> Message {
    let mut append = Message::new(MessageKind::StorageAppend, LOCAL_APPEND_THREAD);
    append.from = id;
    append.entries = collected.entries.clone();
    if let Some(state) = collected.hard_state {
        append.term = state.term;
        append.vote = state.vote;
        append.commit = state.commit;
    }
    append.snapshot = collected.snapshot.clone().map(Box::new);
    append.responses = std::mem::take(&mut collected.after_append);
    append.responses.extend(collected.append_response.take());
    append
}

fn apply_response(id: u64, entries: &[Entry]) -> Message {
    let mut response = Message::new(MessageKind::StorageApplyResp, id);
    response.from = LOCAL_APPLY_THREAD;
    response.entries = entries.to_vec();
    response
}

/// Everything that does not depend on the form of `Ready`.
impl<S> Deref for RawNode<S> {
    type Target = Raft<S>;

    fn deref(&self) -> &Raft<S> {
        &self.raft
    }
}

impl<S> DerefMut for RawNode<S> {
    fn deref_mut(&mut self) -> &mut Raft<S> {
        &mut self.raft
    }
}
