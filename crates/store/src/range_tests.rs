//! Reads against a plain list of key-values.

use super::*;
use crate::commit::commit;
use crate::store::Applied;
use crate::{Config, Store, lease, open};
use prost::Message as _;
use quorate_api::etcdserverpb::{DeleteRangeRequest, InternalRaftRequest, PutRequest};
use quorate_api::mvccpb::KeyValue;
use quorate_disk::faulty::FaultyDisk;
use quorate_disk::faulty::Random;
use std::collections::BTreeMap;
use std::path::Path;

type Content = BTreeMap<Vec<u8>, KeyValue>;

/// A store with some history, and its content after each revision.
fn history(seed: u64) -> (Store, Vec<Content>) {
    let mut random = Random::new(seed);
    let disk: Arc<dyn quorate_disk::Disk> = Arc::new(FaultyDisk::new(seed));
    disk.create_dir_all(Path::new("/d")).unwrap();
    let lease = lease::Config {
        min_ttl_s: 2,
        checkpoint_interval_ms: None,
    };
    let config = Config {
        quota_bytes: 0,
        lease,
    };
    let (mut store, db) = open(disk, Path::new("/d/db"), config).unwrap();
    let mut content = vec![Content::new()];
    for index in 1..200 {
        let key = format!("k{:02}", random.below(30)).into_bytes();
        let mut now = content.last().unwrap().clone();
        let revision = content.len() as i64 + 1;
        let request = if random.below(4) > 0 || !now.contains_key(&key) {
            let value = format!("{}", random.below(10)).into_bytes();
            let old = now.get(&key);
            let kv = KeyValue {
                key: key.clone().into(),
                create_revision: old.map_or(revision, |kv| kv.create_revision),
                mod_revision: revision,
                version: old.map_or(1, |kv| kv.version + 1),
                value: value.clone().into(),
                lease: 0,
            };
            now.insert(key.clone(), kv);
            let put = PutRequest {
                key: key.into(),
                value: value.into(),
                ..Default::default()
            };
            InternalRaftRequest {
                put: Some(put),
                ..Default::default()
            }
        } else {
            now.remove(&key);
            let delete = DeleteRangeRequest {
                key: key.into(),
                ..Default::default()
            };
            InternalRaftRequest {
                delete_range: Some(delete),
                ..Default::default()
            }
        };
        content.push(now);
        store
            .apply(Applied { index, term: 1 }, &request, 0)
            .unwrap()
            .unwrap();
        if random.below(20) == 0 {
            let frozen = store.freeze().unwrap();
            let committed = commit(&db, &frozen).unwrap();
            store.committed(committed);
        }
    }
    (store, content)
}

/// What etcd's rules make of a request, told from the content alone.
fn expected(content: &Content, request: &RangeRequest) -> (Vec<KeyValue>, bool, i64) {
    let keys = Keys::new(&request.key, &request.range_end);
    let mut kvs: Vec<KeyValue> = content
        .values()
        .filter(|kv| keys.contains(&kv.key))
        .cloned()
        .collect();
    let count = kvs.len() as i64;
    if request.count_only {
        return (Vec::new(), false, count);
    }
    let limit = request.limit as usize;
    if limit > 0 && is_default_order(request) && !has_filters(request) {
        kvs.truncate(limit + 1);
    }
    kvs.retain(|kv| {
        let fits = |value: i64, min: i64, max: i64| value >= min && (max == 0 || value <= max);
        fits(
            kv.mod_revision,
            request.min_mod_revision,
            request.max_mod_revision,
        ) && fits(
            kv.create_revision,
            request.min_create_revision,
            request.max_create_revision,
        )
    });
    match request.sort_target {
        1 => kvs.sort_by_key(|kv| kv.version),
        2 => kvs.sort_by_key(|kv| kv.create_revision),
        3 => kvs.sort_by_key(|kv| kv.mod_revision),
        4 => kvs.sort_by(|a, b| a.value.cmp(&b.value)),
        _ => {}
    }
    if request.sort_order == 2 {
        // Reversed, but with equal ones in the order of their keys.
        kvs.sort_by(|a, b| match request.sort_target {
            1 => b.version.cmp(&a.version),
            2 => b.create_revision.cmp(&a.create_revision),
            3 => b.mod_revision.cmp(&a.mod_revision),
            4 => b.value.cmp(&a.value).then(a.key.cmp(&b.key)),
            _ => b.key.cmp(&a.key),
        });
        if request.sort_target == 1 {
            kvs.sort_by(|a, b| b.version.cmp(&a.version).then(a.key.cmp(&b.key)));
        }
    }
    let more = limit > 0 && kvs.len() > limit;
    if limit > 0 {
        kvs.truncate(limit);
    }
    if request.keys_only {
        kvs.iter_mut().for_each(|kv| kv.value.clear());
    }
    (kvs, more, count)
}

