//! The peer port: raft's paths, and the rest for whoever answers it.
//!
//! Invariants:
//! - A connection that asks for nothing is closed after [`READ_TIMEOUT`], as is one whose request
//!   stops arriving; there are at most [`CONNECTIONS_MAX`].
//! - Requests that are still arriving hold at most [`HELD_BYTES_MAX`] together.
//!
//! Source: `http.go` of etcd's rafthttp, `embed/etcd.go`.

use super::codec::{MESSAGE_BYTES_MAX, StreamKind, check_sequence};
use super::dial::{Socket, WriteTimed, prepare};
use super::hub::Hub;
use super::identity::{
    CLUSTER_ID, QUORATE_VERSION, RAFT_TO, SERVER_VERSION, hex, sender, sender_urls, text,
};
use super::metrics::NETWORK;
use super::stream_reader::READ_TIMEOUT;
use super::stream_writer::StreamBody;
use super::{client::chain, probe, snapshot_receiver};
use crate::logging::time_before;
use crate::transport::{HttpBodyError, Listener, Peer as Client, PeerAddress};
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use quorate_node::ETCD_VERSION;
use quorate_node::wal::raftpb::decode_message;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

/// Connections that are served at a time; others wait to be accepted.
pub(super) const CONNECTIONS_MAX: usize = 1024;

/// Bytes of requests that are still arriving.
const HELD_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// Bytes of a request that is not raft's.
const OTHER_BODY_BYTES_MAX: usize = 4 << 20;

