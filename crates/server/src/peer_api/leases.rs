//! /leases and /leases/internal: leases are renewed, and their remaining time is known, where their
//! primary is.
//!
//! Bodies are protobuf: LeaseKeepAliveRequest and its response, LeaseInternalRequest and its
//! response, with headers empty. A member that is asked first applies what it knows to be
//! committed, for a second at most. Source: etcd's leasehttp and v3_server.go.

use super::Peers;
use super::exchange::{post, text};
use super::forward::Verdict;
use crate::driver::{Handle, Waiter};
use crate::metrics::METRICS;
use bytes::Bytes;
use http::{Response, StatusCode};
use prost::Message;
use quorate_api::Error;
use quorate_api::etcdserverpb::{
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
    ResponseHeader,
};
use quorate_api::leasepb::{LeaseInternalRequest, LeaseInternalResponse};
use quorate_node::store::lease::Renewal;
use quorate_node::{Member, Revocation};
use std::time::Duration;
use tokio::sync::oneshot;

/// Where leases are renewed.
pub const RENEW_PATH: &str = "/leases";
/// Where they are asked after.
pub const LOOK_UP_PATH: &str = "/leases/internal";
/// Most bytes of a request: it has an id and a flag.
pub(super) const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// How long a member may take to apply what is committed.
const CATCH_UP: Duration = Duration::from_secs(1);
/// Ticks without which a leader does not trust that it still is one.
const TICKS_TRUSTED: u64 = 3;

/// Why a lease was not renewed, or nothing is told of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LeaseError {
    /// There is none.
    #[error("lease not found")]
    NotFound,
    /// This member is not the leases' primary.
    #[error("not a primary lessor")]
    NotPrimary,
    /// The member could not be asked, or did not answer in time.
    #[error(transparent)]
    Member(#[from] Error),
}

/// A first try to renew a lease, on the member's loop.
pub(crate) enum Tried {
    /// Renewed; its TTL in seconds.
    Renewed(i64),
    /// There is none.
    NotFound,
    /// There is none yet: an entry that is committed and not applied may bring it.
    Behind,
    /// It is due and its revocation is on its way; tells how that ends.
    Expiring(oneshot::Receiver<Revocation>),
    /// This member is not primary.
    NotPrimary,
}

/// Whether the loop has ticked lately: else this member may have slept through an election.
pub(crate) fn is_ticking(handle: &Handle, member: &Member<Waiter>) -> bool {
    let trusted_ms = TICKS_TRUSTED * member.config().tick_ms;
    member.now_ms().saturating_sub(handle.ticked_ms()) <= trusted_ms
}

/// Whether something is committed here and not applied.
pub(crate) fn is_behind(member: &Member<Waiter>) -> bool {
    let status = member.status();
    status.applied < status.committed
}

/// Renews a lease on the loop, if that can be done now.
pub(crate) fn try_renew(member: &mut Member<Waiter>, id: i64) -> Tried {
    let now_ms = member.now_ms();
    match member.lessor().renew(id, now_ms) {
        Renewal::Renewed {
            ttl_s,
            clear_checkpoint,
        } => {
            METRICS.leases_renewed.inc();
            if clear_checkpoint {
                member.clear_checkpoint(id);
            }
            Tried::Renewed(ttl_s)
        }
        Renewal::NotFound if is_behind(member) => Tried::Behind,
        Renewal::NotFound => Tried::NotFound,
        Renewal::Expiring => {
            let (sender, receiver) = oneshot::channel();
            let tell = move |revocation| {
                let _unheard = sender.send(revocation);
            };
            member.when_revoked(id, Box::new(tell));
            Tried::Expiring(receiver)
        }
        Renewal::NotPrimary => Tried::NotPrimary,
    }
}

/// What a member's loop knows of a lease.
pub(crate) enum Known {
    /// All that is told of it.
    Found(LeaseTimeToLiveResponse),
    /// There is none.
    NotFound,
    /// This member is not primary, and knows no remaining time.
    NotPrimary,
}

/// Looks a lease up, on the loop. The header is left to the caller.
pub(crate) fn look_up(member: &mut Member<Waiter>, id: i64, keys: bool) -> Known {
    let now_ms = member.now_ms();
    let Some(info) = member.lessor().info(id, now_ms, keys) else {
        return Known::NotFound;
    };
    let Some(remaining_ms) = info.remaining_ms else {
        return Known::NotPrimary;
    };
    Known::Found(LeaseTimeToLiveResponse {
        header: None,
        id,
        ttl: (remaining_ms / 1000) as i64,
        granted_ttl: info.ttl_s,
        keys: info
            .keys
            .iter()
            .map(|key| Bytes::copy_from_slice(key))
            .collect(),
    })
}

/// Waits until what is committed is applied, as long as a lease may wait for it.
pub(crate) async fn catch_up(member: &Handle) -> Result<(), Error> {
    match tokio::time::timeout(CATCH_UP, member.caught_up()).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::TimeoutWaitAppliedIndex),
    }
}

