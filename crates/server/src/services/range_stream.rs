//! RangeStream: a range in chunks, all at one revision.
//!
//! The first chunk is small, so that the client has something soon; the next ones double until they
//! are about as large as a request may be. Header, `more` and `count` come with the last. Chunks are
//! read as the client takes them, from a view that is held until the end.
//!
//! etcd takes a sort target without a sort order for the default order here, and then sorts all the
//! same. It sorts chunk by chunk, which is right for a first chunk that holds everything; here the
//! whole range is sorted.

use super::kv::{Reader, failure, put_header};
use super::sink::Sink;
use super::{Services, checks, decode, store_status};
use crate::transport::{Body, Code, Status, StreamHandler};
use bytes::{Buf, Bytes};
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};
use quorate_api::etcdserverpb::range_request::SortTarget;
use quorate_api::etcdserverpb::{RangeRequest, ResponseHeader};
use quorate_failpoints::fail_point;
use quorate_node::Reply as MemberReply;
use quorate_node::store::View;
use quorate_node::store::index::Root;
use quorate_node::store::range::{
    Keys, Kvs, count, has_filters, is_default_order, range, resolve_revision, stream_chunk,
};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Keys of the first chunk.
const FIRST_KEYS: u64 = 10;
/// Bytes of the chunks that follow.
const CHUNK_BYTES: usize = 512 * 1024;

/// Lets a pool thread wait until its stream takes more.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<(bool, bool)>,
    opened: Condvar,
}

impl Gate {
    /// The sink has room again.
    pub(super) fn open(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
        self.opened.notify_all();
    }

    /// The stream is gone.
    pub(super) fn cancel(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.opened.notify_all();
    }

    /// Waits until the sink has room; false where the stream is gone.
    pub(super) fn wait(&self, sink: &Sink) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.1 || sink.is_closed() {
                return false;
            }
            if sink.writable() > 0 {
                return true;
            }
            state.0 = false;
            state = self
                .opened
                .wait_while(state, |state| !state.0 && !state.1)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct RangeStream {
    reader: Reader,
    sink: Sink,
    gate: Arc<Gate>,
    begun: bool,
}

impl Services {
    pub(super) fn open_range_stream(&self, sink: Sink) -> Box<dyn StreamHandler> {
        let reader = self.reader();
        Box::new(RangeStream {
            reader,
            sink,
            gate: Arc::default(),
            begun: false,
        })
    }
}

impl StreamHandler for RangeStream {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        if std::mem::replace(&mut self.begun, true) {
            return Err(Status::new(
                Code::Internal,
                "a range stream takes one request",
            ));
        }
        let request: RangeRequest = decode(message)?;
        checks::range(&request)?;
        if !is_default_order(&request) {
            let what = "RangeStream does not support custom sort orders";
            return Err(Status::new(Code::Unimplemented, what));
        }
        if has_filters(&request) {
            let what = "RangeStream does not support revision filters";
            return Err(Status::new(Code::Unimplemented, what));
        }
        let (reader, sink, gate) = (self.reader.clone(), self.sink.clone(), self.gate.clone());
        let local = request.serializable || reader.member.reads_are_local();
        let member = reader.member.clone();
        let begin = move || {
            let refused = sink.clone();
            let member = reader.member.clone();
            let job = Box::new(move || {
                let status = send_all(&reader, &request, &sink, &gate).err();
                sink.close(status.unwrap_or_else(Status::ok));
            });
            if member.reads.run(job).is_err() {
                refused.close(quorate_api::Error::RequestTooManyRequests.into());
            }
        };
        if local {
            begin();
        } else {
            let sink = self.sink.clone();
            member.linearizable(Box::new(move |reply, _| match reply {
                MemberReply::Ready => begin(),
                other => sink.close(failure(other)),
            }));
        }
        Ok(())
    }

    fn on_half_close(&mut self) {}

    fn on_cancel(&mut self) {
        self.gate.cancel();
    }

    fn on_writable(&mut self) {
        self.gate.open();
    }
}

impl Drop for RangeStream {
    fn drop(&mut self) {
        self.gate.cancel();
    }
}

