//! Put, DeleteRange and Txn, as apply executes them.
//!
//! A transaction first decides its whole path (every compare of every branch that is taken, nested
//! ones included, against the state before it), then checks every operation on that path, and only
//! then changes anything: so an error leaves nothing behind. Nested answers carry an empty header,
//! as etcd's do; the outer one the revision afterwards.

use crate::Error;
use crate::index::KeyRange;
use crate::keyvalue::KeyValueRef;
use crate::lease::Lessor;
use crate::mvcc::{Mvcc, WriteTxn};
use crate::range::{Keys, range_message, resolve_revision};
use crate::view::Source;
use quorate_api as api;
use quorate_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::response_op::Response;
use quorate_api::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RequestOp,
    ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
};
use quorate_api::mvccpb::KeyValue;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Most levels of transactions within transactions that are executed. Deeper ones do not pass
/// etcd's operation limit either, since every level counts.
const MAX_DEPTH: usize = 256;

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        revision,
        ..Default::default()
    })
}

/// Executes a put.
pub fn put(
    mvcc: &mut Mvcc,
    lessor: &mut Lessor,
    request: &PutRequest,
) -> Result<PutResponse, Error> {
    mvcc.read(|source| check_put(source, lessor, request))?;
    let mut txn = mvcc.write(lessor);
    let response = put_in(&mut txn, request)?;
    txn.end();
    Ok(response)
}

/// Executes a deletion.
pub fn delete_range(
    mvcc: &mut Mvcc,
    lessor: &mut Lessor,
    request: &DeleteRangeRequest,
) -> Result<DeleteRangeResponse, Error> {
    let mut txn = mvcc.write(lessor);
    let response = delete_range_in(&mut txn, request)?;
    txn.end();
    Ok(response)
}

/// Executes a transaction.
pub fn txn(
    mvcc: &mut Mvcc,
    lessor: &mut Lessor,
    request: &TxnRequest,
) -> Result<TxnResponse, Error> {
    let path = mvcc.read(|source| plan(source, lessor, request))?;
    let mut write = mvcc.write(lessor);
    let mut steps = path.into_iter();
    let mut response = execute(&mut Executor::Write(&mut write), request, &mut steps)?;
    response.header = header(write.end());
    Ok(response)
}

/// Answers a transaction that only reads, from a view.
pub fn read_only_txn(
    source: &Source<'_>,
    lessor_has: &dyn Fn(i64) -> bool,
    request: &TxnRequest,
) -> Result<TxnResponse, Error> {
    let mut path = Vec::new();
    plan_into(source, request, &mut path, 0)?;
    check(source, lessor_has, request, &mut path.iter().copied())?;
    let mut steps = path.into_iter();
    let mut response = execute(&mut Executor::Read(source), request, &mut steps)?;
    response.header = header(source.revision);
    Ok(response)
}

/// Whether a transaction only reads, so that it needs no log entry. (A nested transaction counts
/// as a write, whatever it holds, as in etcd.)
pub fn is_read_only(request: &TxnRequest) -> bool {
    all_ops(request).all(|op| matches!(op.request, Some(Request::RequestRange(_))))
}

/// Whether all of a read-only transaction's reads are serializable.
pub fn is_serializable(request: &TxnRequest) -> bool {
    all_ops(request)
        .all(|op| matches!(&op.request, Some(Request::RequestRange(range)) if range.serializable))
}

fn all_ops(request: &TxnRequest) -> impl Iterator<Item = &RequestOp> {
    request.success.iter().chain(&request.failure)
}

fn plan(source: &Source<'_>, lessor: &Lessor, request: &TxnRequest) -> Result<Vec<bool>, Error> {
    let mut path = Vec::new();
    plan_into(source, request, &mut path, 0)?;
    check(
        source,
        &|id| lessor.exists(id),
        request,
        &mut path.iter().copied(),
    )?;
    Ok(path)
}

/// Appends the outcome of the compares, in the order in which [`execute`] will want them.
fn plan_into(
    source: &Source<'_>,
    request: &TxnRequest,
    path: &mut Vec<bool>,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(api::Error::TooManyOps.into());
    }
    let mut succeeded = true;
    for compare in &request.compare {
        if !holds(source, compare)? {
            succeeded = false;
            break;
        }
    }
    path.push(succeeded);
    for op in branch(request, succeeded) {
        if let Some(Request::RequestTxn(nested)) = &op.request {
            plan_into(source, nested, path, depth + 1)?;
        }
    }
    Ok(())
}

