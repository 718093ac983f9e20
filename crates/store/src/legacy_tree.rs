//! The JSON of etcd's v2 store, which every snapshot carries for members of 3.6 and older tools.
//!
//! It is always written and never trusted: membership here comes from the database's buckets. The
//! tree: `/0/members/ID/{raftAttributes,attributes}`, `/0/removed_members/ID`, `/0/version`, and
//! the empty `/1`. Source: etcd's v2store and membership store.

use crate::membership::{Membership, go_json, spell_id};
use serde_json::{Map, Value, json};

/// The store's history index is not kept; readers want a number.
const INDEX: u64 = 0;
/// 3.6 writes into this ring without growing it.
const EVENT_CAPACITY: usize = 1000;

fn node(path: &str, value: &str, children: Value) -> Value {
    json!({
        "Path": path,
        "CreatedIndex": INDEX,
        "ModifiedIndex": INDEX,
        "ExpireTime": "0001-01-01T00:00:00Z",
        "Value": value,
        "Children": children,
    })
}

fn file(path: &str, value: &str) -> Value {
    node(path, value, Value::Null)
}

fn dir(path: &str, children: Vec<(String, Value)>) -> Value {
    node(
        path,
        "",
        Value::Object(children.into_iter().collect::<Map<_, _>>()),
    )
}

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("JSON is UTF-8")
}

/// The tree as of this membership.
pub fn encode(members: &Membership) -> Vec<u8> {
    let member_dirs = members
        .iter()
        .map(|member| {
            let id = spell_id(member.id);
            let path = format!("/0/members/{id}");
            let mut raft = json!({ "peerURLs": member.peer_urls });
            if member.is_learner {
                raft["isLearner"] = json!(true);
            }
            let mut own = Map::new();
            if !member.name.is_empty() {
                own.insert("name".into(), json!(member.name));
            }
            if !member.client_urls.is_empty() {
                own.insert("clientURLs".into(), json!(member.client_urls));
            }
            let mut children = vec![(
                "raftAttributes".to_owned(),
                file(&format!("{path}/raftAttributes"), &text(go_json(&raft))),
            )];
            if !own.is_empty() {
                let path = format!("{path}/attributes");
                children.push(("attributes".to_owned(), file(&path, &text(go_json(&own)))));
            }
            (id, dir(&path, children))
        })
        .collect();
    let removed = members
        .removed()
        .map(|id| {
            let id = spell_id(id);
            let path = format!("/0/removed_members/{id}");
            (id, file(&path, "removed"))
        })
        .collect();
    let mut cluster = vec![
        ("members".to_owned(), dir("/0/members", member_dirs)),
        (
            "removed_members".to_owned(),
            dir("/0/removed_members", removed),
        ),
    ];
    if let Some(version) = &members.cluster_version {
        cluster.push(("version".to_owned(), file("/0/version", version)));
    }
    let root = dir(
        "/",
        vec![
            ("0".to_owned(), dir("/0", cluster)),
            ("1".to_owned(), dir("/1", Vec::new())),
        ],
    );
    let tree = json!({
        "Root": root,
        "WatcherHub": { "EventHistory": {
            "Queue": { "Events": vec![Value::Null; EVENT_CAPACITY], "Size": 0, "Front": 0, "Back": 0, "Capacity": EVENT_CAPACITY },
            "StartIndex": 0, "LastIndex": 0, "DuplicatedIndex": 0 } },
        "CurrentIndex": INDEX,
        "Stats": {
            "getsSuccess": 0, "getsFail": 0, "setsSuccess": 0, "setsFail": 0, "deleteSuccess": 0,
            "deleteFail": 0, "updateSuccess": 0, "updateFail": 0, "createSuccess": 0,
            "createFail": 0, "compareAndSwapSuccess": 0, "compareAndSwapFail": 0,
            "compareAndDeleteSuccess": 0, "compareAndDeleteFail": 0, "expireCount": 0,
            "watchers": 0 },
        "CurrentVersion": 2,
    });
    go_json(&tree)
}