fn send_all(
    reader: &Reader,
    request: &RangeRequest,
    sink: &Sink,
    gate: &Gate,
) -> Result<(), Status> {
    let view: Arc<View> = reader.member.view();
    let at = resolve_revision(request.revision, view.revision, view.compact_revision)?;
    let header = reader.header(view.revision);
    let all = Keys::new(&request.key, &request.range_end);
    let kept = reader.member.kept_root(request.revision);
    let total = count(&view.root, &all, at, view.revision, kept.as_ref());
    if request.count_only {
        sink.send(message(Some(&header), &[], false, total));
        return Ok(());
    }
    if request.sort_target != SortTarget::Key as i32 {
        return send_sorted(&view, request, kept.as_ref(), &header, sink, gate);
    }
    let mut left = if request.limit > 0 {
        request.limit as u64
    } else {
        u64::MAX
    };
    let mut start = request.key.to_vec();
    let mut limit = FIRST_KEYS;
    loop {
        let keys = Keys::new(&start, &request.range_end);
        let most = limit.min(left);
        let chunk = stream_chunk(&view, &keys, request.keys_only, at, most, CHUNK_BYTES)
            .map_err(store_status)?;
        left -= chunk.returned as u64;
        if !gate.wait(sink) {
            return Ok(());
        }
        let Some(last) = chunk.more_after.filter(|_| left > 0) else {
            let more = (total as u64) > request_total(request, left);
            sink.send(message(Some(&header), &chunk.fields, more, total));
            return Ok(());
        };
        sink.send(message(None, &chunk.fields, false, 0));
        start = last;
        start.push(0);
        limit = u64::MAX;
    }
}

/// Sends a range that is not in the order of its keys.
fn send_sorted(
    view: &Arc<View>,
    request: &RangeRequest,
    kept: Option<&Root>,
    header: &ResponseHeader,
    sink: &Sink,
    gate: &Gate,
) -> Result<(), Status> {
    let answer = range(view, request, kept, None).map_err(store_status)?;
    let answer = answer.expect("a range without a bound on its size is always answered");
    match answer.kvs {
        Kvs::Ready(fields) => {
            let mut rest = &fields[..];
            while rest.len() > CHUNK_BYTES {
                let (chunk, behind) = rest.split_at(whole_fields(rest, CHUNK_BYTES));
                if behind.is_empty() {
                    break;
                }
                if !gate.wait(sink) {
                    return Ok(());
                }
                sink.send(message(None, chunk, false, 0));
                rest = behind;
            }
            if gate.wait(sink) {
                sink.send(message(Some(header), rest, answer.more, answer.count));
            }
        }
        Kvs::Spliced(mut splice) => loop {
            let chunk = splice.next_chunk(CHUNK_BYTES).unwrap_or_default();
            if !gate.wait(sink) {
                return Ok(());
            }
            if splice.left() == 0 {
                sink.send(message(Some(header), &chunk, answer.more, answer.count));
                break;
            }
            sink.send(message(None, &chunk, false, 0));
        },
    }
    Ok(())
}

/// Length of the first length-delimited fields of `fields` (each with a key of one byte) that
/// together have at least `budget` bytes.
fn whole_fields(fields: &[u8], budget: usize) -> usize {
    let mut rest = fields;
    while fields.len() - rest.len() < budget && !rest.is_empty() {
        rest.advance(1);
        let len = decode_varint(&mut rest).expect("the answer was encoded here") as usize;
        rest.advance(len);
    }
    fields.len() - rest.len()
}

/// Key-values that were sent, where a limit stopped it; else all that there are.
fn request_total(request: &RangeRequest, left: u64) -> u64 {
    if request.limit > 0 && left == 0 {
        request.limit as u64
    } else {
        u64::MAX
    }
}

/// A RangeStreamResponse: one field with a RangeResponse.
fn message(header: Option<&ResponseHeader>, kvs: &[u8], more: bool, count: i64) -> Body {
    fail_point!("beforeRangeStreamChunk");
    let mut inner = Vec::with_capacity(kvs.len() + 64);
    if let Some(header) = header {
        put_header(&mut inner, header);
    }
    inner.extend_from_slice(kvs);
    if more {
        inner.extend_from_slice(&[3 << 3, 1]);
    }
    if count != 0 {
        inner.push(4 << 3);
        encode_varint(count as u64, &mut inner);
    }
    let mut prefix = Vec::with_capacity(1 + encoded_len_varint(inner.len() as u64));
    prefix.push(1 << 3 | 2);
    encode_varint(inner.len() as u64, &mut prefix);
    Body::Parts(vec![prefix.into(), inner.into()])
}
