//! The JSON form: one object (for endpoints, one list) on a line, with the names and the order of
//! etcd's Go types.

use super::object::{Fields, Object, build, list, object};
use super::{Answer, Health};
use quorate_client::api::authpb::Permission;
use quorate_client::api::etcdserverpb as pb;
use quorate_client::api::etcdserverpb::response_op::Response;
use quorate_client::api::mvccpb;
use quorate_go::duration;
use quorate_go::json::{bytes, string};

type Header = Option<pb::ResponseHeader>;

/// The line of an answer, without its end.
pub fn line(answer: &Answer, hex: bool) -> String {
    match answer {
        Answer::Put(r) => object(r),
        Answer::Get(r) => object(r),
        Answer::Delete(r) => object(r),
        Answer::Txn(r) => object(r),
        Answer::Watch(r) => object(r),
        Answer::Grant(r) => build(|o| {
            lease(o, &r.header, r.id, r.ttl).raw("Error", &string(&r.error));
        }),
        Answer::KeepAlive(r) => build(|o| {
            lease(o, &r.header, r.id, r.ttl);
        }),
        Answer::TimeToLive(r, _) => build(|o| time_to_live(o, r)),
        Answer::Leases(r) => build(|o| {
            flat_header(o, &r.header);
            let leases = r.leases.iter().map(|lease| {
                build(|o| {
                    o.every_number("id", lease.id);
                })
            });
            o.raw("leases", &list(leases));
        }),
        Answer::MemberAdd(r) if hex => members_in_hex(&r.header, r.member.as_ref(), &r.members),
        Answer::MemberRemove(_, r) if hex => members_in_hex(&r.header, None, &r.members),
        Answer::MemberUpdate(_, r) if hex => members_in_hex(&r.header, None, &r.members),
        Answer::MemberPromote(_, r) if hex => members_in_hex(&r.header, None, &r.members),
        Answer::MemberList(r) if hex => members_in_hex(&r.header, None, &r.members),
        Answer::MemberAdd(r) => build(|o| {
            o.message("header", r.header.as_ref());
            o.message("member", r.member.as_ref())
                .messages("members", &r.members);
        }),
        Answer::MemberRemove(_, r) => members(&r.header, &r.members),
        Answer::MemberUpdate(_, r) => members(&r.header, &r.members),
        Answer::MemberPromote(_, r) => members(&r.header, &r.members),
        Answer::MemberList(r) => members(&r.header, &r.members),
        Answer::EndpointHealth(healths) => list_or_null(healths.iter().map(object).collect()),
        Answer::EndpointStatus(list) => of_endpoints("Status", list),
        Answer::EndpointHashKv(list) => of_endpoints("HashKV", list),
        Answer::Downgrade(_, r) => build(|o| {
            o.message("header", r.header.as_ref())
                .text("version", &r.version);
        }),
        Answer::Alarm(r) => build(|o| {
            o.message("header", r.header.as_ref())
                .messages("alarms", &r.alarms);
        }),
        Answer::RoleGet(_, r) => build(|o| {
            o.message("header", r.header.as_ref())
                .messages("perm", &r.perm);
        }),
        Answer::RoleList(r) => names(&r.header, "roles", &r.roles),
        Answer::UserGet(_, r) => names(&r.header, "roles", &r.roles),
        Answer::UserList(r) => names(&r.header, "users", &r.users),
        Answer::AuthStatus(r) => build(|o| {
            o.message("header", r.header.as_ref());
            o.flag("enabled", r.enabled)
                .number("authRevision", r.auth_revision);
        }),
        Answer::Revoke(_, r) => header_alone(&r.header),
        Answer::MoveLeader(_, _, r) => header_alone(&r.header),
        Answer::RoleAdd(_, r) => header_alone(&r.header),
        Answer::RoleDelete(_, r) => header_alone(&r.header),
        Answer::RoleGrantPermission(_, r) => header_alone(&r.header),
        Answer::RoleRevokePermission(_, _, _, r) => header_alone(&r.header),
        Answer::UserAdd(_, r) => header_alone(&r.header),
        Answer::UserChangePassword(r) => header_alone(&r.header),
        Answer::UserGrantRole(_, _, r) => header_alone(&r.header),
        Answer::UserRevokeRole(_, _, r) => header_alone(&r.header),
        Answer::UserDelete(_, r) => header_alone(&r.header),
    }
}

