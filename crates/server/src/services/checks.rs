//! What a key-value request must look like before it is taken.
//!
//! Source: etcd's v3rpc key server, whose rules for overlapping writes of a transaction are kept,
//! blind spot included: a deletion to the end of all keys (`range_end` `\0`) overlaps nothing. Not so
//! where other members may be etcd's: theirs lose a value that was put by such a transaction once it
//! is compacted (etcd issue 22376), ours keep it, and the two would part.

use quorate_api::Error;
use quorate_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use std::collections::HashSet;

/// A range.
pub fn range(request: &RangeRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if SortOrder::try_from(request.sort_order).is_err()
        || SortTarget::try_from(request.sort_target).is_err()
    {
        return Err(Error::InvalidSortOption);
    }
    Ok(())
}

/// A put.
pub fn put(request: &PutRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Error::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Error::LeaseProvided);
    }
    Ok(())
}

/// A deletion.
pub fn delete_range(request: &DeleteRangeRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        Err(Error::EmptyKey)
    } else {
        Ok(())
    }
}

/// A transaction. It may delete all from a key on and put that key, unless not `all_are_kin`: an etcd
/// in the cluster would lose the put with the next compaction (etcd issue 22376).
pub fn txn(request: &TxnRequest, max_ops: usize, all_are_kin: bool) -> Result<(), Error> {
    shape(request, max_ops)?;
    // After the count of operations was checked, since this is quadratic in it.
    writes(&request.success, all_are_kin)?;
    writes(&request.failure, all_are_kin)?;
    Ok(())
}

fn shape(request: &TxnRequest, max_ops: usize) -> Result<(), Error> {
    let ops = request
        .compare
        .len()
        .max(request.success.len())
        .max(request.failure.len());
    let left = max_ops.checked_sub(ops).ok_or(Error::TooManyOps)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Error::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(Request::RequestRange(op)) => range(op)?,
            Some(Request::RequestPut(op)) => put(op)?,
            Some(Request::RequestDeleteRange(op)) => delete_range(op)?,
            Some(Request::RequestTxn(op)) => shape(op, left)?,
            None => return Err(Error::KeyNotFound),
        }
    }
    Ok(())
}

/// What the operations of one branch write.
struct Writes<'a> {
    all_are_kin: bool,
    puts: HashSet<&'a [u8]>,
    deletes: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Writes<'a> {
    fn deletes_key(&self, key: &[u8]) -> bool {
        self.deletes.iter().any(|&(start, end)| match end {
            [] => start == key,
            [0] => !self.all_are_kin && start <= key,
            end => start <= key && key < end,
        })
    }

    fn put(&mut self, key: &'a [u8], allowed_twice: bool) -> Result<(), Error> {
        if (self.puts.contains(key) && !allowed_twice) || self.deletes_key(key) {
            return Err(Error::DuplicateKey);
        }
        self.puts.insert(key);
        Ok(())
    }
}

