//! Watchers: who is told of what, up to where each was told, and who lags.
//!
//! [`Hub`] is stepped by the loop that applies: after each published batch it is given the new rows
//! ([`Hub::notify`]), matches them once per class of watchers, encodes them once, and hands them to
//! the outboxes of the streams. A stream whose outbox has no room is told later: its watchers leave
//! the synced ones and catch up ([`catch_up`]), from the ring of recent rows where that reaches
//! back far enough, else from a view, in bounded steps that any thread may run.
//!
//! Promises to a watcher, as etcd's: events in the order of history, none left out, none twice, all
//! of a revision together (unless fragments were asked for); a watcher below the compact revision
//! is canceled with it.
//!
//! Invariants: a synced watcher was told of everything up to `told`, or waits for a later revision;
//! every other one is in exactly one cohort, which was told of everything below its `from`; memory
//! is bounded by the outboxes' limits, the ring's, and one step's events.

pub mod catch_up;
mod class;
mod events;
mod jump;
mod lagging;
mod outbox;
mod ring;

pub use class::{Class, WatchedKeys};
pub use events::Events;
pub use outbox::{Message, NO_WATCH_ID, Outbox, Recipient, StreamId};

use crate::Error;
use crate::rows::Row;
use crate::view::{View, decode};
use catch_up::Bounds;
use class::Matcher;
use quorate_api as api;
use quorate_api::etcdserverpb::WatchCreateRequest;
use quorate_api::etcdserverpb::watch_create_request::FilterType;
use ring::Ring;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Told of everything so far.
    Synced,
    /// Told of nothing yet: waits for this revision.
    Waiting(i64),
    /// Catching up, in this cohort.
    Lagging(u64),
}

struct Watcher {
    class: Arc<Class>,
    recipient: Recipient,
    start_revision: i64,
    state: State,
    progress_notify: bool,
    /// Whether it was told of an event since the last progress time.
    told_lately: bool,
}

struct Stream {
    outbox: Box<dyn Outbox>,
    watchers: BTreeMap<i64, Watcher>,
    next_id: i64,
    /// A progress request that waits until all watchers are synced.
    progress_wanted: bool,
    next_progress_ms: u64,
    /// Whether any of its watchers asked to be told of progress.
    notifies_progress: bool,
}

/// Synced watchers that want the same.
struct Group {
    class: Arc<Class>,
    /// By stream; the list is shared with the messages that name it.
    members: BTreeMap<StreamId, Arc<Vec<Recipient>>>,
}

/// Watchers, by stream and id.
type Members = Vec<(StreamId, i64)>;

/// Watchers that want the same and were told the same.
struct Cohort {
    class: Arc<Class>,
    from: i64,
    members: Vec<(StreamId, i64)>,
    running: bool,
}

/// What the hub is told once.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How often a watcher that asked for it is told that nothing happened, in milliseconds.
    pub progress_interval_ms: u64,
    /// Bounds of a step of catching up.
    pub bounds: Bounds,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open streams.
    pub streams: usize,
    /// Watchers.
    pub watchers: usize,
    /// Watchers that lag.
    pub lagging: usize,
    /// Events handed to outboxes since the start.
    pub events: u64,
}

/// All watchers of a member.
pub struct Hub {
    config: Config,
    streams: HashMap<StreamId, Stream>,
    groups: Vec<Option<Group>>,
    group_of: HashMap<Arc<Class>, usize>,
    free_groups: Vec<usize>,
    matcher: Matcher,
    /// Watchers that wait for a revision that is not there yet.
    waiting: BTreeMap<i64, Vec<(StreamId, i64)>>,
    cohorts: BTreeMap<u64, Cohort>,
    next_cohort: u64,
    /// Cohort that was stepped last; the next in turn goes on.
    turn: u64,
    ring: Ring,
    told: i64,
    events: u64,
}

