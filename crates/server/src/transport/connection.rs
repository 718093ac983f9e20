//! An HTTP/2 connection: one task that serves all of its streams.
//!
//! The task works in rounds. A round reads what is there, makes the calls, delivers answers that
//! came from elsewhere, lets streams send, and goes on until nothing moves any more; then all that
//! was gathered is written at once. So answers that become ready together leave together, and no
//! stream ever wakes a task.
//!
//! Invariants:
//! - `open` counts the slots in use. A slot's generation grows when it is freed.
//! - No stream's deadline lies before `deadline` or the timer's next look.

use super::context::{CallContext, Peer, parse_timeout};
use super::header_log;
use super::inbox::{Inbox, Message, StreamKey};
use super::io::{Duplex, Io, Link, finish};
use super::keepalive::{PingPolicy, Silence, SilenceWatch};
use super::limits::{Limits, STREAMS_MAX};
use super::message::{Decoder, Encoding};
use super::plain::PlainRequest;
use super::service::{Lookup, MethodId, MethodKind, Service};
use super::status::{Code, Status};
use super::stream::{Opening, Progress, Round, Stream};
use super::wakers::{SlotWaker, Wakers};
use bytes::BytesMut;
use h2::server::{self, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::{HeaderMap, Method, StatusCode, Uri, request};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

use super::body::Piece;

/// Window of a stream: with it a request of etcd's default size needs no round trip.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;

/// Window of a connection, the most that a client can make us hold without being asked.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// What a stream may have handed to HTTP/2 without it being written.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// Streams that a client may open and reset before we have seen them. Calls are cancelled by the
/// hundred when a client's context ends, so HTTP/2's customary 20 would end good connections.
const UNSEEN_RESETS_MAX: usize = 1000;

/// What the overhead of small DATA frames may come to before they are handed over.
const DATA_FRAME_BUDGET_BYTES: usize = 16 << 20;

/// New streams taken in one go.
const ACCEPT_TURN: usize = 256;

/// Times that a round goes on before other connections have their turn.
const ROUND_TURNS: usize = 32;

/// How long a client that was told to go away may take to hear it.
const LINGER: Duration = Duration::from_secs(1);

/// What serving a connection needs.
pub(super) struct Serving {
    pub service: Arc<dyn Service>,
    pub limits: Arc<Limits>,
    pub inbox: Arc<Inbox>,
    pub peer: Arc<Peer>,
}

/// Serves a connection to its end.
pub(super) async fn serve<T: Duplex>(socket: T, early: BytesMut, serving: Serving) {
    let limits = serving.limits.clone();
    let link = Link::new(socket, early, PingPolicy::new(limits.keepalive.min_time));
    let handshake = server::Builder::new()
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits.streams_max.min(STREAMS_MAX))
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(UNSEEN_RESETS_MAX)
        .max_concurrent_reset_streams(UNSEEN_RESETS_MAX)
        .data_frame_budget(DATA_FRAME_BUDGET_BYTES)
        .handshake(Io(link.clone()));
    let ending = match handshake.await {
        Ok(h2) => {
            let mut connection = Connection::new(h2, link.clone(), serving);
            let ending = poll_fn(|cx| connection.poll(cx)).await;
            connection.end();
            ending
        }
        Err(_) => {
            serving.inbox.close();
            Ending::Over
        }
    };
    if ending == Ending::TooManyPings {
        // The client is given the time to read why, unless it does not even read that.
        let goodbye = async {
            finish(&link).await?;
            poll_fn(|cx| {
                let mut scrap = [0; 4096];
                let mut scrap = tokio::io::ReadBuf::new(&mut scrap);
                loop {
                    scrap.clear();
                    link.borrow_mut().begin_round();
                    match Pin::new(&mut Io(link.clone()))
                        .as_mut()
                        .poll_scrap(cx, &mut scrap)
                    {
                        Poll::Ready(Ok(())) if !scrap.filled().is_empty() => {}
                        Poll::Ready(outcome) => return Poll::Ready(outcome),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            })
            .await
        };
        // Whether it heard us or not, the connection is closed now.
        let _heard: Result<io::Result<()>, _> = tokio::time::timeout(LINGER, goodbye).await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Closed, by whomever.
    Over,
    /// The client is told that it pings too much.
    TooManyPings,
}

enum Entry {
    Call(Box<Stream>),
    Plain(Box<PlainRequest>),
}

struct Slot {
    generation: u32,
    waker: SlotWaker,
    entry: Option<Entry>,
}

struct Connection<T> {
    h2: server::Connection<Io<T>, Piece>,
    ping: Option<PingPong>,
    link: Rc<RefCell<Link<T>>>,
    wakers: Wakers,
    slots: Vec<Slot>,
    free: Vec<u32>,
    open: usize,
    round: Round,
    peer: Arc<Peer>,
    /// Earliest deadline of a stream, or earlier.
    deadline: Option<Instant>,
    silence: SilenceWatch,
    /// When the peer's silence is to be looked at.
    silence_at: Instant,
    timer: Pin<Box<Sleep>>,
    timer_at: Instant,
    last_stream: u32,
    draining: bool,
    /// Reused from round to round.
    ready: Vec<u32>,
    messages: Vec<Message>,
}

impl<T: Duplex> Connection<T> {
    fn new(
        mut h2: server::Connection<Io<T>, Piece>,
        link: Rc<RefCell<Link<T>>>,
        serving: Serving,
    ) -> Connection<T> {
        let now = Instant::now();
        let silence_at = now + serving.limits.keepalive.interval;
        Connection {
            ping: h2.ping_pong(),
            h2,
            link,
            wakers: Wakers::new(),
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            silence: SilenceWatch::new(&serving.limits.keepalive),
            round: Round {
                service: serving.service,
                limits: serving.limits,
                inbox: serving.inbox,
                now,
                handed_over: false,
                answered: false,
                unsent_bytes: 0,
                assembling_bytes: 0,
            },
            peer: serving.peer,
            deadline: None,
            silence_at,
            timer: Box::pin(tokio::time::sleep_until(silence_at.into())),
            timer_at: silence_at,
            last_stream: 0,
            draining: false,
            ready: Vec::new(),
            messages: Vec::new(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        let inbox = self.round.inbox.clone();
        self.wakers.begin(cx.waker());
        let ending = inbox.running(cx.waker(), || self.rounds(cx));
        self.wakers.end();
        match ending {
            Some(ending) => Poll::Ready(ending),
            None => Poll::Pending,
        }
    }

    fn rounds(&mut self, cx: &mut Context<'_>) -> Option<Ending> {
        {
            let mut link = self.link.borrow_mut();
            link.begin_round();
            if link.is_blocked()
                && let Poll::Ready(Err(_)) = link.send(cx)
            {
                return Some(Ending::Over);
            }
        }
        for turn in 0.. {
            self.round.now = Instant::now();
            // Before the work: what happens meanwhile brings another turn.
            self.wakers.take_again();
            if self.drive() || self.read_inbox() {
                return Some(Ending::Over);
            }
            self.move_streams();
            self.round.flush();
            if std::mem::take(&mut self.round.answered) {
                self.link.borrow_mut().answered();
            }
            if self.link.borrow().too_many_pings {
                self.say_too_many_pings();
                return Some(Ending::TooManyPings);
            }
            if !self.wakers.has_news() && !self.round.inbox.has_messages() {
                break;
            }
            if turn == ROUND_TURNS {
                cx.waker().wake_by_ref();
                break;
            }
        }
        if self.look_at_clock(cx) {
            return Some(Ending::Over);
        }
        let mut link = self.link.borrow_mut();
        let was_blocked = link.is_blocked();
        match link.send(cx) {
            Poll::Ready(Err(_)) => return Some(Ending::Over),
            // What HTTP/2 could not hand over it can now.
            Poll::Ready(Ok(())) if was_blocked => cx.waker().wake_by_ref(),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        None
    }

    /// Lets HTTP/2 read and write, and takes new streams. `true` when the connection is over.
    fn drive(&mut self) -> bool {
        let waker = self.wakers.connection().clone();
        let cx = &mut Context::from_waker(&waker);
        for _ in 0..ACCEPT_TURN {
            let clogged = self.round.unsent_bytes > self.round.limits.unsent_bytes_max
                || self.link.borrow().is_blocked();
            if clogged {
                // New calls wait until the peer takes answers.
                return self.h2.poll_closed(cx).is_ready();
            }
            match self.h2.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => self.accept(request, respond),
                Poll::Ready(Some(Err(_)) | None) => return true,
                Poll::Pending => return false,
            }
        }
        waker.wake();
        false
    }

    fn accept(&mut self, request: http::Request<RecvStream>, mut respond: SendResponse<Piece>) {
        self.last_stream = respond.stream_id().as_u32();
        let (parts, recv) = request.into_parts();
        if self.round.limits.headers_shown {
            header_log::write(&parts);
        }
        let call = match self.check(&parts) {
            Ok(Some(call)) => call,
            Ok(None) => {
                let slot = self.take_slot();
                let mut parts = parts;
                parts.extensions.insert(self.peer.clone());
                let plain = PlainRequest::open(parts, recv, respond);
                self.slots[slot as usize].entry = Some(Entry::Plain(Box::new(plain)));
                self.move_slot(slot);
                return;
            }
            Err((http, status)) => {
                self.round.answered = true;
                // If the peer has reset the stream meanwhile, it does not care.
                drop(respond.send_response(status.to_headers(http), true));
                return;
            }
        };
        let slot = self.take_slot();
        let key = StreamKey {
            slot,
            generation: self.slots[slot as usize].generation,
        };
        let context = CallContext::new(
            parts.headers,
            self.peer.clone(),
            call.deadline,
            self.round.inbox.clone(),
            key,
        );
        let decoder = Decoder::new(call.encoding, self.round.limits.message_bytes_max);
        let opening = Opening {
            key,
            method: call.method,
            kind: call.kind,
            respond,
            recv,
            decoder,
            context,
        };
        match Stream::open(opening, &mut self.round) {
            Some(stream) => {
                if let Some(deadline) = call.deadline {
                    self.deadline =
                        Some(self.deadline.map_or(deadline, |known| known.min(deadline)));
                }
                self.slots[slot as usize].entry = Some(Entry::Call(Box::new(stream)));
                self.move_slot(slot);
            }
            None => self.free_slot(slot),
        }
    }

    /// What a request asks for: a call, or (`None`) something else than gRPC. An error is the
    /// answer, with its HTTP status. Order and texts are grpc-go's.
    fn check(&self, parts: &request::Parts) -> Result<Option<Call>, (StatusCode, Status)> {
        let content_type = parts.headers.get(http::header::CONTENT_TYPE);
        let content_type = content_type.map_or(&b""[..], |value| value.as_bytes());
        if !is_grpc(content_type) {
            if self.round.limits.plain_http2 {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(content_type);
            let status = Status::new(
                Code::InvalidArgument,
                format!("invalid gRPC request content-type {text:?}"),
            );
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, status));
        }
        let deadline =
            deadline(&parts.headers).map_err(|status| (StatusCode::BAD_REQUEST, status))?;
        if !has_authority(&parts.uri, &parts.headers) {
            let status = Status::new(Code::Internal, "no host or :authority header present");
            return Err((StatusCode::BAD_REQUEST, status));
        }
        if parts.method != Method::POST {
            let text = format!(
                "Received a HEADERS frame with :method {:?} which should be POST",
                parts.method.as_str()
            );
            return Err((
                StatusCode::METHOD_NOT_ALLOWED,
                Status::new(Code::Internal, text),
            ));
        }
        let (method, kind) = self
            .lookup(parts.uri.path())
            .map_err(|status| (StatusCode::OK, status))?;
        let encoding = parts
            .headers
            .get("grpc-encoding")
            .map(|value| value.to_str().unwrap_or("?"));
        let encoding = Encoding::parse(encoding).map_err(|status| (StatusCode::OK, status))?;
        Ok(Some(Call {
            method,
            kind,
            encoding,
            deadline,
        }))
    }

    fn lookup(&self, path: &str) -> Result<(MethodId, MethodKind), Status> {
        let text = match self.round.service.method(path) {
            Lookup::Method(method, kind) => return Ok((method, kind)),
            unknown => {
                let names = path
                    .strip_prefix('/')
                    .and_then(|names| names.rsplit_once('/'));
                match (names, unknown) {
                    (None, _) => format!("malformed method name: {path:?}"),
                    (Some((service, method)), Lookup::UnknownMethod) => {
                        format!("unknown method {method} for service {service}")
                    }
                    (Some((service, _)), _) => format!("unknown service {service}"),
                }
            }
        };
        Err(Status::new(Code::Unimplemented, text))
    }

    fn take_slot(&mut self) -> u32 {
        self.open += 1;
        self.link.borrow_mut().active_streams = self.open;
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize].waker.unlist();
            return slot;
        }
        let slot = u32::try_from(self.slots.len()).expect("streams are limited");
        self.slots.push(Slot {
            generation: 0,
            waker: self.wakers.slot(slot),
            entry: None,
        });
        slot
    }

    fn free_slot(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        place.generation = place.generation.wrapping_add(1);
        if let Some(Entry::Call(mut stream)) = place.entry.take() {
            stream.release(&mut self.round);
        }
        self.free.push(slot);
        self.open -= 1;
        self.link.borrow_mut().active_streams = self.open;
        if self.open == 0 {
            assert_eq!(
                (self.round.unsent_bytes, self.round.assembling_bytes),
                (0, 0),
                "who goes counts no more"
            );
        }
        if self.open == 0 && self.slots.capacity() > 1024 {
            // A burst of streams is over: its memory is not kept.
            self.slots = Vec::new();
            self.free = Vec::new();
        }
    }

    /// Lets a stream do what it can.
    fn move_slot(&mut self, slot: u32) {
        let Some(place) = self.slots.get_mut(slot as usize) else {
            return;
        };
        place.waker.unlist();
        let progress = match &mut place.entry {
            Some(Entry::Call(stream)) => stream.poll(&place.waker, &mut self.round),
            Some(Entry::Plain(request)) => {
                let cx = &mut Context::from_waker(place.waker.waker());
                request.poll(cx, &*self.round.service, &self.round.limits)
            }
            // The stream is gone, its waker rang late.
            None => return,
        };
        if progress == Progress::Ended {
            self.free_slot(slot);
        }
    }

    fn move_streams(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        self.wakers.take_ready(&mut ready);
        for slot in ready.drain(..) {
            self.move_slot(slot);
        }
        self.ready = ready;
    }

    /// Delivers what other threads, and the services in this round, have to say. `true` when the
    /// connection is to end.
    fn read_inbox(&mut self) -> bool {
        let mut messages = std::mem::take(&mut self.messages);
        self.round.inbox.take(&mut messages);
        let mut abort = false;
        for message in messages.drain(..) {
            match message {
                Message::Answer(key, answer) => {
                    self.tell(key, |stream, round| stream.answer(answer, round));
                }
                Message::Send(key, body) => {
                    self.tell(key, |stream, round| stream.push(body, round))
                }
                Message::Close(key, status) => {
                    self.tell(key, |stream, round| stream.close(status, round))
                }
                Message::Drain => {
                    if !std::mem::replace(&mut self.draining, true) {
                        self.h2.graceful_shutdown();
                        // It is HTTP/2's turn to say so.
                        self.wakers.connection().wake_by_ref();
                    }
                }
                Message::Abort => abort = true,
            }
        }
        self.messages = messages;
        abort
    }

    fn tell(&mut self, key: StreamKey, what: impl FnOnce(&mut Stream, &mut Round) -> Progress) {
        let Some(place) = self.slots.get_mut(key.slot as usize) else {
            return;
        };
        if place.generation != key.generation {
            return;
        }
        let Some(Entry::Call(stream)) = &mut place.entry else {
            return;
        };
        debug_assert_eq!(stream.key(), key);
        match what(stream, &mut self.round) {
            Progress::Ended => self.free_slot(key.slot),
            // It may have something to send now.
            Progress::Open => place.waker.waker().wake_by_ref(),
        }
    }

    /// Ends calls whose time is up and looks after a silent peer. `true` when the peer is dead.
    fn look_at_clock(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            let due = self
                .deadline
                .map_or(self.silence_at, |deadline| deadline.min(self.silence_at));
            // A timer that rings too early is cheaper than one that is set for each call.
            if due < self.timer_at {
                self.timer_at = due;
                self.timer.as_mut().reset(due.into());
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                self.expire(now);
            }
            if self.silence_at <= now {
                let last_read = self.link.borrow().last_read;
                match self.silence.look(now, last_read) {
                    Silence::Until(at) => self.silence_at = at,
                    Silence::Ping(at) => {
                        self.silence_at = at;
                        self.send_ping();
                    }
                    Silence::Dead => return true,
                }
            }
            let next = self
                .deadline
                .map_or(self.silence_at, |deadline| deadline.min(self.silence_at));
            self.timer_at = next;
            self.timer.as_mut().reset(next.into());
        }
    }

    fn send_ping(&mut self) {
        if let Some(ping) = &mut self.ping {
            let waker = self.wakers.connection().clone();
            let cx = &mut Context::from_waker(&waker);
            // The last answer is not looked at when it comes: anything read shows that the peer lives.
            let _answered = ping.poll_pong(cx);
            // An error says that the last ping is unanswered; the silence watch knows.
            let _sent = ping.send_ping(Ping::opaque());
        }
    }

    fn expire(&mut self, now: Instant) {
        let mut next: Option<Instant> = None;
        let mut ended = Vec::new();
        for (slot, place) in (0..).zip(&mut self.slots) {
            let Some(Entry::Call(stream)) = &mut place.entry else {
                continue;
            };
            let Some(deadline) = stream.deadline() else {
                continue;
            };
            if deadline > now {
                next = Some(next.map_or(deadline, |known| known.min(deadline)));
            } else if stream.expire(&mut self.round) == Progress::Ended {
                ended.push(slot);
            }
        }
        for slot in ended {
            self.free_slot(slot);
        }
        self.deadline = next;
        // What was said is to leave in a round of its own.
        self.wakers.connection().wake_by_ref();
    }

    /// A GOAWAY with the reason that grpc's clients look for. HTTP/2's library can send none with
    /// text in it.
    fn say_too_many_pings(&mut self) {
        const TEXT: &[u8] = b"too_many_pings";
        const FRAME_GOAWAY: u8 = 7;
        let mut frame = vec![0, 0, 8 + TEXT.len() as u8, FRAME_GOAWAY, 0, 0, 0, 0, 0];
        frame.extend(self.last_stream.to_be_bytes());
        frame.extend(u32::from(Reason::ENHANCE_YOUR_CALM).to_be_bytes());
        frame.extend(TEXT);
        self.link.borrow_mut().add_frame(&frame);
    }

    /// Tells the services that their streams are gone.
    fn end(&mut self) {
        for slot in &mut self.slots {
            if let Some(Entry::Call(mut stream)) = slot.entry.take() {
                stream.cancel();
                stream.release(&mut self.round);
            }
        }
        self.round.flush();
        // Last: who sees the connection gone finds its calls cancelled.
        self.round.inbox.close();
    }
}

/// What a gRPC request's headers say.
struct Call {
    method: MethodId,
    kind: MethodKind,
    encoding: Encoding,
    deadline: Option<Instant>,
}

/// `application/grpc`, alone or with a subtype.
fn is_grpc(content_type: &[u8]) -> bool {
    match content_type.strip_prefix(b"application/grpc") {
        Some(rest) => matches!(rest.first(), None | Some(b'+' | b';')),
        None => false,
    }
}

fn has_authority(uri: &Uri, headers: &HeaderMap) -> bool {
    uri.authority().is_some() || headers.contains_key(http::header::HOST)
}

fn deadline(headers: &HeaderMap) -> Result<Option<Instant>, Status> {
    let Some(timeout) = headers.get("grpc-timeout") else {
        return Ok(None);
    };
    let timeout = parse_timeout(timeout.to_str().unwrap_or("?"))?;
    // Beyond the clock's range there is no deadline.
    Ok(Instant::now().checked_add(timeout))
}
