//! The answers of entries, as messages.

use super::body;
use crate::transport::Body;
use quorate_api::etcdserverpb::{
    AlarmResponse, CompactionResponse, LeaseGrantResponse, LeaseRevokeResponse, ResponseHeader,
};
use quorate_node::store::Answer;

/// Encodes an entry's answer under a header; `newest` stands in for a revision that is not told.
pub fn encode(answer: Answer, header: ResponseHeader, newest: i64) -> Body {
    let at = |revision: i64| {
        let revision = if revision == 0 { newest } else { revision };
        Some(ResponseHeader { revision, ..header })
    };
    let told = |given: &Option<ResponseHeader>| given.as_ref().map_or(0, |given| given.revision);
    match answer {
        Answer::Put(mut response) => {
            response.header = at(told(&response.header));
            body(&response)
        }
        Answer::DeleteRange(mut response) => {
            response.header = at(told(&response.header));
            body(&response)
        }
        Answer::Txn(mut response) => {
            response.header = at(told(&response.header));
            body(&response)
        }
        Answer::Range(mut response) => {
            response.header = at(told(&response.header));
            body(&response)
        }
        Answer::Compaction(revision) => body(&CompactionResponse {
            header: at(revision),
        }),
        Answer::LeaseGrant {
            id,
            ttl_s,
            revision,
        } => body(&LeaseGrantResponse {
            header: at(revision),
            id,
            ttl: ttl_s,
            error: String::new(),
        }),
        Answer::LeaseRevoke { revision, .. } => body(&LeaseRevokeResponse {
            header: at(revision),
        }),
        Answer::Alarm(alarms) => body(&AlarmResponse {
            header: at(0),
            alarms,
        }),
        Answer::LeaseCheckpoint(_) | Answer::Nothing => {
            unreachable!("no call waits for an entry of this kind")
        }
    }
}
