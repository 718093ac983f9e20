//! Configuration changes: decoded, checked against the members, applied to raft and the members.
//!
//! The verdict is taken when the entry is applied and from replicated state alone; a refused change
//! is applied to raft as a change of node 0, so that raft's bookkeeping goes on.

use quorate_api as api;
use quorate_raft::{ConfChange, ConfChangeKind, ConfChangeV2, ConfState, EntryKind};
use quorate_store::membership::{ChangeContext, Member, Membership};
use quorate_wal::raftpb;

/// Raft's look into an entry.
pub fn decode(kind: EntryKind, data: &[u8]) -> Option<ConfChangeV2> {
    let data = bytes::Bytes::copy_from_slice(data);
    match kind {
        EntryKind::Normal => None,
        EntryKind::ConfChange => raftpb::decode_conf_change(&data)
            .ok()
            .map(ConfChangeV2::from),
        EntryKind::ConfChangeV2 => raftpb::decode_conf_change_v2(&data).ok(),
    }
}

/// What a change does to the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A member comes, or a learner is promoted (the member as it is then).
    Put(Member),
    /// A member goes for good.
    Remove(u64),
    /// Refused.
    Refused(api::Error),
}

/// Judges a change. `Err`: the entry says something that cannot be read.
pub fn judge(
    members: &Membership,
    change: &ConfChange,
    max_learners: usize,
) -> Result<Verdict, String> {
    let context = || {
        serde_json::from_slice::<ChangeContext>(&change.context)
            .map_err(|e| format!("the context of a configuration change: {e}"))
    };
    let checked = |outcome: Result<(), api::Error>, verdict: Verdict| match outcome {
        Ok(()) => verdict,
        Err(error) => Verdict::Refused(error),
    };
    Ok(match change.kind {
        ConfChangeKind::AddNode | ConfChangeKind::AddLearnerNode => {
            let context = context()?;
            if context.member.id != change.node_id {
                return Err(format!(
                    "a change of member {:x} whose context names {:x}",
                    change.node_id, context.member.id
                ));
            }
            let learns = change.kind == ConfChangeKind::AddLearnerNode;
            let verdict = members.check_add(&context, learns.then_some(max_learners));
            let member = match members.get(change.node_id) {
                Some(member) if context.is_promote => Member {
                    is_learner: false,
                    ..member.clone()
                },
                _ => context.member,
            };
            checked(verdict, Verdict::Put(member))
        }
        ConfChangeKind::RemoveNode => checked(
            members.check_exists(change.node_id),
            Verdict::Remove(change.node_id),
        ),
        ConfChangeKind::UpdateNode => {
            let context = context()?;
            match members.get(change.node_id) {
                Some(member) => {
                    let member = Member {
                        peer_urls: context.member.peer_urls,
                        ..member.clone()
                    };
                    checked(members.check_urls(&member), Verdict::Put(member))
                }
                None => Verdict::Refused(api::Error::MemberNotFound),
            }
        }
    })
}

/// A configuration as the database keeps it (Go's JSON of raftpb.ConfState).
pub fn conf_state_json(state: &ConfState) -> Vec<u8> {
    let mut fields = Vec::new();
    for (name, ids) in [
        ("voters", &state.voters),
        ("learners", &state.learners),
        ("voters_outgoing", &state.voters_outgoing),
        ("learners_next", &state.learners_next),
    ] {
        if !ids.is_empty() {
            let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
            fields.push(format!("\"{name}\":[{}]", ids.join(",")));
        }
    }
    fields.push(format!("\"auto_leave\":{}", state.auto_leave));
    format!("{{{}}}", fields.join(",")).into_bytes()
}

/// The configuration that these members make.
pub fn conf_state_of(members: &Membership) -> ConfState {
    let ids = |learner: bool| {
        members
            .iter()
            .filter(|member| member.is_learner == learner)
            .map(|member| member.id)
            .collect()
    };
    ConfState {
        voters: ids(false),
        learners: ids(true),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelled_as_go_does() {
        let state = ConfState {
            voters: vec![10276657743932975437],
            ..Default::default()
        };
        assert_eq!(
            conf_state_json(&state),
            br#"{"voters":[10276657743932975437],"auto_leave":false}"#
        );
    }
}
