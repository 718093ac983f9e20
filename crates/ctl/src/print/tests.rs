//! What the forms look like. The expected texts are what etcdctl 3.7.3 printed for these answers.

use super::*;
use quorate_client::api::authpb::Permission;
use quorate_client::api::etcdserverpb::ResponseOp;
use quorate_client::api::etcdserverpb::response_op::Response;
use quorate_client::api::mvccpb::{Event, KeyValue};

const CLUSTER: u64 = 2_037_210_783_374_497_686;
const MEMBER: u64 = 13_195_394_291_058_371_180;
const LEASE: i64 = 7_668_682_564_055_896_921;

fn text(format: Format, hex: bool, answer: &Answer) -> String {
    let printer = Printer {
        format,
        hex,
        value_only: false,
    };
    match printer.page(answer) {
        Ok(page) => String::from_utf8_lossy(&[page.out, page.err].concat()).into_owned(),
        Err(refusal) => format!("Error: {refusal}"),
    }
}

fn header(revision: i64) -> Option<pb::ResponseHeader> {
    Some(pb::ResponseHeader {
        cluster_id: CLUSTER,
        member_id: MEMBER,
        revision,
        raft_term: 2,
    })
}

fn pair(key: &str, value: &'static [u8], create: i64, modified: i64, version: i64) -> KeyValue {
    KeyValue {
        key: key.to_owned().into(),
        value: value.into(),
        create_revision: create,
        mod_revision: modified,
        version,
        lease: 0,
    }
}

fn get() -> Answer {
    Answer::Get(pb::RangeResponse {
        header: header(35),
        kvs: vec![pair("a<b", b"v\x01\xff&\xc3\xa9", 2, 2, 1)],
        more: false,
        count: 1,
    })
}

#[test]
fn a_read_in_all_forms() {
    assert_eq!(
        text(Format::Simple, false, &get()),
        "a<b\nv\u{1}\u{fffd}&é\n"
    );
    assert_eq!(
        text(Format::Simple, true, &get()),
        "\\x61\\x3c\\x62\n\\x76\\x01\\xff\\x26\\xc3\\xa9\n"
    );
    assert_eq!(
        text(Format::Fields, true, &get()),
        r#""ClusterID" : 1c45a069f3a1d796
"MemberID" : b71f75320dc06a6c
"Revision" : 35
"RaftTerm" : 2
"Key" : "a<b"
"CreateRevision" : 2
"ModRevision" : 2
"Version" : 1
"Value" : "v\x01\xff&é"
"Lease" : 0000000000000000
"More" : false
"Count" : 1
"#
    );
    assert_eq!(
        text(Format::Json, false, &get()),
        "{\"header\":{\"cluster_id\":2037210783374497686,\"member_id\":13195394291058371180,\"revision\":35,\"raft_term\":2},\"kvs\":[{\"key\":\"YTxi\",\"create_revision\":2,\"mod_revision\":2,\"version\":1,\"value\":\"dgH/JsOp\"}],\"count\":1}\n"
    );
    assert_eq!(
        text(Format::Table, false, &get()),
        "Error: table not supported as output format"
    );
    let printer = Printer {
        format: Format::Protobuf,
        hex: false,
        value_only: false,
    };
    let page = printer.page(&get()).expect("a message");
    let decoded = <pb::RangeResponse as prost::Message>::decode(&page.out[..]);
    assert_eq!(decoded.map(|r| r.count), Ok(1));
}

#[test]
fn writes_in_simple_and_json() {
    let put = Answer::Put(pb::PutResponse {
        header: header(5),
        prev_kv: Some(pair("foo", b"bar", 2, 2, 1)),
    });
    assert_eq!(text(Format::Simple, false, &put), "OK\nfoo\nbar\n");
    let delete = Answer::Delete(pb::DeleteRangeResponse {
        header: header(38),
        deleted: 1,
        prev_kvs: vec![pair("foo", b"bar2", 36, 37, 2)],
    });
    assert_eq!(text(Format::Simple, false, &delete), "1\nfoo\nbar2\n");
    assert!(text(Format::Json, false, &delete).ends_with(
        "\"deleted\":1,\"prev_kvs\":[{\"key\":\"Zm9v\",\"create_revision\":36,\"mod_revision\":37,\"version\":2,\"value\":\"YmFyMg==\"}]}\n"
    ));
}

