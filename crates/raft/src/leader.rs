//! What a leader does: replicate, commit, keep its lease, hand leadership over, answer reads.

use crate::conf_change::{ConfChangeV2, decode};
use crate::config::ReadOnlyOption;
use crate::describe::describe_conf_change;
use crate::error::StepError;
use crate::journal::note;
use crate::message::{Message, MessageKind};
use crate::progress::{Progress, ProgressState};
use crate::raft::Raft;
use crate::storage::{Storage, StorageError};
use crate::types::{Entry, EntryId, NONE, Role, payload_len};

impl<S: Storage> Raft<S> {
    pub(crate) fn become_leader(&mut self) {
        assert!(
            self.role != Role::Follower,
            "a follower does not become leader"
        );
        self.reset(self.term);
        let id = self.config.id;
        self.lead = id;
        self.role = Role::Leader;
        let own = self.own_progress().expect("only a voter becomes leader");
        own.become_replicate();
        own.recent_active = true;
        // There may be a conf change in the tail. Looking would cost more than it is worth: the
        // next is held back until all of the tail is applied.
        self.pending_conf_index = self.log.last_index();
        let accepted = self.append_entries(vec![Entry::default()]);
        assert!(
            accepted,
            "a leader's first entry is empty, and fits any limit"
        );
        let term = self.term;
        note!(self.journal, Info, "{id:x} became leader at term {term}");
    }

    fn own_progress(&mut self) -> Option<&mut Progress> {
        self.tracker.progress.get_mut(&self.config.id)
    }

    pub(crate) fn tick_heartbeat(&mut self) {
        self.heartbeat_elapsed += 1;
        self.election_elapsed = self.election_elapsed.saturating_add(1);
        if self.election_elapsed >= self.config.election_ticks {
            self.election_elapsed = 0;
            if self.config.check_quorum {
                self.check_quorum();
            }
            // A transfer has an election timeout's time.
            if self.role == Role::Leader {
                self.transferee = NONE;
            }
        }
        if self.role != Role::Leader {
            return;
        }
        if self.heartbeat_elapsed >= self.config.heartbeat_ticks {
            self.heartbeat_elapsed = 0;
            self.broadcast_heartbeat();
        }
    }

    fn check_quorum(&mut self) {
        let id = self.config.id;
        if !self.tracker.is_quorum_active() {
            note!(
                self.journal,
                Warn,
                "{id:x} stepped down to follower since quorum is not active"
            );
            self.become_follower(self.term, NONE);
        }
        for (peer, progress) in &mut self.tracker.progress {
            if *peer != id {
                progress.recent_active = false;
            }
        }
    }

    /// Adds entries of this term to the log; `false`, and nothing, if they would push the
    /// uncommitted tail over its limit.
    fn append_entries(&mut self, mut entries: Vec<Entry>) -> bool {
        let mut index = self.log.last_index();
        for entry in &mut entries {
            index += 1;
            entry.term = self.term;
            entry.index = index;
        }
        let size = payload_len(&entries);
        // An empty tail takes anything; empty entries (a leader's first, the end of a joint
        // configuration) are never refused.
        let limit = self.config.max_uncommitted_size;
        let sum = self.uncommitted_size.saturating_add(size);
        if self.uncommitted_size > 0 && size > 0 && sum > limit {
            note!(
                self.journal,
                Warn,
                "{:x} appending new entries to log would exceed uncommitted entry size limit; \
                 dropping proposal",
                self.config.id
            );
            return false;
        }
        self.uncommitted_size = sum;
        self.log.append(entries, &mut self.journal);
        // The leader acknowledges to itself once the entries are durable.
        let mut own = Message::new(MessageKind::AppResp, self.config.id);
        own.index = index;
        self.send(own);
        true
    }

    /// Takes what a quorum has as committed; whether that is more than before.
    pub(crate) fn maybe_commit(&mut self) -> bool {
        let index = self.tracker.committed();
        // Only entries of the own term are committed by counting (thesis, 3.6.2).
        self.log.maybe_commit(EntryId {
            term: self.term,
            index,
        })
    }

    pub(crate) fn broadcast_append(&mut self) {
        for to in self.peers() {
            self.maybe_send_append(to, true);
        }
    }

