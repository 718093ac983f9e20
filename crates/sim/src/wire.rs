//! Between the model's requests and answers and etcd's messages.
//!
//! Every put and deletion asks for what was there before, so that the answers tell as much as they
//! can.

use crate::model::{Answer, Compare, Event, Keys, Kv, Op, OpAnswer, Request};
use bytes::Bytes;
use prost::Message as _;
use quorate_node::api;
use quorate_node::api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_node::api::etcdserverpb::request_op::Request as OpRequest;
use quorate_node::api::etcdserverpb::response_op::Response as OpResponse;
use quorate_node::api::etcdserverpb::{
    CompactionRequest, Compare as WireCompare, DeleteRangeRequest, DeleteRangeResponse,
    InternalRaftRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RequestHeader, RequestOp, ResponseHeader, TxnRequest,
    WatchResponse,
};
use quorate_node::api::mvccpb::{Event as WireEvent, KeyValue, event::EventType};
use quorate_node::store;

/// The entry of a request.
pub fn encode(id: u64, request: &Request) -> Bytes {
    let mut raw = InternalRaftRequest {
        header: Some(RequestHeader {
            id,
            ..Default::default()
        }),
        ..Default::default()
    };
    match request {
        Request::One(op) => match op_of(op) {
            OpRequest::RequestPut(put) => raw.put = Some(put),
            OpRequest::RequestDeleteRange(delete) => raw.delete_range = Some(delete),
            OpRequest::RequestRange(range) => raw.range = Some(range),
            OpRequest::RequestTxn(txn) => raw.txn = Some(txn),
        },
        Request::Txn {
            compare,
            then,
            otherwise,
        } => {
            let ops = |ops: &[Op]| {
                let request = |op: &Op| RequestOp {
                    request: Some(op_of(op)),
                };
                ops.iter().map(request).collect()
            };
            raw.txn = Some(TxnRequest {
                compare: compare.iter().map(compare_of).collect(),
                success: ops(then),
                failure: ops(otherwise),
            });
        }
        Request::Compact(revision) => {
            raw.compaction = Some(CompactionRequest {
                revision: *revision,
                physical: false,
            });
        }
        Request::Grant { id, ttl_s } => {
            raw.lease_grant = Some(LeaseGrantRequest {
                id: *id,
                ttl: *ttl_s,
            });
        }
        Request::Revoke(id) => raw.lease_revoke = Some(LeaseRevokeRequest { id: *id }),
    }
    raw.encode_to_vec().into()
}

/// A read of keys at a revision (0: the newest).
pub fn range_of(keys: &Keys, revision: i64) -> RangeRequest {
    RangeRequest {
        key: keys.start.clone().into(),
        range_end: keys.end.clone().unwrap_or_default().into(),
        revision,
        ..Default::default()
    }
}

fn op_of(op: &Op) -> OpRequest {
    match op {
        Op::Put { key, value, lease } => OpRequest::RequestPut(PutRequest {
            key: key.clone().into(),
            value: value.clone().into(),
            lease: *lease,
            prev_kv: true,
            ..Default::default()
        }),
        Op::Delete(keys) => OpRequest::RequestDeleteRange(DeleteRangeRequest {
            key: keys.start.clone().into(),
            range_end: keys.end.clone().unwrap_or_default().into(),
            prev_kv: true,
        }),
        Op::Get(keys) => OpRequest::RequestRange(range_of(keys, 0)),
    }
}

fn compare_of(compare: &Compare) -> WireCompare {
    let (key, target, union) = match compare {
        Compare::Modified(key, at) => (key, CompareTarget::Mod, TargetUnion::ModRevision(*at)),
        Compare::Value(key, value) => (
            key,
            CompareTarget::Value,
            TargetUnion::Value(value.clone().into()),
        ),
    };
    WireCompare {
        result: CompareResult::Equal as i32,
        target: target as i32,
        key: key.clone().into(),
        target_union: Some(union),
        ..Default::default()
    }
}

/// What an entry says: the request's id, and the request where it is one of a client's kind.
pub fn decode(data: &Bytes) -> (u64, Option<Request>) {
    let raw = api::internal::decode(data).expect("members propose what they can read");
    let id = raw.header.as_ref().map_or(0, |header| header.id);
    let request = if let Some(put) = raw.put {
        Some(Request::One(op_from(OpRequest::RequestPut(put))))
    } else if let Some(delete) = raw.delete_range {
        Some(Request::One(op_from(OpRequest::RequestDeleteRange(delete))))
    } else if let Some(txn) = raw.txn {
        let ops = |ops: Vec<RequestOp>| {
            let requests = ops.into_iter().filter_map(|op| op.request);
            requests.map(op_from).collect()
        };
        Some(Request::Txn {
            compare: txn.compare.into_iter().map(compare_from).collect(),
            then: ops(txn.success),
            otherwise: ops(txn.failure),
        })
    } else if let Some(compaction) = raw.compaction {
        Some(Request::Compact(compaction.revision))
    } else if let Some(grant) = raw.lease_grant {
        Some(Request::Grant {
            id: grant.id,
            ttl_s: grant.ttl,
        })
    } else {
        raw.lease_revoke.map(|revoke| Request::Revoke(revoke.id))
    };
    (id, request)
}

