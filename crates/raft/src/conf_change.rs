//! Membership changes as plain structs.
//!
//! How they are encoded in an entry's data is the business of whoever proposes them; the core
//! gets a [`DecodeConfChange`] for the one moment at which it must look inside.

use std::fmt;

use bytes::Bytes;

use crate::types::EntryKind;

/// What happens to one member. The numbers are raftpb.ConfChangeType's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfChangeKind {
    /// Becomes a voter.
    #[default]
    AddNode = 0,
    /// Leaves.
    RemoveNode = 1,
    /// Changes nothing in raft.
    UpdateNode = 2,
    /// Becomes a learner.
    AddLearnerNode = 3,
}

impl ConfChangeKind {
    /// The kind with a number; `None` for one that this version does not know.
    pub fn from_number(number: u64) -> Option<ConfChangeKind> {
        Some(match number {
            0 => ConfChangeKind::AddNode,
            1 => ConfChangeKind::RemoveNode,
            2 => ConfChangeKind::UpdateNode,
            3 => ConfChangeKind::AddLearnerNode,
            _ => return None,
        })
    }
}

impl fmt::Display for ConfChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfChangeKind::AddNode => "ConfChangeAddNode",
            ConfChangeKind::RemoveNode => "ConfChangeRemoveNode",
            ConfChangeKind::UpdateNode => "ConfChangeUpdateNode",
            ConfChangeKind::AddLearnerNode => "ConfChangeAddLearnerNode",
        })
    }
}

/// Whether a change goes through a joint configuration. The numbers are
/// raftpb.ConfChangeTransition's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfChangeTransition {
    /// Only if it needs one, left by itself.
    #[default]
    Auto = 0,
    /// In any case, left by itself.
    JointImplicit = 1,
    /// In any case, left when an empty change is proposed.
    JointExplicit = 2,
}

impl ConfChangeTransition {
    /// The transition with a number; `None` for one that this version does not know.
    pub fn from_number(number: u64) -> Option<ConfChangeTransition> {
        Some(match number {
            0 => ConfChangeTransition::Auto,
            1 => ConfChangeTransition::JointImplicit,
            2 => ConfChangeTransition::JointExplicit,
            _ => return None,
        })
    }
}

impl fmt::Display for ConfChangeTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfChangeTransition::Auto => "ConfChangeTransitionAuto",
            ConfChangeTransition::JointImplicit => "ConfChangeTransitionJointImplicit",
            ConfChangeTransition::JointExplicit => "ConfChangeTransitionJointExplicit",
        })
    }
}

/// A change of one member, in the first form (raftpb.ConfChange).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfChange {
    /// The proposer's id of the request.
    pub id: u64,
    /// What happens.
    pub kind: ConfChangeKind,
    /// To whom; 0 changes nothing.
    pub node_id: u64,
    /// For the state machine above.
    pub context: Bytes,
}

impl From<ConfChange> for ConfChangeV2 {
    fn from(change: ConfChange) -> ConfChangeV2 {
        ConfChangeV2 {
            transition: ConfChangeTransition::Auto,
            changes: vec![ConfChangeSingle {
                kind: change.kind,
                node_id: change.node_id,
            }],
            context: change.context,
        }
    }
}

/// What happens to one member within a larger change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfChangeSingle {
    /// What happens.
    pub kind: ConfChangeKind,
    /// To whom; 0 changes nothing (so a refused change is applied).
    pub node_id: u64,
}

/// A change of any number of members at once (raftpb.ConfChangeV2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfChangeV2 {
    /// Which way.
    pub transition: ConfChangeTransition,
    /// What happens, in order.
    pub changes: Vec<ConfChangeSingle>,
    /// For the state machine above.
    pub context: Bytes,
}

impl ConfChangeV2 {
    /// Whether it ends a joint configuration: it is empty, the context aside.
    pub fn leaves_joint(&self) -> bool {
        self.transition == ConfChangeTransition::Auto && self.changes.is_empty()
    }

    /// `Some(auto_leave)` if it goes through a joint configuration.
    pub fn enters_joint(&self) -> Option<bool> {
        match self.transition {
            ConfChangeTransition::Auto if self.changes.len() <= 1 => None,
            ConfChangeTransition::Auto | ConfChangeTransition::JointImplicit => Some(true),
            ConfChangeTransition::JointExplicit => Some(false),
        }
    }
}

/// Reads the change out of the data of an entry of a conf-change kind; `None` if it cannot be
/// read, or says something this version does not know. Not called for the empty data of a
/// [`EntryKind::ConfChangeV2`], which is the empty change.
pub type DecodeConfChange = fn(EntryKind, &[u8]) -> Option<ConfChangeV2>;

/// The change in an entry's data, with the rule for empty data applied.
pub(crate) fn decode(with: DecodeConfChange, kind: EntryKind, data: &[u8]) -> Option<ConfChangeV2> {
    if kind == EntryKind::ConfChangeV2 && data.is_empty() {
        return Some(ConfChangeV2::default());
    }
    with(kind, data)
}