fn header_alone(header: &Header) -> String {
    build(|o| {
        o.message("header", header.as_ref());
    })
}

fn names(header: &Header, name: &str, values: &[String]) -> String {
    build(|o| {
        o.message("header", header.as_ref()).texts(name, values);
    })
}

fn members(header: &Header, members: &[pb::Member]) -> String {
    build(|o| {
        o.message("header", header.as_ref())
            .messages("members", members);
    })
}

/// The header's fields in an object of a lease.
fn flat_header<'a>(object: &'a mut Object, header: &Header) -> &'a mut Object {
    if let Some(header) = header {
        header.fields(object);
    }
    object
}

fn lease<'a>(object: &'a mut Object, header: &Header, id: i64, ttl: i64) -> &'a mut Object {
    flat_header(object, header)
        .every_number("ID", id)
        .every_number("TTL", ttl)
}

fn time_to_live(object: &mut Object, r: &pb::LeaseTimeToLiveResponse) {
    let keys = list_or_null(r.keys.iter().map(|key| bytes(key)).collect());
    flat_header(object, &r.header)
        .every_number("id", r.id)
        .every_number("ttl", r.ttl)
        .every_number("granted-ttl", r.granted_ttl)
        .raw("keys", &keys);
}

fn list_or_null(items: Vec<String>) -> String {
    match items.is_empty() {
        true => "null".to_owned(),
        false => list(items),
    }
}

fn of_endpoints<T: Fields>(name: &str, answers: &[(String, T)]) -> String {
    let one = |(endpoint, answer): &(String, T)| {
        build(|o| {
            o.raw("Endpoint", &string(endpoint))
                .raw(name, &object(answer));
        })
    };
    list_or_null(answers.iter().map(one).collect())
}

fn members_in_hex(header: &Header, member: Option<&pb::Member>, members: &[pb::Member]) -> String {
    let id = |id: u64| string(&format!("{id:x}"));
    let member_in_hex = |member: &pb::Member| {
        build(|o| {
            o.raw("ID", &id(member.id));
            member_names(o, member);
        })
    };
    let header = header.map(|header| {
        build(|o| {
            o.raw("cluster_id", &id(header.cluster_id));
            o.raw("member_id", &id(header.member_id));
            o.number("revision", header.revision)
                .number("raft_term", header.raft_term);
        })
    });
    build(|o| {
        o.raw("header", header.as_deref().unwrap_or("null"));
        if let Some(member) = member {
            o.raw("member", &member_in_hex(member));
        }
        o.raw("members", &list(members.iter().map(member_in_hex)));
    })
}

fn member_names(object: &mut Object, member: &pb::Member) {
    object
        .text("name", &member.name)
        .texts("peerURLs", &member.peer_ur_ls)
        .texts("clientURLs", &member.client_ur_ls)
        .flag("isLearner", member.is_learner);
}

impl Fields for pb::ResponseHeader {
    fn fields(&self, o: &mut Object) {
        o.number("cluster_id", self.cluster_id)
            .number("member_id", self.member_id)
            .number("revision", self.revision)
            .number("raft_term", self.raft_term);
    }
}

impl Fields for mvccpb::KeyValue {
    fn fields(&self, o: &mut Object) {
        o.bytes("key", &self.key)
            .number("create_revision", self.create_revision)
            .number("mod_revision", self.mod_revision)
            .number("version", self.version)
            .bytes("value", &self.value)
            .number("lease", self.lease);
    }
}

