//! What the stages beside the loop have done, and what they are to do next: the log, commits,
//! compaction plans, watchers that catch up.

use super::{
    CompactionStep, Freezing, Member, Note, QUIET_MS, Reply, WATCH_BYTES_PER_MS, WATCH_STEPS,
};
use crate::Error;
use crate::log_stage::{Appended, LogDone};
use quorate_store::commit::Committed;
use quorate_store::compaction::{Batch, Planner};
use quorate_store::watch::catch_up::Found;

impl<T> Member<T> {
    /// Commits everything applied so far; the token is told [`Reply::Ready`] once it is durable.
    pub fn commit_now(&mut self, token: T) {
        let index = self.store.applied().index;
        let pending = self.store.pending();
        if pending.entries == 0 && pending.writes == 0 && !pending.committing {
            self.effects.replies.push((token, Reply::Ready));
            return;
        }
        self.force_commit = true;
        self.commit_waiters.push((index, token));
    }

    /// What the log stage has done.
    pub fn log_done(&mut self, done: LogDone) -> Result<(), Error> {
        match done {
            LogDone::Append(appended) => self.appended(*appended),
            LogDone::Snapshot { index } => {
                self.log_snapshots.now_stored(index);
                self.effects.notes.push(Note::Snapshot { index });
            }
            // The log stays whole without it; the next one makes up for it.
            LogDone::NoSnapshot => {}
            LogDone::Purged(files) if files.is_empty() => {}
            LogDone::Purged(files) => self.effects.notes.push(Note::Purged(files)),
            LogDone::Full(what) => {
                if !self.log_full {
                    self.effects.notes.push(Note::DiskFull(what));
                }
                self.log_full = true;
            }
        }
        Ok(())
    }

    pub(super) fn appended(&mut self, mut appended: Appended) {
        if std::mem::take(&mut self.log_full) {
            self.effects.notes.push(Note::DiskHasSpace);
        }
        if let Some(snapshot) = appended.job.snapshot.take() {
            self.adopt(&snapshot);
        }
        let storage = self.raft.storage_mut();
        if let Some(hard_state) = appended.job.hard_state {
            storage.set_hard_state(hard_state);
        }
        if !appended.job.entries.is_empty() {
            storage.append(&appended.job.entries);
        }
        let (others, own) = appended.split_responses(self.config.member_id);
        self.effects.messages.extend(others);
        self.raft.append_done(own);
    }

