//! One gRPC call, from its headers to its trailers.
//!
//! Invariants:
//! - Bytes are handed to HTTP/2 only as far as flow control lets them leave, so what a slow peer
//!   does not take stays in [`Outgoing`], where it is counted.
//! - A stream whose sink is full takes no further messages from its client.
//! - A service hears of a stream's end at most once: by `on_cancel`, or by its handler's drop.

use super::body::{Body, PREFIX_BYTES, Piece, Sending};
use super::context::CallContext;
use super::inbox::{ConnectionInbox, Inbox, StreamKey};
use super::limits::Limits;
use super::message::Decoder;
use super::service::{Ended, MethodId, MethodKind, Reply, Service, StreamHandler};
use super::sink::{SinkState, StreamSink, cost};
use super::status::{Code, GRPC_CONTENT, Status};
use super::wakers::SlotWaker;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// An answer up to this size is handed to HTTP/2 in one piece if flow control takes all of it.
const AT_ONCE_BYTES: usize = 16 << 10;

/// Bytes that flow control is asked for at a time.
const RESERVE_BYTES: usize = 64 << 10;

/// Bytes that a stream may send before the others have their turn.
const TURN_BYTES: usize = 256 << 10;

/// Messages that a stream may receive before the others have their turn.
const TURN_MESSAGES: usize = 64;

/// Largest message that may be sent: etcd's send limit.
const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// What the streams of a connection share.
pub(super) struct Round {
    pub service: Arc<dyn Service>,
    pub limits: Arc<Limits>,
    pub inbox: Arc<Inbox>,
    /// When the round began.
    pub now: Instant,
    /// A service was handed something since its last flush.
    pub handed_over: bool,
    /// Something was sent on a stream.
    pub answered: bool,
    /// Bytes held that peers do not take yet.
    pub unsent_bytes: usize,
    /// Bytes of incomplete messages.
    pub assembling_bytes: usize,
}

impl Round {
    /// Tells the service that a read round is over.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.handed_over) {
            self.service.flush(&ConnectionInbox(self.inbox.clone()));
        }
    }
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Open,
    Ended,
}

enum Role {
    /// The message of a unary call is not complete.
    Receiving,
    /// The answer comes later.
    Waiting,
    /// A stream.
    Streaming {
        handler: Box<dyn StreamHandler>,
        /// A message has come; a method that takes one takes no other.
        got_message: bool,
    },
    /// Only what is queued is left to be sent.
    Finishing,
}

/// Messages that wait for flow control.
#[derive(Default)]
struct Outgoing {
    queue: VecDeque<Body>,
    current: Option<Current>,
    /// How the stream ends once all of it is sent.
    end: Option<Status>,
}

struct Current {
    sending: Sending,
    /// What it holds of the connection's unsent bytes, and its cost in the sink.
    held: usize,
    cost: usize,
}

pub(super) struct Stream {
    key: StreamKey,
    method: MethodId,
    kind: MethodKind,
    respond: SendResponse<Piece>,
    /// Once the headers are sent.
    send: Option<SendStream<Piece>>,
    recv: RecvStream,
    /// The client has not said that it is done.
    recv_open: bool,
    decoder: Decoder,
    context: CallContext,
    role: Role,
    outgoing: Outgoing,
    sink: Option<Arc<SinkState>>,
    /// When the service heard of the call, until it hears of its end.
    began: Option<Instant>,
    /// A unary call's message, for who looks back at its end.
    request: Option<Bytes>,
}

/// What a call begins with.
pub(super) struct Opening {
    pub key: StreamKey,
    pub method: MethodId,
    pub kind: MethodKind,
    pub respond: SendResponse<Piece>,
    pub recv: RecvStream,
    pub decoder: Decoder,
    pub context: CallContext,
}