fn draw(random: &mut Random, newest: i64) -> RangeRequest {
    let key = |random: &mut Random| format!("k{:02}", random.below(32)).into_bytes();
    let some = |random: &mut Random| match random.below(4) {
        0 => random.below(newest as u64) as i64,
        _ => 0,
    };
    RangeRequest {
        key: key(random).into(),
        range_end: match random.below(4) {
            0 => Vec::new(),
            1 => vec![0],
            _ => key(random),
        }
        .into(),
        limit: [0, 0, 1, 3, 1000][random.below(5) as usize],
        revision: if random.below(2) == 0 {
            0
        } else {
            1 + random.below(newest as u64) as i64
        },
        sort_order: random.below(3) as i32,
        sort_target: random.below(5) as i32,
        keys_only: random.below(3) == 0,
        count_only: random.below(8) == 0,
        min_mod_revision: some(random),
        max_mod_revision: some(random),
        min_create_revision: some(random),
        max_create_revision: some(random),
        ..Default::default()
    }
}

/// All bytes of an answer's key-values, however they come.
fn collect(kvs: Kvs) -> Vec<KeyValue> {
    let len = kvs.encoded_len();
    let bytes = match kvs {
        Kvs::Ready(bytes) => bytes,
        Kvs::Spliced(mut splice) => {
            let mut all = Vec::new();
            while let Some(chunk) = splice.next_chunk(37) {
                all.extend_from_slice(&chunk);
            }
            all
        }
    };
    assert_eq!(bytes.len() as u64, len, "lengths are told before");
    RangeResponse::decode(&bytes[..]).unwrap().kvs
}

#[test]
fn every_request_gets_what_the_rules_say() {
    for seed in 0..30 {
        let (mut store, content) = history(seed);
        let view = store.publish();
        let mut random = Random::new(seed + 1000);
        for _ in 0..300 {
            let request = draw(&mut random, view.revision);
            let at = if request.revision == 0 {
                view.revision
            } else {
                request.revision
            };
            let (kvs, more, count) = expected(&content[at as usize - 1], &request);
            let answer = range(&view, &request, None, None).unwrap().unwrap();
            assert_eq!(
                (answer.more, answer.count),
                (more, count),
                "seed {seed} {request:?}"
            );
            assert_eq!(answer.returned, kvs.len());
            assert_eq!(collect(answer.kvs), kvs, "seed {seed} {request:?}");
            let message = range_message(&view.source().unwrap(), &request).unwrap();
            assert_eq!(
                (message.kvs, message.more, message.count),
                (kvs.clone(), more, count)
            );
            let inline = Inline {
                keys: 5,
                bytes: 100,
            };
            if let Some(small) = range(&view, &request, None, Some(inline)).unwrap() {
                assert_eq!(collect(small.kvs), kvs, "seed {seed} {request:?}");
            }
        }
    }
}

#[test]
fn chunks_of_a_stream_add_up() {
    for seed in 0..10 {
        let (mut store, content) = history(seed);
        let view = store.publish();
        for keys_only in [false, true] {
            for limit in 1..6 {
                let (mut start, mut all) = (vec![b'k'], Vec::new());
                let at = view.revision - 20;
                loop {
                    let keys = Keys::new(&start, b"l");
                    let chunk = stream_chunk(&view, &keys, keys_only, at, limit, 60).unwrap();
                    all.extend(RangeResponse::decode(&chunk.fields[..]).unwrap().kvs);
                    let Some(last) = chunk.more_after else { break };
                    start = [&last[..], b"\0"].concat();
                }
                let request = RangeRequest {
                    key: "k".into(),
                    range_end: "l".into(),
                    keys_only,
                    ..Default::default()
                };
                assert_eq!(all, expected(&content[at as usize - 1], &request).0);
            }
        }
    }
}

#[test]
fn revisions_out_of_reach() {
    assert_eq!(resolve_revision(0, 9, -1), Ok(9));
    assert_eq!(resolve_revision(-7, 9, -1), Ok(9));
    assert_eq!(resolve_revision(10, 9, -1), Err(api::Error::FutureRev));
    assert_eq!(resolve_revision(4, 9, 5), Err(api::Error::Compacted));
    assert_eq!(resolve_revision(5, 9, 5), Ok(5));
}

#[test]
fn a_kept_root_counts_for_its_revision() {
    let (mut store, content) = history(3);
    let view = store.publish();
    let put = PutRequest {
        key: "k99".into(),
        ..Default::default()
    };
    let request = InternalRaftRequest {
        put: Some(put),
        ..Default::default()
    };
    store
        .apply(
            Applied {
                index: 1000,
                term: 1,
            },
            &request,
            0,
        )
        .unwrap()
        .unwrap();
    let later = store.publish();
    let page = RangeRequest {
        key: "k".into(),
        range_end: "l".into(),
        limit: 2,
        revision: view.revision,
        ..Default::default()
    };
    let walked = range(&later, &page, None, None).unwrap().unwrap();
    let counted = range(&later, &page, Some(&view.root), None)
        .unwrap()
        .unwrap();
    assert_eq!(walked.count, content.last().unwrap().len() as i64);
    assert_eq!(walked.count, counted.count);
}