impl Hub {
    /// A hub whose watchers-to-be were told of everything up to `revision`.
    pub fn new(config: Config, revision: i64) -> Hub {
        Hub {
            config,
            streams: HashMap::new(),
            groups: Vec::new(),
            group_of: HashMap::new(),
            free_groups: Vec::new(),
            matcher: Matcher::default(),
            waiting: BTreeMap::new(),
            cohorts: BTreeMap::new(),
            next_cohort: 0,
            turn: 0,
            ring: Ring::new(revision + 1),
            told: revision,
            events: 0,
        }
    }

    /// Opens a stream.
    pub fn open(&mut self, id: StreamId, outbox: Box<dyn Outbox>, now_ms: u64) {
        let next_progress_ms = now_ms + self.progress_interval(id);
        let stream = Stream {
            outbox,
            watchers: BTreeMap::new(),
            next_id: 0,
            progress_wanted: false,
            next_progress_ms,
            notifies_progress: false,
        };
        let fresh = self.streams.insert(id, stream).is_none();
        assert!(fresh, "a stream's id is drawn once");
    }

    /// Streams' progress times are spread, so that they do not come all at once.
    fn progress_interval(&self, id: StreamId) -> u64 {
        let interval = self.config.progress_interval_ms;
        interval + interval / 10 * (id % 16) / 16
    }

    /// Closes a stream and cancels its watchers; nothing is sent.
    pub fn close(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        let ids: Vec<i64> = stream.watchers.keys().copied().collect();
        for watch_id in ids {
            self.remove(id, watch_id);
        }
        self.streams.remove(&id);
    }

    /// Makes a watcher, or says why not. Only a failing file is an error.
    pub fn create(
        &mut self,
        stream_id: StreamId,
        request: &WatchCreateRequest,
        view: &Arc<View>,
    ) -> Result<(), Error> {
        let revision = self.told;
        let Some(stream) = self.streams.get_mut(&stream_id) else {
            return Ok(());
        };
        let refuse = |reason: &str| Message::Refused {
            reason: reason.to_owned(),
            revision,
        };
        if request.start_revision < 0 {
            stream.outbox.send(refuse(api::Error::Compacted.text()));
            return Ok(());
        }
        let start = if request.key.is_empty() {
            vec![0]
        } else {
            request.key.to_vec()
        };
        let keys = match &request.range_end[..] {
            [] => WatchedKeys::One,
            [0] => WatchedKeys::All,
            end if *start >= *end => {
                stream.outbox.send(refuse("mvcc: watcher range is empty"));
                return Ok(());
            }
            end => WatchedKeys::Below(end.to_vec()),
        };
        let watch_id = if request.watch_id == 0 {
            while stream.watchers.contains_key(&stream.next_id) {
                stream.next_id += 1;
            }
            stream.next_id += 1;
            stream.next_id - 1
        } else if stream.watchers.contains_key(&request.watch_id) {
            stream.outbox.send(refuse(
                "mvcc: duplicate watch ID provided on the WatchStream",
            ));
            return Ok(());
        } else {
            request.watch_id
        };
        let filter = |kind: FilterType| request.filters.contains(&(kind as i32));
        let class = Arc::new(Class {
            start,
            keys,
            no_put: filter(FilterType::Noput),
            no_delete: filter(FilterType::Nodelete),
            prev_kv: request.prev_kv,
        });
        let class = match self.group_of.get_key_value(&class) {
            Some((known, _)) => known.clone(),
            None => class,
        };
        let from = match request.start_revision {
            0 => self.told + 1,
            start => start,
        };
        let watcher = Watcher {
            class,
            recipient: Recipient {
                watch_id,
                fragment: request.fragment,
            },
            start_revision: request.start_revision,
            state: State::Synced,
            progress_notify: request.progress_notify,
            told_lately: false,
        };
        stream.notifies_progress |= request.progress_notify;
        stream.watchers.insert(watch_id, watcher);
        stream.outbox.send(Message::Created { watch_id, revision });
        self.place(&[(stream_id, watch_id)], from, view)
    }

