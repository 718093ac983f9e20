//! Streams that this member writes: the bodies of answers to peers that dialled it.
//!
//! Invariants:
//! - A peer has at most one stream of each kind; a new one ends the one before.
//! - What waited for a stream that ended is dropped, and the host is told so.
//! - Whatever waits when the connection takes more leaves in one piece, up to [`PIECE_BYTES`].

use super::codec::{Encoder, StreamKind};
use super::identity::hex;
use super::queue::Queue;
use super::status::Status;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use quorate_node::raft::Message;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Messages that may wait: etcd's streamBufSize.
const MESSAGES_MAX: usize = 4096;

/// Bytes that are gathered for one write, as far as messages are small.
const PIECE_BYTES: usize = 256 << 10;

/// A third of what the other end waits for (etcd's ConnReadTimeout).
const HEARTBEAT_INTERVAL: Duration = Duration::from_nanos(5_000_000_000 / 3);

/// One kind of stream to one peer, connected or not.
pub(super) struct StreamWriter {
    kind: StreamKind,
    status: Rc<Status>,
    queue: RefCell<Queue>,
    /// Counts the streams there were; the last one is the one in use.
    generation: Cell<u64>,
    working: Cell<bool>,
    /// The connection that the stream in use is written by.
    connection: Cell<Option<Waker>>,
}

impl StreamWriter {
    pub fn start(kind: StreamKind, status: Rc<Status>) -> Rc<StreamWriter> {
        tracing::info!(
            "local-member-id" = status.local.identity.member.as_str(),
            "remote-peer-id" = hex(status.id),
            "started stream writer with remote peer"
        );
        Rc::new(StreamWriter {
            kind,
            status,
            queue: RefCell::new(Queue::new(MESSAGES_MAX)),
            generation: Cell::new(0),
            working: Cell::new(false),
            connection: Cell::new(None),
        })
    }

    /// Whether there is a stream.
    pub fn is_working(&self) -> bool {
        self.working.get()
    }

    /// Sends a message, or gives it back.
    #[must_use]
    pub fn push(&self, message: Message) -> Option<Message> {
        let refused = self.queue.borrow_mut().push(message);
        self.wake();
        refused
    }

    fn wake(&self) {
        if let Some(connection) = self.connection.take() {
            connection.wake();
        }
    }

    /// The peer dialled: gives the body that is written from now on.
    pub fn attach(self: &Rc<Self>) -> StreamBody {
        let closed = self.close();
        tracing::info!(
            "from" = self.status.local.identity.member.as_str(),
            "to" = hex(self.status.id),
            "stream-type" = self.kind.name(),
            "set message encoder"
        );
        self.working.set(true);
        self.status.activate();
        if closed {
            self.log_closed();
        }
        tracing::info!(
            "stream-writer-type" = self.kind.name(),
            "local-member-id" = self.status.local.identity.member.as_str(),
            "remote-peer-id" = hex(self.status.id),
            "established TCP streaming connection with remote peer"
        );
        let mut heartbeat = interval(HEARTBEAT_INTERVAL);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        StreamBody {
            writer: self.clone(),
            generation: self.generation.get(),
            encoder: Encoder::new(self.kind),
            heartbeat,
        }
    }

    /// Ends the stream there is; false if there is none.
    fn close(&self) -> bool {
        if !self.working.replace(false) {
            return false;
        }
        self.generation.set(self.generation.get() + 1);
        self.wake();
        let mut queue = self.queue.borrow_mut();
        let unsent = !queue.is_empty();
        queue.clear();
        drop(queue);
        if unsent {
            self.status.local.host.unreachable(self.status.id);
        }
        true
    }

    fn log_closed(&self) {
        tracing::warn!(
            "stream-writer-type" = self.kind.name(),
            "local-member-id" = self.status.local.identity.member.as_str(),
            "remote-peer-id" = hex(self.status.id),
            "closed TCP streaming connection with remote peer"
        );
    }

    /// Ends for good.
    pub fn stop(&self) {
        if self.close() {
            self.log_closed();
        }
        tracing::info!(
            "stream-writer-type" = self.kind.name(),
            "remote-peer-id" = hex(self.status.id),
            "stopped TCP streaming connection with remote peer"
        );
    }

    /// The connection broke.
    fn lost(&self) {
        self.close();
        let link = &self.status.link;
        link.sent_failures.inc();
        self.status
            .deactivate(self.kind.name(), "write", "the connection was closed");
        tracing::warn!(
            "stream-writer-type" = self.kind.name(),
            "local-member-id" = self.status.local.identity.member.as_str(),
            "remote-peer-id" = hex(self.status.id),
            "lost TCP streaming connection with remote peer"
        );
    }
}

/// A stream as the body of a response.
pub(super) struct StreamBody {
    writer: Rc<StreamWriter>,
    generation: u64,
    encoder: Encoder,
    heartbeat: Interval,
}

impl StreamBody {
    fn is_current(&self) -> bool {
        self.writer.working.get() && self.writer.generation.get() == self.generation
    }

    /// What waits, as bytes; empty if nothing does.
    fn gather(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        let mut queue = self.writer.queue.borrow_mut();
        let mut bytes = 0;
        while piece.len() < PIECE_BYTES
            && let Some((message, len)) = queue.pop()
        {
            self.encoder.put(&mut piece, &message);
            bytes += len as u64;
        }
        self.writer.status.link.sent_bytes.add(bytes);
        piece
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if !this.is_current() {
            return Poll::Ready(None);
        }
        let mut piece = this.gather();
        if piece.is_empty() {
            if this.heartbeat.poll_tick(cx).is_pending() {
                this.writer.connection.set(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            this.encoder.put_link_heartbeat(&mut piece);
            this.writer.status.link.sent_bytes.add(piece.len() as u64);
        }
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        if self.is_current() {
            self.writer.lost();
        }
    }
}