    pub(crate) fn broadcast_heartbeat(&mut self) {
        let context = self.read_only.heartbeat_context();
        let (own, committed) = (self.config.id, self.log.committed);
        let mut heartbeats = Vec::with_capacity(self.tracker.progress.len());
        for (to, progress) in &mut self.tracker.progress {
            if *to == own {
                continue;
            }
            // A follower may hold other entries behind its match: it must not commit them.
            let mut heartbeat = Message::new(MessageKind::Heartbeat, *to);
            heartbeat.commit = progress.matched.min(committed);
            heartbeat.context = context.clone();
            progress.sent_commit(heartbeat.commit);
            heartbeats.push(heartbeat);
        }
        for heartbeat in heartbeats {
            self.send(heartbeat);
        }
    }

    /// Sends the next entries to a member, or a snapshot if they are gone; without entries only
    /// `if_empty`, which conveys the commit index. Whether something was sent.
    pub(crate) fn maybe_send_append(&mut self, to: u64, if_empty: bool) -> bool {
        let Some(progress) = self.tracker.progress.get_mut(&to) else {
            return false;
        };
        if progress.is_paused() {
            return false;
        }
        let prev = progress.next - 1;
        let Ok(prev_term) = self.log.term(prev) else {
            return self.maybe_send_snapshot(to);
        };
        // With the window full, an empty append may still go out: if all in the window was lost,
        // its answer gets things moving again.
        let throttled = progress.state == ProgressState::Replicate && progress.inflights.is_full();
        let entries = if throttled {
            Ok(Vec::new())
        } else {
            self.log
                .entries(progress.next, self.config.max_size_per_message)
        };
        if !if_empty && !matches!(&entries, Ok(entries) if !entries.is_empty()) {
            return false;
        }
        let Ok(entries) = entries else {
            return self.maybe_send_snapshot(to);
        };
        progress.sent_entries(entries.len(), payload_len(&entries));
        progress.sent_commit(self.log.committed);
        let mut append = Message::new(MessageKind::App, to);
        append.index = prev;
        append.log_term = prev_term;
        append.entries = entries;
        append.commit = self.log.committed;
        self.send(append);
        true
    }

    fn maybe_send_snapshot(&mut self, to: u64) -> bool {
        let id = self.config.id;
        let Some(progress) = self.tracker.progress.get_mut(&to) else {
            return false;
        };
        if !progress.recent_active {
            note!(
                self.journal,
                Debug,
                "ignore sending snapshot to {to:x} since it is not recently active"
            );
            return false;
        }
        let snapshot = match self.log.snapshot() {
            Ok(snapshot) => snapshot,
            Err(StorageError::SnapshotTemporarilyUnavailable) => {
                note!(
                    self.journal,
                    Debug,
                    "{id:x} failed to send snapshot to {to:x} because snapshot is temporarily \
                     unavailable"
                );
                return false;
            }
            Err(error) => panic!("a compacted log has a snapshot: {error}"),
        };
        assert!(
            !snapshot.is_empty(),
            "a compacted log has a non-empty snapshot"
        );
        let (index, term) = (snapshot.metadata.index, snapshot.metadata.term);
        note!(
            self.journal,
            Debug,
            "{id:x} [firstindex: {}, commit: {}] sent snapshot[index: {index}, term: {term}] to \
             {to:x} [{progress}]",
            self.log.first_index(),
            self.log.committed
        );
        progress.become_snapshot(index);
        note!(
            self.journal,
            Debug,
            "{id:x} paused sending replication messages to {to:x} [{progress}]"
        );
        let mut message = Message::new(MessageKind::Snap, to);
        message.snapshot = Some(Box::new(snapshot));
        self.send(message);
        true
    }

    fn send_timeout_now(&mut self, to: u64) {
        self.send(Message::new(MessageKind::TimeoutNow, to));
    }

    pub(crate) fn step_leader(&mut self, message: Message) -> Result<(), StepError> {
        match message.kind {
            MessageKind::Beat => self.broadcast_heartbeat(),
            MessageKind::CheckQuorum => self.check_quorum(),
            MessageKind::Prop => return self.take_proposals(message.entries),
            MessageKind::ReadIndex => self.take_read(message),
            MessageKind::ForgetLeader => {}
            _ => {
                if !self.tracker.progress.contains_key(&message.from) {
                    let (id, from) = (self.config.id, message.from);
                    note!(
                        self.journal,
                        Debug,
                        "{id:x} no progress available for {from:x}"
                    );
                    return Ok(());
                }
                self.step_leader_from_member(message);
            }
        }
        Ok(())
    }

