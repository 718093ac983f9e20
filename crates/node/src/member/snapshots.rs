//! Databases between members: sent to one whose log is too far behind, and taken over from a leader.
//!
//! What is sent is the state of a commit, never of the log: raft names an index up to which the log
//! is gone, and the first commit at or above it goes out, with that commit's index, term and
//! configuration. What is received is opened and checked by whoever received it ([`Received`])
//! before raft hears of it, and takes the store's place once the log stage has stored it.

use super::log_snapshots::LogSnapshots;
use super::{Freezing, Member, Note, PeerChange, peers};
use crate::{Error, Received};
use bytes::Bytes;
use quorate_failpoints::fail_point;
use quorate_raft::{ConfState, Message, Snapshot, SnapshotMetadata};
use quorate_store::membership::Membership;
use quorate_store::{Applied, View, legacy_tree};
use std::sync::Arc;

/// A database on its way to another member.
pub struct SnapshotToSend {
    /// The message that goes with it.
    pub message: Message,
    /// Its `file` is the database: the commit at the message's index.
    pub view: Arc<View>,
}

impl<T> Member<T> {
    /// A leader's snapshot, whose database was received and checked. `Err` as in [`Member::step`].
    ///
    /// Where raft has no use for it (it is old by now), it is let go.
    pub fn step_snapshot(&mut self, message: Message, received: Received) -> Result<(), Error> {
        let index = message.snapshot.as_ref().map(|s| s.metadata.index);
        assert_eq!(
            index,
            Some(received.index()),
            "a snapshot comes with its own database"
        );
        // Newer ones may come while one is being stored: the log stage asks for them in order, so
        // only one may be under way.
        if self.received.is_some() || self.replacing_db {
            return Ok(());
        }
        self.take_in(message)?;
        if self.raft.pending_snapshot() == index {
            self.received = Some(received);
        }
        Ok(())
    }

    /// How sending a snapshot to `id` ended.
    pub fn report_snapshot(&mut self, id: u64, sent: bool) {
        self.shortening.database_sent(id, sent, self.now_ms);
        self.raft.report_snapshot(id, sent);
    }

    /// The commit stage uses the database of [`super::Effects::replaced_db`].
    pub fn database_replaced(&mut self) {
        assert!(self.replacing_db, "a database was to be replaced");
        self.replacing_db = false;
    }

    /// The log stage has stored a received snapshot: its database takes the store's place.
    pub(super) fn adopt(&mut self, snapshot: &Snapshot) {
        let SnapshotMetadata { index, term, .. } = snapshot.metadata;
        let received = self.received.take();
        let Received { store, db, .. } = received
            .filter(|received| received.index() == index)
            .expect("raft took a snapshot only with its database");
        let before = self.store.applied().index;
        assert!(index > before, "a snapshot brings something new");
        let stored = Snapshot {
            data: Bytes::new(),
            metadata: snapshot.metadata.clone(),
        };
        self.raft
            .storage_mut()
            .apply_snapshot(stored)
            .expect("raft takes no snapshot older than its log");
        fail_point!("raftAfterApplySnap");
        let old_members = self.store.members().clone();
        self.store = store;
        self.freezing = None;
        self.commit_due_ms = None;
        self.replacing_db = true;
        self.effects.replaced_db = Some(db);
        // Its compactions are the sender's now.
        self.answer_compactions(i64::MAX);
        self.planner = None;
        self.plan_is_stale = self.compaction_running;
        self.log_snapshots = LogSnapshots::at(index);
        self.shortening.replaced(index);
        self.view = self.store.publish();
        self.effects.view = Some(self.view.clone());
        self.hub.jumped(&self.view);
        self.members_replaced(&old_members);
        self.effects.notes.push(Note::Adopted {
            index,
            term,
            applied: before,
        });
    }

    fn members_replaced(&mut self, old: &Membership) {
        let own = self.config.member_id;
        let members = self.store.members().clone();
        let gone = old
            .iter()
            .filter(|member| member.id != own && members.get(member.id).is_none());
        self.effects
            .peers
            .extend(gone.map(|member| PeerChange::Remove { id: member.id }));
        self.effects.peers.extend(peers::all_of(&members, own));
        self.effects.removed |= members.is_removed(own);
    }

    /// Sends what a commit covers that is durable by now, and asks for a commit that covers the rest.
    pub(super) fn send_snapshots(&mut self) {
        if self.snapshots_wanted.is_empty() || self.replacing_db {
            return;
        }
        if self.is_committed() {
            let applied = self.store.applied();
            let conf_state = self.raft.membership().conf_state();
            let members = self.store.members().clone();
            self.send_snapshots_at(applied, &conf_state, &members);
        }
        self.force_commit |= !self.snapshots_wanted.is_empty();
    }

    /// A commit is durable and in the newest view.
    pub(super) fn send_committed(&mut self, commit: &Freezing) {
        if !self.snapshots_wanted.is_empty() {
            self.view = self.store.publish();
            self.effects.view = Some(self.view.clone());
            self.send_snapshots_at(commit.applied, &commit.conf_state, &commit.members);
        }
    }

    fn send_snapshots_at(&mut self, at: Applied, conf_state: &ConfState, members: &Membership) {
        let wanted = std::mem::take(&mut self.snapshots_wanted);
        for mut message in wanted {
            let asked = message.snapshot.as_ref().map_or(0, |s| s.metadata.index);
            if asked > at.index {
                self.snapshots_wanted.push(message);
                continue;
            }
            let metadata = SnapshotMetadata {
                conf_state: conf_state.clone(),
                index: at.index,
                term: at.term,
            };
            let data = legacy_tree::encode(members).into();
            self.shortening.database_leaves(message.to, at.index);
            message.snapshot = Some(Box::new(Snapshot { data, metadata }));
            self.effects.snapshots.push(SnapshotToSend {
                message,
                view: self.view.clone(),
            });
        }
    }
}