#[test]
fn a_transaction() {
    let range = pb::RangeResponse {
        header: Some(pb::ResponseHeader {
            revision: 83,
            ..pb::ResponseHeader::default()
        }),
        ..pb::RangeResponse::default()
    };
    let txn = Answer::Txn(pb::TxnResponse {
        header: header(83),
        succeeded: false,
        responses: vec![ResponseOp {
            response: Some(Response::ResponseRange(range)),
        }],
    });
    assert_eq!(text(Format::Simple, false, &txn), "FAILURE\n\n");
    assert_eq!(
        text(Format::Json, true, &txn),
        "{\"header\":{\"cluster_id\":2037210783374497686,\"member_id\":13195394291058371180,\"revision\":83,\"raft_term\":2},\"responses\":[{\"Response\":{\"response_range\":{\"header\":{\"revision\":83}}}}]}\n"
    );
    assert!(text(Format::Fields, false, &txn).ends_with(
        "\"Succeeded\" : false\n\"ClusterID\" : 0\n\"MemberID\" : 0\n\"Revision\" : 83\n\"RaftTerm\" : 0\n\"More\" : false\n\"Count\" : 0\n"
    ));
}

#[test]
fn watched_changes() {
    let delete = Event {
        r#type: 1,
        kv: Some(KeyValue {
            key: "wk".into(),
            mod_revision: 43,
            ..KeyValue::default()
        }),
        prev_kv: Some(pair("wk", b"v2", 41, 42, 2)),
    };
    let watch = Answer::Watch(pb::WatchResponse {
        header: header(43),
        events: vec![delete],
        ..pb::WatchResponse::default()
    });
    assert_eq!(
        text(Format::Simple, false, &watch),
        "DELETE\nwk\nv2\nwk\n\n"
    );
    assert_eq!(
        text(Format::Json, false, &watch),
        "{\"Header\":{\"cluster_id\":2037210783374497686,\"member_id\":13195394291058371180,\"revision\":43,\"raft_term\":2},\"Events\":[{\"type\":1,\"kv\":{\"key\":\"d2s=\",\"mod_revision\":43},\"prev_kv\":{\"key\":\"d2s=\",\"create_revision\":41,\"mod_revision\":42,\"version\":2,\"value\":\"djI=\"}}],\"CompactRevision\":0,\"Canceled\":false,\"Created\":false,\"CancelReason\":\"\"}\n"
    );
    let none = Answer::Watch(pb::WatchResponse {
        header: header(0),
        ..pb::WatchResponse::default()
    });
    assert!(text(Format::Json, false, &none).contains("\"Events\":null,"));
}

#[test]
fn leases() {
    let grant = Answer::Grant(pb::LeaseGrantResponse {
        header: header(22),
        id: LEASE,
        ttl: 100,
        error: String::new(),
    });
    assert_eq!(
        text(Format::Simple, false, &grant),
        "lease 6a6ca2295dc89359 granted with TTL(100s)\n"
    );
    assert!(
        text(Format::Json, false, &grant)
            .ends_with(",\"raft_term\":2,\"ID\":7668682564055896921,\"TTL\":100,\"Error\":\"\"}\n")
    );
    let live = |keys: Vec<bytes::Bytes>, with_keys| {
        Answer::TimeToLive(
            pb::LeaseTimeToLiveResponse {
                header: header(23),
                id: LEASE,
                ttl: 999,
                granted_ttl: 1000,
                keys,
            },
            with_keys,
        )
    };
    assert_eq!(
        text(
            Format::Simple,
            false,
            &live(vec!["a".into(), "b".into()], true)
        ),
        "lease 6a6ca2295dc89359 granted with TTL(1000s), remaining(999s), attached keys([a b])\n"
    );
    assert!(
        text(Format::Json, false, &live(Vec::new(), false)).ends_with(
            "\"id\":7668682564055896921,\"ttl\":999,\"granted-ttl\":1000,\"keys\":null}\n"
        )
    );
    let gone = Answer::TimeToLive(
        pb::LeaseTimeToLiveResponse {
            id: 4660,
            ttl: -1,
            ..pb::LeaseTimeToLiveResponse::default()
        },
        false,
    );
    assert_eq!(
        text(Format::Simple, false, &gone),
        "lease 0000000000001234 already expired\n"
    );
    let revoked = Answer::Revoke(1, pb::LeaseRevokeResponse { header: header(24) });
    assert!(text(Format::Protobuf, false, &revoked).starts_with("Error: marshal unsupported"));
    assert_eq!(
        text(Format::Simple, false, &revoked),
        "lease 0000000000000001 revoked\n"
    );
}

