//! /members/promote/ID: a learner becomes a voter. Only the leader knows whether it has caught up,
//! so any other member passes the request on.
//!
//! The id is decimal; a success answers with the members as /members does. Source: etcd's
//! etcdhttp (peer.go) and cluster_util.go.

use super::Peers;
use super::exchange::text;
use super::forward::Verdict;
use super::leases::catch_up;
use super::members;
use crate::metrics::METRICS;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri};
use quorate_api::Error;
use quorate_node::MemberChange;
use quorate_node::store::membership::Member;

/// What it is served under; the id follows.
pub const PREFIX: &str = "/members/promote/";
const NOT_FOUND: &str = "membership: ID not found";
const NOT_A_LEARNER: &str = "membership: can only promote a learner member";

impl Peers {
    /// Promotes a learner, wherever the leader is; the members afterwards.
    pub(crate) async fn promote(&self, id: u64) -> Result<Vec<Member>, Error> {
        match self.promote_here(id).await {
            Ok(()) => {
                METRICS.learner_promotions.inc();
                let view = self.member.view();
                Ok(view.members.iter().cloned().collect())
            }
            Err(Error::NotLeader) => self.ask_leader(request(id), read).await?,
            Err(error) => Err(error),
        }
    }

    async fn promote_here(&self, id: u64) -> Result<(), Error> {
        catch_up(&self.member).await?;
        let change = MemberChange::Promote(id);
        let outcome = self
            .member
            .done(move |member, waiter| member.change_membership(&change, waiter))
            .await;
        if outcome != Err(Error::NotLeader) {
            tell_applied(&self.member, "ConfChangeAddNode", id);
        }
        outcome
    }
}

/// Tells the operator of a change of membership that went through the log.
pub(crate) fn tell_applied(member: &crate::driver::Handle, kind: &'static str, id: u64) {
    tracing::info!(
        "local-member-id" = format!("{:x}", member.member_id()),
        "raft-conf-change" = kind,
        "raft-conf-change-node-id" = format!("{id:x}"),
        "applied a configuration change through raft"
    );
}

fn request(id: u64) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = Method::POST;
    *request.uri_mut() =
        Uri::try_from(format!("{PREFIX}{id}")).expect("digits may stand in a path");
    request
}

fn read(answer: &Response<Bytes>) -> Verdict<Result<Vec<Member>, Error>> {
    let refused = |error| Verdict::Final(Err(error));
    match answer.status() {
        StatusCode::OK => match members::decode(answer.body()) {
            Ok(members) => Verdict::Final(Ok(members)),
            Err(_) => Verdict::Again,
        },
        StatusCode::NOT_FOUND => refused(Error::MemberNotFound),
        StatusCode::PRECONDITION_FAILED if text(answer).contains(Error::LearnerNotReady.text()) => {
            refused(Error::LearnerNotReady)
        }
        StatusCode::PRECONDITION_FAILED if text(answer).contains(NOT_A_LEARNER) => {
            refused(Error::MemberNotLearner)
        }
        _ => Verdict::Again,
    }
}

/// The id that a path names, or what it is answered.
pub(super) fn id_of(path: &str) -> Result<u64, String> {
    let id = path.strip_prefix(PREFIX).unwrap_or_default();
    // As Go's ParseUint: digits alone.
    let digits = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    id.parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| format!("member {id} not found in cluster"))
}

/// How a refusal is answered; `None`: as an internal error.
pub(super) fn refusal(error: Error) -> Option<(StatusCode, &'static str)> {
    match error {
        Error::MemberNotFound => Some((StatusCode::NOT_FOUND, NOT_FOUND)),
        Error::MemberNotLearner => Some((StatusCode::PRECONDITION_FAILED, NOT_A_LEARNER)),
        Error::LearnerNotReady => Some((StatusCode::PRECONDITION_FAILED, error.text())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: u16, body: &'static str) -> Option<Result<Vec<Member>, Error>> {
        let mut answer = Response::new(Bytes::from_static(body.as_bytes()));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        match read(&answer) {
            Verdict::Final(told) => Some(told),
            Verdict::Again => None,
        }
    }

    #[test]
    fn refusals_come_back_as_they_went_out() {
        for error in [
            Error::MemberNotFound,
            Error::MemberNotLearner,
            Error::LearnerNotReady,
        ] {
            let (status, text) = refusal(error).unwrap();
            assert_eq!(told(status.as_u16(), text), Some(Err(error)));
        }
        assert_eq!(refusal(Error::NotLeader), None);
    }

    #[test]
    fn other_answers_are_asked_for_again() {
        assert_eq!(told(500, "{\"message\":\"Internal Server Error\"}"), None);
        assert_eq!(told(408, ""), None);
        assert_eq!(told(412, "something else"), None);
        assert_eq!(told(200, "no json"), None);
        let promoted = told(200, "[{\"id\":2,\"peerURLs\":[\"http://b\"]}]\n");
        assert_eq!(promoted.unwrap().unwrap()[0].id, 2);
    }

    #[test]
    fn ids_are_decimal() {
        assert_eq!(request(17).uri(), "/members/promote/17");
        assert_eq!(id_of("/members/promote/17"), Ok(17));
        for bad in ["zz", "", "+1", "1x", "99999999999999999999"] {
            assert_eq!(
                id_of(&format!("{PREFIX}{bad}")),
                Err(format!("member {bad} not found in cluster"))
            );
        }
    }
}
