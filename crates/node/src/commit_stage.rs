//! The commit stage: takes what was applied to the file, and tidies the file in between.
//!
//! A commit that fails ends the member, but for want of space: then nothing was written, and it is
//! tried again. A vacuum is made in small steps, so that commits come between them.

use crate::Error;
use quorate_bolt::{Db, Finding, ScrubCursor, VacuumNext};
use quorate_failpoints::fail_point;
use quorate_store::commit::{Committed, Frozen, commit, committed};

/// Bytes that a step of the vacuum moves at most.
const VACUUM_STEP_BYTES: usize = 256 * 1024;

/// Pages that a step of the scrub verifies.
const SCRUB_STEP_PAGES: usize = 256;

/// The file's one writer.
pub struct CommitStage {
    db: Db,
    index: u64,
    scrub: ScrubCursor,
    /// Pages that were found damaged in this pass, so that each is told once.
    damaged: std::collections::BTreeSet<u64>,
    /// Whether a vacuum has begun and not ended.
    vacuuming: bool,
}

/// What a step of the vacuum did.
pub struct Vacuumed {
    /// The file afterwards.
    pub file: Committed,
    /// What follows.
    pub next: VacuumNext,
}

impl CommitStage {
    /// A stage over an open file, whose consistent index is `index`.
    pub fn new(db: Db, index: u64) -> CommitStage {
        CommitStage {
            db,
            index,
            scrub: ScrubCursor::default(),
            damaged: Default::default(),
            vacuuming: false,
        }
    }

    /// Commits. `Ok(None)`: there was no space; try again.
    pub fn commit(&mut self, frozen: &Frozen) -> Result<Option<Committed>, Error> {
        match commit(&self.db, frozen) {
            Ok(committed) => {
                self.index = committed.index;
                Ok(Some(committed))
            }
            Err(quorate_store::Error::Bolt(error)) if error.is_storage_full() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a bounded number of bytes towards the front of the file and cuts its end. Where the
    /// disk has no space for it, the next step is to wait.
    pub fn vacuum(&mut self) -> Result<Vacuumed, Error> {
        fail_point!("defragBeforeCopy", if !self.vacuuming);
        let next = match self.db.vacuum_step(VACUUM_STEP_BYTES) {
            Ok(step) => step.next,
            Err(error) if error.is_storage_full() => VacuumNext::Wait,
            Err(error) => return Err(quorate_store::Error::from(error).into()),
        };
        self.vacuuming = next != VacuumNext::Done;
        Ok(Vacuumed {
            file: committed(&self.db, self.index),
            next,
        })
    }

    /// Verifies the checksums of a bounded number of pages; what it found damaged and had not told
    /// in this pass.
    pub fn scrub(&mut self) -> Result<Vec<Finding>, Error> {
        let step = self
            .db
            .scrub_step(&mut self.scrub, SCRUB_STEP_PAGES)
            .map_err(quorate_store::Error::from)?;
        let new = step
            .findings
            .into_iter()
            .filter(|f| self.damaged.insert(f.page))
            .collect();
        if step.done {
            self.damaged.clear();
        }
        Ok(new)
    }

    /// The file.
    pub fn db(&self) -> &Db {
        &self.db
    }
}
