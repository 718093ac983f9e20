//! Faults put into the driver on purpose, to show that the oracles find them.
//!
//! They live on the simulator's side of a member's interface: no production code knows of them.

use quorate_node::LogJob;
use quorate_node::raft::{Message, MessageKind};
use quorate_node::store::buckets::BucketId;
use quorate_node::store::commit::Frozen;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The log does not keep whom the member voted for.
    LostVote,
    /// A read index is taken for confirmed as soon as it is asked for.
    UnconfirmedRead,
    /// A commit carries the consistent index of the one before.
    StaleIndex,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Sabotage; 3] = [
        Sabotage::LostVote,
        Sabotage::UnconfirmedRead,
        Sabotage::StaleIndex,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Sabotage::LostVote => "lost-vote",
            Sabotage::UnconfirmedRead => "unconfirmed-read",
            Sabotage::StaleIndex => "stale-index",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Sabotage> {
        Sabotage::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Takes the vote out of what the log keeps.
pub fn lose_vote(job: &mut LogJob) {
    if let LogJob::Append(append) = job
        && let Some(state) = &mut append.hard_state
    {
        state.vote = 0;
    }
}

/// The answer to a heartbeat that asks for a read's confirmation, without asking the member.
pub fn confirmation(message: &Message) -> Option<Message> {
    let asks = message.kind == MessageKind::Heartbeat && !message.context.is_empty();
    asks.then(|| Message {
        kind: MessageKind::HeartbeatResp,
        to: message.from,
        from: message.to,
        term: message.term,
        context: message.context.clone(),
        ..Message::default()
    })
}

/// Puts the consistent index of the last commit into this one. Before the first, 0.
pub fn make_stale(frozen: &mut Frozen, before: u64) {
    let bytes = before.to_be_bytes();
    frozen
        .edits
        .put(BucketId::Meta, b"consistent_index", &bytes);
}
