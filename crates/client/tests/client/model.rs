//! A server whose store is a map: as much of etcd as locks, elections and transactions need.

use crate::fake::{Call, Server};
use bytes::Bytes;
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::compare::TargetUnion;
use quorate_client::api::etcdserverpb::range_request::{SortOrder, SortTarget};
use quorate_client::api::etcdserverpb::request_op::Request;
use quorate_client::api::etcdserverpb::response_op::Response;
use quorate_client::api::etcdserverpb::watch_request::RequestUnion;
use quorate_client::api::etcdserverpb::{
    Compare, DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, ResponseHeader, ResponseOp, TxnRequest, TxnResponse, WatchRequest,
    WatchResponse,
};
use quorate_client::api::mvccpb::event::EventType;
use quorate_client::api::mvccpb::{Event, KeyValue};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

const TTL_SECONDS: i64 = 10;

/// The store; clones share it.
#[derive(Clone)]
pub struct Model {
    state: Arc<Mutex<State>>,
    /// The newest revision.
    revision: watch::Sender<i64>,
}

#[derive(Default)]
struct State {
    revision: i64,
    pairs: BTreeMap<Bytes, KeyValue>,
    history: Vec<Event>,
    leases: BTreeSet<i64>,
    granted: i64,
}

impl Model {
    /// Serves calls with the store for as long as the test's runtime lives.
    pub fn serve(mut server: Server) -> Model {
        let model = Model {
            state: Arc::new(Mutex::new(State {
                revision: 1,
                ..State::default()
            })),
            revision: watch::Sender::new(1),
        };
        let served = model.clone();
        tokio::spawn(async move {
            loop {
                tokio::spawn(served.clone().answer(server.call().await));
            }
        });
        model
    }

    /// The keys that are there.
    pub fn keys(&self) -> Vec<Bytes> {
        self.state.lock().unwrap().pairs.keys().cloned().collect()
    }

    /// Ends a lease, as its TTL would.
    pub fn expire(&self, lease: i64) {
        self.change(|state| state.revoke(lease));
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap();
        let result = change(&mut state);
        self.revision.send_replace(state.revision);
        result
    }

    async fn answer(self, mut call: Call) {
        match Method::from_path(&call.path).unwrap() {
            Method::KVRange => {
                let request: RangeRequest = call.request().await;
                call.reply(self.change(|state| state.range(&request)));
            }
            Method::KVPut => {
                let request: PutRequest = call.request().await;
                call.reply(self.change(|state| {
                    state.revision += 1;
                    state.put(request);
                    PutResponse {
                        header: state.header(),
                        prev_kv: None,
                    }
                }));
            }
            Method::KVTxn => {
                let request: TxnRequest = call.request().await;
                call.reply(self.change(|state| state.txn(request)));
            }
            Method::LeaseLeaseGrant => {
                let _: LeaseGrantRequest = call.request().await;
                let id = self.change(|state| {
                    state.granted += 1;
                    state.leases.insert(state.granted);
                    state.granted
                });
                call.reply(LeaseGrantResponse {
                    id,
                    ttl: TTL_SECONDS,
                    ..LeaseGrantResponse::default()
                });
            }
            Method::LeaseLeaseRevoke => {
                let request: LeaseRevokeRequest = call.request().await;
                self.change(|state| state.revoke(request.id));
                call.reply(LeaseRevokeResponse::default());
            }
            Method::LeaseLeaseKeepAlive => {
                while let Some(LeaseKeepAliveRequest { id }) = call.try_request().await {
                    let is_there = self.state.lock().unwrap().leases.contains(&id);
                    call.answer(LeaseKeepAliveResponse {
                        id,
                        ttl: if is_there { TTL_SECONDS } else { 0 },
                        ..LeaseKeepAliveResponse::default()
                    });
                }
            }
            Method::WatchWatch => self.watch(call).await,
            other => panic!("{other:?}"),
        }
    }

    async fn watch(self, mut call: Call) {
        let request: WatchRequest = call.request().await;
        let Some(RequestUnion::CreateRequest(create)) = request.request_union else {
            panic!("{request:?}");
        };
        let mut revisions = self.revision.subscribe();
        let now = *revisions.borrow_and_update();
        let mut next = match create.start_revision {
            0 => now + 1,
            start => start,
        };
        call.answer(WatchResponse {
            header: header(now),
            created: true,
            ..WatchResponse::default()
        });
        while !call.is_gone() {
            let (events, now) = {
                let state = self.state.lock().unwrap();
                let is_new = |event: &&Event| {
                    let pair = event.kv.as_ref().unwrap();
                    pair.mod_revision >= next && names(&create.key, &create.range_end, &pair.key)
                };
                let events: Vec<Event> = state.history.iter().filter(is_new).cloned().collect();
                (events, state.revision)
            };
            next = next.max(now + 1);
            if !events.is_empty() {
                call.answer(WatchResponse {
                    header: header(now),
                    events,
                    ..WatchResponse::default()
                });
            }
            if revisions.changed().await.is_err() {
                return;
            }
        }
    }
}

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        revision,
        ..ResponseHeader::default()
    })
}

