//! Keys under a prefix that the caller does not see.
//!
//! Invariants:
//! - What is asked for lies within the prefix: a range without end stops at the prefix's end.
//! - Keys in answers have no prefix; an answer is otherwise as it came.

use crate::{Error, Result};
use bytes::Bytes;
use quorate_api::Error as Known;
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::response_op::Response;
use quorate_api::etcdserverpb::{
    DeleteRangeResponse, PutResponse, RangeResponse, RequestOp, ResponseOp, TxnRequest, TxnResponse,
};
use quorate_api::mvccpb::{Event, KeyValue};

/// The end of the range of all keys that begin with `prefix`, as `range_end`. No byte of `0xff` has
/// a successor: a prefix of nothing else ends where all keys end, which is `"\0"`.
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    match prefix.iter().rposition(|&byte| byte != 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end.into()
        }
        None => Bytes::from_static(b"\0"),
    }
}

/// A prefix; an empty one changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespace(Bytes);

impl Namespace {
    /// A namespace within this one.
    pub(crate) fn within(&self, prefix: &[u8]) -> Namespace {
        Namespace([&self.0, prefix].concat().into())
    }

    /// Puts the prefix before what a request names.
    pub(crate) fn enter(&self, key: &mut Bytes, range_end: &mut Bytes) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        if key.is_empty() && range_end.is_empty() {
            return Err(Error::Known(Known::EmptyKey));
        }
        if range_end.as_ref() == b"\0" {
            *range_end = prefix_end(&self.0);
        } else if !range_end.is_empty() {
            *range_end = self.join(range_end);
        }
        *key = self.join(key);
        Ok(())
    }

    /// The same for a key alone.
    pub(crate) fn enter_key(&self, key: &mut Bytes) -> Result<()> {
        self.enter(key, &mut Bytes::new())
    }

    /// The same for a transaction, with those in it.
    pub(crate) fn enter_txn(&self, txn: &mut TxnRequest) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        for compare in &mut txn.compare {
            self.enter(&mut compare.key, &mut compare.range_end)?;
        }
        let operations = txn.success.iter_mut().chain(&mut txn.failure);
        operations.into_iter().try_for_each(|op| self.enter_op(op))
    }

    fn enter_op(&self, op: &mut RequestOp) -> Result<()> {
        match &mut op.request {
            Some(Request::RequestRange(range)) => self.enter(&mut range.key, &mut range.range_end),
            Some(Request::RequestPut(put)) => self.enter_key(&mut put.key),
            Some(Request::RequestDeleteRange(delete)) => {
                self.enter(&mut delete.key, &mut delete.range_end)
            }
            Some(Request::RequestTxn(txn)) => self.enter_txn(txn),
            None => Ok(()),
        }
    }

    /// Takes the prefix away from a key.
    pub(crate) fn leave_key(&self, key: &mut Bytes) {
        if key.starts_with(&self.0) {
            *key = key.slice(self.0.len()..);
        }
    }

    fn leave_all<'a>(&self, pairs: impl IntoIterator<Item = &'a mut KeyValue>) {
        pairs
            .into_iter()
            .for_each(|pair| self.leave_key(&mut pair.key));
    }

    pub(crate) fn leave_range(&self, answer: &mut RangeResponse) {
        self.leave_all(&mut answer.kvs);
    }

    pub(crate) fn leave_put(&self, answer: &mut PutResponse) {
        self.leave_all(&mut answer.prev_kv);
    }

    pub(crate) fn leave_delete(&self, answer: &mut DeleteRangeResponse) {
        self.leave_all(&mut answer.prev_kvs);
    }

    pub(crate) fn leave_txn(&self, answer: &mut TxnResponse) {
        if self.0.is_empty() {
            return;
        }
        for ResponseOp { response } in &mut answer.responses {
            match response {
                Some(Response::ResponseRange(range)) => self.leave_range(range),
                Some(Response::ResponsePut(put)) => self.leave_put(put),
                Some(Response::ResponseDeleteRange(delete)) => self.leave_delete(delete),
                Some(Response::ResponseTxn(txn)) => self.leave_txn(txn),
                None => {}
            }
        }
    }

    pub(crate) fn leave_events(&self, events: &mut [Event]) {
        for event in events {
            self.leave_all(event.kv.iter_mut().chain(&mut event.prev_kv));
        }
    }

    /// Those of the keys that are within, without the prefix.
    pub(crate) fn leave_keys(&self, keys: &mut Vec<Bytes>) {
        keys.retain(|key| key.starts_with(&self.0));
        keys.iter_mut().for_each(|key| self.leave_key(key));
    }

    /// A key of it, as the cluster has it.
    pub(crate) fn join(&self, key: &[u8]) -> Bytes {
        [&self.0, key].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::etcdserverpb::{Compare, PutRequest, RangeRequest};

    /// Whether a range names a key, as the store has it.
    fn names(key: &[u8], range_end: &[u8], candidate: &[u8]) -> bool {
        match range_end {
            b"" => candidate == key,
            b"\0" => candidate >= key,
            end => candidate >= key && candidate < end,
        }
    }

    fn keys() -> Vec<Vec<u8>> {
        let bytes = [0x00, 0x01, b'a', 0xfe, 0xff];
        let mut all = vec![vec![]];
        for first in bytes {
            all.push(vec![first]);
            all.extend(bytes.map(|second| vec![first, second]));
        }
        all
    }

    #[test]
    fn a_range_names_within_what_it_names_without() {
        for prefix in [&b"p/"[..], b"a\xff", b"\xff", b"\xff\xff", b"\0"] {
            let namespace = Namespace::default().within(prefix);
            for (key, end) in keys()
                .iter()
                .flat_map(|k| keys().into_iter().map(move |e| (k, e)))
            {
                let (mut from, mut to) = (Bytes::from(key.clone()), Bytes::from(end.clone()));
                if namespace.enter(&mut from, &mut to).is_err() {
                    assert!(key.is_empty() && end.is_empty());
                    continue;
                }
                for candidate in keys() {
                    let inside = [prefix, &candidate].concat();
                    let expected = names(key, &end, &candidate);
                    assert_eq!(
                        names(&from, &to, &inside),
                        expected,
                        "{prefix:?} {key:?} {end:?}"
                    );
                    let named = names(&from, &to, &candidate);
                    assert!(
                        !named || candidate.starts_with(prefix),
                        "{candidate:?} escapes"
                    );
                }
            }
        }
    }

    #[test]
    fn a_prefix_ends_at_its_successor() {
        for prefix in keys() {
            let end = prefix_end(&prefix);
            for candidate in keys() {
                let begins = candidate.starts_with(&prefix);
                assert_eq!(
                    names(&prefix, &end, &candidate),
                    begins,
                    "{prefix:?} {candidate:?}"
                );
            }
        }
    }

    #[test]
    fn a_transaction_enters_and_leaves_at_every_depth() {
        let put = |key: &'static [u8]| RequestOp {
            request: Some(Request::RequestPut(PutRequest {
                key: Bytes::from_static(key),
                ..PutRequest::default()
            })),
        };
        let inner = TxnRequest {
            failure: vec![put(b"x")],
            ..TxnRequest::default()
        };
        let mut txn = TxnRequest {
            compare: vec![Compare {
                key: Bytes::from_static(b"c"),
                ..Compare::default()
            }],
            success: vec![RequestOp {
                request: Some(Request::RequestTxn(inner)),
            }],
            failure: vec![RequestOp {
                request: Some(Request::RequestRange(RangeRequest {
                    range_end: Bytes::from_static(b"\0"),
                    ..RangeRequest::default()
                })),
            }],
        };
        let namespace = Namespace::default().within(b"n/").within(b"m/");
        namespace.enter_txn(&mut txn).expect("keys");
        assert_eq!(txn.compare[0].key.as_ref(), b"n/m/c");
        let shown = format!("{txn:?}");
        assert!(shown.contains("n/m/x") && shown.contains("n/m0"), "{shown}");

        let found = KeyValue {
            key: Bytes::from_static(b"n/m/k"),
            ..KeyValue::default()
        };
        let range = Response::ResponseRange(RangeResponse {
            kvs: vec![found],
            ..RangeResponse::default()
        });
        let inner = TxnResponse {
            responses: vec![ResponseOp {
                response: Some(range),
            }],
            ..TxnResponse::default()
        };
        let mut answer = TxnResponse {
            responses: vec![ResponseOp {
                response: Some(Response::ResponseTxn(inner)),
            }],
            ..TxnResponse::default()
        };
        namespace.leave_txn(&mut answer);
        assert!(!format!("{answer:?}").contains("n/m"), "{answer:?}");
    }
}