    /// Puts watchers, which want the same and were told of everything below `from`, where they
    /// belong.
    fn place(
        &mut self,
        members: &[(StreamId, i64)],
        from: i64,
        view: &Arc<View>,
    ) -> Result<(), Error> {
        let Some(&first) = members.first() else {
            return Ok(());
        };
        if from == self.told + 1 {
            for &(stream, watch_id) in members {
                self.join_group(stream, watch_id);
            }
            return self.answer_progress(members);
        }
        if from > self.told {
            for &(stream, watch_id) in members {
                self.set_state(stream, watch_id, State::Waiting(from));
            }
            self.waiting
                .entry(from)
                .or_default()
                .extend_from_slice(members);
            return Ok(());
        }
        let class = self
            .watcher(first)
            .expect("it was placed just now")
            .class
            .clone();
        if from >= view.compact_revision
            && let Some(events) = self.recent_events(&class, from, view)?
        {
            let (ready, blocked) = self.split_by_room(members, events.is_empty());
            self.deliver(&ready, &Arc::new(events), self.told);
            for &(stream, watch_id) in &ready {
                self.join_group(stream, watch_id);
            }
            self.make_cohort(class, from, blocked);
            return self.answer_progress(&ready);
        }
        self.make_cohort(class, from, members.to_vec());
        Ok(())
    }

    /// What a class missed, where the ring reaches back that far and it is little.
    fn recent_events(
        &self,
        class: &Class,
        from: i64,
        view: &Arc<View>,
    ) -> Result<Option<Events>, Error> {
        let Some(rows) = self.ring.since(from) else {
            return Ok(None);
        };
        let mut events = Events::default();
        for row in rows {
            if class.wants(row.key.tombstone) && class.contains(decode(row.key, &row.value)?.key) {
                events.push(row.key, &row.value, class.prev_kv.then_some(&**view))?;
            }
        }
        Ok(Some(events))
    }

    fn watcher(&self, (stream, watch_id): (StreamId, i64)) -> Option<&Watcher> {
        self.streams.get(&stream)?.watchers.get(&watch_id)
    }

    fn set_state(&mut self, stream: StreamId, watch_id: i64, state: State) {
        if let Some(watcher) = self
            .streams
            .get_mut(&stream)
            .and_then(|s| s.watchers.get_mut(&watch_id))
        {
            watcher.state = state;
        }
    }

    fn join_group(&mut self, stream: StreamId, watch_id: i64) {
        let Some(watcher) = self
            .streams
            .get_mut(&stream)
            .and_then(|s| s.watchers.get_mut(&watch_id))
        else {
            return;
        };
        watcher.state = State::Synced;
        let (class, recipient) = (watcher.class.clone(), watcher.recipient);
        let id = *self.group_of.entry(class.clone()).or_insert_with(|| {
            let group = Group {
                class: class.clone(),
                members: BTreeMap::new(),
            };
            let id = self.free_groups.pop().unwrap_or_else(|| {
                self.groups.push(None);
                self.groups.len() - 1
            });
            self.groups[id] = Some(group);
            self.matcher.insert(id, &class);
            id
        });
        let group = self.groups[id]
            .as_mut()
            .expect("a group that is named is there");
        Arc::make_mut(group.members.entry(stream).or_default()).push(recipient);
    }

    fn leave_group(&mut self, class: &Arc<Class>, stream: StreamId, watch_id: Option<i64>) {
        let Some(&id) = self.group_of.get(class) else {
            return;
        };
        let group = self.groups[id]
            .as_mut()
            .expect("a group that is named is there");
        if let Some(list) = group.members.get_mut(&stream) {
            let list = Arc::make_mut(list);
            list.retain(|r| watch_id.is_some_and(|watch_id| r.watch_id != watch_id));
            if list.is_empty() {
                group.members.remove(&stream);
            }
        }
        if group.members.is_empty() {
            self.groups[id] = None;
            self.free_groups.push(id);
            self.group_of.remove(class);
            self.matcher.remove(id, class);
        }
    }

