//! Who is in the cluster, and changes of that.
//!
//! Headers here have no revision, as etcd's have none.

use super::kv::failure;
use super::{Caller, Services, body, decode};
use crate::driver::{Handle, Waiter};
use crate::peer_api::promote::tell_applied;
use crate::peer_api::urls::member_urls;
use crate::transport::{Body, Reply, Status};
use bytes::Bytes;
use quorate_api::etcdserverpb::{
    Member as ApiMember, MemberAddRequest, MemberAddResponse, MemberListRequest,
    MemberListResponse, MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest,
    MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse, ResponseHeader,
};
use quorate_api::{Code, Error};
use quorate_node::ids::member_id;
use quorate_node::store::membership::Member;
use quorate_node::{MemberChange, Reply as MemberReply};
use std::time::{SystemTime, UNIX_EPOCH};

/// A header and the members, as all answers here have them.
fn listed(member: &Handle) -> (Option<ResponseHeader>, Vec<ApiMember>) {
    let view = member.view();
    (header(member), view.members.iter().map(spell).collect())
}

fn header(member: &Handle) -> Option<ResponseHeader> {
    let header = super::header(member.cluster_id(), member.member_id(), member.term());
    Some(header)
}

fn spell(member: &Member) -> ApiMember {
    ApiMember {
        id: member.id,
        name: member.name.clone(),
        peer_ur_ls: member.peer_urls.clone(),
        client_ur_ls: member.client_urls.clone(),
        is_learner: member.is_learner,
    }
}

/// The status of a refused change.
fn refused(error: Error) -> Status {
    match error {
        // etcd sends its client's error of this one, which gRPC does not know.
        Error::MemberNotEnoughStarted => Status::new(Code::Unknown, error.text()),
        error => error.into(),
    }
}

/// The name that raft's protocol has for a change, for the log.
fn kind(change: &MemberChange) -> (&'static str, u64) {
    match change {
        MemberChange::Add(member) if member.is_learner => ("ConfChangeAddLearnerNode", member.id),
        MemberChange::Add(member) => ("ConfChangeAddNode", member.id),
        MemberChange::Remove(id) => ("ConfChangeRemoveNode", *id),
        MemberChange::Update { id, .. } => ("ConfChangeUpdateNode", *id),
        MemberChange::Promote(id) => ("ConfChangeAddNode", *id),
    }
}

/// The member that a request describes; its id is drawn from its URLs and the time, so that one
/// that was removed comes back as another.
fn new_member(request: &MemberAddRequest, now_s: u64) -> Result<Member, Error> {
    let peer_urls = member_urls(&request.peer_ur_ls).ok_or(Error::MemberBadURLs)?;
    Ok(Member {
        id: member_id(&peer_urls, &now_s.to_string()),
        peer_urls,
        is_learner: request.is_learner,
        ..Default::default()
    })
}

impl Services {
    pub(super) fn member_list(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: MemberListRequest = decode(message)?;
        let member = self.member.clone();
        let list = move || {
            let (header, members) = listed(&member);
            body(&MemberListResponse { header, members })
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

    pub(super) fn member_add(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: MemberAddRequest = decode(message)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let added = new_member(&request, now.map_or(0, |now| now.as_secs()))?;
        let member = Some(spell(&added));
        self.change(MemberChange::Add(added), answer, |(header, members)| {
            body(&MemberAddResponse {
                header,
                member,
                members,
            })
        })
    }

    pub(super) fn member_remove(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: MemberRemoveRequest = decode(message)?;
        self.change(
            MemberChange::Remove(request.id),
            answer,
            |(header, members)| body(&MemberRemoveResponse { header, members }),
        )
    }

    /// The URLs are taken as they are: etcd looks at them no more than this.
    pub(super) fn member_update(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: MemberUpdateRequest = decode(message)?;
        let change = MemberChange::Update {
            id: request.id,
            peer_urls: request.peer_ur_ls,
        };
        self.change(change, answer, |(header, members)| {
            body(&MemberUpdateResponse { header, members })
        })
    }

    pub(super) fn member_promote(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: MemberPromoteRequest = decode(message)?;
        let (peers, caller) = (self.peers.clone(), answer());
        self.peers.runtime.spawn(async move {
            let answer = match peers.promote(request.id).await {
                Ok(members) => Ok(body(&MemberPromoteResponse {
                    header: header(&peers.member),
                    members: members.iter().map(spell).collect(),
                })),
                Err(error) => Err(refused(error)),
            };
            caller.respond(answer);
        });
        Ok(Reply::Later)
    }

    /// Has the member make a change, and answers with the members afterwards.
    fn change(
        &self,
        change: MemberChange,
        answer: &mut dyn FnMut() -> Caller,
        respond: impl FnOnce((Option<ResponseHeader>, Vec<ApiMember>)) -> Body + Send + 'static,
    ) -> Result<Reply, Status> {
        let (handle, caller) = (self.member.clone(), answer());
        let (kind, id) = kind(&change);
        let waiter = Waiter::Then(Box::new(move |reply, batch| {
            // What was refused before the log is not told as applied.
            if matches!(reply, MemberReply::Outcome(_)) {
                tell_applied(&handle, kind, id);
            }
            let answer = match reply {
                MemberReply::Outcome(Ok(_)) | MemberReply::Ready => Ok(respond(listed(&handle))),
                MemberReply::Outcome(Err(error)) | MemberReply::Failed(error) => {
                    Err(refused(error))
                }
            };
            caller.respond_in(answer, batch);
        }));
        self.member.ask(Box::new(move |member, _| {
            member.change_membership(&change, waiter);
        }))?;
        Ok(Reply::Later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(urls: &[&str]) -> MemberAddRequest {
        MemberAddRequest {
            peer_ur_ls: urls.iter().map(|url| (*url).to_owned()).collect(),
            is_learner: true,
        }
    }

    #[test]
    fn a_new_member_has_an_id_of_its_urls_and_the_time() {
        let member = new_member(&asked(&["http://b:2", " http://a:1"]), 1700000000).unwrap();
        assert_eq!(member.peer_urls, ["http://a:1", "http://b:2"]);
        assert!(member.is_learner && member.name.is_empty());
        let joined = ["http://a:1http://b:21700000000".to_owned()];
        assert_eq!(member.id, member_id(&joined, ""));
        let later = new_member(&asked(&["http://a:1", "http://b:2"]), 1700000001).unwrap();
        assert_ne!(member.id, later.id);
        assert_eq!(
            new_member(&asked(&["http://a"]), 1),
            Err(Error::MemberBadURLs)
        );
        assert_eq!(new_member(&asked(&[]), 1), Err(Error::MemberBadURLs));
    }

    #[test]
    fn too_few_started_members_have_a_code_of_their_own() {
        let status = refused(Error::MemberNotEnoughStarted);
        assert_eq!(status.code, Code::Unknown);
        assert_eq!(
            status.message,
            "etcdserver: re-configuration failed due to not enough started members"
        );
        assert_eq!(refused(Error::Unhealthy).code, Code::Unavailable);
    }
}