impl Stream {
    pub fn open(opening: Opening, round: &mut Round) -> Option<Stream> {
        let Opening {
            key,
            method,
            kind,
            respond,
            recv,
            decoder,
            context,
        } = opening;
        let mut stream = Stream {
            key,
            method,
            kind,
            respond,
            send: None,
            recv,
            recv_open: true,
            decoder,
            context,
            role: Role::Receiving,
            outgoing: Outgoing::default(),
            sink: None,
            began: None,
            request: None,
        };
        if kind != MethodKind::Unary {
            let state = Arc::new(SinkState::default());
            stream.sink = Some(state.clone());
            let sink = StreamSink::new(round.inbox.clone(), key, state);
            round.handed_over = true;
            stream.began = Some(round.now);
            match round.service.open_stream(method, &stream.context, sink) {
                Ok(handler) => {
                    stream.role = Role::Streaming {
                        handler,
                        got_message: false,
                    };
                }
                Err(status) => {
                    stream.finish(status, round);
                    stream.release(round);
                    return None;
                }
            }
        }
        Some(stream)
    }

    pub fn key(&self) -> StreamKey {
        self.key
    }

    pub fn deadline(&self) -> Option<Instant> {
        match self.role {
            // What is left needs the service no more; a peer that does not read is not timed.
            Role::Finishing => None,
            _ => self.context.deadline(),
        }
    }

    /// Does all that can be done now.
    pub fn poll(&mut self, slot: &SlotWaker, round: &mut Round) -> Progress {
        let cx = &mut Context::from_waker(slot.waker());
        if self.pump(cx, slot, round) == Progress::Ended {
            return Progress::Ended;
        }
        let progress = match self.role {
            Role::Receiving => self.receive_call(cx, round),
            Role::Streaming { .. } => self.receive_stream(cx, slot, round),
            Role::Waiting | Role::Finishing => Progress::Open,
        };
        if progress == Progress::Ended {
            return Progress::Ended;
        }
        // The call may have been answered.
        if !self.outgoing.is_empty() && self.pump(cx, slot, round) == Progress::Ended {
            return Progress::Ended;
        }
        // While messages come, a reset shows where they are read.
        let watched = match self.role {
            Role::Receiving => false,
            Role::Streaming { .. } => !self.recv_open,
            Role::Waiting | Role::Finishing => true,
        };
        if watched && self.is_reset(cx) {
            self.cancel();
            return Progress::Ended;
        }
        Progress::Open
    }

    fn is_reset(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.send {
            Some(send) => send.poll_reset(cx).is_ready(),
            None => self.respond.poll_reset(cx).is_ready(),
        }
    }

    /// Reads a unary call's message and makes the call.
    fn receive_call(&mut self, cx: &mut Context<'_>, round: &mut Round) -> Progress {
        loop {
            match self.recv.poll_data(cx) {
                Poll::Pending => return Progress::Open,
                Poll::Ready(Some(Ok(payload))) => {
                    let outcome = self.decode(payload, round);
                    match outcome {
                        Ok(Some(message)) => return self.call(message, round),
                        Ok(None) => {}
                        Err(status) => return self.finish(status, round),
                    }
                }
                Poll::Ready(Some(Err(_))) => return Progress::Ended,
                Poll::Ready(None) => {
                    self.recv_open = false;
                    let text = if self.decoder.is_between() {
                        "EOF"
                    } else {
                        "unexpected EOF"
                    };
                    return self.finish(Status::new(Code::Unknown, text), round);
                }
            }
        }
    }

    fn call(&mut self, message: Bytes, round: &mut Round) -> Progress {
        round.handed_over = true;
        self.role = Role::Waiting;
        self.began = Some(round.now);
        self.request = Some(message.clone());
        match round.service.call(self.method, message, &self.context) {
            Reply::Now(body) => self.answer(Ok(body), round),
            Reply::Error(status) => self.answer(Err(status), round),
            Reply::Later if self.context.is_deferred() => Progress::Open,
            Reply::Later => {
                let status =
                    Status::new(Code::Internal, "transport: the service kept no responder");
                self.answer(Err(status), round)
            }
        }
    }

    /// Takes a payload, lets the peer send as much again, and gives the first message.
    fn decode(&mut self, payload: Bytes, round: &mut Round) -> Result<Option<Bytes>, Status> {
        let window = payload.len();
        self.decoder.push(payload);
        let given = self.recv.flow_control().release_capacity(window);
        assert!(given.is_ok(), "no more window is given back than was taken");
        self.decode_more(round)
    }

