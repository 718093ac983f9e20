//! The configuration in force: how it begins, changes as entries and snapshots are applied, and how
//! a joint one is left.
//!
//! A change takes effect when its entry is applied, not when it is appended; the leader lets one
//! at a time into the log (`pending_conf_index`).

use bytes::Bytes;

use crate::changer::{Changer, ConfChangeError};
use crate::conf_change::{ConfChange, ConfChangeV2};
use crate::config::ConfigError;
use crate::journal::note;
use crate::raft::Raft;
use crate::storage::Storage;
use crate::tracker::{InflightLimits, Membership, ProgressMap};
use crate::types::{ConfState, Entry, EntryKind, HardState, NONE, Role};

impl<S: Storage> Raft<S> {
    /// Makes the first configuration of a new group out of `peers`, each with the encoded
    /// conf change that adds it (of kind [`EntryKind::ConfChange`]): their entries are appended
    /// in term 1 and committed, and handed out to be stored and applied. The log must be empty.
    pub fn bootstrap(&mut self, peers: Vec<(u64, Bytes)>) -> Result<(), ConfigError> {
        if self.log.last_index() != 0 || peers.is_empty() {
            return Err(ConfigError::CannotBootstrap);
        }
        // So that the first hard state is handed out.
        self.last_hard_state = HardState::default();
        self.become_follower(1, NONE);
        let (ids, data): (Vec<u64>, Vec<Bytes>) = peers.into_iter().unzip();
        let entries: Vec<Entry> = data
            .into_iter()
            .zip(1..)
            .map(|(data, index)| Entry {
                term: 1,
                index,
                kind: EntryKind::ConfChange,
                data,
            })
            .collect();
        let count = entries.len() as u64;
        self.log.append(entries, &mut self.journal);
        self.log.committed = count;
        // They are applied once more when they come out, which changes nothing; doing it here
        // lets the member campaign before.
        for (node_id, index) in ids.into_iter().zip(1..) {
            let change = ConfChange {
                node_id,
                ..Default::default()
            };
            self.apply_conf_change(index, &change.into())
                .map_err(ConfigError::ConfState)?;
        }
        Ok(())
    }

    /// Entries up to `index` are applied: `size` encoded and `payload` payload bytes of them.
    pub(crate) fn applied_entries(&mut self, index: u64, size: u64, payload: u64) {
        self.applied_to(index, size);
        self.uncommitted_size = self.uncommitted_size.saturating_sub(payload);
    }

    pub(crate) fn applied_snapshot(&mut self, index: u64) {
        self.log.unstable.stable_snapshot_to(index);
        self.applied_to(index, 0);
    }

    fn applied_to(&mut self, index: u64, size: u64) {
        let applied = index.max(self.log.applied);
        self.log.applied_to(applied, size);
        if self.tracker.membership.auto_leave
            && applied >= self.pending_conf_index
            && self.role == Role::Leader
        {
            // Empty data is the empty change, and no size limit refuses it. If a transfer of
            // leadership drops it, the next entry that is applied brings us here again.
            let left = self.propose_conf_change(EntryKind::ConfChangeV2, Bytes::new());
            let membership = &self.tracker.membership;
            match left {
                Ok(()) => note!(
                    self.journal,
                    Info,
                    "initiating automatic transition out of joint configuration {membership}"
                ),
                Err(error) => note!(
                    self.journal,
                    Debug,
                    "not initiating automatic transition out of joint configuration \
                     {membership}: {error}"
                ),
            }
        }
    }

    /// Puts a committed change into force; to be called when its entry, at `index`, is applied. A
    /// change that the state machine above refuses is applied with node 0, or not at all. One that
    /// a snapshot has overtaken in the meantime changes nothing.
    ///
    /// Returns the configuration for the next snapshot. An error leaves everything as it was: the
    /// change cannot be made from the configuration in force, here or on any other member.
    pub fn apply_conf_change(
        &mut self,
        index: u64,
        change: &ConfChangeV2,
    ) -> Result<ConfState, ConfChangeError> {
        if index <= self.conf_index {
            return Ok(self.tracker.membership.conf_state());
        }
        let changer = Changer {
            membership: self.tracker.membership.clone(),
            progress: self.tracker.progress.clone(),
            limits: self.tracker.limits,
            last_index: self.log.last_index(),
        };
        let changed = changer.change(change)?;
        Ok(self.switch_to(changed.membership, changed.progress))
    }

    /// Puts a configuration into force.
    pub(crate) fn switch_to(&mut self, membership: Membership, progress: ProgressMap) -> ConfState {
        self.tracker.membership = membership;
        self.tracker.progress = progress;
        let id = self.config.id;
        note!(
            self.journal,
            Info,
            "{id:x} switched to configuration {}",
            self.tracker.membership
        );
        let state = self.tracker.membership.conf_state();
        let own = self.tracker.progress.get(&id);
        self.is_learner = own.is_some_and(|progress| progress.is_learner);
        if self.role != Role::Leader {
            return state;
        }
        if own.is_none() || self.is_learner {
            if self.config.step_down_on_removal {
                self.become_follower(self.term, NONE);
            }
            return state;
        }
        if self.maybe_commit() {
            self.release_early_reads();
            self.broadcast_append();
        } else {
            // New members need not wait for a heartbeat to be probed.
            for to in self.peers() {
                self.maybe_send_append(to, false);
            }
        }
        // Fewer voters may have confirmed more.
        self.answer_confirmed_reads();
        if self.transferee != NONE && !self.tracker.membership.voters.contains(self.transferee) {
            self.transferee = NONE;
        }
        state
    }
}

/// The configuration that a [`ConfState`] describes, with fresh progress.
pub(crate) fn restored(
    limits: InflightLimits,
    last_index: u64,
    state: &ConfState,
) -> Result<Changer, ConfChangeError> {
    let nobody = Changer {
        membership: Membership::default(),
        progress: ProgressMap::new(),
        limits,
        last_index,
    };
    let restored = nobody.restore(state)?;
    if !restored.membership.conf_state().is_equivalent(state) {
        let text = format!("ConfStates not equivalent: {state:?}");
        return Err(ConfChangeError::Inconsistent(text));
    }
    Ok(restored)
}
