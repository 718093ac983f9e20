//! The message's own bytes, with nothing after them.
//!
//! Of answers about leases etcdctl writes the header alone, and of a revoked lease nothing: its
//! client library's types for them are no messages. Scripts have only ever seen that.

use super::Answer;
use prost::Message;
use quorate_client::api::etcdserverpb as pb;

/// The bytes; otherwise the name of the type that is no message, or `None` where the form has
/// nothing.
pub fn message(answer: &Answer) -> Result<Vec<u8>, Option<&'static str>> {
    let header = |header: &Option<pb::ResponseHeader>| {
        header
            .as_ref()
            .map(Message::encode_to_vec)
            .unwrap_or_default()
    };
    Ok(match answer {
        Answer::Put(r) => r.encode_to_vec(),
        Answer::Get(r) => r.encode_to_vec(),
        Answer::Delete(r) => r.encode_to_vec(),
        Answer::Txn(r) => r.encode_to_vec(),
        Answer::Watch(r) => watch(r).encode_to_vec(),
        Answer::Grant(r) => header(&r.header),
        Answer::KeepAlive(r) => header(&r.header),
        Answer::TimeToLive(r, _) => header(&r.header),
        Answer::Leases(r) => header(&r.header),
        Answer::Revoke(..) => return Err(Some("*clientv3.LeaseRevokeResponse")),
        Answer::MemberAdd(r) => r.encode_to_vec(),
        Answer::MemberRemove(_, r) => r.encode_to_vec(),
        Answer::MemberUpdate(_, r) => r.encode_to_vec(),
        Answer::MemberPromote(_, r) => r.encode_to_vec(),
        Answer::MemberList(r) => r.encode_to_vec(),
        Answer::MoveLeader(_, _, r) => r.encode_to_vec(),
        Answer::Downgrade(_, r) => r.encode_to_vec(),
        Answer::Alarm(r) => r.encode_to_vec(),
        Answer::RoleAdd(_, r) => r.encode_to_vec(),
        Answer::RoleGet(_, r) => r.encode_to_vec(),
        Answer::RoleDelete(_, r) => r.encode_to_vec(),
        Answer::RoleList(r) => r.encode_to_vec(),
        Answer::RoleGrantPermission(_, r) => r.encode_to_vec(),
        Answer::RoleRevokePermission(_, _, _, r) => r.encode_to_vec(),
        Answer::UserAdd(_, r) => r.encode_to_vec(),
        Answer::UserGet(_, r) => r.encode_to_vec(),
        Answer::UserList(r) => r.encode_to_vec(),
        Answer::UserChangePassword(r) => r.encode_to_vec(),
        Answer::UserGrantRole(_, _, r) => r.encode_to_vec(),
        Answer::UserRevokeRole(_, _, r) => r.encode_to_vec(),
        Answer::UserDelete(_, r) => r.encode_to_vec(),
        Answer::AuthStatus(r) => r.encode_to_vec(),
        Answer::EndpointHealth(_) | Answer::EndpointStatus(_) | Answer::EndpointHashKv(_) => {
            return Err(None);
        }
    })
}

/// What etcdctl keeps of a watch's answer.
fn watch(response: &pb::WatchResponse) -> pb::WatchResponse {
    pb::WatchResponse {
        header: response.header,
        events: response.events.clone(),
        compact_revision: response.compact_revision,
        canceled: response.canceled,
        created: response.created,
        ..pb::WatchResponse::default()
    }
}
