//! The space quota: what a request may add to the file.
//!
//! Source: etcd's storage quota (overheads, and a transaction costs its dearer branch).

use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::{PutRequest, RequestOp, TxnRequest};

/// The quota where none is configured, in bytes.
pub const DEFAULT_QUOTA_BYTES: i64 = 2 * 1024 * 1024 * 1024;
/// What a lease costs, in bytes.
pub const LEASE_OVERHEAD: i64 = 64;
const KEY_VALUE_OVERHEAD: i64 = 256;

/// What a put costs, in bytes.
pub fn put_cost(request: &PutRequest) -> i64 {
    KEY_VALUE_OVERHEAD + request.key.len() as i64 + request.value.len() as i64
}

/// What a transaction costs at most, in bytes.
pub fn txn_cost(request: &TxnRequest) -> i64 {
    let branch = |ops: &[RequestOp]| -> i64 {
        ops.iter()
            .map(|op| match &op.request {
                Some(Request::RequestPut(put)) => put_cost(put),
                Some(Request::RequestTxn(txn)) => txn_cost(txn),
                _ => 0,
            })
            .sum()
    };
    branch(&request.success).max(branch(&request.failure))
}

/// A limit on the file's size.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Most bytes; `None` for no limit.
    pub max_bytes: Option<i64>,
}

impl Quota {
    /// As configured: 0 means the default, a negative number no limit.
    pub fn from_config(bytes: i64) -> Quota {
        Quota {
            max_bytes: match bytes {
                0 => Some(DEFAULT_QUOTA_BYTES),
                1.. => Some(bytes),
                _ => None,
            },
        }
    }

    /// Whether `cost` bytes fit a file of `size` bytes. What costs nothing always fits.
    pub fn allows(&self, size: i64, cost: i64) -> bool {
        cost == 0 || self.max_bytes.is_none_or(|max| size + cost < max)
    }
}
