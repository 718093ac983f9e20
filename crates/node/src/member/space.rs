//! The space alarm of a member whose file has grown beyond the quota.
//!
//! Invariant: a request that took effect and was refused for its size is answered once the alarm is
//! active, or could not be raised, so that whoever reads the refusal finds the alarm.
//!
//! Source: etcd's applyEntryNormal.

use super::{Member, Note, Reply};
use quorate_api::etcdserverpb::alarm_request::AlarmAction;
use quorate_api::etcdserverpb::{AlarmRequest, AlarmType, InternalRaftRequest};

/// The alarm on its way.
pub(super) struct SpaceAlarm<T> {
    /// Its proposal; `None` before it was proposed.
    id: Option<u64>,
    /// Who is told what afterwards.
    refused: Vec<(T, Reply)>,
}

impl<T> Member<T> {
    /// Takes a refusal for want of space; `refused` is nobody where others proposed it.
    pub(super) fn refuse_for_space(&mut self, refused: Option<(T, Reply)>) {
        if self.store.alarms().any(AlarmType::Nospace) {
            self.effects.replies.extend(refused);
            return;
        }
        let alarm = self.space_alarm.get_or_insert_with(|| SpaceAlarm {
            id: None,
            refused: Vec::new(),
        });
        alarm.refused.extend(refused);
    }

    /// Proposes the alarm where that was not done yet.
    pub(super) fn raise_space_alarm(&mut self) {
        if !matches!(self.space_alarm, Some(SpaceAlarm { id: None, .. })) {
            return;
        }
        let id = self.propose_own(InternalRaftRequest {
            alarm: Some(AlarmRequest {
                action: AlarmAction::Activate as i32,
                member_id: self.config.member_id,
                alarm: AlarmType::Nospace as i32,
            }),
            ..Default::default()
        });
        self.effects.notes.push(Note::QuotaExceeded);
        if let Some(alarm) = &mut self.space_alarm {
            alarm.id = Some(id);
        }
    }

    /// Answers those who were refused, once the alarm was applied or given up.
    pub(super) fn answer_refused(&mut self) {
        let Some(SpaceAlarm { id: Some(id), .. }) = &self.space_alarm else {
            return;
        };
        let is_early = self.early.iter().any(|proposal| proposal.id == *id);
        if is_early || self.pending.contains_key(id) {
            return;
        }
        let alarm = self.space_alarm.take();
        let refused = alarm.into_iter().flat_map(|alarm| alarm.refused);
        self.effects.replies.extend(refused);
    }
}