fn members() -> Answer {
    Answer::MemberList(pb::MemberListResponse {
        header: header(0),
        members: vec![pb::Member {
            id: MEMBER,
            name: "default".to_owned(),
            peer_ur_ls: vec!["http://127.0.0.1:2380".to_owned()],
            client_ur_ls: vec!["http://127.0.0.1:2379".to_owned()],
            is_learner: false,
        }],
    })
}

#[test]
fn members_in_all_forms() {
    assert_eq!(
        text(Format::Simple, false, &members()),
        "b71f75320dc06a6c, started, default, http://127.0.0.1:2380, http://127.0.0.1:2379, false\n"
    );
    assert_eq!(
        text(Format::Json, true, &members()),
        "{\"header\":{\"cluster_id\":\"1c45a069f3a1d796\",\"member_id\":\"b71f75320dc06a6c\",\"raft_term\":2},\"members\":[{\"ID\":\"b71f75320dc06a6c\",\"name\":\"default\",\"peerURLs\":[\"http://127.0.0.1:2380\"],\"clientURLs\":[\"http://127.0.0.1:2379\"]}]}\n"
    );
    assert_eq!(
        text(Format::Table, false, &members()),
        "\
┌──────────────────┬─────────┬─────────┬───────────────────────┬───────────────────────┬────────────┐
│        ID        │ STATUS  │  NAME   │      PEER ADDRS       │     CLIENT ADDRS      │ IS LEARNER │
├──────────────────┼─────────┼─────────┼───────────────────────┼───────────────────────┼────────────┤
│ b71f75320dc06a6c │ started │ default │ http://127.0.0.1:2380 │ http://127.0.0.1:2379 │      false │
└──────────────────┴─────────┴─────────┴───────────────────────┴───────────────────────┴────────────┘
"
    );
    let removed = Answer::MemberRemove(
        1,
        pb::MemberRemoveResponse {
            header: header(0),
            members: Vec::new(),
        },
    );
    assert_eq!(
        text(Format::Simple, false, &removed),
        "Member                1 removed from cluster 1c45a069f3a1d796\n"
    );
    assert_eq!(
        text(Format::Fields, false, &removed),
        "Error: fields not supported as output format"
    );
}

