//! Requests as text, for the log: fields as protobuf's text format has them, values of keys by their
//! size alone. Source: etcd's loggable requests.

use prost::Message;
use quorate_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::{
    Compare, DeleteRangeRequest, InternalRaftRequest, PutRequest, RangeRequest, RequestOp,
    TxnRequest,
};

/// Operations of a transaction that are spelled out.
const OPS_SHOWN: usize = 32;

/// Fields with spaces between them.
#[derive(Default)]
struct Fields(String);

impl Fields {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(name);
        self.0.push(':');
        self.0.push_str(&value.to_string());
    }

    fn bytes(&mut self, name: &str, value: &[u8]) {
        if !value.is_empty() {
            self.add(name, quoted(value));
        }
    }

    fn number(&mut self, name: &str, value: i64) {
        if value != 0 {
            self.add(name, value);
        }
    }

    fn flag(&mut self, name: &str, value: bool) {
        if value {
            self.add(name, "true");
        }
    }
}

/// Bytes in quotes, as protobuf's text format has them.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x20..=0x7e => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\{other:03o}")),
        }
    }
    text.push('"');
    text
}

/// A range.
pub fn range(request: &RangeRequest) -> String {
    let mut fields = Fields::default();
    fields.bytes("key", &request.key);
    fields.bytes("range_end", &request.range_end);
    fields.number("limit", request.limit);
    fields.number("revision", request.revision);
    if request.sort_order != 0 {
        let order = SortOrder::try_from(request.sort_order);
        fields.add(
            "sort_order",
            order.map_or("UNKNOWN", |order| order.as_str_name()),
        );
    }
    if request.sort_target != 0 {
        let target = SortTarget::try_from(request.sort_target);
        fields.add(
            "sort_target",
            target.map_or("UNKNOWN", |target| target.as_str_name()),
        );
    }
    fields.flag("serializable", request.serializable);
    fields.flag("keys_only", request.keys_only);
    fields.flag("count_only", request.count_only);
    fields.number("min_mod_revision", request.min_mod_revision);
    fields.number("max_mod_revision", request.max_mod_revision);
    fields.number("min_create_revision", request.min_create_revision);
    fields.number("max_create_revision", request.max_create_revision);
    fields.0
}

/// A put.
pub fn put(request: &PutRequest) -> String {
    let mut fields = Fields::default();
    fields.bytes("key", &request.key);
    fields.number("value_size", request.value.len() as i64);
    fields.number("lease", request.lease);
    fields.flag("prev_kv", request.prev_kv);
    fields.flag("ignore_value", request.ignore_value);
    fields.flag("ignore_lease", request.ignore_lease);
    fields.0
}

/// A deletion.
pub fn delete_range(request: &DeleteRangeRequest) -> String {
    let mut fields = Fields::default();
    fields.bytes("key", &request.key);
    fields.bytes("range_end", &request.range_end);
    fields.flag("prev_kv", request.prev_kv);
    fields.0
}

/// A transaction.
pub fn txn(request: &TxnRequest) -> String {
    let list = |ops: &[RequestOp]| {
        let mut shown: Vec<String> = ops.iter().take(OPS_SHOWN).map(op).collect();
        if ops.len() > OPS_SHOWN {
            shown.push(format!("... {} more", ops.len() - OPS_SHOWN));
        }
        shown.join(" ")
    };
    let compares: Vec<String> = request.compare.iter().map(compare).collect();
    format!(
        "compare:<{}> success:<{}> failure:<{}>",
        compares.join(" "),
        list(&request.success),
        list(&request.failure)
    )
}

fn op(op: &RequestOp) -> String {
    match &op.request {
        Some(Request::RequestRange(request)) => format!("request_range:{{{}}}", range(request)),
        Some(Request::RequestPut(request)) => format!("request_put:<{}>", put(request)),
        Some(Request::RequestDeleteRange(request)) => {
            format!("request_delete_range:{{{}}}", delete_range(request))
        }
        Some(Request::RequestTxn(request)) => format!("request_txn:<{}>", txn(request)),
        None => String::new(),
    }
}

