//! The watch service: from the client's requests to the hub, and from the hub's messages to frames.

use super::sink::Sink;
use super::{Services, decode, header};
use crate::driver::{Handle, Question};
use crate::metrics::METRICS;
use crate::transport::{Body, Status, StreamHandler, WakeBatch};
use bytes::Bytes;
use prost::Message as _;
use prost::encoding::encode_varint;
use quorate_api::etcdserverpb::watch_request::RequestUnion;
use quorate_api::etcdserverpb::{ResponseHeader, WatchRequest, WatchResponse};
use quorate_failpoints::fail_point;
use quorate_node::store::watch::{Events, Message, NO_WATCH_ID, Outbox, Recipient, StreamId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

struct WatchStream {
    member: Handle,
    id: StreamId,
    sink: Sink,
}

impl Services {
    pub(super) fn open_watch(&self, sink: Sink) -> Result<Box<dyn StreamHandler>, Status> {
        let id = self.watch_streams.fetch_add(1, Ordering::Relaxed);
        let outbox = Box::new(WatchOutbox {
            sink: sink.clone(),
            member: self.member.clone(),
            max_bytes: self.limits.max_request_bytes + 512 * 1024,
        });
        self.member.ask(Box::new(move |member, _| {
            let now_ms = member.now_ms();
            member.hub().open(id, outbox, now_ms);
        }))?;
        Ok(Box::new(WatchStream {
            member: self.member.clone(),
            id,
            sink,
        }))
    }
}

impl StreamHandler for WatchStream {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        let request: WatchRequest = decode(message)?;
        let (id, sink) = (self.id, self.sink.clone());
        let question: Question = match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => Box::new(move |member, _| {
                let (hub, view) = member.hub_and_view();
                let view = view.clone();
                if let Err(error) = hub.create(id, &create, &view) {
                    tracing::error!("error" = %error, "a watcher could not be made");
                    sink.close(Status::new(
                        crate::transport::Code::DataLoss,
                        error.to_string(),
                    ));
                }
            }),
            Some(RequestUnion::CancelRequest(cancel)) => {
                let watch_id = cancel.watch_id;
                Box::new(move |member, _| member.hub().cancel(id, watch_id))
            }
            Some(RequestUnion::ProgressRequest(_)) => {
                Box::new(move |member, _| member.hub().request_progress(id))
            }
            // etcd notes it and goes on.
            None => {
                tracing::info!("invalid watch request type received in gRPC stream");
                return Ok(());
            }
        };
        Ok(self.member.ask(question)?)
    }

    /// Events go on coming: only the requests have ended.
    fn on_half_close(&mut self) {}

    fn on_cancel(&mut self) {}

    fn on_writable(&mut self) {
        // The loop looks at the stream again; that is all that is needed.
        // A mailbox too full to take it is about to be looked at anyway.
        let _looked_at = self.member.ask(Box::new(|_, _| {}));
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        let id = self.id;
        // Where there is no room, the hub notices by itself that the sink is closed.
        let _noticed = self
            .member
            .ask(Box::new(move |member, _| member.hub().close(id)));
    }
}

struct WatchOutbox {
    sink: Sink,
    member: Handle,
    /// Beyond it, a watcher that takes fragments gets them.
    max_bytes: usize,
}

impl Outbox for WatchOutbox {
    fn is_closed(&self) -> bool {
        self.sink.is_closed()
    }

    fn has_room(&self) -> bool {
        self.sink.writable() > 0
    }

    fn send(&self, message: Message) {
        if METRICS.is_extensive() {
            let (histogram, events) = match &message {
                Message::Events { .. } => (&METRICS.watch_events, true),
                Message::Progress { .. } => (&METRICS.watch_progress, false),
                _ => (&METRICS.watch_control, false),
            };
            let began = Instant::now();
            let count = self.send_message(message);
            let took = began.elapsed();
            histogram.observe(took);
            if events {
                METRICS.watch_per_event.observe(took / count.max(1));
            }
        } else {
            self.send_message(message);
        }
    }
}

impl WatchOutbox {
    /// Sends a message; how many watchers' events it had.
    fn send_message(&self, message: Message) -> u32 {
        fail_point!("beforeSendWatchResponse");
        let mut batch = WakeBatch::new();
        let member = &self.member;
        let head = |revision: i64| ResponseHeader {
            revision,
            ..header(member.cluster_id(), member.member_id(), member.term())
        };
        let control = match message {
            Message::Events {
                revision,
                to,
                events,
            } => {
                self.send_events(&head(revision), &to, &events, &mut batch);
                return u32::try_from(to.len()).unwrap_or(u32::MAX);
            }
            Message::Created { watch_id, revision } => WatchResponse {
                header: Some(head(revision)),
                watch_id,
                created: true,
                ..Default::default()
            },
            Message::Refused { reason, revision } => WatchResponse {
                header: Some(head(revision)),
                watch_id: NO_WATCH_ID,
                created: true,
                canceled: true,
                cancel_reason: reason,
                ..Default::default()
            },
            Message::Canceled { watch_id, revision } => WatchResponse {
                header: Some(head(revision)),
                watch_id,
                canceled: true,
                ..Default::default()
            },
            Message::Compacted {
                watch_id,
                compact_revision,
            } => WatchResponse {
                header: Some(head(0)),
                watch_id,
                canceled: true,
                compact_revision,
                ..Default::default()
            },
            Message::Progress { watch_id, revision } => WatchResponse {
                header: Some(head(revision)),
                watch_id,
                ..Default::default()
            },
        };
        self.sink
            .send_in(Body::Whole(control.encode_to_vec().into()), &mut batch);
        0
    }

    fn send_events(
        &self,
        header: &ResponseHeader,
        to: &[Recipient],
        events: &Arc<Events>,
        batch: &mut WakeBatch,
    ) {
        let mut head = Vec::with_capacity(48);
        super::kv::put_header(&mut head, header);
        let shared = (events.bytes().len() >= SHARED_BYTES).then(|| events.shared());
        for recipient in to {
            let watch_id = recipient.watch_id;
            if recipient.fragment && events.bytes().len() >= self.max_bytes {
                let pieces = events.pieces(self.max_bytes.saturating_sub(head.len() + 16));
                let last = pieces.len() - 1;
                for (i, piece) in pieces.into_iter().enumerate() {
                    let mut message = message_head(&head, watch_id, i < last, piece.len());
                    message.extend_from_slice(piece);
                    self.sink.send_in(Body::Whole(message.into()), batch);
                }
            } else if let Some(shared) = &shared {
                let message = message_head(&head, watch_id, false, 0);
                let parts = vec![message.into(), shared.clone()];
                self.sink.send_in(Body::Parts(parts), batch);
            } else {
                let mut message = message_head(&head, watch_id, false, events.bytes().len());
                message.extend_from_slice(events.bytes());
                self.sink.send_in(Body::Whole(message.into()), batch);
            }
        }
    }
}

/// Events of this many bytes are sent from where they are; fewer are copied behind their head.
const SHARED_BYTES: usize = 2 * 1024;

/// All of a WatchResponse but its events, with room for `more` bytes.
fn message_head(header: &[u8], watch_id: i64, fragment: bool, more: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(header.len() + more + 16);
    message.extend_from_slice(header);
    if watch_id != 0 {
        message.push(2 << 3);
        encode_varint(watch_id as u64, &mut message);
    }
    if fragment {
        message.extend_from_slice(&[7 << 3, 1]);
    }
    message
}