fn names(key: &[u8], range_end: &[u8], candidate: &[u8]) -> bool {
    match range_end {
        b"" => candidate == key,
        b"\0" => candidate >= key,
        end => candidate >= key && candidate < end,
    }
}

impl State {
    fn header(&self) -> Option<ResponseHeader> {
        header(self.revision)
    }

    fn range(&self, request: &RangeRequest) -> RangeResponse {
        let past = request.revision > 0 && request.revision < self.revision;
        let pairs = match past {
            true => self.pairs_at(request.revision),
            false => self.pairs.clone(),
        };
        let mut kvs: Vec<KeyValue> = pairs
            .into_values()
            .filter(|pair| names(&request.key, &request.range_end, &pair.key))
            .filter(|pair| {
                let most = request.max_create_revision;
                most == 0 || pair.create_revision <= most
            })
            .collect();
        if request.sort_target() == SortTarget::Create {
            kvs.sort_by_key(|pair| pair.create_revision);
        }
        if request.sort_order() == SortOrder::Descend {
            kvs.reverse();
        }
        if request.limit > 0 {
            kvs.truncate(request.limit as usize);
        }
        RangeResponse {
            header: self.header(),
            kvs,
            ..RangeResponse::default()
        }
    }

    /// The pairs as they were.
    fn pairs_at(&self, revision: i64) -> BTreeMap<Bytes, KeyValue> {
        let mut pairs = BTreeMap::new();
        for event in &self.history {
            let pair = event.kv.clone().unwrap();
            if pair.mod_revision > revision {
                break;
            }
            match event.r#type() {
                EventType::Put => pairs.insert(pair.key.clone(), pair),
                EventType::Delete => pairs.remove(&pair.key),
            };
        }
        pairs
    }

    /// Puts a pair at the newest revision.
    fn put(&mut self, put: PutRequest) {
        let before = self.pairs.get(&put.key);
        let pair = KeyValue {
            key: put.key.clone(),
            value: put.value,
            lease: put.lease,
            mod_revision: self.revision,
            create_revision: before.map_or(self.revision, |pair| pair.create_revision),
            version: before.map_or(1, |pair| pair.version + 1),
        };
        self.note(EventType::Put, pair.clone());
        self.pairs.insert(put.key, pair);
    }

    fn delete(&mut self, key: &Bytes) {
        if self.pairs.remove(key).is_some() {
            let pair = KeyValue {
                key: key.clone(),
                mod_revision: self.revision,
                ..KeyValue::default()
            };
            self.note(EventType::Delete, pair);
        }
    }

    fn note(&mut self, kind: EventType, pair: KeyValue) {
        self.history.push(Event {
            r#type: kind as i32,
            kv: Some(pair),
            prev_kv: None,
        });
    }

    fn revoke(&mut self, lease: i64) {
        self.leases.remove(&lease);
        self.revision += 1;
        let attached = self.pairs.values().filter(|pair| pair.lease == lease);
        let keys: Vec<Bytes> = attached.map(|pair| pair.key.clone()).collect();
        keys.iter().for_each(|key| self.delete(key));
    }

    fn txn(&mut self, txn: TxnRequest) -> TxnResponse {
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { txn.success } else { txn.failure };
        let writes = |request: &Option<Request>| !matches!(request, Some(Request::RequestRange(_)));
        if ops.iter().any(|op| writes(&op.request)) {
            self.revision += 1;
        }
        let answer = |request| match request {
            Request::RequestRange(range) => Response::ResponseRange(self.range(&range)),
            Request::RequestPut(put) => {
                assert!(put.lease == 0 || self.leases.contains(&put.lease));
                self.put(put);
                Response::ResponsePut(PutResponse::default())
            }
            Request::RequestDeleteRange(delete) => {
                self.delete(&delete.key);
                Response::ResponseDeleteRange(DeleteRangeResponse::default())
            }
            Request::RequestTxn(txn) => panic!("{txn:?}"),
        };
        let requests = ops.into_iter().map(|op| op.request.unwrap());
        let responses = requests.map(answer).map(|response| ResponseOp {
            response: Some(response),
        });
        TxnResponse {
            responses: responses.collect(),
            succeeded,
            header: self.header(),
        }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let pair = self.pairs.get(&compare.key);
        let (found, given) = match compare.target_union {
            Some(TargetUnion::CreateRevision(given)) => {
                (pair.map_or(0, |pair| pair.create_revision), given)
            }
            Some(TargetUnion::ModRevision(given)) => {
                (pair.map_or(0, |pair| pair.mod_revision), given)
            }
            ref other => panic!("{other:?}"),
        };
        match compare.result().as_str_name() {
            "EQUAL" => found == given,
            "LESS" => found < given,
            other => panic!("{other}"),
        }
    }
}
