//! Keys: read, write, delete, transact, compact. Keys are those of the client's namespace.

use crate::answers::Answers;
use crate::namespace::Namespace;
use crate::ordering::{InOrder, Reading};
use crate::{Client, Error, Result};
use bytes::Bytes;
use quorate_api::Method;
use quorate_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader, TxnRequest,
    TxnResponse,
};

impl Client {
    /// Reads keys as the request says.
    pub async fn range(&self, mut request: RangeRequest) -> Result<RangeResponse> {
        let namespace = &self.namespace;
        namespace.enter(&mut request.key, &mut request.range_end)?;
        let mut reading = self.begin_reading();
        loop {
            let mut answer: RangeResponse = self.call(Method::KVRange, request.clone()).await?;
            if is_in_order(&mut reading, answer.header.as_ref())? {
                namespace.leave_range(&mut answer);
                return Ok(answer);
            }
        }
    }

    /// Reads one key, linearizably.
    pub async fn get(&self, key: impl Into<Bytes>) -> Result<RangeResponse> {
        let key = key.into();
        self.range(RangeRequest {
            key,
            ..RangeRequest::default()
        })
        .await
    }

    /// Reads all keys that begin with `prefix`, linearizably.
    pub async fn get_prefix(&self, prefix: impl Into<Bytes>) -> Result<RangeResponse> {
        let (key, range_end) = prefix_range(prefix.into());
        self.range(RangeRequest {
            key,
            range_end,
            ..RangeRequest::default()
        })
        .await
    }

    /// Reads keys as the request says, of one revision, as a stream of pieces: for more than should
    /// be held at once.
    pub async fn range_stream(&self, mut request: RangeRequest) -> Result<RangeStream> {
        let namespace = &self.namespace;
        namespace.enter(&mut request.key, &mut request.range_end)?;
        Ok(RangeStream {
            namespace: namespace.clone(),
            reading: self.begin_reading(),
            answers: self.receive(Method::KVRangeStream, request).await?,
        })
    }

    /// Writes one key as the request says. After an `Ok` the write is durable.
    pub async fn put(&self, mut request: PutRequest) -> Result<PutResponse> {
        let namespace = &self.namespace;
        namespace.enter_key(&mut request.key)?;
        let mut answer: PutResponse = self.call(Method::KVPut, request).await?;
        namespace.leave_put(&mut answer);
        Ok(answer)
    }

    /// Deletes a key or a range. After an `Ok` the deletion is durable.
    pub async fn delete_range(
        &self,
        mut request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse> {
        let namespace = &self.namespace;
        namespace.enter(&mut request.key, &mut request.range_end)?;
        let mut answer: DeleteRangeResponse = self.call(Method::KVDeleteRange, request).await?;
        namespace.leave_delete(&mut answer);
        Ok(answer)
    }

    /// Deletes one key.
    pub async fn delete(&self, key: impl Into<Bytes>) -> Result<DeleteRangeResponse> {
        let key = key.into();
        self.delete_range(DeleteRangeRequest {
            key,
            ..DeleteRangeRequest::default()
        })
        .await
    }

    /// Compares, then does one of two lists of operations, at one revision. Where reads are ordered
    /// and the answer is too old, one that only reads is asked again; another one has happened, and
    /// gives [`Error::NotFresh`] (the cluster is not the one that was read before).
    pub async fn txn(&self, mut request: TxnRequest) -> Result<TxnResponse> {
        let namespace = &self.namespace;
        namespace.enter_txn(&mut request)?;
        let only_reads = only_reads(&request);
        let mut reading = self.begin_reading();
        let mut answer: TxnResponse = self.call(Method::KVTxn, request.clone()).await?;
        while !is_in_order(&mut reading, answer.header.as_ref())? {
            if !only_reads {
                return Err(Error::NotFresh);
            }
            answer = self.call(Method::KVTxn, request.clone()).await?;
        }
        namespace.leave_txn(&mut answer);
        Ok(answer)
    }

    /// Gives up the history before a revision; with `physical` the answer waits until it is gone.
    pub async fn compact(&self, revision: i64, physical: bool) -> Result<CompactionResponse> {
        let request = CompactionRequest { revision, physical };
        self.call(Method::KVCompact, request).await
    }
}

/// The answer to a read in pieces.
#[derive(Debug)]
pub struct RangeStream {
    namespace: Namespace,
    reading: Reading,
    answers: Answers<RangeStreamResponse>,
}

impl RangeStream {
    /// The next piece; `None` after the last. The last one has the header, and says how many keys
    /// there are and whether more than were asked for. Where reads are ordered that one is
    /// [`Error::NotFresh`] if all were too old.
    pub async fn next(&mut self) -> Result<Option<RangeResponse>> {
        let Some(answer) = self.answers.next().await? else {
            return Ok(None);
        };
        let mut piece = answer.range_response.unwrap_or_default();
        // What was handed out before cannot be asked for again.
        if let Some(header) = &piece.header
            && self.reading.judge(header.revision) != InOrder::Yes
        {
            return Err(Error::NotFresh);
        }
        self.namespace.leave_range(&mut piece);
        Ok(Some(piece))
    }
}

/// First key and end of what begins with `prefix`; the first key of all is `"\0"`.
pub(crate) fn prefix_range(prefix: Bytes) -> (Bytes, Bytes) {
    let end = crate::prefix_end(&prefix);
    match prefix.is_empty() {
        true => (Bytes::from_static(b"\0"), end),
        false => (prefix, end),
    }
}

/// All keys that begin with `prefix`, sorted by their creation, at most one.
pub(crate) fn one_by_creation(prefix: Bytes, order: SortOrder) -> RangeRequest {
    let (key, range_end) = prefix_range(prefix);
    RangeRequest {
        key,
        range_end,
        limit: 1,
        sort_order: order as i32,
        sort_target: SortTarget::Create as i32,
        ..RangeRequest::default()
    }
}

/// Whether a transaction changes nothing, whatever its conditions give.
fn only_reads(txn: &TxnRequest) -> bool {
    let mut operations = txn.success.iter().chain(&txn.failure);
    operations.all(|operation| match &operation.request {
        Some(Request::RequestRange(_)) | None => true,
        Some(Request::RequestTxn(inner)) => only_reads(inner),
        Some(_) => false,
    })
}

fn is_in_order(reading: &mut Reading, header: Option<&ResponseHeader>) -> Result<bool> {
    match reading.judge(header.map_or(0, |header| header.revision)) {
        InOrder::Yes => Ok(true),
        InOrder::AskAgain => Ok(false),
        InOrder::No => Err(Error::NotFresh),
    }
}