fn keys_from(key: &Bytes, end: &Bytes) -> Keys {
    Keys {
        start: key.to_vec(),
        end: (!end.is_empty()).then(|| end.to_vec()),
    }
}

fn op_from(op: OpRequest) -> Op {
    match op {
        OpRequest::RequestPut(put) => Op::Put {
            key: put.key.to_vec(),
            value: put.value.to_vec(),
            lease: put.lease,
        },
        OpRequest::RequestDeleteRange(delete) => {
            Op::Delete(keys_from(&delete.key, &delete.range_end))
        }
        OpRequest::RequestRange(range) => Op::Get(keys_from(&range.key, &range.range_end)),
        OpRequest::RequestTxn(_) => unreachable!("no client nests transactions"),
    }
}

fn compare_from(compare: WireCompare) -> Compare {
    let key = compare.key.to_vec();
    match compare.target_union {
        Some(TargetUnion::Value(value)) => Compare::Value(key, value.to_vec()),
        Some(TargetUnion::ModRevision(at)) => Compare::Modified(key, at),
        other => unreachable!("no client compares {other:?}"),
    }
}

fn kv_from(kv: KeyValue) -> Kv {
    Kv {
        key: kv.key.to_vec(),
        value: kv.value.to_vec(),
        create: kv.create_revision,
        modified: kv.mod_revision,
        version: kv.version,
        lease: kv.lease,
    }
}

fn kvs_from(kvs: Vec<KeyValue>) -> Vec<Kv> {
    kvs.into_iter().map(kv_from).collect()
}

fn revision_of(header: &Option<ResponseHeader>) -> i64 {
    header.as_ref().map_or(0, |header| header.revision)
}

fn put_from(put: PutResponse) -> OpAnswer {
    OpAnswer::Put(put.prev_kv.map(kv_from))
}

fn deletion_from(delete: DeleteRangeResponse) -> OpAnswer {
    assert_eq!(delete.deleted, delete.prev_kvs.len() as i64);
    OpAnswer::Deleted(kvs_from(delete.prev_kvs))
}

fn range_from(range: RangeResponse) -> OpAnswer {
    assert_eq!(range.count, range.kvs.len() as i64);
    OpAnswer::Got(kvs_from(range.kvs))
}

/// What a member answered.
pub fn answer_from(outcome: store::Outcome) -> Answer {
    match outcome {
        Ok(store::Answer::Put(put)) => Answer::One(revision_of(&put.header), put_from(put)),
        Ok(store::Answer::DeleteRange(delete)) => {
            Answer::One(revision_of(&delete.header), deletion_from(delete))
        }
        Ok(store::Answer::Range(range)) => {
            Answer::One(revision_of(&range.header), range_from(range))
        }
        Ok(store::Answer::Txn(txn)) => {
            let each = txn.responses.into_iter().filter_map(|op| op.response);
            let each = each.map(|response| match response {
                OpResponse::ResponsePut(put) => put_from(put),
                OpResponse::ResponseDeleteRange(delete) => deletion_from(delete),
                OpResponse::ResponseRange(range) => range_from(range),
                OpResponse::ResponseTxn(_) => unreachable!("no client nests transactions"),
            });
            Answer::Txn(revision_of(&txn.header), txn.succeeded, each.collect())
        }
        Ok(store::Answer::Compaction(revision)) => Answer::Compacted(revision),
        Ok(store::Answer::LeaseGrant { ttl_s, .. }) => Answer::Granted(ttl_s),
        Ok(store::Answer::LeaseRevoke { revision, .. }) => Answer::Revoked(revision),
        Ok(other) => unreachable!("no client asks for {other:?}"),
        Err(error) => Answer::Failed(error.text().to_owned()),
    }
}

/// The key-values of an encoded RangeResponse.
pub fn kvs_from_range(encoded: &[u8]) -> Vec<Kv> {
    let response = RangeResponse::decode(encoded).expect("a member encodes what it answers");
    kvs_from(response.kvs)
}

/// The events of an encoded WatchResponse.
pub fn events_from_watch(encoded: &[u8]) -> Vec<Event> {
    let response = WatchResponse::decode(encoded).expect("a member encodes what it tells");
    response.events.into_iter().map(event_from).collect()
}

fn event_from(event: WireEvent) -> Event {
    let deleted = event.r#type == EventType::Delete as i32;
    let kv = kv_from(event.kv.expect("an event has a key"));
    Event {
        revision: kv.modified,
        key: kv.key.clone(),
        now: (!deleted).then_some(kv),
        before: event.prev_kv.map(kv_from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back() {
        let keys = Keys {
            start: b"a".to_vec(),
            end: Some(b"c".to_vec()),
        };
        let put = Op::Put {
            key: b"a".to_vec(),
            value: b"1".to_vec(),
            lease: 3,
        };
        let requests = [
            Request::One(put.clone()),
            Request::One(Op::Delete(keys.clone())),
            Request::Txn {
                compare: vec![
                    Compare::Modified(b"a".to_vec(), 0),
                    Compare::Value(b"b".to_vec(), b"x".to_vec()),
                ],
                then: vec![put],
                otherwise: vec![Op::Get(keys)],
            },
            Request::Compact(9),
            Request::Grant { id: 4, ttl_s: 5 },
            Request::Revoke(4),
        ];
        for request in requests {
            assert_eq!(decode(&encode(77, &request)), (77, Some(request)));
        }
    }
}
