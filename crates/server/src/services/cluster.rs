//! Who is in the cluster.

use super::kv::failure;
use super::{Caller, Services, body, decode};
use crate::transport::{Body, Reply, Status};
use bytes::Bytes;
use quorate_api::etcdserverpb::{Member, MemberListRequest, MemberListResponse};
use quorate_node::Reply as MemberReply;

impl Services {
    pub(super) fn member_list(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: MemberListRequest = decode(message)?;
        let reader = self.reader();
        let list = move || -> Body {
            let view = reader.member.view();
            let members = view.members.iter().map(|member| Member {
                id: member.id,
                name: member.name.clone(),
                peer_ur_ls: member.peer_urls.clone(),
                client_ur_ls: member.client_urls.clone(),
                is_learner: member.is_learner,
            });
            body(&MemberListResponse {
                header: Some(reader.header(view.revision)),
                members: members.collect(),
            })
        };
        if !request.linearizable || self.member.reads_are_local() {
            return Ok(Reply::Now(list()));
        }
        let caller = answer();
        self.member
            .linearizable(Box::new(move |reply, batch| match reply {
                MemberReply::Ready => caller.respond_in(Ok(list()), batch),
                other => caller.respond_in(Err(failure(other)), batch),
            }));
        Ok(Reply::Later)
    }
}