/// A response's body.
pub(super) enum Answer {
    Whole(Full<Bytes>),
    Stream(StreamBody),
    Other(UnsyncBoxBody<Bytes, HttpBodyError>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = HttpBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpBodyError>>> {
        let never = |never: Infallible| -> HttpBodyError { match never {} };
        match self.get_mut() {
            Answer::Whole(body) => Pin::new(body).poll_frame(cx).map_err(never),
            Answer::Stream(body) => Pin::new(body).poll_frame(cx).map_err(never),
            Answer::Other(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Whole(body) => body.is_end_stream(),
            Answer::Stream(body) => body.is_end_stream(),
            Answer::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(body) => body.size_hint(),
            Answer::Stream(body) => body.size_hint(),
            Answer::Other(body) => body.size_hint(),
        }
    }
}

pub(super) type Reply = Response<Answer>;

/// What is answered instead of what was asked for.
pub(super) type Refused = Box<Reply>;

fn whole(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut response = Response::new(Answer::Whole(Full::new(body.into())));
    *response.status_mut() = status;
    response
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    whole(status, Bytes::new())
}

/// An error as a line of text.
pub(super) fn error(status: StatusCode, line: &str) -> Reply {
    let mut response = whole(status, format!("{line}\n"));
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// An error as the JSON that etcd's member gives.
pub(super) fn forbidden(why: &str) -> Reply {
    let body = serde_json::json!({ "message": why }).to_string();
    let mut response = whole(StatusCode::FORBIDDEN, body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// Accepts connections for as long as the task runs.
pub(super) async fn listen(hub: Rc<Hub>, listener: Listener) {
    enum Accepting {
        Tcp(TcpListener),
        Unix(UnixListener),
    }
    let accepting = match listener {
        Listener::Tcp(listener) => TcpListener::from_std(listener).map(Accepting::Tcp),
        Listener::Unix(listener) => UnixListener::from_std(listener).map(Accepting::Unix),
    };
    let accepting = accepting.expect("a nonblocking listener can be registered with the runtime");
    let accept = || async {
        Ok::<_, io::Error>(match &accepting {
            Accepting::Tcp(listener) => {
                let (socket, address) = listener.accept().await?;
                prepare(&socket)?;
                (Socket::Tcp(socket), PeerAddress::Tcp(address))
            }
            Accepting::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                (Socket::Unix(socket), PeerAddress::Unix)
            }
        })
    };
    let mut pause = Duration::ZERO;
    loop {
        let permit = hub.connections.clone().acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        match accept().await {
            Ok((socket, address)) => {
                pause = Duration::ZERO;
                spawn_local(serve(hub.clone(), socket, address, permit));
            }
            Err(_) => {
                // Out of descriptors, most likely, or a client that is gone. The pause is net/http's.
                pause = (pause * 2).clamp(Duration::from_millis(5), Duration::from_secs(1));
                sleep(pause).await;
            }
        }
    }
}

async fn serve(hub: Rc<Hub>, socket: Socket, address: PeerAddress, _permit: OwnedSemaphorePermit) {
    let client = Arc::new(Client { address, tls: None });
    let service = service_fn(|mut request: Request<Incoming>| {
        let hub = hub.clone();
        request.extensions_mut().insert(client.clone());
        async move { Ok::<_, Infallible>(answer(hub, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(WriteTimed::new(socket)), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(
            "remote-address" = client.address.to_string(),
            "error" = chain(&error),
            "a connection to the peer port ended"
        );
    }
}

async fn answer(hub: Rc<Hub>, request: Request<Incoming>) -> Reply {
    let path = request.uri().path();
    match path {
        "/raft" => with_cluster_id(&hub, pipeline(&hub, request).await),
        "/raft/snapshot" => with_cluster_id(&hub, snapshot_receiver::answer(&hub, request).await),
        probe::PATH => probing(),
        _ if path.starts_with("/raft/stream/") => {
            let mut response = with_cluster_id(&hub, stream(&hub, &request));
            let version = HeaderValue::from_static(ETCD_VERSION);
            response.headers_mut().insert(SERVER_VERSION, version);
            let own = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
            response.headers_mut().insert(QUORATE_VERSION, own);
            response
        }
        _ if path.starts_with("/raft/") => error(StatusCode::NOT_FOUND, "404 page not found"),
        _ => other(&hub, request).await,
    }
}

fn with_cluster_id(hub: &Hub, mut response: Reply) -> Reply {
    let id = HeaderValue::from_str(&hub.local.identity.cluster);
    let id = id.expect("hexadecimal digits make a header");
    response.headers_mut().insert(CLUSTER_ID, id);
    response
}

/// Refuses all methods but one.
pub(super) fn require(method: &Method, only: &'static str) -> Result<(), Refused> {
    if method.as_str() == only {
        return Ok(());
    }
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(only));
    Err(response.into())
}

/// Refuses members that are not of this cluster, and notes where others can be answered.
pub(super) fn admit(hub: &Hub, request: &Request<Incoming>) -> Result<(), Refused> {
    check(hub, request)?;
    if let Some((id, urls)) = sender(request.headers()) {
        hub.add_remote(id, &urls);
    }
    Ok(())
}

fn check(hub: &Hub, request: &Request<Incoming>) -> Result<(), Refused> {
    let checked = hub.local.identity.check(request.headers());
    checked.map_err(|why| error(StatusCode::PRECONDITION_FAILED, &why.to_string()).into())
}

fn probing() -> Reply {
    let now = time_before(Duration::ZERO);
    whole(
        StatusCode::OK,
        format!("{{\"OK\":true,\"Now\":\"{now}\"}}\n"),
    )
}

/// Why a request's body did not come whole.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("i/o timeout")]
    Timeout,
    #[error("{0}")]
    Broken(String),
    #[error("rafthttp: error limit exceeded")]
    TooLong,
    #[error("requests from other members hold too much memory")]
    Overloaded,
}

/// The next piece of a body; `None` at its end.
pub(super) async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    loop {
        let frame = timeout(READ_TIMEOUT, body.frame()).await;
        return match frame.map_err(|_| BodyError::Timeout)? {
            None => Ok(None),
            Some(Err(error)) => Err(BodyError::Broken(chain(&error))),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(piece) => Ok(Some(piece)),
                // Trailers.
                Err(_) => continue,
            },
        };
    }
}

/// Memory that a request holds while it arrives.
struct Held<'a> {
    hub: &'a Hub,
    bytes: usize,
}

impl Held<'_> {
    fn grow(&mut self, bytes: usize) -> Result<(), BodyError> {
        let held = self.hub.held_bytes.get() + bytes;
        if held > HELD_BYTES_MAX {
            return Err(BodyError::Overloaded);
        }
        self.hub.held_bytes.set(held);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let held = &self.hub.held_bytes;
        held.set(held.get() - self.bytes);
    }
}

async fn read_whole(hub: &Hub, body: &mut Incoming, most: usize) -> Result<Bytes, BodyError> {
    let mut held = Held { hub, bytes: 0 };
    let mut whole = Vec::new();
    while let Some(piece) = next_piece(body).await? {
        if whole.len() + piece.len() > most {
            return Err(BodyError::TooLong);
        }
        held.grow(piece.len())?;
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

/// A message that found no stream.
async fn pipeline(hub: &Rc<Hub>, mut request: Request<Incoming>) -> Reply {
    if let Err(refused) = require(request.method(), "POST").and_then(|()| admit(hub, &request)) {
        return *refused;
    }
    let member = hub.local.identity.member.as_str();
    let body = match read_whole(hub, request.body_mut(), MESSAGE_BYTES_MAX).await {
        Ok(body) => body,
        Err(why) => {
            tracing::warn!(
                "local-member-id" = member,
                "error" = why.to_string(),
                "failed to read Raft message"
            );
            NETWORK.unknown_failures.inc();
            return error(StatusCode::BAD_REQUEST, "error reading raft message");
        }
    };
    let decoded = decode_message(&body).map_err(|error| error.to_string());
    let checked = decoded.and_then(|message| match check_sequence(&message) {
        Ok(()) => Ok(message),
        Err(error) => Err(error.to_string()),
    });
    let message = match checked {
        Ok(message) => message,
        Err(why) => {
            tracing::warn!(
                "local-member-id" = member,
                "error" = why,
                "failed to unmarshal Raft message"
            );
            NETWORK.unknown_failures.inc();
            return error(StatusCode::BAD_REQUEST, "error unmarshalling raft message");
        }
    };
    if let Err(why) = hub.local.vet(&message) {
        return forbidden(&why.to_string());
    }
    let from = message.from;
    let link = hub.local.link(from);
    link.received_bytes.add(body.len() as u64);
    if hub.local.receive(from, &link, vec![message], true) {
        empty(StatusCode::NO_CONTENT)
    } else {
        let busy = StatusCode::INTERNAL_SERVER_ERROR;
        error(busy, "error processing raft message")
    }
}

/// A peer asks for a stream to read.
fn stream(hub: &Hub, request: &Request<Incoming>) -> Reply {
    match open_stream(hub, request) {
        Ok(body) => Response::new(Answer::Stream(body)),
        Err(refused) => *refused,
    }
}

fn open_stream(hub: &Hub, request: &Request<Incoming>) -> Result<StreamBody, Refused> {
    require(request.method(), "GET")?;
    check(hub, request)?;
    let local = &hub.local;
    let member = local.identity.member.as_str();
    let not_found = |why| Box::new(error(StatusCode::NOT_FOUND, why));
    let (path, from) = (request.uri().path().rsplit_once('/')).unwrap_or_default();
    let kind = StreamKind::ALL.into_iter().find(|kind| kind.path() == path);
    let Some(kind) = kind else {
        tracing::debug!(
            "local-member-id" = member,
            "path" = path,
            "ignored unexpected streaming request path"
        );
        return Err(not_found("invalid path"));
    };
    let Ok(from) = u64::from_str_radix(from, 16) else {
        tracing::warn!(
            "local-member-id" = member,
            "path" = from,
            "failed to parse path into ID"
        );
        return Err(not_found("invalid from"));
    };
    if local.host.is_removed(from) {
        tracing::warn!(
            "local-member-id" = member,
            "remote-peer-id-from" = hex(from),
            "rejected stream from remote peer because it was removed"
        );
        return Err(error(StatusCode::GONE, "removed member").into());
    }
    let peers = hub.peers.borrow();
    let Some(peer) = peers.get(&from) else {
        // A member that joined after what this one has applied, most likely.
        if let Some(urls) = sender_urls(request.headers()) {
            hub.add_remote(from, &urls);
        }
        tracing::warn!(
            "local-member-id" = member,
            "remote-peer-id-from" = hex(from),
            "cluster-id" = local.identity.cluster.as_str(),
            "failed to find remote peer in cluster"
        );
        return Err(not_found("error sender not found"));
    };
    let to = text(request.headers(), &RAFT_TO);
    if to != member {
        tracing::warn!(
            "local-member-id" = member,
            "remote-peer-id-header" = to,
            "remote-peer-id-from" = hex(from),
            "cluster-id" = local.identity.cluster.as_str(),
            "ignored streaming request; ID mismatch"
        );
        let mismatch = StatusCode::PRECONDITION_FAILED;
        return Err(error(mismatch, "to field mismatch").into());
    }
    Ok(peer.writer(kind).attach())
}

/// What is not raft's.
async fn other(hub: &Hub, mut request: Request<Incoming>) -> Reply {
    let body = match read_whole(hub, request.body_mut(), OTHER_BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(BodyError::TooLong) => return empty(StatusCode::PAYLOAD_TOO_LARGE),
        Err(BodyError::Overloaded) => return empty(StatusCode::SERVICE_UNAVAILABLE),
        Err(BodyError::Timeout | BodyError::Broken(_)) => return empty(StatusCode::BAD_REQUEST),
    };
    let request = request.map(|_| body);
    hub.fallback.http(request).await.map(Answer::Other)
}