    /// The next message of what is there.
    fn decode_more(&mut self, round: &mut Round) -> Result<Option<Bytes>, Status> {
        let before = self.decoder.held_bytes();
        let message = self.decoder.next()?;
        let after = self.decoder.held_bytes();
        round.assembling_bytes = round.assembling_bytes - before + after;
        if after > before && round.assembling_bytes > round.limits.assembling_bytes_max {
            return Err(Status::new(
                Code::ResourceExhausted,
                "transport: too many incomplete requests on one connection",
            ));
        }
        Ok(message)
    }

    /// Hands a stream's messages to its handler.
    fn receive_stream(
        &mut self,
        cx: &mut Context<'_>,
        slot: &SlotWaker,
        round: &mut Round,
    ) -> Progress {
        let mut messages = 0;
        loop {
            if self.sink.as_ref().is_some_and(|sink| sink.is_full()) {
                // Pumping brings the stream here again.
                return Progress::Open;
            }
            if messages == TURN_MESSAGES {
                slot.waker().wake_by_ref();
                return Progress::Open;
            }
            let outcome = if self.decoder.has_input() {
                self.decode_more(round)
            } else if self.recv_open {
                match self.recv.poll_data(cx) {
                    Poll::Pending => return Progress::Open,
                    Poll::Ready(Some(Ok(payload))) => self.decode(payload, round),
                    Poll::Ready(Some(Err(_))) => {
                        self.cancel();
                        return Progress::Ended;
                    }
                    Poll::Ready(None) => {
                        self.recv_open = false;
                        if !self.decoder.is_between() {
                            return self
                                .finish(Status::new(Code::Internal, "unexpected EOF"), round);
                        }
                        if let Role::Streaming { handler, .. } = &mut self.role {
                            round.handed_over = true;
                            handler.on_half_close();
                        }
                        return Progress::Open;
                    }
                }
            } else {
                return Progress::Open;
            };
            let message = match outcome {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(status) => return self.finish(status, round),
            };
            messages += 1;
            let Role::Streaming {
                handler,
                got_message,
                ..
            } = &mut self.role
            else {
                return Progress::Open;
            };
            if std::mem::replace(got_message, true) && self.kind == MethodKind::ServerStream {
                // grpc-go reads one message of such a call and no more.
                continue;
            }
            round.handed_over = true;
            if let Err(status) = handler.on_message(message) {
                return self.finish(status, round);
            }
        }
    }

    /// A unary call's answer.
    pub fn answer(&mut self, answer: Result<Body, Status>, round: &mut Round) -> Progress {
        if !matches!(self.role, Role::Waiting) {
            return Progress::Open;
        }
        let body = match answer {
            Ok(body) => body,
            Err(status) => return self.finish(status, round),
        };
        if let Err(status) = check_len(&body) {
            return self.finish(status, round);
        }
        self.role = Role::Finishing;
        self.tell_end(Code::Ok, Some(&body), round);
        if self.send_headers(round) == Progress::Ended {
            return Progress::Ended;
        }
        let send = self.send.as_mut().expect("the headers were just sent");
        let len = body.len() + PREFIX_BYTES;
        match body {
            Body::Whole(bytes) if len <= AT_ONCE_BYTES => {
                send.reserve_capacity(len);
                if send.capacity() >= len {
                    let sent = send
                        .send_data(Piece::whole(bytes), false)
                        .and_then(|()| send.send_trailers(Status::ok().to_trailers()));
                    // A reset by the peer is no news for a call that has ended.
                    drop(sent);
                    return Progress::Ended;
                }
                self.enqueue(Body::Whole(bytes), round);
            }
            body => self.enqueue(body, round),
        }
        self.outgoing.end = Some(Status::ok());
        Progress::Open
    }

