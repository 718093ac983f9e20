//! The fields form: a quoted name, a colon and a value on each line.

use super::simple::{alarm_name, event_name};
use super::{Answer, Health};
use quorate_client::api::authpb::permission;
use quorate_client::api::etcdserverpb as pb;
use quorate_client::api::etcdserverpb::response_op::Response;
use quorate_client::api::mvccpb;
use quorate_go::duration;
use quorate_go::quote::quote;
use std::fmt::{Display, Write};

/// The fields of an answer, where the form has some for it.
pub fn page(answer: &Answer, hex: bool) -> Option<String> {
    let mut fields = Fields {
        out: String::new(),
        hex,
    };
    fields.answer(answer).then_some(fields.out)
}

struct Fields {
    out: String,
    hex: bool,
}

type Header = Option<pb::ResponseHeader>;

impl Fields {
    /// Whether the form has fields for this answer.
    fn answer(&mut self, answer: &Answer) -> bool {
        match answer {
            Answer::Put(r) => self.put(r),
            Answer::Get(r) => self.get(r),
            Answer::Delete(r) => self.delete(r),
            Answer::Txn(r) => self.txn(r),
            Answer::Watch(r) => self.watch(r),
            Answer::Grant(r) => self.lease(&r.header, r.id, r.ttl),
            Answer::KeepAlive(r) => self.lease(&r.header, r.id, r.ttl),
            Answer::Revoke(_, r) => self.header(&r.header),
            Answer::TimeToLive(r, _) => {
                self.lease(&r.header, r.id, r.ttl);
                self.field("GrantedTTL", r.granted_ttl);
                r.keys.iter().for_each(|key| self.field("Key", quote(key)));
            }
            Answer::Leases(r) => {
                self.header(&r.header);
                r.leases
                    .iter()
                    .for_each(|lease| self.lease_id("ID", lease.id));
            }
            Answer::MemberList(r) => {
                self.header(&r.header);
                r.members.iter().for_each(|member| self.member(member));
            }
            Answer::EndpointHealth(list) => list.iter().for_each(|health| self.health(health)),
            Answer::EndpointStatus(list) => {
                list.iter()
                    .for_each(|(endpoint, status)| self.status(endpoint, status));
            }
            Answer::EndpointHashKv(list) => list.iter().for_each(|(endpoint, hash)| {
                self.header(&hash.header);
                self.field("Endpoint", quote(endpoint.as_bytes()));
                self.field("Hash", hash.hash);
                self.field("HashRevision", hash.hash_revision);
                self.out.push('\n');
            }),
            Answer::Alarm(r) => self.alarms(r),
            Answer::RoleGet(_, r) => self.role(r),
            Answer::RoleList(r) => {
                self.header(&r.header);
                let roles: String = r
                    .roles
                    .iter()
                    .map(|role| format!(" {}", quote(role.as_bytes())))
                    .collect();
                writeln!(self.out, "\"Roles\" :{roles}").expect("writing to a String cannot fail");
            }
            Answer::RoleAdd(_, r) => self.header(&r.header),
            Answer::RoleDelete(_, r) => self.header(&r.header),
            Answer::RoleGrantPermission(_, r) => self.header(&r.header),
            Answer::RoleRevokePermission(_, _, _, r) => self.header(&r.header),
            Answer::UserAdd(_, r) => self.header(&r.header),
            Answer::UserChangePassword(r) => self.header(&r.header),
            Answer::UserGrantRole(_, _, r) => self.header(&r.header),
            Answer::UserRevokeRole(_, _, r) => self.header(&r.header),
            Answer::UserDelete(_, r) => self.header(&r.header),
            Answer::MemberAdd(_)
            | Answer::MemberRemove(..)
            | Answer::MemberUpdate(..)
            | Answer::MemberPromote(..)
            | Answer::MoveLeader(..)
            | Answer::Downgrade(..)
            | Answer::UserGet(..)
            | Answer::UserList(_)
            | Answer::AuthStatus(_) => return false,
        }
        true
    }

    fn field(&mut self, name: &str, value: impl Display) {
        writeln!(self.out, "\"{name}\" : {value}").expect("writing to a String cannot fail");
    }

    /// The id of a cluster or member.
    fn id(&mut self, name: &str, id: u64) {
        match self.hex {
            true => self.field(name, format_args!("{id:x}")),
            false => self.field(name, id),
        }
    }

    fn lease_id(&mut self, name: &str, id: i64) {
        match self.hex {
            true => self.field(name, format_args!("{id:016x}")),
            false => self.field(name, id),
        }
    }

    fn header(&mut self, header: &Header) {
        let header = header.unwrap_or_default();
        self.id("ClusterID", header.cluster_id);
        self.id("MemberID", header.member_id);
        if header.revision > 0 {
            self.field("Revision", header.revision);
        }
        self.field("RaftTerm", header.raft_term);
    }

