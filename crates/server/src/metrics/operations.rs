//! What requests come to: which operation an entry is, and how many puts, deletions and ranges it
//! makes.
//!
//! An entry's outcome does not say what it did, so the call that proposed it leaves a [`Tally`] of
//! what it will come to, which is taken when the outcome is there. A transaction's tally has both
//! branches; the outcome tells which one ran.

use super::METRICS;
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::response_op::Response;
use quorate_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, TxnResponse,
};
use quorate_node::store::Answer;

/// Operations, as etcd_server_apply_duration_seconds names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Range,
    Put,
    DeleteRange,
    Txn,
    Compaction,
    LeaseGrant,
    LeaseRevoke,
    LeaseCheckpoint,
    Alarm,
    ClusterVersionSet,
    ClusterMemberAttrSet,
    DowngradeInfoSet,
    Unknown,
}

/// How many there are.
pub const OPERATIONS: usize = Operation::ALL.len();

const HEADER_FIELD: u64 = 100;

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [Operation] = &[
        Operation::Range,
        Operation::Put,
        Operation::DeleteRange,
        Operation::Txn,
        Operation::Compaction,
        Operation::LeaseGrant,
        Operation::LeaseRevoke,
        Operation::LeaseCheckpoint,
        Operation::Alarm,
        Operation::ClusterVersionSet,
        Operation::ClusterMemberAttrSet,
        Operation::DowngradeInfoSet,
        Operation::Unknown,
    ];

    /// As etcd names it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Range => "Range",
            Operation::Put => "Put",
            Operation::DeleteRange => "DeleteRange",
            Operation::Txn => "Txn",
            Operation::Compaction => "Compaction",
            Operation::LeaseGrant => "LeaseGrant",
            Operation::LeaseRevoke => "LeaseRevoke",
            Operation::LeaseCheckpoint => "LeaseCheckpoint",
            Operation::Alarm => "Alarm",
            Operation::ClusterVersionSet => "ClusterVersionSet",
            Operation::ClusterMemberAttrSet => "ClusterMemberAttrSet",
            Operation::DowngradeInfoSet => "DowngradeInfoSet",
            Operation::Unknown => "unknown",
        }
    }

    /// The operation of an encoded InternalRaftRequest, by its first field that is not the header.
    /// `None` for an empty entry or a configuration change, which begins with a field that no
    /// request begins with.
    pub fn of(mut entry: &[u8]) -> Option<Operation> {
        let mut key = prost::encoding::decode_varint(&mut entry).ok()?;
        if key >> 3 == HEADER_FIELD {
            let len = usize::try_from(prost::encoding::decode_varint(&mut entry).ok()?).ok()?;
            entry = entry.get(len..)?;
            key = prost::encoding::decode_varint(&mut entry).ok()?;
        }
        Some(match key >> 3 {
            1 | 2 => return None,
            3 => Operation::Range,
            4 => Operation::Put,
            5 => Operation::DeleteRange,
            6 => Operation::Txn,
            7 => Operation::Compaction,
            8 => Operation::LeaseGrant,
            9 => Operation::LeaseRevoke,
            10 => Operation::Alarm,
            11 => Operation::LeaseCheckpoint,
            1300 => Operation::ClusterVersionSet,
            1301 => Operation::ClusterMemberAttrSet,
            1302 => Operation::DowngradeInfoSet,
            _ => Operation::Unknown,
        })
    }
}

/// Operations on keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Puts.
    pub puts: u64,
    /// Bytes of their keys and values.
    pub put_bytes: u64,
    /// Deletions of a range.
    pub deletes: u64,
    /// Ranges, those that puts and deletions begin with for the previous values among them.
    pub ranges: u64,
}

impl Shape {
    fn add_put(&mut self, put: &PutRequest) {
        self.puts += 1;
        self.put_bytes += (put.key.len() + put.value.len()) as u64;
        self.ranges += u64::from(put.prev_kv || put.ignore_value || put.ignore_lease);
    }

    fn add_delete(&mut self, delete: &DeleteRangeRequest) {
        self.deletes += 1;
        self.ranges += u64::from(delete.prev_kv);
    }

    fn count(&self) {
        METRICS.puts.add(self.puts);
        METRICS.put_bytes.add(self.put_bytes);
        METRICS.deletes.add(self.deletes);
        METRICS.ranges_applied.add(self.ranges);
        if self.puts + self.deletes + self.ranges > 1 {
            METRICS.txns.inc();
        }
    }
}

/// A transaction's branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnShape {
    compares: u64,
    /// Where the comparison fails, and where it holds: what runs, and transactions in it.
    branches: [(Shape, Vec<TxnShape>); 2],
}

impl TxnShape {
    /// What a transaction may come to.
    pub fn of(txn: &TxnRequest) -> TxnShape {
        let branch = |ops: &[RequestOp]| {
            let mut found = (Shape::default(), Vec::new());
            for op in ops {
                match &op.request {
                    Some(Request::RequestPut(put)) => found.0.add_put(put),
                    Some(Request::RequestDeleteRange(delete)) => found.0.add_delete(delete),
                    Some(Request::RequestRange(_)) => found.0.ranges += 1,
                    Some(Request::RequestTxn(txn)) => found.1.push(TxnShape::of(txn)),
                    None => {}
                }
            }
            found
        };
        TxnShape {
            compares: txn.compare.len() as u64,
            branches: [branch(&txn.failure), branch(&txn.success)],
        }
    }