fn writes(ops: &[RequestOp], all_are_kin: bool) -> Result<Writes<'_>, Error> {
    let mut all = Writes {
        all_are_kin,
        puts: HashSet::new(),
        deletes: Vec::new(),
    };
    for op in ops {
        if let Some(Request::RequestDeleteRange(delete)) = &op.request {
            all.deletes.push((&delete.key, &delete.range_end));
        }
    }
    for op in ops {
        if let Some(Request::RequestTxn(txn)) = &op.request {
            let (then, otherwise) = (
                writes(&txn.success, all_are_kin)?,
                writes(&txn.failure, all_are_kin)?,
            );
            for key in &then.puts {
                all.put(key, false)?;
            }
            for key in &otherwise.puts {
                // Only one of the two branches runs.
                all.put(key, then.puts.contains(key))?;
            }
            all.deletes.extend(then.deletes);
            all.deletes.extend(otherwise.deletes);
        }
    }
    for op in ops {
        if let Some(Request::RequestPut(put)) = &op.request {
            all.put(&put.key, false)?;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_op(key: &'static str) -> RequestOp {
        let put = PutRequest {
            key: key.into(),
            ..Default::default()
        };
        RequestOp {
            request: Some(Request::RequestPut(put)),
        }
    }

    fn delete_op(key: &'static str, end: &'static str) -> RequestOp {
        let delete = DeleteRangeRequest {
            key: key.into(),
            range_end: end.into(),
            ..Default::default()
        };
        RequestOp {
            request: Some(Request::RequestDeleteRange(delete)),
        }
    }

    fn txn_op(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
        let txn = TxnRequest {
            success,
            failure,
            ..Default::default()
        };
        RequestOp {
            request: Some(Request::RequestTxn(txn)),
        }
    }

    fn check(success: Vec<RequestOp>) -> Result<(), Error> {
        txn(
            &TxnRequest {
                success,
                ..Default::default()
            },
            128,
            true,
        )
    }

    #[test]
    fn overlapping_writes_are_refused() {
        let duplicate = Err(Error::DuplicateKey);
        assert_eq!(check(vec![put_op("a"), put_op("a")]), duplicate);
        assert_eq!(check(vec![put_op("b"), delete_op("a", "c")]), duplicate);
        assert_eq!(check(vec![delete_op("a", ""), put_op("a")]), duplicate);
        assert_eq!(check(vec![put_op("c"), delete_op("a", "c")]), Ok(()));
        assert_eq!(
            check(vec![delete_op("a", "c"), delete_op("a", "c")]),
            Ok(())
        );
    }

    #[test]
    fn nested_branches_exclude_each_other_and_nothing_else() {
        let duplicate = Err(Error::DuplicateKey);
        let both = || txn_op(vec![put_op("a")], vec![put_op("a")]);
        assert_eq!(check(vec![both()]), Ok(()));
        assert_eq!(check(vec![both(), put_op("a")]), duplicate);
        assert_eq!(check(vec![both(), both()]), duplicate);
        assert_eq!(
            check(vec![txn_op(vec![delete_op("a", "")], vec![]), put_op("a")]),
            duplicate
        );
        assert_eq!(
            check(vec![delete_op("a", ""), txn_op(vec![put_op("a")], vec![])]),
            duplicate
        );
    }

    #[test]
    fn a_deletion_to_the_end_is_not_seen_to_overlap() {
        let to_the_end = || vec![delete_op("a", "\0"), put_op("b")];
        assert_eq!(check(to_the_end()), Ok(()));
        let among_others = TxnRequest {
            success: to_the_end(),
            ..Default::default()
        };
        assert_eq!(txn(&among_others, 128, false), Err(Error::DuplicateKey));
    }

    #[test]
    fn operations_are_counted_with_their_nesting() {
        let many = |n: usize| (0..n).map(|_| delete_op("a", "")).collect::<Vec<_>>();
        let request = |success| TxnRequest {
            success,
            ..Default::default()
        };
        assert_eq!(txn(&request(many(128)), 128, true), Ok(()));
        assert_eq!(txn(&request(many(129)), 128, true), Err(Error::TooManyOps));
        assert_eq!(
            txn(&request(vec![txn_op(many(127), vec![])]), 128, true),
            Ok(())
        );
        assert_eq!(
            txn(&request(vec![txn_op(many(128), vec![])]), 128, true),
            Err(Error::TooManyOps)
        );
        let empty = RequestOp { request: None };
        assert_eq!(
            txn(&request(vec![empty]), 128, true),
            Err(Error::KeyNotFound)
        );
    }

    #[test]
    fn puts_and_ranges() {
        let put_of = |key: &'static str, value: &'static str| PutRequest {
            key: key.into(),
            value: value.into(),
            ignore_value: true,
            ..Default::default()
        };
        assert_eq!(put(&put_of("", "")), Err(Error::EmptyKey));
        assert_eq!(put(&put_of("k", "v")), Err(Error::ValueProvided));
        assert_eq!(put(&put_of("k", "")), Ok(()));
        let sorted = |sort_order| RangeRequest {
            key: "k".into(),
            sort_order,
            ..Default::default()
        };
        assert_eq!(range(&sorted(3)), Err(Error::InvalidSortOption));
        assert_eq!(range(&sorted(2)), Ok(()));
    }
}