fn branch(request: &TxnRequest, succeeded: bool) -> &[RequestOp] {
    if succeeded {
        &request.success
    } else {
        &request.failure
    }
}

fn holds(source: &Source<'_>, compare: &Compare) -> Result<bool, Error> {
    let stored = needs_row(compare);
    let one = |key: &[u8], entry: &crate::index::Entry| -> Result<Option<bool>, Error> {
        let Some(revision) = entry.live_at(source.revision) else {
            return Ok(None);
        };
        let kv = if stored {
            source.rows.key_value(revision)?
        } else {
            KeyValueRef {
                key,
                create_revision: entry.create(),
                mod_revision: revision.main,
                version: entry.version(),
                value: b"",
                lease: 0,
            }
        };
        Ok(Some(compare_one(compare, &kv)))
    };
    let mut met = false;
    let all = match Keys::new(&compare.key, &compare.range_end) {
        Keys::One(key) => match source
            .root
            .get(key)
            .map(|entry| one(key, entry))
            .transpose()?
        {
            Some(Some(holds)) => {
                met = true;
                holds
            }
            _ => true,
        },
        Keys::Range(start, end) => {
            let broke = source.root.walk(KeyRange { start, end }, |key, entry| {
                match one(key, entry) {
                    Ok(None) => ControlFlow::Continue(()),
                    Ok(Some(true)) => {
                        met = true;
                        ControlFlow::Continue(())
                    }
                    Ok(Some(false)) => ControlFlow::Break(Ok(())),
                    Err(e) => ControlFlow::Break(Err(e)),
                }
            });
            match broke {
                ControlFlow::Continue(()) => true,
                ControlFlow::Break(Ok(())) => return Ok(false),
                ControlFlow::Break(Err(e)) => return Err(e),
            }
        }
    };
    if !met && all {
        // Nothing there: a value cannot be compared, and all else is zero.
        let by_value = compare.target == CompareTarget::Value as i32;
        return Ok(!by_value && compare_one(compare, &KeyValueRef::default()));
    }
    Ok(all)
}

fn needs_row(compare: &Compare) -> bool {
    compare.target == CompareTarget::Value as i32 || compare.target == CompareTarget::Lease as i32
}

fn compare_one(compare: &Compare, kv: &KeyValueRef<'_>) -> bool {
    let union = compare.target_union.as_ref();
    let order = match CompareTarget::try_from(compare.target) {
        Ok(CompareTarget::Value) => match union {
            Some(TargetUnion::Value(value)) => kv.value.cmp(value),
            _ => kv.value.cmp(b""),
        },
        Ok(CompareTarget::Create) => kv.create_revision.cmp(&match union {
            Some(TargetUnion::CreateRevision(revision)) => *revision,
            _ => 0,
        }),
        Ok(CompareTarget::Mod) => kv.mod_revision.cmp(&match union {
            Some(TargetUnion::ModRevision(revision)) => *revision,
            _ => 0,
        }),
        Ok(CompareTarget::Version) => kv.version.cmp(&match union {
            Some(TargetUnion::Version(version)) => *version,
            _ => 0,
        }),
        Ok(CompareTarget::Lease) => kv.lease.cmp(&match union {
            Some(TargetUnion::Lease(lease)) => *lease,
            _ => 0,
        }),
        // A target of the future: etcd leaves its comparison at "equal".
        Err(_) => Ordering::Equal,
    };
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => order.is_eq(),
        Ok(CompareResult::NotEqual) => order.is_ne(),
        Ok(CompareResult::Greater) => order.is_gt(),
        Ok(CompareResult::Less) => order.is_lt(),
        Err(_) => true,
    }
}

fn check(
    source: &Source<'_>,
    lease_exists: &dyn Fn(i64) -> bool,
    request: &TxnRequest,
    path: &mut dyn Iterator<Item = bool>,
) -> Result<(), Error> {
    let succeeded = path.next().expect("the path was planned for this request");
    for op in branch(request, succeeded) {
        match &op.request {
            Some(Request::RequestRange(range)) if range.revision != 0 => {
                resolve_revision(range.revision, source.revision, source.compact_revision)?;
                if range.revision < source.compact_revision {
                    return Err(api::Error::Compacted.into());
                }
            }
            Some(Request::RequestPut(put)) => check_put_with(source, lease_exists, put)?,
            Some(Request::RequestTxn(nested)) => check(source, lease_exists, nested, path)?,
            Some(Request::RequestRange(_) | Request::RequestDeleteRange(_)) | None => {}
        }
    }
    Ok(())
}

