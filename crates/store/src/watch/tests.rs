//! Watchers against the history: everybody hears of everything, in order, once.

use super::*;
use crate::commit::commit;
use crate::store::Applied;
use crate::{Config as StoreConfig, Store, lease, open};
use prost::Message as _;
use quorate_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, InternalRaftRequest, PutRequest, WatchResponse,
};
use quorate_api::mvccpb::Event;
use quorate_bolt::Db;
use quorate_disk::faulty::FaultyDisk;
use quorate_disk::faulty::Random;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

struct Fixture {
    store: Store,
    db: Db,
    hub: Hub,
    view: Arc<View>,
    index: u64,
}

impl Fixture {
    fn new(seed: u64, bounds: Bounds) -> Fixture {
        let config = StoreConfig {
            quota_bytes: 0,
            lease: lease::Config {
                min_ttl_s: 2,
                checkpoint_interval_ms: None,
            },
        };
        let disk: Arc<dyn quorate_disk::Disk> = Arc::new(FaultyDisk::new(seed));
        disk.create_dir_all(Path::new("/d")).unwrap();
        let (mut store, db) = open(disk, Path::new("/d/db"), config).unwrap();
        let view = store.publish();
        let hub = Hub::new(
            Config {
                progress_interval_ms: 1000,
                bounds,
            },
            view.revision,
        );
        Fixture {
            store,
            db,
            hub,
            view,
            index: 0,
        }
    }

    fn apply(&mut self, request: InternalRaftRequest) {
        self.index += 1;
        let at = Applied {
            index: self.index,
            term: 1,
        };
        self.store.apply(at, &request, 0).unwrap().unwrap();
    }

    fn put(&mut self, key: &str, value: &str) {
        let (key, value) = (key.to_owned().into(), value.to_owned().into());
        let put = PutRequest {
            key,
            value,
            ..Default::default()
        };
        self.apply(InternalRaftRequest {
            put: Some(put),
            ..Default::default()
        });
    }

    fn delete(&mut self, key: &str) {
        let delete = DeleteRangeRequest {
            key: key.to_owned().into(),
            ..Default::default()
        };
        self.apply(InternalRaftRequest {
            delete_range: Some(delete),
            ..Default::default()
        });
    }

    fn compact(&mut self, revision: i64) {
        let compaction = CompactionRequest {
            revision,
            physical: false,
        };
        self.apply(InternalRaftRequest {
            compaction: Some(compaction),
            ..Default::default()
        });
    }

    fn publish(&mut self) {
        self.view = self.store.publish();
        let rows = self.store.take_untold();
        self.hub.notify(&rows, &self.view).unwrap();
    }

    fn commit(&mut self) {
        if let Some(frozen) = self.store.freeze() {
            let committed = commit(&self.db, &frozen).unwrap();
            self.store.committed(committed);
        }
        self.publish();
    }

    fn catch_up(&mut self) -> bool {
        let Some(step) = self.hub.next_step(&self.view) else {
            return false;
        };
        let found = catch_up::run(&step, self.hub.bounds()).unwrap();
        self.hub.found(found, &self.view).unwrap();
        true
    }

    fn watch(&mut self, stream: StreamId, request: WatchCreateRequest) {
        self.hub.create(stream, &request, &self.view).unwrap();
    }
}

#[derive(Clone, Default)]
struct Ear {
    heard: Arc<Mutex<Vec<Message>>>,
    full: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
}

impl Outbox for Ear {
    fn has_room(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
    }