fn compare(compare: &Compare) -> String {
    let mut fields = Fields::default();
    if compare.result != 0 {
        let result = CompareResult::try_from(compare.result);
        fields.add(
            "result",
            result.map_or("UNKNOWN", |result| result.as_str_name()),
        );
    }
    if compare.target != 0 {
        let target = CompareTarget::try_from(compare.target);
        fields.add(
            "target",
            target.map_or("UNKNOWN", |target| target.as_str_name()),
        );
    }
    fields.bytes("key", &compare.key);
    match &compare.target_union {
        Some(TargetUnion::Version(version)) => fields.add("version", version),
        Some(TargetUnion::CreateRevision(revision)) => fields.add("create_revision", revision),
        Some(TargetUnion::ModRevision(revision)) => fields.add("mod_revision", revision),
        Some(TargetUnion::Value(value)) => fields.add("value_size", value.len()),
        Some(TargetUnion::Lease(lease)) => fields.add("lease", lease),
        None => {}
    }
    fields.bytes("range_end", &compare.range_end);
    fields.0
}

/// An entry of the log.
pub fn of_entry(entry: &[u8]) -> String {
    let Ok(request) = InternalRaftRequest::decode(entry) else {
        return format!("an entry of {} bytes", entry.len());
    };
    let id = request.header.as_ref().map_or(0, |header| header.id);
    let what = if let Some(request) = &request.put {
        format!("put:<{}>", put(request))
    } else if let Some(request) = &request.txn {
        format!("txn:<{}>", txn(request))
    } else if let Some(request) = &request.delete_range {
        format!("delete_range:{{{}}}", delete_range(request))
    } else if let Some(request) = &request.range {
        format!("range:{{{}}}", range(request))
    } else if let Some(grant) = &request.lease_grant {
        format!(
            "lease_grant:<ttl:{}-second id:{:016x}>",
            grant.ttl, grant.id
        )
    } else if let Some(revoke) = &request.lease_revoke {
        format!("lease_revoke:<id:{:016x}>", revoke.id)
    } else if let Some(compaction) = &request.compaction {
        format!("compaction:{{revision:{}}}", compaction.revision)
    } else if let Some(set) = &request.cluster_version_set {
        format!("cluster_version_set:{{ver:{:?}}}", set.ver)
    } else if let Some(set) = &request.cluster_member_attr_set {
        let attributes = set.member_attributes.clone().unwrap_or_default();
        format!(
            "cluster_member_attr_set:{{member_ID:{} member_attributes:{{name:{:?} client_urls:{:?}}}}}",
            set.member_id, attributes.name, attributes.client_urls
        )
    } else {
        format!("{} bytes", entry.len())
    };
    format!("header:<ID:{id}> {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_by_its_size() {
        let request = PutRequest {
            key: b"a\"\x00\xff".to_vec().into(),
            value: "secret".into(),
            lease: 5,
            prev_kv: true,
            ..Default::default()
        };
        let text = put(&request);
        assert_eq!(
            text,
            r#"key:"a\"\000\377" value_size:6 lease:5 prev_kv:true"#
        );
        let whole = TxnRequest {
            compare: vec![Compare {
                target: CompareTarget::Value as i32,
                key: "k".into(),
                target_union: Some(TargetUnion::Value("secret".into())),
                ..Default::default()
            }],
            success: vec![RequestOp {
                request: Some(Request::RequestPut(request)),
            }],
            failure: vec![],
        };
        let text = txn(&whole);
        assert!(!text.contains("secret"));
        assert!(text.starts_with(
            "compare:<target:VALUE key:\"k\" value_size:6> success:<request_put:<key:"
        ));
        let entry = InternalRaftRequest {
            txn: Some(whole),
            ..Default::default()
        };
        assert!(of_entry(&entry.encode_to_vec()).starts_with("header:<ID:0> txn:<compare:<target"));
        assert_eq!(of_entry(&[0xff]), "an entry of 1 bytes");
    }

    #[test]
    fn defaults_are_left_out() {
        let request = RangeRequest {
            key: "a".into(),
            range_end: "b".into(),
            limit: 7,
            sort_order: SortOrder::Descend as i32,
            keys_only: true,
            ..Default::default()
        };
        assert_eq!(
            range(&request),
            r#"key:"a" range_end:"b" limit:7 sort_order:DESCEND keys_only:true"#
        );
    }
}