    fn take_proposals(&mut self, mut entries: Vec<Entry>) -> Result<(), StepError> {
        if entries.is_empty() {
            return Err(StepError::Malformed("it has no entries"));
        }
        let (id, term) = (self.config.id, self.term);
        if !self.tracker.progress.contains_key(&id) {
            // Removed from the configuration while leading it.
            return Err(StepError::ProposalDropped);
        }
        if self.transferee != NONE {
            note!(
                self.journal,
                Debug,
                "{id:x} [term {term}] transfer leadership to {:x} is in progress; dropping \
                 proposal",
                self.transferee
            );
            return Err(StepError::ProposalDropped);
        }
        let mut index = self.log.last_index();
        // Takes effect only if the batch is taken.
        let mut pending = self.pending_conf_index;
        for entry in &mut entries {
            index += 1;
            if !entry.kind.is_conf_change() {
                continue;
            }
            let change = decode(self.config.decode_conf_change, entry.kind, &entry.data)
                .ok_or(StepError::UnreadableConfChange)?;
            let refusal = self.refusal(&change, pending);
            match refusal {
                Some(why) if !self.config.disable_conf_change_validation => {
                    note!(
                        self.journal,
                        Info,
                        "{id:x} ignoring conf change {} at config {}: {why}",
                        describe_conf_change(&change),
                        self.tracker.membership
                    );
                    *entry = Entry::default();
                }
                _ => pending = index,
            }
        }
        if !self.append_entries(entries) {
            return Err(StepError::ProposalDropped);
        }
        self.pending_conf_index = pending;
        self.broadcast_append();
        Ok(())
    }

    /// Why a conf change may not follow those up to index `pending` now.
    fn refusal(&self, change: &ConfChangeV2, pending: u64) -> Option<String> {
        let is_joint = self.tracker.membership.voters.is_joint();
        let wants_leave = change.changes.is_empty();
        if pending > self.log.applied {
            return Some(format!(
                "possible unapplied conf change at index {pending} (applied to {})",
                self.log.applied
            ));
        }
        if is_joint && !wants_leave {
            return Some("must transition out of joint config first".to_owned());
        }
        if !is_joint && wants_leave {
            return Some("not in joint state; refusing empty conf change".to_owned());
        }
        None
    }

    /// The sender has progress.
    fn step_leader_from_member(&mut self, message: Message) {
        match message.kind {
            MessageKind::AppResp if message.reject => self.append_refused(&message),
            MessageKind::AppResp => self.append_acknowledged(&message),
            MessageKind::HeartbeatResp => self.heartbeat_answered(&message),
            MessageKind::SnapStatus => self.snapshot_reported(&message),
            MessageKind::Unreachable => {
                let (id, from) = (self.config.id, message.from);
                let progress = progress(&mut self.tracker.progress, from);
                // An append on its way is probably lost.
                if progress.state == ProgressState::Replicate {
                    progress.become_probe();
                }
                note!(
                    self.journal,
                    Debug,
                    "{id:x} failed to send message to {from:x} because it is unreachable \
                     [{progress}]"
                );
            }
            MessageKind::TransferLeader => self.start_transfer(message.from),
            _ => {}
        }
    }

    fn append_refused(&mut self, message: &Message) {
        let (id, from) = (self.config.id, message.from);
        note!(
            self.journal,
            Debug,
            "{id:x} received MsgAppResp(rejected, hint: (index {}, term {})) from {from:x} for \
             index {}",
            message.reject_hint,
            message.log_term,
            message.index
        );
        // The follower's log has the hinted term at the hinted index. Our own entries up to there
        // that have a later term cannot match, since terms in a log never fall: skip them.
        let mut next_probe = message.reject_hint;
        if message.log_term > 0 {
            let hint = self
                .log
                .find_conflict_by_term(message.reject_hint, message.log_term);
            next_probe = hint.index;
        }
        let progress = progress(&mut self.tracker.progress, from);
        progress.recent_active = true;
        if progress.maybe_decrease_to(message.index, next_probe) {
            note!(
                self.journal,
                Debug,
                "{id:x} decreased progress of {from:x} to [{progress}]"
            );
            if progress.state == ProgressState::Replicate {
                progress.become_probe();
            }
            self.maybe_send_append(from, true);
        }
    }

