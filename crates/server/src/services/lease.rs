//! Leases. Grants and revocations go through the log; keep-alives and questions are asked of the
//! member, which is their primary.

use super::kv::{Reader, failure};
use super::propose::Field;
use super::sink::Sink;
use super::{Caller, Services, body, decode};
use crate::metrics::{METRICS, Operation, Tally};
use crate::transport::{Reply, Status, StreamHandler, WakeBatch};
use bytes::Bytes;
use prost::Message;
use quorate_api::Error;
use quorate_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesResponse,
    LeaseRevokeRequest, LeaseStatus, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use quorate_node::Reply as MemberReply;
use quorate_node::store::lease::{MAX_TTL_S, Renewal};
use quorate_node::store::quota::LEASE_OVERHEAD;

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
            false,
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
        self.propose(Field::LeaseRevoke, &message, tally, false, answer)
    }

    /// Asks once the member is sure to be primary, and has applied what was acknowledged before.
    fn when_current(
        &self,
        answer: &mut dyn FnMut() -> Caller,
        then: impl FnOnce(Reader, Caller, &mut WakeBatch) + Send + 'static,
    ) -> Reply {
        let (reader, caller) = (self.reader(), answer());
        if self.member.reads_are_local() {
            then(reader, caller, &mut WakeBatch::new());
        } else {
            self.member
                .linearizable(Box::new(move |reply, batch| match reply {
                    MemberReply::Ready => then(reader, caller, batch),
                    other => caller.respond_in(Err(failure(other)), batch),
                }));
        }
        Reply::Later
    }

    pub(super) fn lease_time_to_live(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: LeaseTimeToLiveRequest = decode(message)?;
        Ok(self.when_current(answer, move |reader, caller, _| {
            let member = reader.member.clone();
            // A question that finds no room drops the caller, which tells the client.
            let _told = member.ask(Box::new(move |member, batch| {
                let now_ms = member.now_ms();
                let revision = member.view().revision;
                let info = member.lessor().info(request.id, now_ms, request.keys);
                let mut response = LeaseTimeToLiveResponse {
                    header: Some(reader.header(revision)),
                    id: request.id,
                    ttl: -1,
                    ..Default::default()
                };
                if let Some(info) = info
                    && let Some(remaining_ms) = info.remaining_ms
                {
                    response.ttl = (remaining_ms / 1000) as i64;
                    response.granted_ttl = info.ttl_s;
                    response.keys = info
                        .keys
                        .iter()
                        .map(|key| Bytes::copy_from_slice(key))
                        .collect();
                }
                caller.respond_in(Ok(body(&response)), batch);
            }));
        }))
    }

    pub(super) fn lease_leases(
        &self,
        _message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        Ok(self.when_current(answer, move |reader, caller, _| {
            let member = reader.member.clone();
            // A question that finds no room drops the caller, which tells the client.
            let _told = member.ask(Box::new(move |member, batch| {
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
            }));
        }))
    }

    pub(super) fn open_keep_alive(&self, sink: Sink) -> Box<dyn StreamHandler> {
        Box::new(KeepAlive {
            reader: self.reader(),
            sink,
        })
    }
}

struct KeepAlive {
    reader: Reader,
    sink: Sink,
}

impl StreamHandler for KeepAlive {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        let request: LeaseKeepAliveRequest = decode(message)?;
        // A client that asks and does not read its answers must not fill the memory.
        if self.sink.writable() == 0 {
            return Err(Error::RequestTooManyRequests.into());
        }
        let (reader, sink, id) = (self.reader.clone(), self.sink.clone(), request.id);
        // The header is of before the renewal: nobody sees a lease revoked at a revision and kept
        // alive at a later one.
        let header = reader.header(reader.member.view().revision);
        let tell = move |ttl: i64, batch: &mut WakeBatch| {
            let response = LeaseKeepAliveResponse {
                header: Some(header),
                id,
                ttl,
            };
            sink.send_in(body(&response), batch);
        };
        let sink = self.sink.clone();
        let asked = self.reader.member.ask(Box::new(move |member, batch| {
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
                    tell(ttl_s, batch);
                }
                Renewal::NotFound => tell(0, batch),
                // Its revocation is on its way: the answer is given when it is applied.
                Renewal::Expiring => {
                    member.when_revoked(id, Box::new(move || tell(0, &mut WakeBatch::new())));
                }
                Renewal::NotPrimary => sink.close_in(Error::NoLeader.into(), batch),
            }
        }));
        Ok(asked?)
    }

    fn on_half_close(&mut self) {
        // Behind the answers to what was asked before.
        let sink = self.sink.clone();
        let close = Box::new(move |_: &mut _, batch: &mut _| sink.close_in(Status::ok(), batch));
        if let Err(error) = self.reader.member.ask(close) {
            self.sink.close(error.into());
        }
    }

    fn on_cancel(&mut self) {}

    fn on_writable(&mut self) {}
}
