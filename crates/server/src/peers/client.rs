//! Plain requests to other members: one connection a request, the whole response in memory, both
//! bounded.

use super::address::{AddressError, PeerUrl};
use super::dial::{Connection, DialError};
use super::transport::Shared;
use bytes::Bytes;
use http::header::{HOST, HeaderMap};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::timeout;

/// Bytes of a response that are taken unless the request says otherwise.
pub const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// A request to a member.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where the member may be reached. They are tried in order until one answers.
    pub urls: Vec<String>,
    /// GET, POST, ...
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Headers besides Host and Content-Length.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// For each URL, from dialling to the end of the response.
    pub timeout: Duration,
    /// Longer responses are an error.
    pub response_bytes_max: usize,
}

impl Request {
    /// A GET.
    pub fn get(urls: Vec<String>, path: impl Into<String>, timeout: Duration) -> Request {
        Request {
            urls,
            method: Method::GET,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout,
            response_bytes_max: RESPONSE_BYTES_MAX,
        }
    }
}

/// What a member answered.
#[derive(Clone, Debug)]
pub struct Response {
    /// The URL that answered.
    pub url: String,
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no answer. With several URLs: why the last one gave none.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody was named.
    #[error("no peer URL to ask")]
    NoUrl,
    /// The URL leads nowhere.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Path or header cannot be sent.
    #[error("bad request: {0}")]
    Request(#[from] http::Error),
    /// No connection.
    #[error("{0}")]
    Dial(String),
    /// The connection broke, or what came was no HTTP.
    #[error("{url}: {what}")]
    Broken {
        /// Who was asked.
        url: String,
        /// What happened.
        what: String,
    },
    /// No whole answer in time.
    #[error("{url}: no answer within {timeout:?}")]
    Timeout {
        /// Who was asked.
        url: String,
        /// The time it had.
        timeout: Duration,
    },
    /// The answer is too long.
    #[error("{url}: the answer is longer than {limit} bytes")]
    TooLong {
        /// Who was asked.
        url: String,
        /// Bytes that were allowed.
        limit: usize,
    },
    /// Too many requests wait for answers.
    #[error("too many requests to peers are under way")]
    Busy,
    /// The transport has ended.
    #[error("etcdserver: server stopped")]
    Stopped,
    /// The system gives no runtime.
    #[error("start a runtime: {0}")]
    Runtime(io::Error),
}

/// Asks members, on the transport's thread. Cheap to clone; usable from any thread and runtime.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

impl Client {
    pub(super) fn new(shared: Arc<Shared>) -> Client {
        Client { shared }
    }

    /// Asks; gives what came of it, whatever the status. Dropping the future drops the request.
    pub fn request(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Response, ClientError>> + Send + 'static {
        let answer = self.shared.ask(request);
        async move { answer?.await.unwrap_or(Err(ClientError::Stopped)) }
    }
}

/// Asks, and waits, before there is a transport. Not from within a runtime.
pub fn request_blocking(request: Request) -> Result<Response, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ClientError::Runtime)?;
    let outcome = LocalSet::new().block_on(&runtime, fetch(request));
    // A name that is being looked up must not hold this up.
    runtime.shutdown_background();
    outcome
}

/// Where an answer goes.
pub(super) type Answer = oneshot::Sender<Result<Response, ClientError>>;

/// Asks on this thread's runtime; gives up when nobody waits any more.
pub(super) async fn fetch_for(request: Request, mut answer: Answer) {
    let outcome = tokio::select! {
        outcome = fetch(request) => outcome,
        () = answer.closed() => return,
    };
    // Whoever asked may have gone meanwhile.
    let _unheard = answer.send(outcome);
}

pub(super) async fn fetch(request: Request) -> Result<Response, ClientError> {
    let mut outcome = Err(ClientError::NoUrl);
    for url in &request.urls {
        outcome = match PeerUrl::parse(url) {
            Err(error) => Err(error.into()),
            Ok(url) => match timeout(request.timeout, fetch_one(&request, &url)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(ClientError::Timeout {
                    url: url.url,
                    timeout: request.timeout,
                }),
            },
        };
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

async fn fetch_one(request: &Request, url: &PeerUrl) -> Result<Response, ClientError> {
    let broken = |what: String| ClientError::Broken {
        url: url.url.clone(),
        what,
    };
    let mut message = http::Request::builder()
        .method(&request.method)
        .uri(&request.path)
        .header(HOST, &url.authority)
        .body(Full::new(request.body.clone()))?;
    for (name, value) in &request.headers {
        message.headers_mut().append(name, value.clone());
    }
    let mut connection = Connection::open(url, request.timeout)
        .await
        .map_err(|error: DialError| ClientError::Dial(error.to_string()))?;
    let sent = connection.send(message).await;
    let (parts, body) = sent.map_err(|error| broken(chain(&error)))?.into_parts();
    let limit = request.response_bytes_max;
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(Response {
            url: url.url.clone(),
            status: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        }),
        Err(error) if error.is::<LengthLimitError>() => Err(ClientError::TooLong {
            url: url.url.clone(),
            limit,
        }),
        Err(error) => Err(broken(chain(error.as_ref()))),
    }
}

/// An error with what is behind it.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let behind = error.to_string();
        if !text.contains(&behind) {
            text.push_str(": ");
            text.push_str(&behind);
        }
        source = error.source();
    }
    text
}