    fn append_acknowledged(&mut self, message: &Message) {
        let (id, from, index) = (self.config.id, message.from, message.index);
        let (first_index, last_index) = (self.log.first_index(), self.log.last_index());
        let progress = progress(&mut self.tracker.progress, from);
        progress.recent_active = true;
        if index > last_index {
            note!(
                self.journal,
                Error,
                "{id:x} ignored an acknowledgement of index {index} from {from:x}: the log ends \
                 at {last_index}"
            );
            return;
        }
        // An answer that acknowledges nothing new still ends a probe.
        let ends_probe = progress.matched == index && progress.state == ProgressState::Probe;
        if !progress.maybe_update(index) && !ends_probe {
            return;
        }
        match progress.state {
            ProgressState::Probe => progress.become_replicate(),
            // Whichever snapshot it has: the log goes on from there.
            ProgressState::Snapshot if progress.matched + 1 >= first_index => {
                note!(
                    self.journal,
                    Debug,
                    "{id:x} recovered from needing snapshot, resumed sending replication \
                     messages to {from:x} [{progress}]"
                );
                progress.become_probe();
                progress.become_replicate();
            }
            ProgressState::Snapshot => {}
            ProgressState::Replicate => progress.inflights.free_to(index),
        }
        let can_bump_commit = progress.can_bump_commit(self.log.committed);
        let matched = progress.matched;
        if self.maybe_commit() {
            self.release_early_reads();
            self.broadcast_append();
        } else if from != id && can_bump_commit {
            self.maybe_send_append(from, true);
        }
        if from != id {
            // Room in the window may have come free for more than one message.
            while self.maybe_send_append(from, false) {}
        }
        if from == self.transferee && matched == last_index {
            note!(
                self.journal,
                Info,
                "{id:x} sent MsgTimeoutNow to {from:x} after received MsgAppResp"
            );
            self.send_timeout_now(from);
        }
    }

    fn heartbeat_answered(&mut self, message: &Message) {
        let last_index = self.log.last_index();
        let progress = progress(&mut self.tracker.progress, message.from);
        progress.recent_active = true;
        progress.flow_paused = false;
        // Also if there is nothing to send: the answer ends a probe.
        if progress.matched < last_index || progress.state == ProgressState::Probe {
            self.maybe_send_append(message.from, true);
        }
        if self.config.read_only != ReadOnlyOption::Safe || message.context.is_empty() {
            return;
        }
        self.confirm_reads(message);
    }

    fn snapshot_reported(&mut self, message: &Message) {
        let (id, from) = (self.config.id, message.from);
        let progress = progress(&mut self.tracker.progress, from);
        if progress.state != ProgressState::Snapshot {
            return;
        }
        let how = if message.reject {
            // Nothing arrived: probe from the match, not from the snapshot.
            progress.pending_snapshot = 0;
            "failed"
        } else {
            "succeeded"
        };
        progress.become_probe();
        note!(
            self.journal,
            Debug,
            "{id:x} snapshot {how}, resumed sending replication messages to {from:x} [{progress}]"
        );
        // Wait for its acknowledgement, or after a failure for a heartbeat's answer.
        progress.flow_paused = true;
    }

    fn start_transfer(&mut self, transferee: u64) {
        let (id, term, last_index) = (self.config.id, self.term, self.log.last_index());
        let progress = progress(&mut self.tracker.progress, transferee);
        if progress.is_learner {
            note!(
                self.journal,
                Debug,
                "{id:x} is learner. Ignored transferring leadership"
            );
            return;
        }
        let is_up_to_date = progress.matched == last_index;
        if self.transferee != NONE {
            if self.transferee == transferee {
                note!(
                    self.journal,
                    Info,
                    "{id:x} [term {term}] transfer leadership to {transferee:x} is in progress, \
                     ignores request to same node {transferee:x}"
                );
                return;
            }
            let last = std::mem::replace(&mut self.transferee, NONE);
            note!(
                self.journal,
                Info,
                "{id:x} [term {term}] abort previous transferring leadership to {last:x}"
            );
        }
        if transferee == id {
            note!(
                self.journal,
                Debug,
                "{id:x} is already leader. Ignored transferring leadership to self"
            );
            return;
        }
        note!(
            self.journal,
            Info,
            "{id:x} [term {term}] starts to transfer leadership to {transferee:x}"
        );
        // It has an election timeout's time from now.
        self.election_elapsed = 0;
        self.transferee = transferee;
        if is_up_to_date {
            self.send_timeout_now(transferee);
            note!(
                self.journal,
                Info,
                "{id:x} sends MsgTimeoutNow to {transferee:x} immediately as {transferee:x} \
                 already has up-to-date log"
            );
        } else {
            self.maybe_send_append(transferee, true);
        }
    }
}

/// The sender's progress, which the caller has seen to be there. Takes the map alone, so that the
/// journal can be written meanwhile.
fn progress(map: &mut crate::tracker::ProgressMap, id: u64) -> &mut Progress {
    map.get_mut(&id).expect("the sender has progress")
}
