//! The sending side of a stream, for its service.

use super::body::Body;
use super::inbox::{Inbox, Message, StreamKey, WakeBatch};
use super::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes that a stream may have queued before its sink says that nothing more is to come.
pub const SINK_LIMIT_BYTES: usize = 256 << 10;

/// What a message counts for at least, so that empty ones are bounded too.
const MESSAGE_COST_BYTES: usize = 64;

/// What a stream and its sinks share.
#[derive(Debug, Default)]
pub(super) struct SinkState {
    queued_bytes: AtomicUsize,
    closed: AtomicBool,
}

/// What a message counts for in the sink's limit.
pub(super) fn cost(body: &Body) -> usize {
    body.held_bytes().max(MESSAGE_COST_BYTES)
}

impl SinkState {
    /// A message has left for the peer, or is gone with its stream.
    pub fn sent(&self, cost: usize) {
        let before = self.queued_bytes.fetch_sub(cost, Ordering::AcqRel);
        assert!(before >= cost, "no more is sent than was queued");
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn writable(&self) -> usize {
        SINK_LIMIT_BYTES.saturating_sub(self.queued_bytes.load(Ordering::Acquire))
    }

    pub fn is_full(&self) -> bool {
        self.writable() == 0
    }

    /// Whether half of the limit is free again.
    pub fn is_roomy(&self) -> bool {
        self.writable() >= SINK_LIMIT_BYTES / 2
    }
}

/// Sends messages on a stream, from any thread. Clones send on the same stream.
#[derive(Clone)]
pub struct StreamSink {
    inbox: Arc<Inbox>,
    key: StreamKey,
    state: Arc<SinkState>,
}

impl StreamSink {
    pub(super) fn new(inbox: Arc<Inbox>, key: StreamKey, state: Arc<SinkState>) -> StreamSink {
        StreamSink { inbox, key, state }
    }

    /// Queues a message and wakes the connection. Messages leave in the order of these calls.
    ///
    /// It is always taken, unless the stream has ended: whoever sends looks at
    /// [`StreamSink::writable`] before.
    pub fn send(&self, body: Body) {
        self.send_in(body, &mut WakeBatch::new());
    }

    /// Queues a message; the connection is woken with the batch.
    pub fn send_in(&self, body: Body, batch: &mut WakeBatch) {
        if !self.is_closed() {
            self.state
                .queued_bytes
                .fetch_add(cost(&body), Ordering::AcqRel);
            self.inbox.put(Message::Send(self.key, body), batch);
        }
    }

    /// Bytes that may be queued before the peer must read. When it is zero, the stream's handler is
    /// told by `on_writable` once half of the limit is free again.
    pub fn writable(&self) -> usize {
        self.state.writable()
    }

    /// Ends the stream once all that was queued has left.
    pub fn close(&self, status: Status) {
        self.close_in(status, &mut WakeBatch::new());
    }

    /// As [`StreamSink::close`]; the connection is woken with the batch.
    pub fn close_in(&self, status: Status, batch: &mut WakeBatch) {
        self.inbox.put(Message::Close(self.key, status), batch);
    }

    /// Whether the stream has ended, by either side, so that nothing is sent any more.
    pub fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Acquire)
    }

    /// The connection that the stream is on.
    pub fn connection_id(&self) -> u64 {
        self.inbox.id()
    }
}