    fn remove(&mut self, stream_id: StreamId, watch_id: i64) -> bool {
        let Some(watcher) = self
            .streams
            .get_mut(&stream_id)
            .and_then(|s| s.watchers.remove(&watch_id))
        else {
            return false;
        };
        match watcher.state {
            State::Synced => self.leave_group(&watcher.class, stream_id, Some(watch_id)),
            State::Waiting(from) => {
                if let Some(list) = self.waiting.get_mut(&from) {
                    list.retain(|member| *member != (stream_id, watch_id));
                    if list.is_empty() {
                        self.waiting.remove(&from);
                    }
                }
            }
            State::Lagging(id) => {
                if let Some(cohort) = self.cohorts.get_mut(&id) {
                    cohort
                        .members
                        .retain(|member| *member != (stream_id, watch_id));
                    if cohort.members.is_empty() {
                        self.cohorts.remove(&id);
                    }
                }
            }
        }
        true
    }

    /// Cancels a watcher as asked; an unknown one is ignored.
    pub fn cancel(&mut self, stream_id: StreamId, watch_id: i64) {
        if self.remove(stream_id, watch_id) {
            let message = Message::Canceled {
                watch_id,
                revision: self.told,
            };
            self.streams[&stream_id].outbox.send(message);
        }
    }

