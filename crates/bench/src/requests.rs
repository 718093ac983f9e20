//! Encoded requests and the keys they use.

use prost::Message;
use quorate_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use quorate_api::etcdserverpb::{RangeRequest, request_op};

/// The prefix of every loaded key, and the end of its range.
pub const PREFIX: &str = "/bench/";
const PREFIX_END: &str = "/bench0";

/// The key of a number: the prefix and digits, `bytes` long in all.
pub fn key(number: u64, bytes: usize) -> Vec<u8> {
    let digits = bytes - PREFIX.len();
    format!("{PREFIX}{number:0digits$}").into_bytes()
}

/// The `index`-th number of a fixed shuffle of 0..count: neighbours in time are far apart.
pub fn shuffled(index: u64, count: u64) -> u64 {
    const STEP: u64 = 2_654_435_761; // a prime larger than any count used here
    assert!(count < STEP);
    index.wrapping_mul(STEP) % count
}

/// A value of so many bytes that compression would not shrink to nothing.
pub fn value(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 56) as u8
        })
        .collect()
}

/// Writes a PutRequest over what `output` had.
pub fn put(output: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    output.clear();
    field(output, 0x0a, key);
    field(output, 0x12, value);
}

fn field(output: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    output.push(tag);
    let mut length = bytes.len();
    while length >= 0x80 {
        output.push(length as u8 | 0x80);
        length >>= 7;
    }
    output.push(length as u8);
    output.extend_from_slice(bytes);
}

/// A PutRequest that attaches the key to a lease.
pub fn put_leased(key: Vec<u8>, value: Vec<u8>, lease: i64) -> Vec<u8> {
    let request = PutRequest {
        key: key.into(),
        value: value.into(),
        lease,
        ..PutRequest::default()
    };
    request.encode_to_vec()
}

/// Reads one key.
pub fn get(key: Vec<u8>, serializable: bool) -> Vec<u8> {
    let request = RangeRequest {
        key: key.into(),
        serializable,
        ..RangeRequest::default()
    };
    request.encode_to_vec()
}

/// Reads loaded keys from one on, at most `limit` (0: all).
pub fn page(from: Vec<u8>, limit: i64) -> Vec<u8> {
    let request = RangeRequest {
        key: from.into(),
        range_end: PREFIX_END.into(),
        limit,
        ..RangeRequest::default()
    };
    request.encode_to_vec()
}

/// Counts the loaded keys.
pub fn count() -> Vec<u8> {
    let request = RangeRequest {
        key: PREFIX.into(),
        range_end: PREFIX_END.into(),
        count_only: true,
        ..RangeRequest::default()
    };
    request.encode_to_vec()
}

/// Puts several keys at one revision.
pub fn put_many(pairs: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    txn(pairs.map(|(key, value)| {
        request_op::Request::RequestPut(PutRequest {
            key: key.into(),
            value: value.into(),
            ..PutRequest::default()
        })
    }))
}

/// Deletes several keys at one revision.
pub fn delete_many(keys: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    txn(keys.map(|key| {
        request_op::Request::RequestDeleteRange(DeleteRangeRequest {
            key: key.into(),
            ..DeleteRangeRequest::default()
        })
    }))
}

fn txn(operations: impl Iterator<Item = request_op::Request>) -> Vec<u8> {
    let success = operations
        .map(|request| RequestOp {
            request: Some(request),
        })
        .collect();
    let request = TxnRequest {
        success,
        ..TxnRequest::default()
    };
    request.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_by_hand_is_the_message() {
        for bytes in [0, 1, 127, 128, 300, 20_000] {
            let (key, value) = (key(42, 64), value(bytes, 1));
            let mut by_hand = vec![1, 2, 3];
            put(&mut by_hand, &key, &value);
            let request = PutRequest::decode(by_hand.as_slice()).expect("a message");
            assert_eq!(request.key, key);
            assert_eq!(request.value, value);
        }
    }

    #[test]
    fn the_shuffle_visits_each_number_once() {
        for count in [1, 10, 1000, 65_536, 100_000] {
            let mut seen = vec![false; count as usize];
            for index in 0..count {
                let number = shuffled(index, count) as usize;
                assert!(!std::mem::replace(&mut seen[number], true));
            }
        }
    }
}