    /// A stream's message.
    pub fn push(&mut self, body: Body, round: &mut Round) -> Progress {
        if !matches!(self.role, Role::Streaming { .. }) {
            self.sink_sent(cost(&body));
            return Progress::Open;
        }
        if let Err(status) = check_len(&body) {
            self.sink_sent(cost(&body));
            return self.finish(status, round);
        }
        if self.outgoing.end.is_some() {
            self.sink_sent(cost(&body));
            return Progress::Open;
        }
        round.service.sent(self.method, body.len());
        self.enqueue(body, round);
        Progress::Open
    }

    /// A stream's end, as its service wants it.
    pub fn close(&mut self, status: Status, round: &mut Round) -> Progress {
        if self.outgoing.end.is_some() || !matches!(self.role, Role::Streaming { .. }) {
            return Progress::Open;
        }
        self.finish(status, round)
    }

    /// The deadline has passed.
    pub fn expire(&mut self, round: &mut Round) -> Progress {
        self.tell_end(Code::DeadlineExceeded, None, round);
        self.cancel();
        // What is queued would come too late. A message that was begun has no clean end.
        let begun = self.outgoing.current.is_some();
        self.drop_queue(round);
        if begun && let Some(send) = &mut self.send {
            send.send_reset(Reason::CANCEL);
            return Progress::Ended;
        }
        self.finish(Status::deadline_exceeded(), round)
    }

    /// The client is gone, or wants no answer any more.
    pub fn cancel(&mut self) {
        self.context.cancel();
        if let Some(sink) = &self.sink {
            sink.close();
        }
        if let Role::Streaming { mut handler, .. } =
            std::mem::replace(&mut self.role, Role::Finishing)
        {
            handler.on_cancel();
        }
    }

    /// Ends the stream behind all that is queued.
    fn finish(&mut self, status: Status, round: &mut Round) -> Progress {
        self.role = Role::Finishing;
        self.tell_end(status.code, None, round);
        if let Some(sink) = &self.sink {
            sink.close();
        }
        if !self.outgoing.is_empty() {
            self.outgoing.end = Some(status);
            return Progress::Open;
        }
        round.answered = true;
        let sent = match &mut self.send {
            Some(send) => send.send_trailers(status.to_trailers()),
            None => self
                .respond
                .send_response(status.to_headers(StatusCode::OK), true)
                .map(drop),
        };
        // As above: the stream has ended either way.
        drop(sent);
        Progress::Ended
    }

    /// Tells the service how the call ended, unless it has heard.
    fn tell_end(&mut self, code: Code, answer: Option<&Body>, round: &Round) {
        let Some(began) = self.began.take() else {
            return;
        };
        round.service.ended(&Ended {
            method: self.method,
            code,
            began,
            now: round.now,
            request: self.request.as_ref(),
            answer,
            deferred: self.context.is_deferred(),
            peer: self.context.peer(),
        });
        self.request = None;
    }

