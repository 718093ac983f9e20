//! What a stream of watchers is told, and where it goes.

use super::events::Events;
use std::sync::Arc;

/// The id of answers that concern no watcher, or all of a stream.
pub const NO_WATCH_ID: i64 = -1;

/// Names a stream; the caller draws it.
pub type StreamId = u64;

/// Where a stream's messages go. Called from the loop; must not block.
pub trait Outbox: Send {
    /// Whether events may be added. One more message is always taken.
    fn has_room(&self) -> bool;
    /// Queues a message.
    fn send(&self, message: Message);
    /// Whether the stream has ended, so that nothing is sent any more.
    fn is_closed(&self) -> bool;
}

/// One watcher of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Its id.
    pub watch_id: i64,
    /// Whether it takes answers in fragments.
    pub fragment: bool,
}

/// What a stream is to send.
#[derive(Clone, Debug)]
pub enum Message {
    /// A watcher was made.
    Created {
        /// Its id.
        watch_id: i64,
        /// The newest revision.
        revision: i64,
    },
    /// A watcher was not made.
    Refused {
        /// Why.
        reason: String,
        /// The newest revision.
        revision: i64,
    },
    /// A watcher was canceled as asked.
    Canceled {
        /// Its id.
        watch_id: i64,
        /// The newest revision.
        revision: i64,
    },
    /// A watcher was canceled: what it wants was compacted.
    Compacted {
        /// Its id.
        watch_id: i64,
        /// The compact revision.
        compact_revision: i64,
    },
    /// Events for some watchers, the same for all of them.
    Events {
        /// The revision of the answer's header.
        revision: i64,
        /// Who.
        to: Arc<Vec<Recipient>>,
        /// What.
        events: Arc<Events>,
    },
    /// All was told up to a revision.
    Progress {
        /// The watcher, or [`NO_WATCH_ID`] for all of the stream.
        watch_id: i64,
        /// The revision.
        revision: i64,
    },
}
