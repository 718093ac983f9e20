//! Applying entries: requests to the store, configuration changes to the members and to raft.

use super::{CLUSTER_VERSION, Member, Note, PeerChange, ProposalKind, Reply};
use crate::Error;
use crate::conf_change::{Verdict, conf_state_json, decode, judge};
use bytes::Bytes;
use quorate_api as api;
use quorate_failpoints::fail_point;
use quorate_raft::{ConfChange, Entry, EntryKind};
use quorate_store::{Answer, Applied};
use quorate_wal::raftpb;

impl<T> Member<T> {
    /// Applies what is committed, as long as the commit stage keeps up.
    pub(super) fn apply_what_may(&mut self) -> Result<(), Error> {
        while self.store.pending().bytes < self.config.commit_bytes_cap {
            let Some(job) = self.apply_queue.pop_front() else {
                break;
            };
            for entry in &job.entries {
                self.apply(entry)?;
            }
            self.raft.apply_done(job.done);
            if self.raft.soft_state().lead == 0 {
                self.campaign_if_alone();
            }
            self.raise_space_alarm();
            if std::mem::take(&mut self.wants_version) {
                self.set_cluster_version(CLUSTER_VERSION.to_owned(), None);
            }
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, entry: &Entry) -> Result<(), Error> {
        let at = Applied {
            index: entry.index,
            term: entry.term,
        };
        if at.index <= self.store.applied().index {
            return Ok(()); // it was in the database already
        }
        self.applied_something = true;
        fail_point!("beforeApplyOneEntryNormal", if entry.kind == EntryKind::Normal);
        fail_point!("beforeApplyOneConfChange", if entry.kind != EntryKind::Normal);
        match entry.kind {
            EntryKind::Normal if entry.data.is_empty() => self.store.advance(at),
            EntryKind::Normal => self.apply_request(at, &entry.data)?,
            EntryKind::ConfChange => self.apply_conf_change(at, entry)?,
            EntryKind::ConfChangeV2 => {
                let change = decode(entry.kind, &entry.data).ok_or_else(|| Error::Entry {
                    index: entry.index,
                    what: "its configuration change cannot be read".into(),
                })?;
                self.store.advance(at);
                self.change_raft(entry.index, &change)?;
            }
        }
        if entry.term == self.raft.hard_state().term && self.is_leader() && !self.term_begun {
            self.term_begins();
        }
        Ok(())
    }

    pub(super) fn apply_request(&mut self, at: Applied, data: &Bytes) -> Result<(), Error> {
        let request = api::internal::decode(data).map_err(|e| Error::Entry {
            index: at.index,
            what: e.to_string(),
        })?;
        let id = match (request.id, &request.header) {
            (0, Some(header)) => header.id,
            (id, _) => id,
        };
        let before = self.store.members().cluster_version.clone();
        let outcome = self.store.apply(at, &request, self.now_ms)?;
        if let Some(version) = request.cluster_version_set {
            self.cluster_version_set(version.ver, before);
        }
        if request
            .cluster_member_attr_set
            .is_some_and(|set| set.member_id == self.config.member_id)
            && self.publishing == Some(id)
        {
            self.published = true;
            self.effects.notes.push(Note::Published);
            self.tell_ready();
        }
        let pending = self.pending.remove(&id);
        if matches!(outcome, Err(api::Error::NoSpace)) {
            let refused = pending.and_then(|pending| pending.token);
            self.refuse_for_space(refused.map(|token| (token, Reply::Outcome(outcome))));
            return Ok(());
        }
        let Some(pending) = pending else {
            return Ok(());
        };
        let Some(token) = pending.token else {
            return Ok(());
        };
        match outcome {
            Ok(answer @ Answer::Compaction(_))
                if pending.kind == ProposalKind::PhysicalCompaction =>
            {
                let revision = request
                    .compaction
                    .map_or(0, |compaction| compaction.revision);
                self.compaction_waiters.push((revision, token, answer));
            }
            outcome => self.effects.replies.push((token, Reply::Outcome(outcome))),
        }
        Ok(())
    }

    pub(super) fn apply_conf_change(&mut self, at: Applied, entry: &Entry) -> Result<(), Error> {
        let unreadable = |what: String| Error::Entry {
            index: at.index,
            what,
        };
        let change =
            raftpb::decode_conf_change(&entry.data).map_err(|e| unreadable(e.to_string()))?;
        self.store.advance(at);
        let verdict =
            judge(self.store.members(), &change, self.config.max_learners).map_err(unreadable)?;
        let applied = match &verdict {
            Verdict::Refused(_) => ConfChange {
                node_id: 0,
                ..change.clone()
            },
            _ => change.clone(),
        };
        self.change_raft(at.index, &applied.into())?;
        let id = change.node_id;
        let outcome = match verdict {
            Verdict::Put(member) => {
                let peer_urls = member.peer_urls.clone();
                let note = match self.store.members().get(id) {
                    None => Note::MemberAdded {
                        id,
                        peer_urls: peer_urls.clone(),
                        is_learner: member.is_learner,
                    },
                    Some(before) if before.is_learner && !member.is_learner => {
                        Note::MemberPromoted { id }
                    }
                    Some(_) => Note::MemberUpdated {
                        id,
                        peer_urls: peer_urls.clone(),
                    },
                };
                self.effects.notes.push(note);
                if id != self.config.member_id {
                    self.effects.peers.push(PeerChange::Set { id, peer_urls });
                }
                self.store
                    .change_members(|members, edits| members.put(member, edits));
                Ok(Answer::Nothing)
            }
            Verdict::Remove(id) => {
                self.store
                    .change_members(|members, edits| members.remove(id, edits));
                self.effects.notes.push(Note::MemberRemoved { id });
                if id == self.config.member_id {
                    self.effects.removed = true;
                } else {
                    self.effects.peers.push(PeerChange::Remove { id });
                    self.connected.remove(&id);
                }
                Ok(Answer::Nothing)
            }
            Verdict::Refused(error) => {
                self.effects.notes.push(Note::ChangeInvalid { id, error });
                Err(error)
            }
        };
        let pending = self.pending.remove(&change.id);
        if let Some(token) = pending.and_then(|pending| pending.token) {
            self.effects.replies.push((token, Reply::Outcome(outcome)));
        }
        Ok(())
    }

    pub(super) fn change_raft(
        &mut self,
        index: u64,
        change: &quorate_raft::ConfChangeV2,
    ) -> Result<(), Error> {
        let state = self
            .raft
            .apply_conf_change(index, change)
            .map_err(|e| Error::Entry {
                index,
                what: e.to_string(),
            })?;
        self.store.set_conf_state(&conf_state_json(&state));
        Ok(())
    }
}