    /// Adds what ran to `ran`, and the comparisons made to `compares`.
    fn add(&self, response: &TxnResponse, ran: &mut Shape, compares: &mut u64) {
        *compares += self.compares;
        let (shape, inner) = &self.branches[usize::from(response.succeeded)];
        ran.puts += shape.puts;
        ran.put_bytes += shape.put_bytes;
        ran.deletes += shape.deletes;
        ran.ranges += shape.ranges;
        let answers = response
            .responses
            .iter()
            .filter_map(|op| match &op.response {
                Some(Response::ResponseTxn(inner)) => Some(inner),
                _ => None,
            });
        for (txn, answer) in inner.iter().zip(answers) {
            txn.add(answer, ran, compares);
        }
    }

    /// Counts a transaction that was read, not applied.
    pub fn count_read(&self, response: &TxnResponse) {
        let (mut ran, mut compares) = (Shape::default(), 0);
        self.add(response, &mut ran, &mut compares);
        ran.ranges += compares;
        ran.count();
    }
}

/// What a proposal will come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tally {
    /// A put, or a deletion.
    Keys(Operation, Shape),
    /// A transaction.
    Txn(Box<TxnShape>),
    /// Something else.
    Other(Operation),
}

impl Tally {
    /// A put's.
    pub fn put(put: &PutRequest) -> Tally {
        let mut shape = Shape::default();
        shape.add_put(put);
        Tally::Keys(Operation::Put, shape)
    }

    /// A deletion's.
    pub fn delete(delete: &DeleteRangeRequest) -> Tally {
        let mut shape = Shape::default();
        shape.add_delete(delete);
        Tally::Keys(Operation::DeleteRange, shape)
    }

    /// A transaction's.
    pub fn txn(txn: &TxnRequest) -> Tally {
        Tally::Txn(Box::new(TxnShape::of(txn)))
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        match self {
            Tally::Keys(operation, _) | Tally::Other(operation) => *operation,
            Tally::Txn(_) => Operation::Txn,
        }
    }

    /// Counts what an applied entry came to.
    pub fn count(&self, answer: &Answer) {
        match (self, answer) {
            (Tally::Keys(_, shape), _) => shape.count(),
            (Tally::Txn(shape), Answer::Txn(response)) => {
                let (mut ran, mut compares) = (Shape::default(), 0);
                shape.add(response, &mut ran, &mut compares);
                ran.count();
                // The comparisons are a read of their own before it.
                METRICS.ranges_applied.add(compares);
                if compares > 1 {
                    METRICS.txns.inc();
                }
            }
            (_, Answer::LeaseGrant { ttl_s, .. }) => {
                METRICS.leases_granted.inc();
                METRICS.lease_ttls.observe_units((*ttl_s).max(0) as u64);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use quorate_api::etcdserverpb::{
        Compare, InternalRaftRequest, LeaseRevokeRequest, RangeRequest, RequestHeader, ResponseOp,
    };
    use quorate_api::membershippb::ClusterVersionSetRequest;

    fn put(value: usize) -> PutRequest {
        PutRequest {
            key: "key".into(),
            value: vec![0; value].into(),
            ..Default::default()
        }
    }

    fn op(request: Request) -> RequestOp {
        RequestOp {
            request: Some(request),
        }
    }

    #[test]
    fn an_entry_shows_its_operation_first() {
        let header = Some(RequestHeader {
            id: 7,
            ..Default::default()
        });
        let revoke = InternalRaftRequest {
            header: header.clone(),
            lease_revoke: Some(LeaseRevokeRequest { id: 3 }),
            ..Default::default()
        };
        assert_eq!(
            Operation::of(&revoke.encode_to_vec()),
            Some(Operation::LeaseRevoke)
        );
        let version = InternalRaftRequest {
            header,
            cluster_version_set: Some(ClusterVersionSetRequest {
                ver: "3.7.0".into(),
            }),
            ..Default::default()
        };
        assert_eq!(
            Operation::of(&version.encode_to_vec()),
            Some(Operation::ClusterVersionSet)
        );
        assert_eq!(Operation::of(&[]), None);
        assert_eq!(Operation::of(&[0x08, 0]), None, "a configuration change");
        for (i, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(*operation as usize, i);
        }
    }

    #[test]
    fn a_transaction_comes_to_the_branch_that_ran() {
        let inner = TxnRequest {
            compare: vec![Compare::default()],
            success: vec![op(Request::RequestPut(put(100)))],
            failure: vec![op(Request::RequestDeleteRange(DeleteRangeRequest {
                prev_kv: true,
                ..Default::default()
            }))],
        };
        let txn = TxnRequest {
            compare: vec![Compare::default(), Compare::default()],
            success: vec![
                op(Request::RequestPut(put(5))),
                op(Request::RequestTxn(inner)),
                op(Request::RequestRange(RangeRequest::default())),
            ],
            failure: vec![],
        };
        let shape = TxnShape::of(&txn);
        let ran = |outer: bool, inner: bool| {
            let nested = ResponseOp {
                response: Some(Response::ResponseTxn(TxnResponse {
                    succeeded: inner,
                    ..Default::default()
                })),
            };
            let response = TxnResponse {
                succeeded: outer,
                responses: if outer { vec![nested] } else { vec![] },
                ..Default::default()
            };
            let (mut ran, mut compares) = (Shape::default(), 0);
            shape.add(&response, &mut ran, &mut compares);
            (ran.puts, ran.put_bytes, ran.deletes, ran.ranges, compares)
        };
        assert_eq!(ran(false, false), (0, 0, 0, 0, 2));
        assert_eq!(ran(true, true), (2, 111, 0, 1, 3));
        assert_eq!(ran(true, false), (1, 8, 1, 2, 3));
    }
}
