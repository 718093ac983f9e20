//! What a member serves to plain HTTP beside its rpcs: `/metrics`, `/health`, `/readyz`, `/version`.
//!
//! A page has a connection of its own, of HTTP/1.1, since not every member speaks HTTP/2 but to rpcs.

use crate::connection::Dialer;
use crate::error::chain;
use crate::{Client, Error, Result};
use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

/// HTTP/1.1, as a TLS handshake names it.
const HTTP1: &[u8] = b"http/1.1";

/// Longest page that is taken, in bytes; members' metrics have some hundred thousand.
const PAGE_BYTES_MAX: usize = 16 << 20;

impl Client {
    /// The page at `path` (`/metrics`) of the member behind an endpoint, which need not be one of this
    /// client's: its HTTP status and its body. It is asked for once, within the client's time limit
    /// and with its TLS files.
    pub async fn page(&self, endpoint: &str, path: &str) -> Result<(StatusCode, Bytes)> {
        let dialer = self.dialer(endpoint)?;
        let fetched = fetch(&dialer, path);
        let answer = match self.time_limit() {
            Some(limit) => timeout(limit, fetched)
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {limit:?}"))),
            None => fetched.await,
        };
        answer.map_err(|reason| Error::Page {
            url: format!(
                "{}{path}",
                dialer.origin().to_string().trim_end_matches('/')
            ),
            reason,
        })
    }
}

async fn fetch(dialer: &Dialer, path: &str) -> std::result::Result<(StatusCode, Bytes), String> {
    let limit = dialer.limit();
    let stream = match timeout(limit, dialer.open(HTTP1)).await {
        Ok(opened) => opened?,
        Err(_) => return Err(format!("no connection within {limit:?}")),
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| chain(&error))?;
    let host = dialer.origin().authority().map_or("", |host| host.as_str());
    let request = Request::get(path)
        .header(HOST, host)
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let page = async {
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| chain(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), PAGE_BYTES_MAX);
        let whole = body.collect().await.map_err(|error| chain(&*error))?;
        Ok((status, whole.to_bytes()))
    };
    tokio::pin!(page, connection);
    tokio::select! {
        page = &mut page => page,
        // It ends first where the server closes with the answer; the page then knows how.
        _ = &mut connection => page.await,
    }
}