    /// A commit is durable.
    pub fn commit_done(&mut self, committed: Committed) {
        if self.replacing_db {
            return; // it was one of the database that is being replaced
        }
        let freezing = self.freezing.take().expect("a commit follows a freeze");
        assert_eq!(
            freezing.applied.index, committed.index,
            "commits are done in order"
        );
        self.store.committed(committed);
        self.view_changed();
        let durable = self.store.committed_index();
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.commit_waiters)
            .into_iter()
            .partition(|(index, _)| *index <= durable);
        self.effects
            .replies
            .extend(ready.into_iter().map(|(_, token)| (token, Reply::Ready)));
        self.force_commit = !waiting.is_empty();
        self.commit_waiters = waiting;
        self.answer_compactions(freezing.unfinished);
        self.send_committed(&freezing);
        self.write_log_snapshot(durable);
    }

    /// What a step of catching up found.
    pub fn watch_found(&mut self, found: Found) -> Result<(), Error> {
        self.watch_steps -= 1;
        let busy = self
            .proposed_ms
            .is_some_and(|at| at + QUIET_MS > self.now_ms);
        if busy {
            let sent = self.hub.bytes_for(&found);
            let from = self.watch_resume_ms.max(self.now_ms);
            self.watch_resume_ms = from + sent / WATCH_BYTES_PER_MS;
        }
        Ok(self.hub.found(found, &self.view)?)
    }

    /// A planner's batch.
    pub fn compaction_planned(&mut self, planner: Planner, batch: Batch) {
        self.compaction_running = false;
        if std::mem::take(&mut self.plan_is_stale) {
            return;
        }
        self.compaction_resume_ms = self.now_ms + self.config.compaction_pause_ms;
        let hash = batch.finished;
        let revision = batch.revision;
        if self.store.compact_batch(batch) {
            let hash = hash.expect("a finished job has its hash").hash;
            let took_ms = self.now_ms - self.compaction_began_ms;
            let removed = planner.removed();
            self.effects.notes.push(Note::Compacted {
                revision,
                removed,
                hash,
                took_ms,
            });
            // Whoever waits for it waits for the commit, too.
            self.force_commit |= !self.compaction_waiters.is_empty();
        } else {
            self.planner = Some(planner);
        }
        self.view_changed();
    }

    /// Answers those whose compaction ended, durably, below revision `below`.
    pub(super) fn answer_compactions(&mut self, below: i64) {
        let waiting = std::mem::take(&mut self.compaction_waiters);
        for (revision, token, answer) in waiting {
            if revision < below {
                self.effects
                    .replies
                    .push((token, Reply::Outcome(Ok(answer))));
            } else {
                self.compaction_waiters.push((revision, token, answer));
            }
        }
        let unfinished = self.unfinished_compaction();
        let mut waiting = self.compaction_waiters.iter();
        self.force_commit |= waiting.any(|(revision, ..)| *revision < unfinished);
    }

    /// The lowest revision of a compaction whose rows are not all gone.
    fn unfinished_compaction(&self) -> i64 {
        self.store.next_job().map_or(i64::MAX, |job| job.revision)
    }

    pub(super) fn plan_commit(&mut self) {
        let pending = self.store.pending();
        if self.replacing_db || pending.committing || (pending.entries == 0 && pending.writes == 0)
        {
            return;
        }
        let due = *self
            .commit_due_ms
            .get_or_insert(self.now_ms + self.config.commit_interval_ms);
        let many = pending.writes >= self.config.commit_writes
            || pending.bytes >= self.config.commit_bytes_cap / 2;
        let forced = self.force_commit || self.defragmentation.wants_commit();
        if !(forced || many || due <= self.now_ms) {
            return;
        }
        if let Some(frozen) = self.store.freeze() {
            self.commit_due_ms = None;
            self.force_commit = false;
            self.freezing = Some(Freezing {
                applied: self.store.applied(),
                conf_state: self.raft.membership().conf_state(),
                members: self.store.members().clone(),
                unfinished: self.unfinished_compaction(),
            });
            self.effects.commit = Some(frozen);
            // The view must name the list that is being committed.
            self.view = self.store.publish();
            self.effects.view = Some(self.view.clone());
        }
    }

    pub(super) fn plan_compaction(&mut self) {
        if self.compaction_running || self.compaction_resume_ms > self.now_ms {
            return;
        }
        let planner = match self.planner.take() {
            Some(planner) => planner,
            None => match self.store.next_job() {
                Some(job) if self.store.committed_index() >= job.index => {
                    self.compaction_began_ms = self.now_ms;
                    Planner::new(job)
                }
                Some(_) => {
                    // Its rows are not all in the file yet.
                    self.force_commit = true;
                    return;
                }
                None => return,
            },
        };
        if self.store.pending().writes >= 2 * self.config.commit_writes {
            self.planner = Some(planner);
            return;
        }
        self.compaction_running = true;
        let (view, rows) = (self.view.clone(), self.config.compaction_rows);
        self.effects.compaction = Some(CompactionStep {
            planner,
            view,
            rows,
        });
    }

    pub(super) fn plan_watch_steps(&mut self) {
        while self.watch_steps < WATCH_STEPS
            && self.watch_resume_ms <= self.now_ms
            && let Some(step) = self.hub.next_step(&self.view)
        {
            self.watch_steps += 1;
            self.effects.watch_steps.push(step);
        }
    }
}
