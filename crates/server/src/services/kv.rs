//! Range, Put, DeleteRange, Txn, Compact.

use super::propose::Field;
use super::{Caller, Services, body, checks, decode, store_status};
use crate::metrics::{METRICS, Operation, Tally, TxnShape};
use crate::transport::{Body, BodySource, Reply, Status, WakeBatch};
use bytes::Bytes;
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};
use quorate_api::Error;
use quorate_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, PutRequest, RangeRequest, ResponseHeader, TxnRequest,
};
use quorate_node::store::View;
use quorate_node::store::quota::{put_cost, txn_cost};
use quorate_node::store::range::{Inline, Kvs, RangeAnswer, Splice, range};
use quorate_node::store::txn::{is_read_only, is_serializable, read_only_txn};
use quorate_node::{ProposalKind, Reply as MemberReply};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a worker thread answers itself.
const INLINE: Inline = Inline {
    keys: 64,
    bytes: 256 * 1024,
};
/// Bytes that are copied at a time from a view.
const SPLICE_CHUNK_BYTES: usize = 64 * 1024;

impl Services {
    pub(super) fn range(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: RangeRequest = decode(message)?;
        checks::range(&request)?;
        if request.serializable || self.member.reads_are_local() {
            let view = self.member.view();
            if let Some(body) = self.try_range(&view, &request, Some(INLINE))? {
                return Ok(Reply::Now(body));
            }
            self.range_on_pool(request, answer());
            return Ok(Reply::Later);
        }
        let responder = answer();
        let this = self.reader();
        self.member
            .linearizable(Box::new(move |reply, batch| match reply {
                MemberReply::Ready => this.range_later(request, responder, batch),
                other => responder.respond_in(Err(failure(other)), batch),
            }));
        Ok(Reply::Later)
    }

    fn try_range(
        &self,
        view: &Arc<View>,
        request: &RangeRequest,
        inline: Option<Inline>,
    ) -> Result<Option<Body>, Status> {
        self.reader().try_range(view, request, inline)
    }

    fn range_on_pool(&self, request: RangeRequest, responder: Caller) {
        self.reader().range_on_pool(request, responder);
    }

    pub(super) fn reader(&self) -> Reader {
        Reader {
            member: self.member.clone(),
        }
    }

    pub(super) fn put(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: PutRequest = decode(message.clone())?;
        checks::put(&request)?;
        if let Some(refused) = self.refuse_for_space(put_cost(&request), answer) {
            return Ok(refused);
        }
        let tally = Tally::put(&request);
        self.propose(Field::Put, &message, tally, ProposalKind::Ordinary, answer)
    }

    pub(super) fn delete_range(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: DeleteRangeRequest = decode(message.clone())?;
        checks::delete_range(&request)?;
        let tally = Tally::delete(&request);
        self.propose(
            Field::DeleteRange,
            &message,
            tally,
            ProposalKind::Ordinary,
            answer,
        )
    }

    pub(super) fn txn(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: TxnRequest = decode(message.clone())?;
        let all_are_kin = self.member.all_are_kin(&self.member.view());
        checks::txn(&request, self.limits.max_txn_ops, all_are_kin)?;
        if !is_read_only(&request) {
            if let Some(refused) = self.refuse_for_space(txn_cost(&request), answer) {
                return Ok(refused);
            }
            let tally = Tally::txn(&request);
            return self.propose(Field::Txn, &message, tally, ProposalKind::Ordinary, answer);
        }
        // Reads of many keys belong on the pool; compares and single keys do not.
        if is_serializable(&request) || self.member.reads_are_local() {
            if self.reader().is_small(&request) {
                return self.reader().read_txn(&request).map(Reply::Now);
            }
            self.reader().txn_on_pool(request, answer());
            return Ok(Reply::Later);
        }
        let responder = answer();
        let this = self.reader();
        self.member
            .linearizable(Box::new(move |reply, batch| match reply {
                MemberReply::Ready if this.is_small(&request) => {
                    responder.respond_in(this.read_txn(&request), batch);
                }
                MemberReply::Ready => this.txn_on_pool(request, responder),
                other => responder.respond_in(Err(failure(other)), batch),
            }));
        Ok(Reply::Later)
    }

    pub(super) fn compact(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: CompactionRequest = decode(message.clone())?;
        let tally = Tally::Other(Operation::Compaction);
        let kind = match request.physical {
            true => ProposalKind::PhysicalCompaction,
            false => ProposalKind::Ordinary,
        };
        self.propose(Field::Compaction, &message, tally, kind, answer)
    }
}

/// The status of a member's reply that is not readiness.
pub(super) fn failure(reply: MemberReply) -> Status {
    match reply {
        MemberReply::Failed(error) | MemberReply::Outcome(Err(error)) => error.into(),
        MemberReply::Outcome(Ok(_)) | MemberReply::Ready => {
            unreachable!("the caller handles success")
        }
    }
}

/// Reads for whoever has the means to the member: a worker thread, the loop, or a pool thread.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) member: crate::driver::Handle,
}

impl Reader {
    pub(super) fn header(&self, revision: i64) -> ResponseHeader {
        ResponseHeader {
            cluster_id: self.member.cluster_id(),
            member_id: self.member.member_id(),
            revision,
            raft_term: self.member.term(),
        }
    }

