//! Alarms, status, hashes, defragmentation, moving the leader.

use super::kv::failure;
use super::propose::Field;
use super::{Caller, Services, body, decode, store_status};
use crate::cluster_versions::storage_version_of;
use crate::driver::Waiter;
use crate::metrics::{METRICS, Operation, Tally};
use crate::transport::{Reply, Status};
use bytes::Bytes;
use quorate_api::Error;
use quorate_api::etcdserverpb::{
    AlarmRequest, AlarmType, DefragmentResponse, DowngradeInfo, HashKvRequest, HashKvResponse,
    HashResponse, MoveLeaderRequest, MoveLeaderResponse, StatusRequest, StatusResponse,
};
use quorate_go::duration;
use quorate_node::store::hash::{hash_by_revision, hash_file};
use quorate_node::store::membership::spell_id;
use quorate_node::store::quota::DEFAULT_QUOTA_BYTES;
use quorate_node::{ETCD_VERSION, ProposalKind, Reply as MemberReply};
use std::time::Instant;

impl Services {
    pub(super) fn alarm(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let _checked: AlarmRequest = decode(message.clone())?;
        let tally = Tally::Other(Operation::Alarm);
        self.propose(
            Field::Alarm,
            &message,
            tally,
            ProposalKind::Ordinary,
            answer,
        )
    }

    pub(super) fn status(&self, message: Bytes) -> Result<Reply, Status> {
        let _checked: StatusRequest = decode(message)?;
        let (status, view) = (self.member.status(), self.member.view());
        let mut errors = Vec::new();
        if status.leader == 0 {
            errors.push(Error::NoLeader.text().to_owned());
        }
        for alarm in view.alarms.of_kind(AlarmType::None as i32) {
            let kind = AlarmType::try_from(alarm.alarm).map_or_else(
                |_| alarm.alarm.to_string(),
                |kind| kind.as_str_name().to_owned(),
            );
            errors.push(format!("memberID:{} alarm:{kind} ", alarm.member_id));
        }
        let downgrade = view.members.downgrade_job();
        let response = StatusResponse {
            header: Some(self.header(view.revision)),
            version: ETCD_VERSION.to_owned(),
            db_size: view.sizes.total,
            leader: status.leader,
            raft_index: status.committed,
            raft_term: status.term,
            raft_applied_index: status.applied,
            errors,
            db_size_in_use: view.sizes.in_use,
            is_learner: status.is_learner,
            storage_version: storage_version_of(&view).map_or_else(String::new, |v| v.to_string()),
            db_size_quota: match self.limits.quota_bytes {
                0 => DEFAULT_QUOTA_BYTES,
                bytes => bytes,
            },
            downgrade_info: Some(DowngradeInfo {
                enabled: downgrade.is_some(),
                target_version: downgrade.unwrap_or_default(),
            }),
        };
        Ok(Reply::Now(body(&response)))
    }

    pub(super) fn defragment(&self, answer: &mut dyn FnMut() -> Caller) -> Result<Reply, Status> {
        let caller = answer();
        tracing::info!("starting defragment");
        let health = self.health.clone();
        health.defragmentation_began();
        self.member.defragment(Box::new(move |reply, batch| {
            health.defragmentation_ended();
            let answer = match reply {
                MemberReply::Ready => {
                    tracing::info!("finished defragment");
                    Ok(body(&DefragmentResponse { header: None }))
                }
                other => Err(failure(other)),
            };
            caller.respond_in(answer, batch);
        }));
        Ok(Reply::Later)
    }

    pub(super) fn hash(&self, answer: &mut dyn FnMut() -> Caller) -> Result<Reply, Status> {
        let (reader, caller) = (self.reader(), answer());
        self.member.commit_then(Box::new(move |reply, batch| {
            if !matches!(reply, MemberReply::Ready) {
                return caller.respond_in(Err(failure(reply)), batch);
            }
            let reads = reader.clone();
            reads.on_pool(caller, move || {
                let view = reader.member.view();
                let began = Instant::now();
                let hash = hash_file(&view.file).map_err(store_status)?;
                METRICS.hash.observe(began.elapsed());
                let header = Some(reader.header(view.revision));
                Ok(body(&HashResponse { header, hash }))
            });
        }));
        Ok(Reply::Later)
    }

    pub(super) fn hash_kv(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: HashKvRequest = decode(message)?;
        let reader = self.reader();
        self.reader().on_pool(answer(), move || {
            let view = reader.member.view();
            let began = Instant::now();
            let hash =
                hash_by_revision(&view, &view.hashes, request.revision).map_err(store_status)?;
            METRICS.hash_rev.observe(began.elapsed());
            Ok(body(&HashKvResponse {
                header: Some(reader.header(view.revision)),
                hash: hash.hash,
                compact_revision: hash.compact_revision,
                hash_revision: hash.revision,
            }))
        });
        Ok(Reply::Later)
    }

    pub(super) fn move_leader(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let MoveLeaderRequest { target_id } = decode(message)?;
        let (own, view) = (self.member.member_id(), self.member.view());
        if self.member.status().leader != own {
            return Err(Error::NotLeader.into());
        }
        if view.members.get(target_id).is_none_or(|to| to.is_learner) {
            return Err(Error::BadLeaderTransferee.into());
        }
        tracing::info!(
            "local-member-id" = spell_id(own),
            "current-leader-member-id" = spell_id(own),
            "transferee-member-id" = spell_id(target_id),
            "leadership transfer starting"
        );
        let (began, caller) = (Instant::now(), answer());
        let waiter = Waiter::Then(Box::new(move |reply, batch| {
            let answer = match reply {
                MemberReply::Ready | MemberReply::Outcome(Ok(_)) => {
                    tracing::info!(
                        "local-member-id" = spell_id(own),
                        "old-leader-member-id" = spell_id(own),
                        "new-leader-member-id" = spell_id(target_id),
                        "took" = %duration::format(began.elapsed()),
                        "leadership transfer finished"
                    );
                    Ok(body(&MoveLeaderResponse { header: None }))
                }
                other => Err(failure(other)),
            };
            caller.respond_in(answer, batch);
        }));
        self.member.ask(Box::new(move |member, _| {
            member.transfer_leader(target_id, waiter);
        }))?;
        Ok(Reply::Later)
    }
}