fn check_put(source: &Source<'_>, lessor: &Lessor, request: &PutRequest) -> Result<(), Error> {
    check_put_with(source, &|id| lessor.exists(id), request)
}

fn check_put_with(
    source: &Source<'_>,
    lease_exists: &dyn Fn(i64) -> bool,
    request: &PutRequest,
) -> Result<(), Error> {
    if request.lease != 0 && !lease_exists(request.lease) {
        return Err(api::Error::LeaseNotFound.into());
    }
    if request.ignore_value || request.ignore_lease {
        let entry = source.root.get(&request.key);
        if entry
            .and_then(|entry| entry.live_at(source.revision))
            .is_none()
        {
            return Err(api::Error::KeyNotFound.into());
        }
    }
    Ok(())
}

enum Executor<'e, 't> {
    Write(&'e mut WriteTxn<'t>),
    Read(&'e Source<'e>),
}

fn execute(
    on: &mut Executor<'_, '_>,
    request: &TxnRequest,
    path: &mut dyn Iterator<Item = bool>,
) -> Result<TxnResponse, Error> {
    let succeeded = path.next().expect("the path was planned for this request");
    let mut responses = Vec::with_capacity(branch(request, succeeded).len());
    for op in branch(request, succeeded) {
        let response = match (&op.request, &mut *on) {
            (Some(Request::RequestRange(range)), Executor::Write(txn)) => Some(
                Response::ResponseRange(txn.read(|source| range_message(source, range))?),
            ),
            (Some(Request::RequestRange(range)), Executor::Read(source)) => {
                Some(Response::ResponseRange(range_message(source, range)?))
            }
            (Some(Request::RequestPut(put)), Executor::Write(txn)) => {
                Some(Response::ResponsePut(put_in(txn, put)?))
            }
            (Some(Request::RequestDeleteRange(delete)), Executor::Write(txn)) => {
                Some(Response::ResponseDeleteRange(delete_range_in(txn, delete)?))
            }
            (Some(Request::RequestTxn(nested)), _) => {
                Some(Response::ResponseTxn(execute(on, nested, path)?))
            }
            (Some(_), Executor::Read(_)) => unreachable!("a read-only transaction has no writes"),
            (None, _) => None,
        };
        responses.push(ResponseOp { response });
    }
    Ok(TxnResponse {
        header: header(0),
        succeeded,
        responses,
    })
}

fn previous(txn: &WriteTxn<'_>, key: &[u8]) -> Result<Option<KeyValue>, Error> {
    txn.read(|source| {
        let entry = source.root.get(key);
        let Some(revision) = entry.and_then(|entry| entry.live_at(source.revision)) else {
            return Ok(None);
        };
        Ok(Some(source.rows.key_value(revision)?.to_owned()))
    })
}

fn put_in(txn: &mut WriteTxn<'_>, request: &PutRequest) -> Result<PutResponse, Error> {
    let wanted = request.prev_kv || request.ignore_value || request.ignore_lease;
    let previous = if wanted {
        previous(txn, &request.key)?
    } else {
        None
    };
    // The plan saw the key, but a deletion to the end of all keys earlier in this transaction may
    // have taken it (etcd's overlap check does not see that one): then nothing is inherited.
    let before = previous.as_ref();
    let inherited = || before.map(|kv| kv.value.clone()).unwrap_or_default();
    let value = if request.ignore_value {
        inherited()
    } else {
        request.value.clone()
    };
    let lease = if request.ignore_lease {
        before.map_or(0, |kv| kv.lease)
    } else {
        request.lease
    };
    let revision = txn.put(&request.key, &value, lease);
    Ok(PutResponse {
        header: header(revision),
        prev_kv: previous.filter(|_| request.prev_kv),
    })
}

fn delete_range_in(
    txn: &mut WriteTxn<'_>,
    request: &DeleteRangeRequest,
) -> Result<DeleteRangeResponse, Error> {
    let prev_kvs = if request.prev_kv {
        let all = api::etcdserverpb::RangeRequest {
            key: request.key.clone(),
            range_end: request.range_end.clone(),
            ..Default::default()
        };
        txn.read(|source| range_message(source, &all))?.kvs
    } else {
        Vec::new()
    };
    let (deleted, revision) = txn.delete_range(&Keys::new(&request.key, &request.range_end));
    Ok(DeleteRangeResponse {
        header: header(revision),
        deleted,
        prev_kvs,
    })
}

#[cfg(test)]
#[path = "txn_tests.rs"]
mod tests;
