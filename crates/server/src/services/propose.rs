//! From a request to an entry of the log.
//!
//! The client's encoded request is wrapped as it is: an InternalRaftRequest is its header and one
//! field with the request in it.

use super::{Caller, Services};
use crate::driver::Waiter;
use crate::metrics::Tally;
use crate::transport::{Reply, Status, WakeBatch};
use prost::encoding::{WireType, encode_key, encode_varint};
use quorate_api::Error;
use quorate_api::etcdserverpb::AlarmType;
use quorate_node::{Proposal, ProposalKind};

/// Fields of InternalRaftRequest.
#[derive(Clone, Copy)]
pub(super) enum Field {
    Put = 4,
    DeleteRange = 5,
    Txn = 6,
    Compaction = 7,
    LeaseGrant = 8,
    LeaseRevoke = 9,
    Alarm = 10,
}

const HEADER_FIELD: u32 = 100;
const HEADER_ID_FIELD: u32 = 1;

fn wrap(id: u64, field: Field, request: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.len() + 32);
    encode_key(field as u32, WireType::LengthDelimited, &mut out);
    encode_varint(request.len() as u64, &mut out);
    out.extend_from_slice(request);
    let mut header = Vec::with_capacity(12);
    encode_key(HEADER_ID_FIELD, WireType::Varint, &mut header);
    encode_varint(id, &mut header);
    encode_key(HEADER_FIELD, WireType::LengthDelimited, &mut out);
    encode_varint(header.len() as u64, &mut out);
    out.extend_from_slice(&header);
    out
}

impl Services {
    /// Proposes an encoded request, whose entry will come to `tally`; the answer follows from it.
    pub(super) fn propose(
        &self,
        field: Field,
        request: &[u8],
        tally: Tally,
        kind: ProposalKind,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let id = self.member.draw_id();
        let data = wrap(id, field, request);
        if data.len() > self.limits.max_request_bytes {
            return Err(Error::RequestTooLarge.into());
        }
        let token = Some(Waiter::Answer(answer(), tally));
        self.member.propose(Proposal {
            id,
            data: data.into(),
            token,
            kind,
        });
        Ok(Reply::Later)
    }

    /// Refuses a write that the space quota has no room for, and raises the alarm. The refusal
    /// leaves after that, so that whoever reads it finds the alarm.
    pub(super) fn refuse_for_space(
        &self,
        cost: i64,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Option<Reply> {
        let view = self.member.view();
        if view.quota.allows(view.sizes.total, cost) {
            return None;
        }
        let caller = answer();
        let refuse = move |_raised, batch: &mut WakeBatch| {
            caller.respond_in(Err(Error::NoSpace.into()), batch);
        };
        let own = self.member.member_id();
        let refused = Waiter::Then(Box::new(refuse));
        self.member
            .raise_alarm(own, AlarmType::Nospace, Some(refused));
        Some(Reply::Later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use quorate_api::etcdserverpb::{InternalRaftRequest, PutRequest, RequestHeader};

    #[test]
    fn wrapping_is_encoding() {
        let put = PutRequest {
            key: "k".into(),
            value: vec![7; 300].into(),
            ..Default::default()
        };
        let whole = InternalRaftRequest {
            header: Some(RequestHeader {
                id: 1 << 60,
                ..Default::default()
            }),
            put: Some(put.clone()),
            ..Default::default()
        };
        assert_eq!(
            wrap(1 << 60, Field::Put, &put.encode_to_vec()),
            whole.encode_to_vec()
        );
    }
}