    fn send(&self, message: Message) {
        self.heard.lock().unwrap().push(message);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

impl Ear {
    fn events(&self, watch_id: i64) -> Vec<Event> {
        let mut all = Vec::new();
        for message in self.heard.lock().unwrap().iter() {
            if let Message::Events { to, events, .. } = message
                && to.iter().any(|recipient| recipient.watch_id == watch_id)
            {
                all.extend(WatchResponse::decode(events.bytes()).unwrap().events);
            }
        }
        all
    }

    fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

fn bounds() -> Bounds {
    Bounds {
        rows: 1000,
        events: 1000,
        bytes: 1 << 20,
    }
}

fn create(key: &str, end: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        start_revision,
        ..Default::default()
    }
}

fn told(event: &Event) -> (i32, String, i64) {
    let kv = event.kv.as_ref().unwrap();
    (
        event.r#type,
        String::from_utf8(kv.key.to_vec()).unwrap(),
        kv.mod_revision,
    )
}

/// What a watcher must hear: (deletion?, key, revision) of the whole history.
type History = Vec<(bool, String, i64)>;

#[test]
fn everybody_hears_everything_once_and_in_order() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let small = Bounds {
            rows: 5,
            events: 3,
            bytes: 200,
        };
        let mut fixture = Fixture::new(seed, small);
        let ears: Vec<Ear> = (0..4).map(|_| Ear::default()).collect();
        for (id, ear) in ears.iter().enumerate() {
            fixture.hub.open(id as u64, Box::new(ear.clone()), 0);
        }
        let mut history: History = Vec::new();
        let mut live = std::collections::BTreeSet::new();
        let mut watchers: Vec<(usize, i64, WatchCreateRequest, i64)> = Vec::new();
        let mut compacted = -1;
        for _ in 0..300 {
            let key = format!("k{}", random.below(6));
            match random.below(14) {
                0..=4 => {
                    fixture.put(&key, &"v".repeat(random.below(40) as usize));
                    history.push((false, key.clone(), fixture.store.revision()));
                    live.insert(key);
                }
                5 | 6 if live.remove(&key) => {
                    fixture.delete(&key);
                    history.push((true, key, fixture.store.revision()));
                }
                7 | 8 => fixture.publish(),
                9 => fixture.commit(),
                10 => {
                    let ear = &ears[random.below(4) as usize];
                    ear.full.fetch_xor(true, Ordering::Relaxed);
                }
                11 => {
                    fixture.publish();
                    let stream = random.below(4) as usize;
                    let told = fixture.view.revision;
                    let end = ["", "\0", "k4"][random.below(3) as usize];
                    let start = match random.below(4) {
                        0 => 0,
                        1 => told + 1 + random.below(10) as i64,
                        _ => 1 + random.below(told as u64) as i64,
                    };
                    let mut request = create(&key, end, start);
                    request.watch_id = 1 + watchers.len() as i64;
                    request.prev_kv = random.below(2) == 0;
                    if random.below(3) == 0 {
                        request.filters = vec![random.below(2) as i32];
                    }
                    if end == "k4" && *key >= *"k4" {
                        continue;
                    }
                    fixture.watch(stream as u64, request.clone());
                    let from = if start == 0 { told + 1 } else { start };
                    watchers.push((stream, request.watch_id, request, from));
                }
                12 if random.below(6) == 0 => {
                    let at = fixture.store.revision() - random.below(8) as i64;
                    if at > compacted && at > 0 {
                        fixture.compact(at);
                        compacted = at;
                        fixture.publish();
                    }
                }
                _ => {
                    fixture.catch_up();
                }
            }
        }
        ears.iter()
            .for_each(|ear| ear.full.store(false, Ordering::Relaxed));
        fixture.commit();
        while fixture.catch_up() {}
        assert!(!fixture.hub.has_lagging());
        for (stream, watch_id, request, from) in watchers {
            let heard: Vec<_> = ears[stream].events(watch_id).iter().map(told).collect();
            let end = &request.range_end;
            let want: Vec<_> = history
                .iter()
                .filter(|(deleted, key, revision)| {
                    let key = key.as_bytes();
                    *revision >= from
                        && match &end[..] {
                            [] => *key == *request.key,
                            [0] => *key >= *request.key,
                            end => *key >= *request.key && *key < *end,
                        }
                        && !request.filters.contains(&i32::from(*deleted))
                })
                .map(|(deleted, key, revision)| (i32::from(*deleted), key.clone(), *revision))
                .collect();
            let canceled = ears[stream].heard.lock().unwrap().iter().any(|message| {
                matches!(message, Message::Compacted { watch_id: id, .. } if *id == watch_id)
            });
            if canceled {
                assert!(
                    want.starts_with(&heard),
                    "seed {seed}, {request:?}\n{heard:?}\n{want:?}"
                );
            } else {
                assert_eq!(heard, want, "seed {seed}, watcher {watch_id}, {request:?}");
            }
        }
    }
}

