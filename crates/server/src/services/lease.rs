//! Leases. Grants and revocations go through the log; a member that is not the leases' primary asks
//! the one that is for renewals and remaining times.

use super::propose::Field;
use super::{Caller, Services, body, decode};
use crate::metrics::{Operation, Tally};
use crate::peer_api::leases::{Known, LeaseError, is_behind, look_up};
use crate::transport::{Body, Code, Reply, Status};
use bytes::Bytes;
use prost::Message;
use quorate_api::Error;
use quorate_api::etcdserverpb::{
    LeaseGrantRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, ResponseHeader,
};
use quorate_failpoints::fail_point;
use quorate_node::ProposalKind;
use quorate_node::store::lease::MAX_TTL_S;
use quorate_node::store::quota::LEASE_OVERHEAD;

/// The status of a lease that could not be asked after.
pub(super) fn lease_status(error: LeaseError) -> Status {
    match error {
        LeaseError::NotFound => Error::LeaseNotFound.into(),
        // etcd has no code for it.
        LeaseError::NotPrimary => Status::new(Code::Unknown, error.to_string()),
        LeaseError::Member(error) => error.into(),
    }
}

/// What a client is told of a lease; nothing but that there is none, where it is not found.
fn time_to_live(
    header: ResponseHeader,
    id: i64,
    told: Result<LeaseTimeToLiveResponse, LeaseError>,
) -> Result<Body, Status> {
    let told = match told {
        Ok(told) => told,
        Err(LeaseError::NotFound) => LeaseTimeToLiveResponse {
            id,
            ttl: -1,
            ..Default::default()
        },
        Err(error) => return Err(lease_status(error)),
    };
    Ok(body(&LeaseTimeToLiveResponse {
        header: Some(header),
        ..told
    }))
}

impl Services {
    pub(super) fn lease_grant(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let mut request: LeaseGrantRequest = decode(message)?;
        if request.ttl > MAX_TTL_S {
            return Err(Error::LeaseTTLTooLarge.into());
        }
        if let Some(refused) = self.refuse_for_space(LEASE_OVERHEAD, answer) {
            return Ok(refused);
        }
        while request.id == 0 {
            // Positive, so that it reads well; taken ones are refused by apply.
            request.id = (self.member.draw_id() & (i64::MAX as u64)) as i64;
        }
        let tally = Tally::Other(Operation::LeaseGrant);
        self.propose(
            Field::LeaseGrant,
            &request.encode_to_vec(),
            tally,
            ProposalKind::Ordinary,
            answer,
        )
    }

    pub(super) fn lease_revoke(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let _checked: LeaseRevokeRequest = decode(message.clone())?;
        let tally = Tally::Other(Operation::LeaseRevoke);
        self.propose(
            Field::LeaseRevoke,
            &message,
            tally,
            ProposalKind::Revocation,
            answer,
        )
    }

    pub(super) fn lease_time_to_live(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let LeaseTimeToLiveRequest { id, keys } = decode(message)?;
        let (reader, peers, caller) = (self.reader(), self.peers.clone(), answer());
        fail_point!("beforeLookupWhenLeaseTimeToLive");
        self.member.ask(Box::new(move |member, batch| {
            // A primary that is not behind answers at once; all else is a matter of waiting.
            if member.lessor().is_primary() && !is_behind(member) {
                let told = match look_up(member, id, keys) {
                    Known::Found(told) => Ok(told),
                    Known::NotFound => Err(LeaseError::NotFound),
                    Known::NotPrimary => Err(Error::LeaderChanged.into()),
                };
                let header = reader.header(member.view().revision);
                return caller.respond_in(time_to_live(header, id, told), batch);
            }
            let runtime = peers.runtime.clone();
            runtime.spawn(async move {
                let told = peers.lease_time_to_live(id, keys).await;
                let header = reader.header(reader.member.view().revision);
                caller.respond(time_to_live(header, id, told));
            });
        }))?;
        Ok(Reply::Later)
    }

    /// This member's leases as they are, wherever their primary is.
    pub(super) fn lease_leases(
        &self,
        _message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let (reader, caller) = (self.reader(), answer());
        self.member.ask(Box::new(move |member, batch| {
            let revision = member.view().revision;
            let leases = member
                .lessor()
                .ids()
                .into_iter()
                .map(|id| LeaseStatus { id });
            let response = LeaseLeasesResponse {
                header: Some(reader.header(revision)),
                leases: leases.collect(),
            };
            caller.respond_in(Ok(body(&response)), batch);
        }))?;
        Ok(Reply::Later)
    }
}