impl Fields for mvccpb::Event {
    fn fields(&self, o: &mut Object) {
        o.number("type", self.r#type)
            .message("kv", self.kv.as_ref())
            .message("prev_kv", self.prev_kv.as_ref());
    }
}

impl Fields for pb::PutResponse {
    fn fields(&self, o: &mut Object) {
        o.message("header", self.header.as_ref())
            .message("prev_kv", self.prev_kv.as_ref());
    }
}

impl Fields for pb::RangeResponse {
    fn fields(&self, o: &mut Object) {
        o.message("header", self.header.as_ref())
            .messages("kvs", &self.kvs)
            .flag("more", self.more)
            .number("count", self.count);
    }
}

impl Fields for pb::DeleteRangeResponse {
    fn fields(&self, o: &mut Object) {
        o.message("header", self.header.as_ref())
            .number("deleted", self.deleted)
            .messages("prev_kvs", &self.prev_kvs);
    }
}

impl Fields for pb::TxnResponse {
    fn fields(&self, o: &mut Object) {
        o.message("header", self.header.as_ref())
            .flag("succeeded", self.succeeded)
            .messages("responses", &self.responses);
    }
}

impl Fields for pb::ResponseOp {
    fn fields(&self, o: &mut Object) {
        let response = build(|o| {
            match &self.response {
                Some(Response::ResponseRange(r)) => o.message("response_range", Some(r)),
                Some(Response::ResponsePut(r)) => o.message("response_put", Some(r)),
                Some(Response::ResponseDeleteRange(r)) => {
                    o.message("response_delete_range", Some(r))
                }
                Some(Response::ResponseTxn(r)) => o.message("response_txn", Some(r)),
                None => o,
            };
        });
        o.raw("Response", &response);
    }
}

impl Fields for pb::WatchResponse {
    fn fields(&self, o: &mut Object) {
        let header = self.header.as_ref().map(object);
        o.raw("Header", header.as_deref().unwrap_or("null"))
            .raw(
                "Events",
                &list_or_null(self.events.iter().map(object).collect()),
            )
            .every_number("CompactRevision", self.compact_revision)
            .every_number("Canceled", self.canceled)
            .every_number("Created", self.created)
            .raw("CancelReason", &string(&self.cancel_reason));
    }
}

impl Fields for pb::Member {
    fn fields(&self, o: &mut Object) {
        o.number("ID", self.id);
        member_names(o, self);
    }
}

impl Fields for Health {
    fn fields(&self, o: &mut Object) {
        let took = self.took.map(duration::format).unwrap_or_default();
        o.raw("endpoint", &string(&self.endpoint))
            .every_number("health", self.healthy)
            .raw("took", &string(&took))
            .text("error", &self.error);
    }
}

impl Fields for pb::StatusResponse {
    fn fields(&self, o: &mut Object) {
        o.message("header", self.header.as_ref())
            .text("version", &self.version)
            .number("dbSize", self.db_size)
            .number("leader", self.leader)
            .number("raftIndex", self.raft_index)
            .number("raftTerm", self.raft_term)
            .number("raftAppliedIndex", self.raft_applied_index)
            .texts("errors", &self.errors)
            .number("dbSizeInUse", self.db_size_in_use)
            .flag("isLearner", self.is_learner)
            .text("storageVersion", &self.storage_version)
            .number("dbSizeQuota", self.db_size_quota)
            .message("downgradeInfo", self.downgrade_info.as_ref());
    }
}

impl Fields for pb::DowngradeInfo {
    fn fields(&self, o: &mut Object) {
        o.flag("enabled", self.enabled)
            .text("targetVersion", &self.target_version);
    }
}

impl Fields for pb::HashKvResponse {
    fn fields(&self, o: &mut Object) {
        o.message("header", self.header.as_ref())
            .number("hash", self.hash)
            .number("compact_revision", self.compact_revision)
            .number("hash_revision", self.hash_revision);
    }
}

impl Fields for pb::AlarmMember {
    fn fields(&self, o: &mut Object) {
        o.number("memberID", self.member_id)
            .number("alarm", self.alarm);
    }
}

impl Fields for Permission {
    fn fields(&self, o: &mut Object) {
        o.number("permType", self.perm_type)
            .bytes("key", &self.key)
            .bytes("range_end", &self.range_end);
    }
}