#[test]
fn across_a_compaction_and_below_it() {
    let mut fixture = Fixture::new(1, bounds());
    for value in ["1", "2", "3"] {
        fixture.put("k", value);
    }
    fixture.delete("k");
    let deleted = fixture.store.revision();
    fixture.put("k", "4");
    fixture.compact(deleted);
    fixture.commit();
    let ear = Ear::default();
    fixture.hub.open(1, Box::new(ear.clone()), 0);
    fixture.watch(1, create("k", "", deleted));
    fixture.watch(1, create("k", "", deleted - 1));
    while fixture.catch_up() {}
    let heard: Vec<_> = ear.events(0).iter().map(told).collect();
    assert_eq!(
        heard,
        [
            (1, "k".to_owned(), deleted),
            (0, "k".to_owned(), deleted + 1)
        ]
    );
    let messages = ear.take();
    let created = messages
        .iter()
        .position(|m| matches!(m, Message::Created { watch_id: 1, .. }));
    let canceled = messages.iter().position(
        |m| matches!(m, Message::Compacted { watch_id: 1, compact_revision } if *compact_revision == deleted),
    );
    assert!(created.unwrap() < canceled.unwrap());
}

#[test]
fn ids_of_a_stream() {
    let mut fixture = Fixture::new(1, bounds());
    let ear = Ear::default();
    fixture.hub.open(1, Box::new(ear.clone()), 0);
    for _ in 0..3 {
        fixture.watch(1, create("k", "", 0));
    }
    fixture.hub.cancel(1, 0);
    fixture.hub.cancel(1, 77);
    fixture.watch(
        1,
        WatchCreateRequest {
            watch_id: 2,
            ..create("k", "", 0)
        },
    );
    fixture.watch(1, create("b", "a", 0));
    fixture.watch(1, create("k", "", -1));
    fixture.put("k", "v");
    fixture.publish();
    let messages = ear.take();
    let refused = messages
        .iter()
        .filter(|m| matches!(m, Message::Refused { .. }))
        .count();
    assert_eq!(refused, 3);
    match messages.last() {
        Some(Message::Events { to, .. }) => {
            let ids: Vec<i64> = to.iter().map(|r| r.watch_id).collect();
            assert_eq!(ids, [1, 2], "the others stay");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn progress_waits_until_all_of_a_stream_are_synced() {
    let mut fixture = Fixture::new(1, bounds());
    for i in 0..3000 {
        fixture.put(&format!("k{}", i % 7), "v");
    }
    fixture.commit();
    let ear = Ear::default();
    fixture.hub.open(1, Box::new(ear.clone()), 0);
    fixture.hub.request_progress(1);
    assert!(ear.take().is_empty(), "nobody watches");
    fixture.watch(1, create("quiet", "", 2));
    fixture.hub.request_progress(1);
    fixture.hub.request_progress(1);
    assert_eq!(ear.take().len(), 1, "created, and no progress yet");
    while fixture.catch_up() {}
    let answers = ear.take();
    assert!(
        matches!(
            answers[..],
            [Message::Progress {
                watch_id: NO_WATCH_ID,
                revision: 3001
            }]
        ),
        "{answers:?}"
    );
    fixture.hub.request_progress(1);
    assert_eq!(ear.take().len(), 1);
}

#[test]
fn a_jump_of_the_history_leaves_nothing_out() {
    let mut fixture = Fixture::new(1, bounds());
    let ear = Ear::default();
    fixture.hub.open(1, Box::new(ear.clone()), 0);
    fixture.watch(1, create("k", "", 0));
    fixture.watch(1, create("k", "", 4));
    fixture.watch(1, create("k", "", 40));
    fixture.put("k", "told");
    fixture.publish();
    // Five revisions that come with a database, and not row by row.
    for i in 0..5 {
        fixture.put("k", &format!("jumped over {i}"));
    }
    if let Some(frozen) = fixture.store.freeze() {
        let committed = commit(&fixture.db, &frozen).unwrap();
        fixture.store.committed(committed);
    }
    drop(fixture.store.take_untold());
    fixture.view = fixture.store.publish();
    fixture.hub.jumped(&fixture.view);
    assert_eq!(fixture.hub.counts().lagging, 2);
    while fixture.catch_up() {}
    fixture.put("k", "told again");
    fixture.publish();
    let revisions = |watch_id| -> Vec<i64> {
        let events = ear.events(watch_id);
        let revisions = events.iter().map(|e| e.kv.as_ref().unwrap().mod_revision);
        revisions.collect()
    };
    assert_eq!(revisions(0), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(revisions(1), [4, 5, 6, 7, 8]);
    assert_eq!(revisions(2), [0; 0]);
    assert_eq!(fixture.hub.counts().lagging, 0);
}

#[test]
fn quiet_watchers_are_told_where_they_are() {
    let mut fixture = Fixture::new(1, bounds());
    let ear = Ear::default();
    fixture.hub.open(1, Box::new(ear.clone()), 0);
    fixture.watch(
        1,
        WatchCreateRequest {
            progress_notify: true,
            ..create("k", "", 0)
        },
    );
    fixture.watch(1, create("k", "", 0));
    ear.take();
    fixture.hub.tick(900);
    assert!(ear.take().is_empty());
    fixture.hub.tick(1200);
    assert!(matches!(
        ear.take()[..],
        [Message::Progress { watch_id: 0, .. }]
    ));
    fixture.put("k", "v");
    fixture.publish();
    ear.take();
    fixture.hub.tick(2500);
    assert!(ear.take().is_empty(), "it was told of an event lately");
}

#[test]
fn a_closed_stream_leaves_nothing_behind() {
    let mut fixture = Fixture::new(1, bounds());
    let ear = Ear::default();
    fixture.hub.open(1, Box::new(ear.clone()), 0);
    for i in 0..3000 {
        fixture.put("k", &i.to_string());
    }
    fixture.commit();
    fixture.watch(1, create("k", "", 0));
    fixture.watch(1, create("k", "", 2));
    fixture.watch(1, create("k", "", 1 << 40));
    let step = fixture.hub.next_step(&fixture.view).unwrap();
    fixture.hub.close(1);
    let found = catch_up::run(&step, fixture.hub.bounds()).unwrap();
    fixture.hub.found(found, &fixture.view).unwrap();
    assert_eq!(fixture.hub.counts().watchers, 0);
    assert!(fixture.hub.waiting.is_empty() && fixture.hub.group_of.is_empty());
    assert!(!fixture.hub.has_lagging());
}

#[test]
fn a_stream_that_ended_without_a_word_is_let_go() {
    let mut fixture = Fixture::new(1, bounds());
    let ear = Ear::default();
    fixture.hub.open(1, Box::new(ear.clone()), 0);
    fixture.watch(1, create("k", "", 0));
    fixture.hub.tick(1);
    assert_eq!(fixture.hub.counts().watchers, 1);
    ear.closed.store(true, Ordering::Relaxed);
    fixture.hub.tick(2);
    assert_eq!(
        (fixture.hub.counts().watchers, fixture.hub.counts().streams),
        (0, 0)
    );
}
