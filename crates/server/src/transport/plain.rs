//! A request over HTTP/2 that is not gRPC.

use super::body::Piece;
use super::limits::Limits;
use super::service::{HttpBodyError, HttpReply, Service};
use super::stream::Progress;
use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Response, StatusCode, request};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use std::pin::Pin;
use std::task::{Context, Poll};

enum State {
    /// The request's body comes in.
    Collecting(Option<request::Parts>, BytesMut),
    /// The service works on it.
    Waiting(HttpReply),
    /// The response's body goes out: a part of it waits for flow control.
    Sending(
        SendStream<Piece>,
        UnsyncBoxBody<Bytes, HttpBodyError>,
        Bytes,
    ),
}

pub(super) struct PlainRequest {
    respond: SendResponse<Piece>,
    recv: RecvStream,
    state: State,
}

impl PlainRequest {
    pub fn open(
        parts: request::Parts,
        recv: RecvStream,
        respond: SendResponse<Piece>,
    ) -> PlainRequest {
        PlainRequest {
            respond,
            recv,
            state: State::Collecting(Some(parts), BytesMut::new()),
        }
    }

    /// Does all that can be done now.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        service: &dyn Service,
        limits: &Limits,
    ) -> Progress {
        loop {
            match &mut self.state {
                State::Collecting(parts, body) => match self.recv.poll_data(cx) {
                    Poll::Pending => return Progress::Open,
                    Poll::Ready(Some(Ok(payload))) => {
                        if body.len() + payload.len() > limits.http_body_bytes_max {
                            return self.refuse(StatusCode::PAYLOAD_TOO_LARGE);
                        }
                        let window = payload.len();
                        body.extend_from_slice(&payload);
                        if self.recv.flow_control().release_capacity(window).is_err() {
                            return Progress::Ended;
                        }
                    }
                    Poll::Ready(Some(Err(_))) => return Progress::Ended,
                    Poll::Ready(None) => {
                        let parts = parts.take().expect("a request is handed over once");
                        let request =
                            http::Request::from_parts(parts, std::mem::take(body).freeze());
                        self.state = State::Waiting(service.http(request));
                    }
                },
                State::Waiting(reply) => {
                    if self.respond.poll_reset(cx).is_ready() {
                        return Progress::Ended;
                    }
                    let Poll::Ready(response) = reply.as_mut().poll(cx) else {
                        return Progress::Open;
                    };
                    let (mut parts, body) = response.into_parts();
                    // HTTP/2 has no words for these.
                    for name in ["connection", "transfer-encoding", "keep-alive", "upgrade"] {
                        parts.headers.remove(name);
                    }
                    let ended = body.is_end_stream();
                    match self
                        .respond
                        .send_response(Response::from_parts(parts, ()), ended)
                    {
                        Ok(send) if !ended => self.state = State::Sending(send, body, Bytes::new()),
                        _ => return Progress::Ended,
                    }
                }
                State::Sending(send, body, pending) => {
                    if pending.is_empty() {
                        match Pin::new(body).poll_frame(cx) {
                            Poll::Pending => {
                                return if send.poll_reset(cx).is_ready() {
                                    Progress::Ended
                                } else {
                                    Progress::Open
                                };
                            }
                            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                                Ok(data) => *pending = data,
                                Err(frame) => {
                                    let trailers = frame.into_trailers().unwrap_or_default();
                                    drop(send.send_trailers(trailers));
                                    return Progress::Ended;
                                }
                            },
                            Poll::Ready(Some(Err(_))) => {
                                send.send_reset(Reason::INTERNAL_ERROR);
                                return Progress::Ended;
                            }
                            Poll::Ready(None) => {
                                drop(send.send_data(Piece::default(), true));
                                return Progress::Ended;
                            }
                        }
                        continue;
                    }
                    send.reserve_capacity(pending.len().min(64 << 10));
                    let capacity = send.capacity();
                    if capacity == 0 {
                        match send.poll_capacity(cx) {
                            Poll::Ready(Some(Ok(_))) => continue,
                            Poll::Pending => return Progress::Open,
                            Poll::Ready(None | Some(Err(_))) => return Progress::Ended,
                        }
                    }
                    let part = pending.split_to(capacity.min(pending.len()));
                    if send.send_data(Piece::plain(part), false).is_err() {
                        return Progress::Ended;
                    }
                }
            }
        }
    }

    fn refuse(&mut self, status: StatusCode) -> Progress {
        let mut response = Response::new(());
        *response.status_mut() = status;
        drop(self.respond.send_response(response, true));
        Progress::Ended
    }
}