/// Renews a lease that this member is primary of.
async fn renew_here(member: &Handle, id: i64) -> Result<i64, LeaseError> {
    let mut waited = false;
    loop {
        match member.answer(move |member| try_renew(member, id)).await? {
            Tried::Renewed(ttl_s) => return Ok(ttl_s),
            // What is committed since the wait did not come before the question.
            Tried::Behind if !waited => {
                catch_up(member).await?;
                waited = true;
            }
            Tried::NotFound | Tried::Behind => return Err(LeaseError::NotFound),
            Tried::NotPrimary => return Err(LeaseError::NotPrimary),
            Tried::Expiring(told) => {
                return Err(match told.await {
                    Ok(Revocation::Gone) => LeaseError::NotFound,
                    Ok(Revocation::Demoted) => LeaseError::NotPrimary,
                    Err(_) => Error::Stopped.into(),
                });
            }
        }
    }
}

/// Whether this member, which takes itself for the leader, is it.
async fn is_leader_for_sure(member: &Handle) -> Result<bool, LeaseError> {
    let handle = member.clone();
    let ticking = member.answer(move |member| is_ticking(&handle, member));
    if ticking.await? {
        return Ok(true);
    }
    if let Err(error) = member.linearized().await {
        tracing::warn!("error" = %error, "Failed to check current member's leadership");
        return Ok(false);
    }
    let leader = member.status().leader;
    if leader != member.member_id() {
        tracing::warn!(
            "local-member-id" = member.member_id(),
            "new-lead" = leader,
            "Current member isn't a leader"
        );
    }
    Ok(leader == member.member_id())
}

impl Peers {
    /// Renews a lease, wherever its primary is; its TTL in seconds. `fast`: a lease that is there
    /// is renewed without waiting for what is committed.
    pub(crate) async fn renew_lease(&self, id: i64, fast: bool) -> Result<i64, LeaseError> {
        let member = &self.member;
        if member.leads() {
            if !is_leader_for_sure(member).await? {
                return Err(LeaseError::NotPrimary);
            }
            if !fast {
                catch_up(member).await?;
            }
            match renew_here(member, id).await {
                Err(LeaseError::NotPrimary) => {}
                outcome => return outcome,
            }
        }
        let body = LeaseKeepAliveRequest { id }.encode_to_vec();
        self.ask_leader(post(RENEW_PATH, body), |answer| read_renewal(answer, id))
            .await?
    }

    /// What is known of a lease, wherever its primary is.
    pub(crate) async fn lease_time_to_live(
        &self,
        id: i64,
        keys: bool,
    ) -> Result<LeaseTimeToLiveResponse, LeaseError> {
        let member = &self.member;
        if member.leads() {
            catch_up(member).await?;
            let known = member.answer(move |member| look_up(member, id, keys));
            return match known.await? {
                Known::Found(response) => Ok(response),
                Known::NotFound => Err(LeaseError::NotFound),
                // "Not primary" would not make a client try again.
                Known::NotPrimary => Err(Error::LeaderChanged.into()),
            };
        }
        let question = LeaseInternalRequest {
            lease_time_to_live_request: Some(LeaseTimeToLiveRequest { id, keys }),
        };
        let request = post(LOOK_UP_PATH, question.encode_to_vec());
        self.ask_leader(request, |answer| read_time_to_live(answer, id))
            .await?
    }
}

fn read_renewal(answer: &Response<Bytes>, id: i64) -> Verdict<Result<i64, LeaseError>> {
    match answer.status() {
        StatusCode::OK => match LeaseKeepAliveResponse::decode(answer.body().clone()) {
            Ok(response) if response.id == id => Verdict::Final(Ok(response.ttl)),
            _ => Verdict::Again,
        },
        StatusCode::NOT_FOUND => Verdict::Final(Err(LeaseError::NotFound)),
        status => again(status, answer),
    }
}

fn read_time_to_live(
    answer: &Response<Bytes>,
    id: i64,
) -> Verdict<Result<LeaseTimeToLiveResponse, LeaseError>> {
    match answer.status() {
        StatusCode::OK => {
            let decoded = LeaseInternalResponse::decode(answer.body().clone());
            match decoded.map(|decoded| decoded.lease_time_to_live_response) {
                Ok(Some(response)) if response.id == id => Verdict::Final(Ok(response)),
                _ => Verdict::Again,
            }
        }
        StatusCode::NOT_FOUND => Verdict::Final(Err(LeaseError::NotFound)),
        status => again(status, answer),
    }
}

fn again<R>(status: StatusCode, answer: &Response<Bytes>) -> Verdict<R> {
    tracing::debug!(
        "status-code" = status.as_u16(),
        "response" = text(answer),
        "the leader did not answer for a lease"
    );
    Verdict::Again
}

/// A refusal, as the peer port words it.
pub(super) type Refusal = (StatusCode, String);

