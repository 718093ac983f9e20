//! For tests: a directory of its own, and a small member in it, written by the crates that the server
//! writes with.

use crate::database::disk;
use crate::layout;
use bytes::Bytes;
use prost::Message;
use quorate_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, InternalRaftRequest, LeaseGrantRequest, PutRequest,
    RequestHeader, RequestOp, TxnRequest, request_op,
};
use quorate_store::commit::commit;
use quorate_store::ids::{Identity, cluster_id, member_id};
use quorate_store::membership::{Member, go_json};
use quorate_store::{Applied, Config, Store, lease, legacy_tree};
use quorate_wal::types::{
    ConfChange, ConfChangeKind, ConfState, Entry, EntryKind, HardState, Snapshot, SnapshotMetadata,
};
use quorate_wal::{Options, Wal, raftpb, snap, walpb};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is gone with the value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("quorateutl-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

const TERM: u64 = 2;
const ENTRIES: u64 = 400;
/// Small, so that there are a few segments.
const SEGMENT_BYTES: u64 = 12 << 10;

fn put(key: String, value: usize) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: vec![b'v'; value].into(),
        ..PutRequest::default()
    }
}

fn delete(key: String) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.into(),
        ..DeleteRangeRequest::default()
    }
}

/// The request of an entry: mostly puts, some of everything else.
fn request(index: u64) -> InternalRaftRequest {
    let key = |n: u64| format!("/registry/kind-{}/name-{:03}", n % 3, n % 70);
    let mut request = InternalRaftRequest {
        header: Some(RequestHeader {
            id: index,
            ..RequestHeader::default()
        }),
        ..InternalRaftRequest::default()
    };
    match index % 11 {
        3 => request.delete_range = Some(delete(key(index * 7))),
        5 => {
            let operation = |request| RequestOp {
                request: Some(request),
            };
            request.txn = Some(TxnRequest {
                success: vec![
                    operation(request_op::Request::RequestPut(put(key(index), 30))),
                    operation(request_op::Request::RequestDeleteRange(delete(key(
                        index + 1
                    )))),
                ],
                ..TxnRequest::default()
            });
        }
        7 if index.is_multiple_of(3) => {
            request.lease_grant = Some(LeaseGrantRequest {
                id: index as i64,
                ttl: 1000,
            });
        }
        _ => request.put = Some(put(key(index), (index * 37 % 300) as usize)),
    }
    if index == ENTRIES / 2 {
        request = InternalRaftRequest {
            header: request.header,
            compaction: Some(CompactionRequest {
                revision: 60,
                physical: false,
            }),
            ..InternalRaftRequest::default()
        };
    }
    request
}

/// Makes a member that was stopped: its database covers its log to the end.
pub fn member(data_dir: &Path) {
    let (snap_dir, wal_dir) = (layout::snap_dir(data_dir), layout::wal_dir(data_dir));
    disk().create_dir_all(&snap_dir).unwrap();
    let own = Member {
        id: member_id(&["http://localhost:2380".into()], "token"),
        peer_urls: vec!["http://localhost:2380".into()],
        name: "a".into(),
        ..Member::default()
    };
    let config = Config {
        quota_bytes: 0,
        lease: lease::Config {
            min_ttl_s: 1,
            checkpoint_interval_ms: None,
        },
    };
    let database = layout::database(data_dir);
    let (mut store, db) = quorate_store::open(disk(), &database, config).unwrap();
    let metadata = Identity {
        member_id: own.id,
        cluster_id: cluster_id(&[own.id]),
    };
    let options = Options {
        segment_bytes: SEGMENT_BYTES,
        ..Options::default()
    };
    let mut wal = Wal::create(&disk(), &wal_dir, &metadata.encode(), options).unwrap();
    for index in 1..=ENTRIES {
        let at = Applied { index, term: TERM };
        let entry = if index == 1 {
            store.advance(at);
            let id = own.id;
            store.change_members(|members, edits| members.put(own.clone(), edits));
            conf_change(id, &own)
        } else {
            let request = request(index);
            store.apply(at, &request, 0).unwrap().ok();
            Entry {
                term: TERM,
                index,
                kind: EntryKind::Normal,
                data: request.encode_to_vec().into(),
            }
        };
        let state = HardState {
            term: TERM,
            vote: own.id,
            commit: index - 1,
        };
        wal.append(Some(&state), &[]).unwrap();
        wal.append(None, &[entry]).unwrap();
        if index % 40 == 0 {
            wal.sync().unwrap();
            commit_all(&mut store, &db);
        }
        if index % 160 == 0 {
            snapshot(
                &store,
                &mut wal,
                &snap_dir,
                Applied {
                    index: index - 1,
                    term: TERM,
                },
                own.id,
            );
        }
    }
    wal.close().unwrap();
    commit_all(&mut store, &db);
}

fn conf_change(id: u64, own: &Member) -> Entry {
    let change = ConfChange {
        kind: ConfChangeKind::AddNode,
        node_id: id,
        context: go_json(own).into(),
        ..ConfChange::default()
    };
    let mut data = Vec::new();
    raftpb::put_conf_change(&mut data, &change);
    Entry {
        term: TERM,
        index: 1,
        kind: EntryKind::ConfChange,
        data: Bytes::from(data),
    }
}

fn commit_all(store: &mut Store, db: &quorate_bolt::Db) {
    store.publish();
    if let Some(frozen) = store.freeze() {
        store.committed(commit(db, &frozen).unwrap());
    }
}

fn snapshot(store: &Store, wal: &mut Wal, snap_dir: &Path, at: Applied, id: u64) {
    let conf_state = ConfState {
        voters: vec![id],
        ..ConfState::default()
    };
    let snapshot = Snapshot {
        data: legacy_tree::encode(store.members()).into(),
        metadata: SnapshotMetadata {
            conf_state: conf_state.clone(),
            index: at.index,
            term: at.term,
        },
    };
    snap::save(&*disk(), snap_dir, &snapshot).unwrap();
    wal.save_snapshot_record(&walpb::Snapshot {
        index: at.index,
        term: at.term,
        conf_state: Some(conf_state),
    })
    .unwrap();
}

/// The live runs of a database's pages, as (page, pages).
pub fn live_pages(bytes: &[u8], page_bytes: usize) -> Vec<(usize, usize)> {
    let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let newest = if u64_at(16 + 48) > u64_at(page_bytes + 16 + 48) {
        0
    } else {
        page_bytes
    };
    let mut to_visit = vec![u64_at(newest + 16 + 16)];
    let mut live = Vec::new();
    while let Some(page) = to_visit.pop() {
        let at = page * page_bytes;
        live.push((page, u32_at(at + 12) + 1));
        let is_branch = u16_at(at + 8) == 1;
        for index in 0..usize::from(u16_at(at + 10)) {
            let element = at + 16 + 16 * index;
            if is_branch {
                to_visit.push(u64_at(element + 8));
            } else if u32_at(element) == 1 {
                let value = element + u32_at(element + 4) + u32_at(element + 8);
                to_visit.extend(Some(u64_at(value)).filter(|root| *root != 0));
            }
        }
    }
    live.sort_unstable();
    live
}