    fn key_value(&mut self, prefix: &str, kv: &mvccpb::KeyValue) {
        self.field(&format!("{prefix}Key"), quote(&kv.key));
        self.field(&format!("{prefix}CreateRevision"), kv.create_revision);
        self.field(&format!("{prefix}ModRevision"), kv.mod_revision);
        self.field(&format!("{prefix}Version"), kv.version);
        self.field(&format!("{prefix}Value"), quote(&kv.value));
        self.lease_id(&format!("{prefix}Lease"), kv.lease);
    }

    fn put(&mut self, r: &pb::PutResponse) {
        self.header(&r.header);
        r.prev_kv.iter().for_each(|kv| self.key_value("Prev", kv));
    }

    fn get(&mut self, r: &pb::RangeResponse) {
        self.header(&r.header);
        r.kvs.iter().for_each(|kv| self.key_value("", kv));
        self.field("More", r.more);
        self.field("Count", r.count);
    }

    fn delete(&mut self, r: &pb::DeleteRangeResponse) {
        self.header(&r.header);
        self.field("Deleted", r.deleted);
        r.prev_kvs.iter().for_each(|kv| self.key_value("Prev", kv));
    }

    fn txn(&mut self, r: &pb::TxnResponse) {
        self.header(&r.header);
        self.field("Succeeded", r.succeeded);
        for op in &r.responses {
            match &op.response {
                Some(Response::ResponsePut(r)) => self.put(r),
                Some(Response::ResponseRange(r)) => self.get(r),
                Some(Response::ResponseDeleteRange(r)) => self.delete(r),
                Some(Response::ResponseTxn(r)) => self.txn(r),
                None => self.field("Unknown", "\"<nil>\""),
            }
        }
    }

    fn watch(&mut self, r: &pb::WatchResponse) {
        self.header(&r.header);
        for event in &r.events {
            self.field("Type", event_name(event));
            event
                .prev_kv
                .iter()
                .for_each(|kv| self.key_value("Prev", kv));
            self.key_value("", &event.kv.clone().unwrap_or_default());
        }
    }

    fn lease(&mut self, header: &Header, id: i64, ttl: i64) {
        self.header(header);
        self.lease_id("ID", id);
        self.field("TTL", ttl);
    }

    fn member(&mut self, member: &pb::Member) {
        self.id("ID", member.id);
        self.field("Name", quote(member.name.as_bytes()));
        for url in &member.peer_ur_ls {
            self.field("PeerURL", quote(url.as_bytes()));
        }
        for url in &member.client_ur_ls {
            self.field("ClientURL", quote(url.as_bytes()));
        }
        self.field("IsLearner", member.is_learner);
        self.out.push('\n');
    }

    fn health(&mut self, health: &Health) {
        self.field("Endpoint", quote(health.endpoint.as_bytes()));
        self.field("Health", health.healthy);
        self.field(
            "Took",
            health.took.map(duration::format).unwrap_or_default(),
        );
        self.field("Error", &health.error);
        self.out.push('\n');
    }

    fn status(&mut self, endpoint: &str, r: &pb::StatusResponse) {
        let downgrade = r.downgrade_info.clone().unwrap_or_default();
        self.header(&r.header);
        self.field("Version", quote(r.version.as_bytes()));
        self.field("StorageVersion", quote(r.storage_version.as_bytes()));
        self.field("DBSize", r.db_size);
        self.field("DBSizeInUse", r.db_size_in_use);
        self.field("DBSizeQuota", r.db_size_quota);
        self.field("Leader", r.leader);
        self.field("IsLearner", r.is_learner);
        self.field("RaftIndex", r.raft_index);
        self.field("RaftAppliedIndex", r.raft_applied_index);
        self.field("Errors", format_args!("[{}]", r.errors.join(" ")));
        self.field("Endpoint", quote(endpoint.as_bytes()));
        self.field(
            "DowngradeTargetVersion",
            quote(downgrade.target_version.as_bytes()),
        );
        self.field("DowngradeEnabled", downgrade.enabled);
        self.out.push('\n');
    }

    fn alarms(&mut self, r: &pb::AlarmResponse) {
        self.header(&r.header);
        for alarm in &r.alarms {
            self.id("MemberID", alarm.member_id);
            self.field("AlarmType", alarm_name(alarm.alarm));
            self.out.push('\n');
        }
    }

    fn role(&mut self, r: &pb::AuthRoleGetResponse) {
        self.header(&r.header);
        for permission in &r.perm {
            let kind = match permission::Type::try_from(permission.perm_type) {
                Ok(kind) => kind.as_str_name().to_owned(),
                Err(_) => permission.perm_type.to_string(),
            };
            // Two blanks: so it has always been.
            self.field("PermType", format_args!(" {kind}"));
            self.field("Key", quote(&permission.key));
            self.field("RangeEnd", quote(&permission.range_end));
        }
    }
}
