//! Maintenance: of the member that answers ([`Client::endpoint`] says which), alarms of all.

use crate::answers::Answers;
use crate::{Client, Result};
use quorate_api::Method;
use quorate_api::etcdserverpb::alarm_request::AlarmAction;
use quorate_api::etcdserverpb::downgrade_request::DowngradeAction;
use quorate_api::etcdserverpb::{
    AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest, HashResponse,
    MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest,
    StatusResponse,
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

    /// The hash of the whole database, of one backend commit; members that hold the same keys may
    /// differ in it.
    pub async fn hash(&self) -> Result<HashResponse> {
        self.call(Method::MaintenanceHash, HashRequest {}).await
    }

    /// The alarms that are on, of all members.
    pub async fn alarms(&self) -> Result<AlarmResponse> {
        self.call(Method::MaintenanceAlarm, AlarmRequest::default())
            .await
    }

    /// Ends an alarm of a member.
    pub async fn alarm_disarm(&self, member_id: u64, alarm: AlarmType) -> Result<AlarmResponse> {
        let request = AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id,
            alarm: alarm.into(),
        };
        self.call(Method::MaintenanceAlarm, request).await
    }

    /// Passes the lead to another member; to be asked of the leader.
    pub async fn move_leader(&self, target_id: u64) -> Result<MoveLeaderResponse> {
        let request = MoveLeaderRequest { target_id };
        self.call(Method::MaintenanceMoveLeader, request).await
    }

    /// Asks whether the cluster can go down to the minor version `3.6`, begins it, or gives it up
    /// (`version` is empty then).
    pub async fn downgrade(
        &self,
        action: DowngradeAction,
        version: impl Into<String>,
    ) -> Result<DowngradeResponse> {
        let request = DowngradeRequest {
            action: action.into(),
            version: version.into(),
        };
        self.call(Method::MaintenanceDowngrade, request).await
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