fn refuse(error: LeaseError) -> Refusal {
    let status = match error {
        LeaseError::NotFound => StatusCode::NOT_FOUND,
        LeaseError::Member(Error::TimeoutWaitAppliedIndex) => {
            let text = "waiting for node to catch up its applied index has timed out";
            return (StatusCode::REQUEST_TIMEOUT, text.to_owned());
        }
        LeaseError::NotPrimary | LeaseError::Member(_) => StatusCode::BAD_REQUEST,
    };
    (status, error.to_string())
}

fn unreadable() -> Refusal {
    let text = "error unmarshalling request";
    (StatusCode::BAD_REQUEST, text.to_owned())
}

/// Answers [`RENEW_PATH`].
pub(super) async fn serve_renewal(member: &Handle, body: Bytes) -> Result<Vec<u8>, Refusal> {
    let request = LeaseKeepAliveRequest::decode(body).map_err(|_| unreadable())?;
    catch_up(member).await.map_err(|e| refuse(e.into()))?;
    let ttl = renew_here(member, request.id).await.map_err(refuse)?;
    Ok(LeaseKeepAliveResponse {
        header: None,
        id: request.id,
        ttl,
    }
    .encode_to_vec())
}

/// Answers [`LOOK_UP_PATH`].
pub(super) async fn serve_look_up(member: &Handle, body: Bytes) -> Result<Vec<u8>, Refusal> {
    let request = LeaseInternalRequest::decode(body).map_err(|_| unreadable())?;
    let LeaseTimeToLiveRequest { id, keys } =
        request.lease_time_to_live_request.ok_or_else(unreadable)?;
    catch_up(member).await.map_err(|e| refuse(e.into()))?;
    let known = member.answer(move |member| look_up(member, id, keys)).await;
    match known.map_err(|e| refuse(e.into()))? {
        Known::Found(response) => {
            let response = LeaseTimeToLiveResponse {
                header: Some(ResponseHeader::default()),
                ..response
            };
            Ok(LeaseInternalResponse {
                lease_time_to_live_response: Some(response),
            }
            .encode_to_vec())
        }
        Known::NotFound => Err(refuse(LeaseError::NotFound)),
        Known::NotPrimary => {
            let text = LeaseError::NotPrimary.to_string();
            Err((StatusCode::INTERNAL_SERVER_ERROR, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: Vec<u8>) -> Response<Bytes> {
        let mut answer = Response::new(Bytes::from(body));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        answer
    }

    fn is_again<R>(verdict: Verdict<R>) -> bool {
        matches!(verdict, Verdict::Again)
    }

    #[test]
    fn a_renewal_is_taken_for_its_own_lease_alone() {
        let renewed = LeaseKeepAliveResponse {
            header: None,
            id: 5,
            ttl: 60,
        };
        let body = renewed.encode_to_vec();
        assert_eq!(body, [0x10, 5, 0x18, 60]);
        let read = |status, body: &[u8], id| read_renewal(&answer(status, body.to_vec()), id);
        assert!(matches!(read(200, &body, 5), Verdict::Final(Ok(60))));
        assert!(is_again(read(200, &body, 6)));
        assert!(is_again(read(200, b"\xff", 5)));
        assert!(matches!(
            read(404, b"lease not found\n", 5),
            Verdict::Final(Err(LeaseError::NotFound))
        ));
        assert!(is_again(read(408, b"", 5)));
        assert!(is_again(read(400, b"not a primary lessor\n", 5)));
    }

    #[test]
    fn a_time_to_live_comes_with_an_empty_header() {
        let told = LeaseTimeToLiveResponse {
            header: Some(ResponseHeader::default()),
            id: 5,
            ttl: 59,
            granted_ttl: 60,
            keys: vec![Bytes::from_static(b"k")],
        };
        let body = LeaseInternalResponse {
            lease_time_to_live_response: Some(told.clone()),
        }
        .encode_to_vec();
        assert_eq!(
            body,
            [
                0x0a, 11, 0x0a, 0, 0x10, 5, 0x18, 59, 0x20, 60, 0x2a, 1, b'k'
            ]
        );
        let read = |status, body: &[u8], id| read_time_to_live(&answer(status, body.to_vec()), id);
        assert!(matches!(read(200, &body, 5), Verdict::Final(Ok(read)) if read == told));
        assert!(is_again(read(200, &body, 6)));
        assert!(is_again(read(200, b"", 5)));
        assert!(is_again(read(500, b"not a primary lessor\n", 5)));
        assert!(matches!(
            read(404, b"lease not found\n", 5),
            Verdict::Final(Err(LeaseError::NotFound))
        ));
    }

    #[test]
    fn refusals_have_etcds_status_and_words() {
        let not_found = refuse(LeaseError::NotFound);
        assert_eq!(not_found, (StatusCode::NOT_FOUND, "lease not found".into()));
        let not_primary = refuse(LeaseError::NotPrimary);
        assert_eq!(
            not_primary,
            (StatusCode::BAD_REQUEST, "not a primary lessor".into())
        );
        let late = refuse(Error::TimeoutWaitAppliedIndex.into());
        assert_eq!(late.0, StatusCode::REQUEST_TIMEOUT);
    }
}