    /// A request for progress of the whole stream: answered once all its watchers are synced.
    pub fn request_progress(&mut self, stream_id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&stream_id) {
            stream.progress_wanted = !stream.watchers.is_empty();
            self.answer_progress_of(stream_id);
        }
    }

    fn answer_progress(&mut self, members: &[(StreamId, i64)]) -> Result<(), Error> {
        for &(stream, _) in members {
            self.answer_progress_of(stream);
        }
        Ok(())
    }

    fn answer_progress_of(&mut self, stream_id: StreamId) {
        let told = self.told;
        if let Some(stream) = self.streams.get_mut(&stream_id)
            && stream.progress_wanted
            && stream.watchers.values().all(|w| w.is_current(told))
        {
            stream.progress_wanted = false;
            stream.outbox.send(Message::Progress {
                watch_id: NO_WATCH_ID,
                revision: told,
            });
        }
    }

    /// Tells watchers of rows that were just published in `view`, in order.
    pub fn notify(&mut self, rows: &[Row], view: &Arc<View>) -> Result<(), Error> {
        let mut rest = rows;
        while let Some(first) = rest.first() {
            // Watchers that wait for a revision join before it, so a batch is cut there.
            let main = first.key.revision.main;
            let joining = self.take_waiting(main);
            for (stream, watch_id) in joining {
                self.join_group(stream, watch_id);
            }
            let cut = match self.waiting.keys().next() {
                Some(next) => rest.partition_point(|row| row.key.revision.main < *next),
                None => rest.len(),
            };
            let (batch, later) = rest.split_at(cut);
            self.notify_batch(batch, view)?;
            rest = later;
        }
        self.told = view.revision;
        let wanting: Vec<StreamId> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.progress_wanted)
            .map(|(id, _)| *id)
            .collect();
        for stream in wanting {
            self.answer_progress_of(stream);
        }
        Ok(())
    }

    fn take_waiting(&mut self, main: i64) -> Vec<(StreamId, i64)> {
        let mut joining = Vec::new();
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= main
        {
            joining.extend(entry.remove());
        }
        joining
    }

    fn notify_batch(&mut self, batch: &[Row], view: &Arc<View>) -> Result<(), Error> {
        let mut matched: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, row) in batch.iter().enumerate() {
            self.ring.push(row);
            if !self.group_of.is_empty() {
                let key = decode(row.key, &row.value)?.key;
                self.matcher
                    .matching(key, |id| matched.entry(id).or_default().push(i));
            }
        }
        for (id, rows) in matched {
            let group = self.groups[id]
                .as_ref()
                .expect("a group that matches is there");
            let class = group.class.clone();
            let mut events = Events::default();
            let mut first = None;
            for row in rows.into_iter().map(|i| &batch[i]) {
                if class.wants(row.key.tombstone) {
                    first.get_or_insert(row.key.revision.main);
                    let before = class.prev_kv.then_some(&**view);
                    events.push(row.key, &row.value, before)?;
                }
            }
            let Some(first) = first else { continue };
            let (revision, count) = (events.last_revision(), events.len() as u64);
            let events = Arc::new(events);
            let mut blocked = Vec::new();
            for (stream_id, to) in &group.members {
                let stream = self
                    .streams
                    .get_mut(stream_id)
                    .expect("members' streams are open");
                if stream.outbox.has_room() {
                    stream.tell_lately(to);
                    self.events += count * to.len() as u64;
                    let (to, events) = (to.clone(), events.clone());
                    stream.outbox.send(Message::Events {
                        revision,
                        to,
                        events,
                    });
                } else {
                    blocked.push((*stream_id, to.clone()));
                }
            }
            let mut members = Vec::new();
            for (stream, to) in blocked {
                self.leave_group(&class, stream, None);
                members.extend(to.iter().map(|recipient| (stream, recipient.watch_id)));
            }
            self.make_cohort(class, first, members);
        }
        Ok(())
    }

    fn deliver(&mut self, members: &[(StreamId, i64)], events: &Arc<Events>, revision: i64) {
        if events.is_empty() {
            return;
        }
        let mut by_stream: BTreeMap<StreamId, Vec<Recipient>> = BTreeMap::new();
        for &(stream, watch_id) in members {
            if let Some(watcher) = self.watcher((stream, watch_id)) {
                by_stream.entry(stream).or_default().push(watcher.recipient);
            }
        }
        for (stream_id, to) in by_stream {
            let stream = self
                .streams
                .get_mut(&stream_id)
                .expect("its watcher was found");
            stream.tell_lately(&to);
            self.events += events.len() as u64 * to.len() as u64;
            let (to, events) = (Arc::new(to), events.clone());
            stream.outbox.send(Message::Events {
                revision,
                to,
                events,
            });
        }
    }

    /// Tells watchers that asked for it, and have heard nothing for an interval, where they are.
    ///
    /// Also lets go of streams that ended without a word, which happens to those whose last word
    /// found no room in a full mailbox.
    pub fn tick(&mut self, now_ms: u64) {
        let ended = |stream: &Stream| stream.outbox.is_closed();
        let ended: Vec<StreamId> = self
            .streams
            .iter()
            .filter(|(_, s)| ended(s))
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            self.close(id);
        }
        let told = self.told;
        let interval = self.config.progress_interval_ms;
        for (id, stream) in &mut self.streams {
            if stream.next_progress_ms > now_ms {
                continue;
            }
            stream.next_progress_ms = now_ms + interval + interval / 10 * (id % 16) / 16;
            for (watch_id, watcher) in &mut stream.watchers {
                let quiet = !std::mem::take(&mut watcher.told_lately);
                if watcher.progress_notify && quiet && watcher.is_current(told) {
                    stream.outbox.send(Message::Progress {
                        watch_id: *watch_id,
                        revision: told,
                    });
                }
            }
        }
    }

    /// Numbers for metrics.
    pub fn counts(&self) -> Counts {
        Counts {
            streams: self.streams.len(),
            watchers: self
                .streams
                .values()
                .map(|stream| stream.watchers.len())
                .sum(),
            lagging: self
                .cohorts
                .values()
                .map(|cohort| cohort.members.len())
                .sum(),
            events: self.events,
        }
    }
}

impl Watcher {
    /// Whether it was told of everything up to `told`, and has begun.
    fn is_current(&self, told: i64) -> bool {
        self.state == State::Synced && told >= self.start_revision
    }
}

impl Stream {
    fn tell_lately(&mut self, to: &[Recipient]) {
        if !self.notifies_progress {
            return;
        }
        for recipient in to {
            if let Some(watcher) = self.watchers.get_mut(&recipient.watch_id) {
                watcher.told_lately = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
