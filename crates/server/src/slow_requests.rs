//! Tells the operator of unary requests that took long, in etcd's words, and with --log-level=debug
//! of all of them.
//!
//! The request is looked at only then: it is decoded from the message that the transport kept.

use crate::logging::time_before;
use crate::metrics::METRICS;
use crate::request_text;
use crate::transport::Body;
use bytes::Bytes;
use prost::Message;
use quorate_api::Method;
use quorate_api::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, RangeRequest, RangeResponse, TxnRequest,
    TxnResponse,
};
use quorate_go::duration;
use std::time::Duration;

/// Thresholds below this cannot be told by the times of rounds.
const FINE: Duration = Duration::from_millis(5);

/// What is slow.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// --warning-unary-request-duration
    pub unary: Duration,
    /// --warning-apply-duration, which holds for reads too
    pub apply: Duration,
}

/// A unary call that has ended.
pub struct Call<'a> {
    /// The method.
    pub method: Method,
    /// Its message.
    pub request: Option<&'a Bytes>,
    /// Its answer, where there was one.
    pub answer: Option<&'a Body>,
    /// How long it took.
    pub took: Duration,
    /// Who called.
    pub remote: String,
}

/// Counts and sizes of a request and its answer; -1 for what etcd does not look at.
#[derive(Debug, PartialEq, Eq)]
struct Stats {
    request_count: i64,
    request_size: i64,
    response_count: i64,
    response_size: i64,
    content: String,
}

impl Thresholds {
    /// Whether a call is worth a look.
    pub fn are_passed(&self, took: Duration) -> bool {
        took > self.unary || took > self.apply || tracing::enabled!(tracing::Level::DEBUG)
    }

    /// Whether the clock must be read at each call's end: rounds of a connection are too coarse for
    /// what is asked.
    pub fn need_clock(&self) -> bool {
        self.unary.min(self.apply) < FINE || tracing::enabled!(tracing::Level::DEBUG)
    }

    /// Writes what there is to say of a call.
    pub fn tell(&self, call: &Call<'_>) {
        if call.took > self.apply {
            self.tell_slow_read(call);
        }
        let slow = call.took > self.unary;
        let debug = tracing::enabled!(tracing::Level::DEBUG);
        if !slow && !debug {
            return;
        }
        let stats = stats(call);
        let start = time_before(call.took);
        macro_rules! write_at {
            ($level:ident) => {
                tracing::$level!(
                    "start time" = %start,
                    "time spent" = %duration::format(call.took),
                    "remote" = call.remote.as_str(),
                    "response type" = call.method.path(),
                    "request count" = stats.request_count,
                    "request size" = stats.request_size,
                    "response count" = stats.response_count,
                    "response size" = stats.response_size,
                    "request content" = stats.content.as_str(),
                    "request stats"
                )
            };
        }
        // With debug, etcd says no more of a slow one.
        if debug {
            write_at!(debug);
        } else {
            write_at!(warn);
        }
    }

    /// A read does not go through apply, but etcd tells of a slow one in the same words.
    fn tell_slow_read(&self, call: &Call<'_>) {
        let Some(request) = call.request else {
            return;
        };
        let (prefix, text) = match call.method {
            Method::KVRange => match RangeRequest::decode(request.clone()) {
                Ok(range) => ("read-only range ", request_text::range(&range)),
                Err(_) => return,
            },
            Method::KVTxn => match TxnRequest::decode(request.clone()) {
                Ok(txn) if quorate_node::store::txn::is_read_only(&txn) => {
                    ("read-only txn ", request_text::txn(&txn))
                }
                Ok(_) | Err(_) => return,
            },
            _ => return,
        };
        METRICS.slow_applies.inc();
        let stats = stats(call);
        let response = match call.answer {
            Some(_) => format!(
                "range_response_count:{} size:{}",
                stats.response_count, stats.response_size
            ),
            None => String::new(),
        };
        tracing::warn!(
            "took" = %duration::format(call.took),
            "expected-duration" = %duration::format(self.apply),
            "prefix" = prefix,
            "request" = text.as_str(),
            "response" = response.as_str(),
            "apply request took too long"
        );
    }
}

fn stats(call: &Call<'_>) -> Stats {
    let unknown = Stats {
        request_count: -1,
        request_size: -1,
        response_count: -1,
        response_size: -1,
        content: String::new(),
    };
    let Some(request) = call.request else {
        return unknown;
    };
    let request_size = request.len() as i64;
    let response_size = call.answer.map_or(0, |answer| answer.len() as i64);
    let of = |request_count, response_count, content| Stats {
        request_count,
        request_size,
        response_count,
        response_size,
        content,
    };
    match call.method {
        Method::KVRange => {
            let content = RangeRequest::decode(request.clone());
            let count = decoded::<RangeResponse>(call.answer).map_or(0, |answer| answer.count);
            of(
                0,
                count,
                content.map_or_else(|_| String::new(), |r| request_text::range(&r)),
            )
        }
        Method::KVPut => {
            let content = PutRequest::decode(request.clone());
            of(
                1,
                0,
                content.map_or_else(|_| String::new(), |r| request_text::put(&r)),
            )
        }
        Method::KVDeleteRange => {
            let content = DeleteRangeRequest::decode(request.clone());
            let deleted = decoded::<DeleteRangeResponse>(call.answer);
            of(
                0,
                deleted.map_or(0, |answer| answer.deleted),
                content.map_or_else(|_| String::new(), |r| request_text::delete_range(&r)),
            )
        }
        Method::KVTxn => {
            let Ok(txn) = TxnRequest::decode(request.clone()) else {
                return unknown;
            };
            let mut stats = of(0, 0, request_text::txn(&txn));
            if let Some(answer) = decoded::<TxnResponse>(call.answer) {
                let ran = if answer.succeeded {
                    &txn.success
                } else {
                    &txn.failure
                };
                stats.request_count = ran.len() as i64;
                stats.request_size = ran.iter().map(|op| op.encoded_len() as i64).sum();
            }
            stats
        }
        _ => unknown,
    }
}

/// An answer that is at hand.
fn decoded<T: Message + Default>(answer: Option<&Body>) -> Option<T> {
    match answer? {
        Body::Whole(bytes) => T::decode(bytes.clone()).ok(),
        Body::Parts(parts) => T::decode(&parts.concat()[..]).ok(),
        // It is read as the client takes it.
        Body::Source { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_are_those_of_etcd() {
        let put = PutRequest {
            key: "a".into(),
            value: "123".into(),
            ..Default::default()
        };
        let request: Bytes = put.encode_to_vec().into();
        let answer = Body::Whole(Bytes::from_static(&[10, 0]));
        let call = |method| Call {
            method,
            request: Some(&request),
            answer: Some(&answer),
            took: Duration::from_secs(1),
            remote: "@".into(),
        };
        let found = stats(&call(Method::KVPut));
        assert_eq!(
            (
                found.request_count,
                found.request_size,
                found.response_count,
                found.response_size
            ),
            (1, 8, 0, 2)
        );
        assert_eq!(found.content, "key:\"a\" value_size:3");
        assert_eq!(stats(&call(Method::LeaseLeaseGrant)).request_count, -1);
    }
}
