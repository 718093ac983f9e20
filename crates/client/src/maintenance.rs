//! Maintenance of one member.

use crate::answers::Answers;
use crate::{Client, Result};
use quorate_api::Method;
use quorate_api::etcdserverpb::{
    DefragmentRequest, DefragmentResponse, HashKvRequest, HashKvResponse, SnapshotRequest,
    SnapshotResponse, StatusRequest, StatusResponse,
};

impl Client {
    /// Version, size, leader, index of the member that answers.
    pub async fn status(&self) -> Result<StatusResponse> {
        self.call(Method::MaintenanceStatus, StatusRequest::default())
            .await
    }

    /// Gives the database's free pages back to the file system; returns when that is done.
    pub async fn defragment(&self) -> Result<DefragmentResponse> {
        self.call(Method::MaintenanceDefragment, DefragmentRequest {})
            .await
    }

    /// The hash of all keys at a revision; 0 is the newest.
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKvResponse> {
        let request = HashKvRequest { revision };
        self.call(Method::MaintenanceHashKV, request).await
    }

    /// Opens the stream of the database file's bytes.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let answers = self
            .receive(Method::MaintenanceSnapshot, SnapshotRequest::default())
            .await?;
        Ok(Snapshot { answers })
    }
}

/// A database file on its way.
#[derive(Debug)]
pub struct Snapshot {
    answers: Answers<SnapshotResponse>,
}

impl Snapshot {
    /// The next piece; `None` after the last. The last 32 bytes of all are the SHA-256 of what is
    /// before them.
    pub async fn next(&mut self) -> Result<Option<SnapshotResponse>> {
        self.answers.next().await
    }
}
