//! Connections that do not begin as HTTP/2: HTTP/1, for health checks, metrics and the JSON gateway.

use super::connection::Serving;
use super::inbox::{Inbox, Message};
use super::io::{Duplex, Rewound};
use super::service::{HttpResponse, Service};
use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long a client may take for a request's headers: etcd's ReadHeaderTimeout.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Serves a connection to its end.
pub(super) async fn serve<T: Duplex>(socket: T, early: BytesMut, serving: Serving) {
    let Serving {
        service,
        limits,
        inbox,
        peer,
    } = serving;
    let handler = service_fn(|mut request: http::Request<Incoming>| {
        let service = service.clone();
        request.extensions_mut().insert(peer.clone());
        let most = limits.http_body_bytes_max;
        async move { Ok::<_, Infallible>(answer(service, request, most).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(Rewound::new(early, socket)), handler)
    );
    let mut messages = Vec::new();
    poll_fn(|cx| {
        inbox.running(cx.waker(), || {});
        inbox.take(&mut messages);
        for message in messages.drain(..) {
            match message {
                Message::Drain => connection.as_mut().graceful_shutdown(),
                Message::Abort => return Poll::Ready(()),
                // These go to gRPC streams, of which there are none here.
                Message::Answer(..) | Message::Send(..) | Message::Close(..) => {}
            }
        }
        // Its errors are the client's going away, or its speaking another language.
        connection.as_mut().poll(cx).map(drop)
    })
    .await;
    Inbox::close(&inbox);
}

async fn answer(
    service: Arc<dyn Service>,
    request: http::Request<Incoming>,
    most: usize,
) -> HttpResponse {
    let (parts, body) = request.into_parts();
    match Limited::new(body, most).collect().await {
        Ok(body) => {
            service
                .http(http::Request::from_parts(parts, body.to_bytes()))
                .await
        }
        Err(error) if error.is::<LengthLimitError>() => empty(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => empty(StatusCode::BAD_REQUEST),
    }
}

fn empty(status: StatusCode) -> HttpResponse {
    let body = Full::new(Bytes::new()).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}
