//! [`Exchange`] over the peer transport's client, and without a transport for what a member asks
//! before it has one.

use super::PeerApi;
use super::exchange::{ANSWER_BYTES_MAX, Answered, Exchange};
use crate::peers::Fallback;
use crate::peers::client::request_blocking;
use crate::peers::client::{Client, ClientError, Request as PeerRequest, Response as PeerResponse};
use crate::transport::{HttpReply, HttpRequest};
use bytes::Bytes;
use http::{Request, Response};
use std::sync::OnceLock;
use std::time::Duration;

fn outgoing(url: &str, request: Request<Bytes>, timeout: Duration) -> PeerRequest {
    let (parts, body) = request.into_parts();
    PeerRequest {
        urls: vec![url.to_owned()],
        method: parts.method,
        path: parts.uri.to_string(),
        headers: parts.headers,
        body,
        timeout,
        response_bytes_max: ANSWER_BYTES_MAX,
    }
}

fn incoming(answer: Result<PeerResponse, ClientError>) -> Result<Response<Bytes>, String> {
    let answer = answer.map_err(|error| error.to_string())?;
    let mut response = Response::new(answer.body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}

/// The transport's client, once there is a transport: that one is started with what answers on the
/// peer port, which needs the client to ask.
#[derive(Default)]
pub struct LateClient(OnceLock<Client>);

impl LateClient {
    /// There is a transport now.
    pub fn set(&self, client: Client) {
        let first = self.0.set(client).is_ok();
        assert!(first, "a member has one transport");
    }
}

impl Exchange for LateClient {
    fn send<'a>(
        &'a self,
        url: &'a str,
        request: Request<Bytes>,
        timeout: Duration,
    ) -> Answered<'a> {
        let Some(client) = self.0.get() else {
            return Box::pin(async { Err("the peer transport is not started yet".to_owned()) });
        };
        let answer = client.request(outgoing(url, request, timeout));
        Box::pin(async { incoming(answer.await) })
    }
}

/// Asks without a transport: each request has a thread of its own while it waits.
#[derive(Clone, Copy, Debug)]
pub struct BeforeTransport;

impl Exchange for BeforeTransport {
    fn send<'a>(
        &'a self,
        url: &'a str,
        request: Request<Bytes>,
        timeout: Duration,
    ) -> Answered<'a> {
        let request = outgoing(url, request, timeout);
        let asked = tokio::task::spawn_blocking(|| request_blocking(request));
        Box::pin(async {
            let answer = asked.await.map_err(|error| error.to_string())?;
            incoming(answer)
        })
    }
}

impl Fallback for PeerApi {
    fn http(&self, request: HttpRequest) -> HttpReply {
        self.serve(request)
    }
}
