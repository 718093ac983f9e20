//! Keys: read, write, delete, transact, compact.

use crate::{Client, Result};
use bytes::Bytes;
use quorate_api::Method;
use quorate_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};

impl Client {
    /// Reads keys as the request says.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        self.call(Method::KVRange, request).await
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

    /// Writes one key as the request says. After an `Ok` the write is durable.
    pub async fn put(&self, request: PutRequest) -> Result<PutResponse> {
        self.call(Method::KVPut, request).await
    }

    /// Deletes a key or a range. After an `Ok` the deletion is durable.
    pub async fn delete_range(&self, request: DeleteRangeRequest) -> Result<DeleteRangeResponse> {
        self.call(Method::KVDeleteRange, request).await
    }

    /// Compares, then does one of two lists of operations, at one revision.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse> {
        self.call(Method::KVTxn, request).await
    }

    /// Gives up the history before a revision; with `physical` the answer waits until it is gone.
    pub async fn compact(&self, revision: i64, physical: bool) -> Result<CompactionResponse> {
        let request = CompactionRequest { revision, physical };
        self.call(Method::KVCompact, request).await
    }
}
