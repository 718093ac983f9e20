//! Clients that watch: each follows some keys from a revision on, reads at its own pace, and goes on at
//! another member when its stream breaks.

use crate::cluster::{Cluster, Event};
use crate::history::one;
use crate::machine::{Input, WatchCall, Work};
use crate::model::Keys;
use crate::network::Slot;
use crate::oracle::watch::Watched;
use crate::random::Random;
use crate::wire;
use quorate_node::api::etcdserverpb::WatchCreateRequest;
use quorate_node::store::watch::{Message, Outbox};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Mean time between two looks of a watcher at its stream, in microseconds.
const LOOK_US: u64 = 20_000;

/// Messages on their way to a watcher.
#[derive(Clone, Default)]
struct Stream {
    queue: Arc<Mutex<VecDeque<Message>>>,
    most: usize,
}

impl Stream {
    fn take(&self) -> Option<Message> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }
}

impl Outbox for Stream {
    fn has_room(&self) -> bool {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.len() < self.most
    }

    fn send(&self, message: Message) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(message);
    }

    fn is_closed(&self) -> bool {
        false
    }
}

struct Open {
    stream: Stream,
    id: u64,
    slot: Slot,
    life: u64,
}

/// A watcher.
pub struct Watcher {
    random: Random,
    /// What it was told; `None` until its first stream has begun.
    watched: Option<Watched>,
    keys: Option<Keys>,
    with_before: bool,
    open: Option<Open>,
}

impl Watcher {
    /// One that has not begun.
    pub fn new(random: Random) -> Watcher {
        Watcher {
            random,
            watched: None,
            keys: None,
            with_before: false,
            open: None,
        }
    }

    /// Events that it was told of.
    pub(crate) fn told(&self) -> u64 {
        self.watched
            .as_ref()
            .map_or(0, |watched| watched.count() as u64)
    }

    /// What it was told of.
    pub(crate) fn watched(&self) -> Option<&Watched> {
        self.watched.as_ref()
    }

    /// Whether it was told of everything up to a revision.
    pub(crate) fn is_level(&self, revision: i64) -> bool {
        let watched = self.watched.as_ref();
        watched.is_some_and(|watched| watched.next > revision)
    }

    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Created { revision, .. } => {
                let keys = self.keys.clone().expect("it was created with its keys");
                let with_before = self.with_before;
                self.watched
                    .get_or_insert_with(|| Watched::new(keys, with_before, revision + 1));
            }
            Message::Events { events, .. } => {
                let events = wire::events_from_watch(events.bytes());
                self.begun().events(events);
            }
            Message::Progress { revision, .. } => self.begun().progress(revision),
            Message::Compacted {
                compact_revision, ..
            } => {
                self.begun().compacted(compact_revision);
                return false;
            }
            other @ (Message::Refused { .. } | Message::Canceled { .. }) => {
                unreachable!("nobody asked for {other:?}")
            }
        }
        true
    }

    fn begun(&mut self) -> &mut Watched {
        let watched = self.watched.as_mut();
        watched.expect("a stream begins with the watcher's creation")
    }
}

impl Cluster {
    /// A watcher looks at its stream, or opens one.
    pub(crate) fn watcher_goes_on(&mut self, me: usize) {
        let members = self.machines.len() as u64;
        let calm = self.calm;
        let watcher = &mut self.watchers[me];
        let pause_us = watcher.random.around(LOOK_US);
        self.schedule.after(pause_us, Event::Watcher(me));
        if let Some(open) = &watcher.open {
            let machine = &self.machines[open.slot];
            let gone = machine.process.is_none() || machine.life != open.life;
            let breaks = !calm && watcher.random.chance(8);
            let (slot, id) = (open.slot, open.id);
            if gone || breaks {
                watcher.open = None;
                if !gone {
                    self.later(slot, 0, Work::Input(Input::Watch(WatchCall::Close(id))));
                }
                return;
            }
            let mut most = match calm {
                true => u64::MAX,
                false => watcher.random.below(6),
            };
            let mut taken = false;
            let stream = open.stream.clone();
            while most > 0
                && let Some(message) = stream.take()
            {
                most -= 1;
                taken = true;
                if !watcher.take(message) {
                    watcher.open = None;
                    self.later(slot, 0, Work::Input(Input::Watch(WatchCall::Close(id))));
                    return;
                }
            }
            if taken {
                self.later(slot, 0, Work::Input(Input::Watch(WatchCall::Room)));
            }
            let asks = self.watchers[me].random.chance(if calm { 300 } else { 30 });
            if asks {
                self.later(slot, 0, Work::Input(Input::Watch(WatchCall::Progress(id))));
            }
            return;
        }
        let slot = watcher.random.below(members) as Slot;
        let machine = &self.machines[slot];
        if machine.process.is_none() {
            return;
        }
        if watcher.keys.is_none() {
            watcher.with_before = watcher.random.chance(500);
            let keys = self.scenario.keys;
            watcher.keys = Some(match watcher.random.below(3) {
                0 => one(crate::client::key_of(watcher.random.below(keys))),
                1 => Keys {
                    start: crate::client::key_of(0),
                    end: Some(crate::client::key_of(keys + 1)),
                },
                _ => Keys {
                    start: crate::client::key_of(watcher.random.below(keys)),
                    end: Some(crate::client::key_of(keys)),
                },
            });
        }
        let id = self.next_stream;
        self.next_stream += 1;
        let stream = Stream {
            queue: Arc::default(),
            most: self.scenario.outbox,
        };
        let life = machine.life;
        self.watchers[me].open = Some(Open {
            stream,
            id,
            slot,
            life,
        });
        let call = WatchCall::Open {
            watcher: me,
            stream: id,
        };
        self.later(slot, 300, Work::Input(Input::Watch(call)));
    }

    /// The loop takes a watcher's call.
    pub(crate) fn serve_watch(&mut self, slot: Slot, call: WatchCall) {
        let member = &mut self.machines[slot].running().member;
        match call {
            WatchCall::Open { watcher, stream } => {
                let watcher = &self.watchers[watcher];
                // It may have gone elsewhere meanwhile.
                let Some(open) = watcher.open.as_ref().filter(|open| open.id == stream) else {
                    return;
                };
                let now_ms = member.now_ms();
                let outbox = Box::new(open.stream.clone());
                member.hub().open(stream, outbox, now_ms);
                let keys = watcher.keys.clone().expect("it was opened with its keys");
                let next = watcher.watched.as_ref().map_or(0, |watched| watched.next);
                let create = WatchCreateRequest {
                    key: keys.start.into(),
                    range_end: keys.end.unwrap_or_default().into(),
                    start_revision: next,
                    prev_kv: watcher.with_before,
                    ..Default::default()
                };
                let (hub, view) = member.hub_and_view();
                let view = view.clone();
                hub.create(stream, &create, &view)
                    .expect("the rows of a sound file can be read");
            }
            WatchCall::Close(stream) => member.hub().close(stream),
            WatchCall::Progress(stream) => member.hub().request_progress(stream),
            WatchCall::Room => {}
        }
    }
}
