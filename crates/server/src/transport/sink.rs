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
    /// Who sends was told that nothing fits, and waits to hear that something does. It is set by
    /// the one who asks, not by the connection: that may have sent a part of what was queued
    /// before it has seen the last of it, and so never see the sink full.
    wanted: AtomicBool,
}

/// What a message counts for in the sink's limit.
pub(super) fn cost(body: &Body) -> usize {
    body.held_bytes().max(MESSAGE_COST_BYTES)
}

impl SinkState {
    /// A message has left for the peer, or is gone with its stream.
    pub fn sent(&self, cost: usize) {
        let before = self.queued_bytes.fetch_sub(cost, Ordering::SeqCst);
        assert!(before >= cost, "no more is sent than was queued");
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn free_bytes(&self) -> usize {
        SINK_LIMIT_BYTES.saturating_sub(self.queued_bytes.load(Ordering::SeqCst))
    }

    fn writable(&self) -> usize {
        match self.free_bytes() {
            0 => {
                // Either this sees what was sent meanwhile, or the one who sent it sees the wish.
                self.wanted.store(true, Ordering::SeqCst);
                self.free_bytes()
            }
            free => free,
        }
    }

    pub fn is_full(&self) -> bool {
        self.free_bytes() == 0
    }

    /// Whether somebody waits for room and half of the limit is free again. Takes the wish.
    pub fn take_wanted(&self) -> bool {
        self.free_bytes() >= SINK_LIMIT_BYTES / 2 && self.wanted.swap(false, Ordering::SeqCst)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_heard_though_the_connection_never_saw_the_sink_full() {
        let state = SinkState::default();
        let cost = SINK_LIMIT_BYTES / 4;
        state.queued_bytes.fetch_add(4 * cost, Ordering::SeqCst);
        assert_eq!(state.writable(), 0);
        state.sent(cost);
        assert!(!state.take_wanted(), "half must be free");
        // Only now does the connection take the last message from its inbox.
        assert!(!state.is_full());
        for _ in 0..3 {
            state.sent(cost);
        }
        assert!(state.take_wanted());
        assert!(!state.take_wanted(), "told once");
    }

    #[test]
    fn nobody_is_told_who_did_not_ask() {
        let state = SinkState::default();
        state
            .queued_bytes
            .fetch_add(SINK_LIMIT_BYTES, Ordering::SeqCst);
        state.sent(SINK_LIMIT_BYTES);
        assert!(!state.take_wanted());
        assert_eq!(state.writable(), SINK_LIMIT_BYTES);
        assert!(!state.take_wanted());
    }
}
