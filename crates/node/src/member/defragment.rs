//! Defragmentation: who waits for one, and when the next step of the vacuum is made.
//!
//! Invariants:
//! - The steps of a vacuum begin after everything applied by then was given to the commit stage,
//!   which does its jobs in order; whoever is told that it is done asked before that. So what was
//!   removed when they asked is gone from the file.
//! - A step begins after the view of the step before was published: the member's own views are none
//!   of the readers that a vacuum has to wait for.

use super::{Member, Note, Reply};
use crate::commit_stage::Vacuumed;
use quorate_bolt::VacuumNext;

/// Pause before the vacuum looks again whether readers of older states are gone, in milliseconds.
const READERS_PAUSE_MS: u64 = 5;
/// Time after which the operator is told that it waits for them, in milliseconds.
const READERS_NOTE_MS: u64 = 1_000;

/// See the module.
pub(super) struct Defragmentation<T> {
    /// They wait for a vacuum that has not begun.
    asked: Vec<T>,
    running: Option<Vacuum<T>>,
}

/// A vacuum under way.
struct Vacuum<T> {
    told: Vec<T>,
    /// Whether the commit stage has a step to make.
    stepping: bool,
    /// Before this time no step begins.
    resume_ms: u64,
    /// Since when it waits for readers, and whether the operator knows.
    waits: Option<(u64, bool)>,
}

impl<T> Default for Defragmentation<T> {
    fn default() -> Defragmentation<T> {
        Defragmentation {
            asked: Vec::new(),
            running: None,
        }
    }
}

impl<T> Defragmentation<T> {
    /// Whether a vacuum is to begin as soon as nothing applied is missing in the file.
    pub(super) fn wants_commit(&self) -> bool {
        self.running.is_none() && !self.asked.is_empty()
    }

    /// When the next step may begin, if there is one.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let vacuum = self.running.as_ref()?;
        (!vacuum.stepping).then_some(vacuum.resume_ms)
    }
}

impl<T> Member<T> {
    /// Gives back the space that is free now; the token is told [`Reply::Ready`] afterwards. That
    /// takes as long as readers need some of it.
    pub fn defragment(&mut self, token: T) {
        self.defragmentation.asked.push(token);
    }

    /// The commit stage made a step of the vacuum.
    pub fn vacuumed(&mut self, step: Vacuumed) {
        // A step of a file that is being replaced says nothing of the new one.
        if step.next != VacuumNext::Wait && !self.replacing_db {
            self.store.file_moved(step.file);
            self.view_changed();
        }
        let now_ms = self.now_ms;
        let Some(vacuum) = &mut self.defragmentation.running else {
            return;
        };
        vacuum.stepping = false;
        match step.next {
            VacuumNext::Step => vacuum.waits = None,
            VacuumNext::Wait => {
                vacuum.resume_ms = now_ms + READERS_PAUSE_MS;
                let (since_ms, told) = vacuum.waits.get_or_insert((now_ms, false));
                if *since_ms + READERS_NOTE_MS <= now_ms && !std::mem::replace(told, true) {
                    self.effects.notes.push(Note::VacuumWaits);
                }
            }
            VacuumNext::Done => {
                let vacuum = self.defragmentation.running.take();
                let told = vacuum.into_iter().flat_map(|vacuum| vacuum.told);
                let replies = told.map(|token| (token, Reply::Ready));
                self.effects.replies.extend(replies);
            }
        }
    }

    /// Comes after [`Member::plan_commit`], so that what is to be committed first is on its way.
    pub(super) fn plan_vacuum(&mut self) {
        let defragmentation = &mut self.defragmentation;
        if defragmentation.wants_commit() && self.store.pending().writes == 0 {
            defragmentation.running = Some(Vacuum {
                told: std::mem::take(&mut defragmentation.asked),
                stepping: false,
                resume_ms: self.now_ms,
                waits: None,
            });
        }
        if let Some(vacuum) = &mut defragmentation.running
            && !vacuum.stepping
            && vacuum.resume_ms <= self.now_ms
        {
            vacuum.stepping = true;
            self.effects.vacuum = true;
        }
    }
}
