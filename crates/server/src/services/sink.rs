//! Where the messages of a stream go: to a gRPC client, or to the JSON gateway.

use crate::transport::{Body, Code, SINK_LIMIT_BYTES, Status, StreamSink, WakeBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The sending side of a stream, for its service. Clones send on the same stream.
#[derive(Clone)]
pub enum Sink {
    /// A gRPC client.
    Grpc(StreamSink),
    /// The JSON gateway.
    Gateway(GatewaySink),
}

impl Sink {
    /// Queues a message.
    pub fn send(&self, body: Body) {
        self.send_in(body, &mut WakeBatch::new());
    }

    /// Queues a message; a connection is woken with the batch.
    pub fn send_in(&self, body: Body, batch: &mut WakeBatch) {
        match self {
            Sink::Grpc(sink) => sink.send_in(body, batch),
            Sink::Gateway(sink) => sink.send(Ok(body)),
        }
    }

    /// Bytes that may be queued before the peer must read.
    pub fn writable(&self) -> usize {
        match self {
            Sink::Grpc(sink) => sink.writable(),
            Sink::Gateway(sink) => {
                SINK_LIMIT_BYTES.saturating_sub(sink.state.queued.load(Ordering::Acquire))
            }
        }
    }

    /// Ends the stream once all that was queued has left.
    pub fn close(&self, status: Status) {
        self.close_in(status, &mut WakeBatch::new());
    }

    /// Ends the stream; a connection is woken with the batch.
    pub fn close_in(&self, status: Status, batch: &mut WakeBatch) {
        match self {
            Sink::Grpc(sink) => sink.close_in(status, batch),
            Sink::Gateway(sink) => sink.send(Err(status)),
        }
    }

    /// Whether the stream has ended.
    pub fn is_closed(&self) -> bool {
        match self {
            Sink::Grpc(sink) => sink.is_closed(),
            Sink::Gateway(sink) => {
                sink.state.closed.load(Ordering::Acquire) || sink.messages.is_closed()
            }
        }
    }
}

#[derive(Default)]
struct State {
    queued: AtomicUsize,
    closed: AtomicBool,
}

/// A stream's messages on their way to JSON.
#[derive(Clone)]
pub struct GatewaySink {
    messages: UnboundedSender<Result<Body, Status>>,
    state: Arc<State>,
}

/// The receiving end.
pub struct GatewayMessages {
    messages: UnboundedReceiver<Result<Body, Status>>,
    state: Arc<State>,
}

/// A sink and where its messages come out. What is queued is bounded by who asks
/// [`Sink::writable`] first, as on a gRPC stream.
pub fn gateway() -> (GatewaySink, GatewayMessages) {
    let (sender, receiver) = unbounded_channel();
    let state = Arc::new(State::default());
    (
        GatewaySink {
            messages: sender,
            state: state.clone(),
        },
        GatewayMessages {
            messages: receiver,
            state,
        },
    )
}

impl GatewaySink {
    fn send(&self, message: Result<Body, Status>) {
        match &message {
            Ok(body) => {
                self.state.queued.fetch_add(body.len(), Ordering::AcqRel);
            }
            Err(_) => self.state.closed.store(true, Ordering::Release),
        }
        // A client that went away took the receiver with it.
        let _gone = self.messages.send(message);
    }
}

impl GatewayMessages {
    /// The next message, or how the stream ended; `None` after that. Also tells whether the sink
    /// was full before.
    pub fn poll(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<(Result<Body, Status>, bool)>> {
        self.messages.poll_recv(cx).map(|message| {
            message.map(|message| {
                let len = message.as_ref().map_or(0, Body::len);
                let before = self.state.queued.fetch_sub(len, Ordering::AcqRel);
                (
                    message,
                    before >= SINK_LIMIT_BYTES && before - len < SINK_LIMIT_BYTES,
                )
            })
        })
    }

    /// The status of a stream whose sinks are all gone.
    pub fn abandoned() -> Status {
        Status::new(Code::Unavailable, "etcdserver: server stopped")
    }
}