    fn send_headers(&mut self, round: &mut Round) -> Progress {
        if self.send.is_some() {
            return Progress::Open;
        }
        round.answered = true;
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT);
        match self.respond.send_response(response, false) {
            Ok(send) => {
                self.send = Some(send);
                Progress::Open
            }
            Err(_) => {
                self.cancel();
                Progress::Ended
            }
        }
    }

    fn enqueue(&mut self, body: Body, round: &mut Round) {
        round.unsent_bytes += body.held_bytes();
        self.outgoing.queue.push_back(body);
    }

    fn sink_sent(&self, cost: usize) {
        if let Some(sink) = &self.sink {
            sink.sent(cost);
        }
    }

    /// Sends what flow control allows.
    fn pump(&mut self, cx: &mut Context<'_>, slot: &SlotWaker, round: &mut Round) -> Progress {
        let mut turn = TURN_BYTES;
        loop {
            if self.outgoing.current.is_none() {
                if self.outgoing.queue.is_empty() {
                    break;
                }
                if self.send_headers(round) == Progress::Ended {
                    return Progress::Ended;
                }
                if turn > 0 && self.send_together(&mut turn, round) {
                    continue;
                }
                let Some(body) = self.outgoing.queue.pop_front() else {
                    break;
                };
                let (held, cost) = (body.held_bytes(), cost(&body));
                self.outgoing.current = Some(Current {
                    sending: Sending::new(body),
                    held,
                    cost,
                });
            }
            let current = self.outgoing.current.as_mut().expect("set above");
            let send = self
                .send
                .as_mut()
                .expect("headers are sent before the first message");
            send.reserve_capacity(current.sending.remaining().min(RESERVE_BYTES));
            let capacity = send.capacity();
            if capacity == 0 {
                match send.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(_))) => continue,
                    Poll::Pending => return Progress::Open,
                    Poll::Ready(None | Some(Err(_))) => {
                        self.cancel();
                        return Progress::Ended;
                    }
                }
            }
            if turn == 0 {
                slot.waker().wake_by_ref();
                return Progress::Open;
            }
            let budget = capacity.min(current.sending.remaining()).min(turn);
            let Ok(piece) = current.sending.next(budget) else {
                send.send_reset(Reason::INTERNAL_ERROR);
                self.cancel();
                return Progress::Ended;
            };
            turn -= piece.remaining();
            round.answered = true;
            let done = current.sending.remaining() == 0;
            if send.send_data(piece, false).is_err() {
                self.cancel();
                return Progress::Ended;
            }
            if done {
                let current = self.outgoing.current.take().expect("it was just sent");
                round.unsent_bytes -= current.held;
                self.sink_sent(current.cost);
            }
        }
        if let Some(status) = self.outgoing.end.take() {
            return self.finish(status, round);
        }
        if let (Role::Streaming { handler, .. }, Some(sink)) = (&mut self.role, &self.sink)
            && sink.take_wanted()
        {
            round.handed_over = true;
            handler.on_writable();
        }
        Progress::Open
    }

    /// Sends small messages that wait together as one payload, which costs both sides far less than
    /// a payload for each. `false` if there are not two of them that flow control takes.
    fn send_together(&mut self, turn: &mut usize, round: &mut Round) -> bool {
        let (mut count, mut total, mut freed) = (0, 0, 0);
        for body in &self.outgoing.queue {
            let Body::Whole(bytes) = body else { break };
            let with_this = total + PREFIX_BYTES + bytes.len();
            if with_this > AT_ONCE_BYTES.min(*turn) {
                break;
            }
            total = with_this;
            freed += cost(body);
            count += 1;
        }
        let send = self
            .send
            .as_mut()
            .expect("headers are sent before the first message");
        if count < 2 {
            return false;
        }
        send.reserve_capacity(total);
        if send.capacity() < total {
            return false;
        }
        let mut together = BytesMut::with_capacity(total);
        for body in self.outgoing.queue.drain(..count) {
            round.unsent_bytes -= body.held_bytes();
            if let Body::Whole(bytes) = body {
                together.put(Piece::whole(bytes));
            }
        }
        *turn -= total;
        round.answered = true;
        // Should the peer have reset the stream, that shows where it is looked for.
        drop(send.send_data(Piece::plain(together.freeze()), false));
        self.sink_sent(freed);
        true
    }

    fn drop_queue(&mut self, round: &mut Round) {
        if let Some(current) = self.outgoing.current.take() {
            round.unsent_bytes -= current.held;
            self.sink_sent(current.cost);
        }
        for body in std::mem::take(&mut self.outgoing.queue) {
            round.unsent_bytes -= body.held_bytes();
            self.sink_sent(cost(&body));
        }
        self.outgoing.end = None;
    }

    /// Gives back what it counts for with the connection; its last act.
    pub fn release(&mut self, round: &mut Round) {
        self.tell_end(Code::Cancelled, None, round);
        self.drop_queue(round);
        round.assembling_bytes -= self.decoder.held_bytes();
        self.decoder.forget();
        if let Some(sink) = &self.sink {
            sink.close();
        }
    }
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.current.is_none() && self.queue.is_empty()
    }
}

fn check_len(body: &Body) -> Result<(), Status> {
    let len = body.len();
    if len > MESSAGE_BYTES_MAX {
        return Err(Status::new(
            Code::ResourceExhausted,
            format!("grpc: trying to send message larger than max ({len} vs. {MESSAGE_BYTES_MAX})"),
        ));
    }
    Ok(())
}
