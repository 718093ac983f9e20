//! Watchers that lag: in cohorts of those who want the same and were told the same, each brought up to
//! date in bounded steps of its own.
//!
//! Invariant: a cohort has one step under way at most; whoever could take nothing when it began stays
//! behind in a cohort of their own.

use super::catch_up::{Bounds, Found, Step};
use super::class::Class;
use super::outbox::Message;
use super::{Cohort, Hub, Members, State, StreamId};
use crate::Error;
use crate::view::View;
use std::sync::Arc;

impl Hub {
    /// The next step of catching up, where there is one to run and no other of its cohort runs.
    pub fn next_step(&mut self, view: &Arc<View>) -> Option<Step> {
        let after = self
            .cohorts
            .range(self.turn + 1..)
            .chain(self.cohorts.range(..=self.turn));
        let ready = after
            .filter(|(_, cohort)| !cohort.running)
            .find(|(_, cohort)| {
                cohort.members.iter().any(|(stream, _)| {
                    self.streams
                        .get(stream)
                        .is_some_and(|s| s.outbox.has_room())
                })
            })
            .map(|(id, _)| *id)?;
        self.turn = ready;
        let cohort = self.cohorts.get_mut(&ready).expect("it was found just now");
        let members = std::mem::take(&mut cohort.members);
        let (class, from) = (cohort.class.clone(), cohort.from);
        cohort.running = true;
        // Those who cannot take anything now stay behind, as a cohort of their own.
        let (ready_members, blocked) = self.split_by_room(&members, false);
        self.cohorts
            .get_mut(&ready)
            .expect("it is still there")
            .members = ready_members;
        self.make_cohort(class.clone(), from, blocked);
        Some(Step {
            cohort: ready,
            class,
            from,
            view: view.clone(),
        })
    }

    /// Bounds for the steps.
    pub fn bounds(&self) -> Bounds {
        self.config.bounds
    }

    /// Bytes of events that taking in what a step found will send.
    pub fn bytes_for(&self, found: &Found) -> u64 {
        let members = self
            .cohorts
            .get(&found.cohort)
            .map_or(0, |c| c.members.len());
        (members * found.events.bytes().len()) as u64
    }

    /// Takes in what a step found.
    pub fn found(&mut self, found: Found, view: &Arc<View>) -> Result<(), Error> {
        let Some(cohort) = self.cohorts.remove(&found.cohort) else {
            return Ok(()); // all its watchers were canceled meanwhile
        };
        if let Some(compact_revision) = found.compacted {
            for (stream_id, watch_id) in cohort.members {
                if let Some(stream) = self.streams.get_mut(&stream_id)
                    && stream.watchers.remove(&watch_id).is_some()
                {
                    stream.outbox.send(Message::Compacted {
                        watch_id,
                        compact_revision,
                    });
                    self.answer_progress_of(stream_id);
                }
            }
            return Ok(());
        }
        let revision = (found.next - 1).max(found.events.last_revision());
        let events = Arc::new(found.events);
        // A stream may have filled up since the step began; one message more is always taken.
        self.deliver(&cohort.members, &events, revision);
        self.place(&cohort.members, found.next, view)
    }

    pub(super) fn make_cohort(
        &mut self,
        class: Arc<Class>,
        from: i64,
        members: Vec<(StreamId, i64)>,
    ) {
        if members.is_empty() {
            return;
        }
        // Those who lag equally catch up together.
        let same = self
            .cohorts
            .iter()
            .find(|(_, c)| !c.running && c.from == from && c.class == class)
            .map(|(id, _)| *id);
        let id = same.unwrap_or(self.next_cohort);
        for &(stream, watch_id) in &members {
            self.set_state(stream, watch_id, State::Lagging(id));
        }
        match self.cohorts.get_mut(&id) {
            Some(cohort) => cohort.members.extend(members),
            None => {
                self.next_cohort += 1;
                self.cohorts.insert(
                    id,
                    Cohort {
                        class,
                        from,
                        members,
                        running: false,
                    },
                );
            }
        }
    }

    pub(super) fn split_by_room(
        &self,
        members: &[(StreamId, i64)],
        nothing_to_send: bool,
    ) -> (Members, Members) {
        members.iter().partition(|(stream, _)| {
            nothing_to_send
                || self
                    .streams
                    .get(stream)
                    .is_some_and(|s| s.outbox.has_room())
        })
    }

    /// Whether anybody lags.
    pub fn has_lagging(&self) -> bool {
        !self.cohorts.is_empty()
    }
}
