//! Versions that readers of the log need.
//!
//! Only what is still in memory is looked at: such requests are written by tests alone.

use super::Member;
use prost::Message as _;
use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};
use quorate_api::etcdserverpb::DowngradeVersionTestRequest;
use quorate_raft::{Entry, EntryKind, Storage as _};

/// The only field of a request whose entry tells a version that its readers need. Every other
/// field, and every kind of configuration change, is older than the oldest etcd that shares our
/// layouts.
const VERSION_TEST: u32 = 9900;

impl<T> Member<T> {
    /// The versions, as texts, that entries above the newest snapshot record say their readers need.
    pub fn log_versions(&self) -> Vec<String> {
        let storage = self.raft.storage();
        let first = storage.first_index().max(self.log_snapshots.stored() + 1);
        let end = storage.last_index() + 1;
        if first >= end {
            return Vec::new();
        }
        let entries = storage.entries(first, end, u64::MAX);
        let entries = entries.expect("the range lies between the first entry and the last");
        entries.iter().filter_map(version_needed).collect()
    }
}

fn version_needed(entry: &Entry) -> Option<String> {
    if entry.kind != EntryKind::Normal {
        return None;
    }
    let mut rest = &entry.data[..];
    while !rest.is_empty() {
        let (tag, wire) = decode_key(&mut rest).ok()?;
        if tag == VERSION_TEST && wire == WireType::LengthDelimited {
            let test = DowngradeVersionTestRequest::decode_length_delimited(rest).ok()?;
            return Some(test.ver);
        }
        skip_field(wire, tag, &mut rest, DecodeContext::default()).ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::etcdserverpb::{InternalRaftRequest, PutRequest, RequestHeader};

    fn needed(request: InternalRaftRequest) -> Option<String> {
        version_needed(&Entry {
            data: request.encode_to_vec().into(),
            ..Default::default()
        })
    }

    #[test]
    fn only_a_version_test_needs_a_version() {
        let header = Some(RequestHeader {
            id: 7,
            ..Default::default()
        });
        let put = InternalRaftRequest {
            header: header.clone(),
            put: Some(PutRequest {
                key: vec![1; 300].into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(needed(put), None);
        let test = InternalRaftRequest {
            header,
            downgrade_version_test: Some(DowngradeVersionTestRequest {
                ver: "3.8.0".into(),
            }),
            ..Default::default()
        };
        assert_eq!(needed(test), Some("3.8.0".into()));
        assert_eq!(needed(InternalRaftRequest::default()), None);
    }
}