#[test]
fn endpoints() {
    let status = pb::StatusResponse {
        header: header(40),
        version: "3.7.3".to_owned(),
        storage_version: "3.7.0".to_owned(),
        db_size: 20480,
        db_size_in_use: 16384,
        db_size_quota: 2_147_483_648,
        leader: MEMBER,
        raft_index: 143,
        raft_term: 2,
        raft_applied_index: 143,
        downgrade_info: Some(pb::DowngradeInfo::default()),
        ..pb::StatusResponse::default()
    };
    let status = Answer::EndpointStatus(vec![("127.0.0.1:2379".to_owned(), status)]);
    assert_eq!(
        text(Format::Simple, false, &status),
        "127.0.0.1:2379, b71f75320dc06a6c, 3.7.3, 3.7.0, 20 kB, 16 kB, 20%, 2.1 GB, true, false, 2, 143, 143, , , false\n"
    );
    assert_eq!(
        text(Format::Json, false, &status),
        "[{\"Endpoint\":\"127.0.0.1:2379\",\"Status\":{\"header\":{\"cluster_id\":2037210783374497686,\"member_id\":13195394291058371180,\"revision\":40,\"raft_term\":2},\"version\":\"3.7.3\",\"dbSize\":20480,\"leader\":13195394291058371180,\"raftIndex\":143,\"raftTerm\":2,\"raftAppliedIndex\":143,\"dbSizeInUse\":16384,\"storageVersion\":\"3.7.0\",\"dbSizeQuota\":2147483648,\"downgradeInfo\":{}}}]\n"
    );
    assert_eq!(
        text(Format::Json, false, &Answer::EndpointStatus(Vec::new())),
        "null\n"
    );
    let health = |healthy, error: &str| {
        Answer::EndpointHealth(vec![Health {
            endpoint: "127.0.0.1:1".to_owned(),
            healthy,
            took: Some(Duration::from_micros(2500)),
            error: error.to_owned(),
        }])
    };
    assert_eq!(
        text(Format::Simple, false, &health(true, "")),
        "127.0.0.1:1 is healthy: successfully committed proposal: took = 2.5ms\n"
    );
    assert_eq!(
        text(
            Format::Json,
            false,
            &health(false, "context deadline exceeded")
        ),
        "[{\"endpoint\":\"127.0.0.1:1\",\"health\":false,\"took\":\"2.5ms\",\"error\":\"context deadline exceeded\"}]\n"
    );
    assert!(
        text(
            Format::Table,
            false,
            &health(false, "Active Alarm(s): NOSPACE ")
        )
        .contains("│  false │ 2.5ms │ Active Alarm(s): NOSPACE │\n")
    );
    let hash = pb::HashKvResponse {
        header: header(40),
        hash: 1_105_555_722,
        compact_revision: 1,
        hash_revision: 40,
    };
    let hash = Answer::EndpointHashKv(vec![("127.0.0.1:2379".to_owned(), hash)]);
    assert_eq!(
        text(Format::Table, false, &hash),
        "\
┌────────────────┬────────────┬───────────────┐
│    ENDPOINT    │    HASH    │ HASH REVISION │
├────────────────┼────────────┼───────────────┤
│ 127.0.0.1:2379 │ 1105555722 │            40 │
└────────────────┴────────────┴───────────────┘
"
    );
    assert_eq!(
        text(Format::Protobuf, false, &hash),
        "Error: protobuf not supported as output format"
    );
}

#[test]
fn roles_and_users() {
    let permission = |kind, key: &'static str, end: &'static [u8]| Permission {
        perm_type: kind,
        key: key.into(),
        range_end: end.into(),
    };
    let role = |name: &str, perm| {
        Answer::RoleGet(
            name.to_owned(),
            pb::AuthRoleGetResponse {
                header: header(40),
                perm,
            },
        )
    };
    let several = role(
        "r",
        vec![
            permission(2, "foo", b""),
            permission(0, "foo", b"fop"),
            permission(1, "a", b"\0"),
            permission(0, "a", b"c"),
        ],
    );
    assert_eq!(
        text(Format::Simple, false, &several),
        "Role r\nKV Read:\n\tfoo\n\t[foo, fop) (prefix foo)\n\t[a, c)\nKV Write:\n\tfoo\n\t[a, <open ended>\n"
    );
    assert_eq!(
        text(Format::Simple, false, &role("root", Vec::new())),
        "Role root\nKV Read:\n\t[, <open ended>\nKV Write:\n\t[, <open ended>\n"
    );
    assert!(
        text(Format::Fields, false, &several)
            .contains("\"PermType\" :  READWRITE\n\"Key\" : \"foo\"\n\"RangeEnd\" : \"\"\n")
    );
    let revoked = |end: &[u8]| {
        let response = pb::AuthRoleRevokePermissionResponse::default();
        Answer::RoleRevokePermission("x".to_owned(), b"a".to_vec(), end.to_vec(), response)
    };
    assert_eq!(
        text(Format::Simple, false, &revoked(b"\0")),
        "Permission of range [a, <open ended> is revoked from role x\n"
    );
    assert_eq!(
        text(Format::Simple, false, &revoked(b"")),
        "Permission of key a is revoked from role x\n"
    );
    let user = Answer::UserGet(
        "u".to_owned(),
        pb::AuthUserGetResponse {
            header: header(40),
            roles: vec!["r".to_owned()],
        },
    );
    assert_eq!(text(Format::Simple, false, &user), "User: u\nRoles: r\n");
    let status = Answer::AuthStatus(pb::AuthStatusResponse {
        header: header(40),
        enabled: false,
        auth_revision: 46,
    });
    assert_eq!(
        text(Format::Simple, false, &status),
        "Authentication Status: false\nAuthRevision: 46\n"
    );
    assert!(text(Format::Json, false, &status).ends_with("},\"authRevision\":46}\n"));
}
