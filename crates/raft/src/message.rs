//! What members say to each other, and the state machine to its own storage.
//!
//! The numbers of [`MessageKind`] and the meaning of each field are raftpb's, so that a message
//! can come from, or go to, an etcd member.

use std::fmt;

use bytes::Bytes;

use crate::types::{Entry, Snapshot};

macro_rules! message_kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// What a message is. The numbers are those of raftpb.MessageType.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum MessageKind {
            $($(#[$doc])* $name = $number,)*
        }

        impl MessageKind {
            /// Every kind, by number.
            pub const ALL: &[MessageKind] = &[$(MessageKind::$name,)*];

            /// The kind's name in raftpb, as logs and traces print it.
            pub fn name(self) -> &'static str {
                match self {
                    $(MessageKind::$name => $text,)*
                }
            }
        }
    };
}

message_kinds! {
    /// Local: begin an election.
    #[default]
    Hup = 0, "MsgHup";
    /// Local: send heartbeats.
    Beat = 1, "MsgBeat";
    /// Proposals, local or forwarded to the leader.
    Prop = 2, "MsgProp";
    /// Entries from the leader, or none to convey the commit index.
    App = 3, "MsgApp";
    /// Answer to `App` or `Snap`.
    AppResp = 4, "MsgAppResp";
    /// Request for a vote.
    Vote = 5, "MsgVote";
    /// Answer to `Vote`.
    VoteResp = 6, "MsgVoteResp";
    /// A snapshot from the leader.
    Snap = 7, "MsgSnap";
    /// The leader's sign of life, with a commit index the receiver can take.
    Heartbeat = 8, "MsgHeartbeat";
    /// Answer to `Heartbeat`, with its context.
    HeartbeatResp = 9, "MsgHeartbeatResp";
    /// Local: a message to `from` could not be sent.
    Unreachable = 10, "MsgUnreachable";
    /// Local: how sending a snapshot to `from` ended.
    SnapStatus = 11, "MsgSnapStatus";
    /// Local: step down unless a quorum was heard of.
    CheckQuorum = 12, "MsgCheckQuorum";
    /// Hand leadership to `from`.
    TransferLeader = 13, "MsgTransferLeader";
    /// From the leader: campaign at once.
    TimeoutNow = 14, "MsgTimeoutNow";
    /// Request for an index from which reads are linearizable.
    ReadIndex = 15, "MsgReadIndex";
    /// Answer to `ReadIndex`.
    ReadIndexResp = 16, "MsgReadIndexResp";
    /// The question whether a vote would be given.
    PreVote = 17, "MsgPreVote";
    /// Answer to `PreVote`.
    PreVoteResp = 18, "MsgPreVoteResp";
    /// To the local log: what to make durable.
    StorageAppend = 19, "MsgStorageAppend";
    /// From the local log: it is durable.
    StorageAppendResp = 20, "MsgStorageAppendResp";
    /// To the local state machine: what to apply.
    StorageApply = 21, "MsgStorageApply";
    /// From the local state machine: it is applied.
    StorageApplyResp = 22, "MsgStorageApplyResp";
    /// Local: forget the leader, stay follower.
    ForgetLeader = 23, "MsgForgetLeader";
}

impl MessageKind {
    /// The number in raftpb.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The kind with a number; `None` for one that this version does not know.
    pub fn from_number(number: u64) -> Option<MessageKind> {
        let position = usize::try_from(number).ok()?;
        MessageKind::ALL.get(position).copied()
    }

    /// Whether it never comes from another member.
    pub fn is_local(self) -> bool {
        matches!(
            self,
            MessageKind::Hup
                | MessageKind::Beat
                | MessageKind::Unreachable
                | MessageKind::SnapStatus
                | MessageKind::CheckQuorum
                | MessageKind::StorageAppend
                | MessageKind::StorageAppendResp
                | MessageKind::StorageApply
                | MessageKind::StorageApplyResp
        )
    }

    /// Whether it answers another message, and so needs a known sender.
    pub fn is_response(self) -> bool {
        matches!(
            self,
            MessageKind::AppResp
                | MessageKind::VoteResp
                | MessageKind::HeartbeatResp
                | MessageKind::Unreachable
                | MessageKind::ReadIndexResp
                | MessageKind::PreVoteResp
                | MessageKind::StorageAppendResp
                | MessageKind::StorageApplyResp
        )
    }

    /// Whether it belongs to an election; such messages set their own term.
    pub(crate) fn is_election(self) -> bool {
        matches!(
            self,
            MessageKind::Vote
                | MessageKind::VoteResp
                | MessageKind::PreVote
                | MessageKind::PreVoteResp
        )
    }

    /// Whether it attests something that must be durable before it leaves.
    pub(crate) fn waits_for_append(self) -> bool {
        matches!(
            self,
            MessageKind::AppResp | MessageKind::VoteResp | MessageKind::PreVoteResp
        )
    }
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A message. Fields that a kind does not use are zero or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: MessageKind,
    /// Receiver.
    pub to: u64,
    /// Sender; for `TransferLeader` the one who shall lead.
    pub from: u64,
    /// The sender's term; 0 for local messages and those that hold in any term.
    pub term: u64,
    /// Term of the entry at `index`; in a rejection, of the one at `reject_hint`.
    pub log_term: u64,
    /// `App`: index before the first entry. `AppResp`: last index that matches, or the refused one.
    pub index: u64,
    /// Entries, proposals, or a read request's context.
    pub entries: Vec<Entry>,
    /// The sender's commit index, as far as the receiver may take it.
    pub commit: u64,
    /// `StorageAppend`: the vote to make durable.
    pub vote: u64,
    /// The snapshot of `Snap` and of storage messages.
    pub snapshot: Option<Box<Snapshot>>,
    /// Whether the request is refused.
    pub reject: bool,
    /// In a refusal: where to try next.
    pub reject_hint: u64,
    /// Election: `CampaignTransfer` if leadership was handed over. Heartbeat: position of reads.
    pub context: Bytes,
    /// Storage messages: what to deliver once done.
    pub responses: Vec<Message>,
}

impl Message {
    /// A message of a kind to a receiver, all else empty.
    pub fn new(kind: MessageKind, to: u64) -> Message {
        Message {
            kind,
            to,
            ..Message::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_go_both_ways() {
        for (number, kind) in MessageKind::ALL.iter().enumerate() {
            assert_eq!(usize::from(kind.number()), number);
            assert_eq!(MessageKind::from_number(number as u64), Some(*kind));
        }
        assert_eq!(MessageKind::ALL.len(), 24);
        assert_eq!(MessageKind::from_number(24), None);
        assert_eq!(MessageKind::from_number(u64::MAX), None);
    }
}