    fn range_later(&self, request: RangeRequest, responder: Caller, batch: &mut WakeBatch) {
        match self.try_range(&self.member.view(), &request, Some(INLINE)) {
            Ok(Some(body)) => responder.respond_in(Ok(body), batch),
            Ok(None) => self.range_on_pool(request, responder),
            Err(status) => responder.respond_in(Err(status), batch),
        }
    }

    fn range_on_pool(&self, request: RangeRequest, responder: Caller) {
        let this = self.clone();
        self.on_pool(responder, move || {
            let view = this.member.view();
            let body = this.try_range(&view, &request, None)?;
            Ok(body.expect("without a limit on the answer there is one"))
        });
    }

    fn txn_on_pool(&self, request: TxnRequest, responder: Caller) {
        let this = self.clone();
        self.on_pool(responder, move || this.read_txn(&request));
    }

    /// Runs a read on a pool thread, or refuses where too many wait.
    pub(super) fn on_pool(
        &self,
        responder: Caller,
        read: impl FnOnce() -> Result<Body, Status> + Send + 'static,
    ) {
        // The responder is shared with the job, so that a refused one can still be answered.
        let slot = Arc::new(std::sync::Mutex::new(Some(responder)));
        let taken = slot.clone();
        let take = |slot: &std::sync::Mutex<Option<Caller>>| {
            slot.lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .take()
        };
        let job = Box::new(move || {
            let answer = read();
            if let Some(responder) = take(&taken) {
                responder.respond(answer);
            }
        });
        if self.member.reads.run(job).is_err()
            && let Some(responder) = take(&slot)
        {
            responder.respond(Err(Error::RequestTooManyRequests.into()));
        }
    }

    fn try_range(
        &self,
        view: &Arc<View>,
        request: &RangeRequest,
        inline: Option<Inline>,
    ) -> Result<Option<Body>, Status> {
        let kept = self.member.kept_root(request.revision);
        // What is answered in passing takes microseconds: the clock is read for it only on request.
        let exact = inline.is_none() || METRICS.is_extensive();
        let began = exact.then(Instant::now);
        let answer = range(view, request, kept.as_ref(), inline);
        let took = || began.map_or(Duration::ZERO, |began| began.elapsed());
        let answer = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(None),
            Err(error) => {
                METRICS.ranges[0].observe(took());
                return Err(store_status(error));
            }
        };
        METRICS.ranges[1].observe(took());
        if answer.more {
            self.member.keep_root(view);
        }
        Ok(Some(range_body(self.header(answer.revision), answer)))
    }

    fn is_small(&self, request: &TxnRequest) -> bool {
        use quorate_api::etcdserverpb::request_op::Request;
        let ops = request.success.iter().chain(&request.failure);
        ops.clone().count() <= INLINE.keys as usize
            && ops.into_iter().all(|op| {
                matches!(&op.request, Some(Request::RequestRange(range)) if range.range_end.is_empty())
            })
            && request.compare.iter().all(|compare| compare.range_end.is_empty())
    }

    fn read_txn(&self, request: &TxnRequest) -> Result<Body, Status> {
        let view = self.member.view();
        let source = view.source().map_err(store_status)?;
        let mut response = read_only_txn(&source, &|_| false, request).map_err(store_status)?;
        TxnShape::of(request).count_read(&response);
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        response.header = Some(self.header(revision));
        Ok(body(&response))
    }
}

/// A RangeResponse: header, the stored key-values as they are, then `more` and `count`.
fn range_body(header: ResponseHeader, answer: RangeAnswer) -> Body {
    let mut head = Vec::with_capacity(64);
    put_header(&mut head, &header);
    let mut tail = Vec::with_capacity(16);
    if answer.more {
        tail.extend_from_slice(&[3 << 3, 1]);
    }
    if answer.count != 0 {
        tail.push(4 << 3);
        encode_varint(answer.count as u64, &mut tail);
    }
    match answer.kvs {
        Kvs::Ready(kvs) if kvs.len() <= SPLICE_CHUNK_BYTES => {
            head.reserve_exact(kvs.len() + tail.len());
            head.extend_from_slice(&kvs);
            head.extend_from_slice(&tail);
            Body::Whole(head.into())
        }
        Kvs::Ready(kvs) => Body::Parts(vec![head.into(), kvs.into(), tail.into()]),
        Kvs::Spliced(splice) => {
            let len = head.len() + splice.left() as usize + tail.len();
            let source = RangeSource {
                pending: head.into(),
                splice: Some(splice),
                tail: tail.into(),
            };
            Body::Source {
                len,
                source: Box::new(source),
            }
        }
    }
}

/// Appends field 1 of a response.
pub(super) fn put_header(out: &mut Vec<u8>, header: &ResponseHeader) {
    let len = header.encoded_len();
    out.reserve(1 + encoded_len_varint(len as u64) + len);
    out.push(1 << 3 | 2);
    encode_varint(len as u64, out);
    header.encode(out).expect("a vector takes everything");
}

struct RangeSource {
    pending: Bytes,
    splice: Option<Splice>,
    tail: Bytes,
}

impl BodySource for RangeSource {
    fn next_chunk(&mut self, budget: usize) -> Option<Bytes> {
        while self.pending.is_empty() {
            let Some(splice) = &mut self.splice else {
                self.pending = std::mem::take(&mut self.tail);
                break;
            };
            match splice.next_chunk(SPLICE_CHUNK_BYTES) {
                Some(chunk) => self.pending = chunk,
                None => self.splice = None,
            }
        }
        if self.pending.is_empty() {
            return None;
        }
        Some(self.pending.split_to(budget.min(self.pending.len())))
    }
}
