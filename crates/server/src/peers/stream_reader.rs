//! Streams that this member reads: it dials, and dials again when they end.
//!
//! Source: `stream.go` of etcd's rafthttp.

use super::client::chain;
use super::codec::{CodecError, Decoder, Item, StreamKind};
use super::dial::{Connection, DialError};
use super::host::Failure;
use super::identity::{
    CLUSTER_ID, Incompatible, QUORATE_VERSION, RAFT_TO, hex, serves_streams, text,
};
use super::picker::Picker;
use super::status::Status;
use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use quorate_failpoints::fail_point;
use quorate_node::wal::raftpb::message_len;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// etcd's ConnReadTimeout. A stream with nothing to say has a heartbeat three times in this.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of an error's text that are read.
pub(super) const ERROR_BYTES_MAX: usize = 64 << 10;

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("no peer URL to dial")]
    NoUrl,
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{0}")]
    Http(String),
    #[error("i/o timeout")]
    Timeout,
    #[error("unsupported stream type")]
    Unsupported,
    #[error(transparent)]
    Removed(#[from] Failure),
    #[error("peer {peer} failed to find local node {local}")]
    Unknown { peer: String, local: String },
    #[error(transparent)]
    Incompatible(#[from] Incompatible),
    #[error("unhandled error {0:?} when precondition failed")]
    Precondition(String),
    #[error("unhandled http status {0}")]
    Status(u16),
}

/// How a stream ended.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("EOF")]
    Ended,
    #[error("{0}")]
    Broken(String),
    #[error("i/o timeout")]
    Timeout,
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Reads one kind of stream from one peer, for as long as the task runs.
pub(super) struct StreamReader {
    kind: StreamKind,
    status: Rc<Status>,
    picker: Rc<Picker>,
}

struct OpenStream {
    body: Incoming,
    _kin: Option<Kin>,
    _connection: Connection<Empty<Bytes>>,
}

/// While it is there, the peer is known to be quorate.
struct Kin(Rc<Status>);

impl Kin {
    fn found(status: &Rc<Status>) -> Kin {
        status.local.host.is_kin(status.id, true);
        Kin(status.clone())
    }
}

impl Drop for Kin {
    fn drop(&mut self) {
        self.0.local.host.is_kin(self.0.id, false);
    }
}

impl StreamReader {
    pub fn new(kind: StreamKind, status: Rc<Status>, picker: Rc<Picker>) -> StreamReader {
        StreamReader {
            kind,
            status,
            picker,
        }
    }

    pub async fn run(self) {
        let (local, remote) = (self.local().to_owned(), hex(self.status.id));
        let name = self.kind.name();
        tracing::info!(
            "stream-reader-type" = name,
            "local-member-id" = local,
            "remote-peer-id" = remote,
            "started stream reader with remote peer"
        );
        loop {
            let began = Instant::now();
            match self.open().await {
                Err(OpenError::Unsupported) => {}
                Err(error) => self.status.deactivate(name, "dial", &error.to_string()),
                Ok(stream) => {
                    self.status.activate();
                    tracing::info!(
                        "stream-reader-type" = name,
                        "local-member-id" = local,
                        "remote-peer-id" = remote,
                        "established TCP streaming connection with remote peer"
                    );
                    let error = self.read(stream).await;
                    tracing::warn!(
                        "stream-reader-type" = name,
                        "local-member-id" = local,
                        "remote-peer-id" = remote,
                        "error" = error.to_string(),
                        "lost TCP streaming connection with remote peer"
                    );
                    // The end that the peer meant is no failure of the peer's.
                    if !matches!(error, ReadError::Ended) {
                        self.status.deactivate(name, "read", &error.to_string());
                    }
                }
            }
            sleep_until(began + RETRY_INTERVAL).await;
        }
    }

    fn local(&self) -> &str {
        &self.status.local.identity.member
    }

    async fn open(&self) -> Result<OpenStream, OpenError> {
        let url = self.picker.pick().ok_or(OpenError::NoUrl)?;
        let opening = async {
            let local = &self.status.local;
            let mut request = Request::get(format!("{}/{}", self.kind.path(), self.local()))
                .header(HOST, &url.authority)
                .body(Empty::new())
                .map_err(|error| OpenError::Http(error.to_string()))?;
            let headers = request.headers_mut();
            local.identity.present(headers);
            let to = HeaderValue::from_str(&hex(self.status.id));
            headers.insert(RAFT_TO, to.expect("hexadecimal digits make a header"));
            let mut connection = Connection::open(&url, local.settings.dial_timeout).await?;
            let response = match timeout(READ_TIMEOUT, connection.send(request)).await {
                Ok(sent) => sent.map_err(|error| OpenError::Http(chain(&error)))?,
                Err(_) => return Err(OpenError::Timeout),
            };
            // Of the two streams, the one that is always there.
            let kin = self.kind == StreamKind::Message
                && response.headers().contains_key(&QUORATE_VERSION);
            let body = self.judge(response).await?;
            Ok(OpenStream {
                body,
                _kin: kin.then(|| Kin::found(&self.status)),
                _connection: connection,
            })
        };
        let outcome = opening.await;
        if outcome.is_err() {
            self.picker.unreachable(&url);
        }
        outcome
    }

    async fn judge(&self, response: Response<Incoming>) -> Result<Incoming, OpenError> {
        if !serves_streams(response.headers()) {
            return Err(OpenError::Unsupported);
        }
        let (parts, body) = response.into_parts();
        match parts.status {
            StatusCode::OK => Ok(body),
            StatusCode::GONE => {
                self.status.local.host.failed(Failure::Removed);
                Err(Failure::Removed.into())
            }
            StatusCode::NOT_FOUND => Err(OpenError::Unknown {
                peer: hex(self.status.id),
                local: self.local().to_owned(),
            }),
            StatusCode::PRECONDITION_FAILED => {
                let remote_cluster = text(&parts.headers, &CLUSTER_ID);
                Err(self.precondition(error_text(body).await, remote_cluster))
            }
            other => Err(OpenError::Status(other.as_u16())),
        }
    }

    fn precondition(&self, why: String, remote_cluster: &str) -> OpenError {
        let remote = hex(self.status.id);
        match incompatible(&why) {
            Some(Incompatible::Version) => {
                tracing::warn!(
                    "local-member-id" = self.local(),
                    "remote-peer-id" = remote,
                    "error" = why,
                    "request sent was ignored by remote peer due to server version incompatibility"
                );
                Incompatible::Version.into()
            }
            Some(Incompatible::Cluster) => {
                tracing::warn!(
                    "remote-peer-id" = remote,
                    "remote-peer-cluster-id" = remote_cluster,
                    "local-member-id" = self.local(),
                    "local-member-cluster-id" = self.status.local.identity.cluster.as_str(),
                    "error" = why,
                    "request sent was ignored by remote peer due to cluster ID mismatch"
                );
                Incompatible::Cluster.into()
            }
            None => OpenError::Precondition(why),
        }
    }

    async fn read(&self, mut stream: OpenStream) -> ReadError {
        let status = &self.status;
        let mut decoder = Decoder::new(self.kind, status.local.id(), status.id);
        loop {
            let piece = match timeout(READ_TIMEOUT, stream.body.frame()).await {
                Err(_) => return ReadError::Timeout,
                Ok(None) => return ReadError::Ended,
                Ok(Some(Err(error))) => return ReadError::Broken(chain(&error)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) => piece,
                    // Trailers.
                    Err(_) => continue,
                },
            };
            let (mut messages, mut bytes) = (Vec::new(), 0);
            let fed = decoder.feed(&piece, |item| {
                if let Item::Message(message) = item {
                    bytes += message_len(&message) as u64;
                    messages.push(message);
                }
            });
            fail_point!("raftDropHeartbeat", _ => continue);
            status.link.received_bytes.add(bytes);
            if !messages.is_empty() {
                let active = status.is_active();
                // What was lost is told.
                status
                    .local
                    .receive(status.id, &status.link, messages, active);
            }
            if let Err(error) = fed {
                return error.into();
            }
        }
    }
}

/// The text of an error response, without the line's end; empty if it does not come.
pub(super) async fn error_text(body: Incoming) -> String {
    let whole = Limited::new(body, ERROR_BYTES_MAX).collect();
    match timeout(READ_TIMEOUT, whole).await {
        Ok(Ok(body)) => {
            let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
        }
        Ok(Err(_)) | Err(_) => String::new(),
    }
}

/// What a peer refused a request for, by the text it gave.
pub(super) fn incompatible(text: &str) -> Option<Incompatible> {
    let all = [Incompatible::Version, Incompatible::Cluster];
    all.into_iter().find(|known| known.to_string() == text)
}
