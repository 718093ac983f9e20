//! The interface between this transport and the services behind it. Nothing in it is async, and
//! nothing in it names an HTTP/2 library.

use super::body::Body;
use super::context::{CallContext, Peer};
use super::inbox::ConnectionInbox;
use super::sink::StreamSink;
use super::status::{Code, Status};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

/// A method, by the number that the service gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MethodId(pub u16);

/// What goes which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// One message in, one out: [`Service::call`].
    Unary,
    /// One message in, many out: [`Service::open_stream`].
    ServerStream,
    /// Many in, many out: [`Service::open_stream`].
    Bidi,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// A method.
    Method(MethodId, MethodKind),
    /// A service that has no such method.
    UnknownMethod,
    /// Nothing.
    UnknownService,
}

/// A call's immediate outcome.
pub enum Reply {
    /// The answer.
    Now(Body),
    /// The answer comes through the responder that was taken from the call's context.
    Later,
    /// No answer.
    Error(Status),
}

/// A plain HTTP request with its whole body.
pub type HttpRequest = http::Request<Bytes>;

/// Why a plain HTTP response broke off.
pub type HttpBodyError = Box<dyn std::error::Error + Send + Sync>;

/// A plain HTTP response.
pub type HttpResponse = http::Response<UnsyncBoxBody<Bytes, HttpBodyError>>;

/// A plain HTTP response to come.
pub type HttpReply = Pin<Box<dyn Future<Output = HttpResponse> + Send>>;

/// How a call ended, for whoever counts and times.
pub struct Ended<'a> {
    /// The method.
    pub method: MethodId,
    /// The code that the client is told, or would have been told had it stayed.
    pub code: Code,
    /// When the round began that the call came in.
    pub began: Instant,
    /// When the round began that it ended in. Rounds are short: work is done in other threads.
    pub now: Instant,
    /// A unary call's message.
    pub request: Option<&'a Bytes>,
    /// A unary call's answer.
    pub answer: Option<&'a Body>,
    /// Whether the answer came later, or would have.
    pub deferred: bool,
    /// Who called.
    pub peer: &'a Peer,
}

/// What is served. All calls come on a connection's worker thread and must not block it.
pub trait Service: Send + Sync + 'static {
    /// Resolves a path (`/package.Service/Method`).
    fn method(&self, path: &str) -> Lookup;

    /// A call of a unary method. The message may share memory with much else that was received:
    /// what is kept of it for long is to be copied.
    fn call(&self, method: MethodId, message: Bytes, context: &CallContext) -> Reply;

    /// A stream begins. Its handler hears of everything that the client does from now on; `sink` is
    /// where its messages go.
    fn open_stream(
        &self,
        method: MethodId,
        context: &CallContext,
        sink: StreamSink,
    ) -> Result<Box<dyn StreamHandler>, Status>;

    /// All that could be read from a connection has been handed over: what was put together from
    /// it may go on its way.
    fn flush(&self, connection: &ConnectionInbox);

    /// A message has left for a stream's client (an answer of a unary call is told with its end).
    fn sent(&self, _method: MethodId, _bytes: usize) {}

    /// A call that reached [`Service::call`] or [`Service::open_stream`] has ended; told once a
    /// call.
    fn ended(&self, _ended: &Ended<'_>) {}

    /// A request that is not gRPC.
    fn http(&self, request: HttpRequest) -> HttpReply;
}

/// The receiving side of a stream. It is dropped when the stream has ended.
pub trait StreamHandler: Send {
    /// A message came. An error ends the stream.
    fn on_message(&mut self, message: Bytes) -> Result<(), Status>;
    /// The client will send no more. The stream goes on until its sink is closed.
    fn on_half_close(&mut self);
    /// The client cancelled or went away, or the deadline passed. Nothing follows.
    fn on_cancel(&mut self);
    /// The sink, which was full, takes messages again.
    fn on_writable(&mut self);
}
