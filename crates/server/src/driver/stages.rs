//! The threads of the stages that block: the log's and the database's, and the worker for
//! compaction plans and watchers that catch up.

use super::member_loop::Input;
use crate::measured_disk::database_time;
use crate::metrics::METRICS;
use quorate_node::bolt::Db;
use quorate_node::store::commit::Frozen;
use quorate_node::store::watch::catch_up::{self, Bounds, Step};
use quorate_node::{CommitStage, CompactionStep, LogJob, LogStage};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

/// Pause before a write that found no space is tried again.
const FULL_RETRY: Duration = Duration::from_millis(500);

/// Appends and syncs: everything that waits, together.
pub fn run_log(mut stage: LogStage, jobs: &Receiver<Vec<LogJob>>, loop_: &SyncSender<Input>) {
    loop {
        let more = if stage.has_waiting() {
            // What found no space is tried again even if nothing new comes.
            match jobs.recv_timeout(FULL_RETRY) {
                Ok(more) => more,
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        } else {
            match jobs.recv() {
                Ok(more) => more,
                Err(_) => break,
            }
        };
        more.into_iter().for_each(|job| stage.push(job));
        while let Ok(more) = jobs.try_recv() {
            more.into_iter().for_each(|job| stage.push(job));
        }
        let idle = match stage.step() {
            Ok(done) => {
                let idle = !stage.has_waiting();
                if loop_.send(Input::LogDone(done)).is_err() {
                    break;
                }
                idle
            }
            Err(error) => {
                let _gone = loop_.send(Input::Fatal(error));
                return;
            }
        };
        if idle && let Err(error) = stage.idle() {
            let _gone = loop_.send(Input::Fatal(error));
            return;
        }
    }
    if let Err(error) = stage.close() {
        tracing::error!("error" = %error, "failed to close the log");
    }
}

/// Something for the database's thread.
pub enum CommitJob {
    /// Go on with another database, whose consistent index this is.
    Replace(Db, u64),
    /// What was applied.
    Commit(Frozen),
    /// A step of the vacuum.
    Vacuum,
}

/// Pause between two steps of the scrub, which goes on while there is nothing else to do.
const SCRUB_PAUSE: Duration = Duration::from_secs(1);

/// Verifies some pages; damaged ones are told to the operator. Nothing is served from them: a read
/// that meets one gives an error.
fn scrub(stage: &mut CommitStage) -> Result<(), quorate_node::Error> {
    for finding in stage.scrub()? {
        let path = stage.db().path().display().to_string();
        tracing::error!(
            "path" = path,
            "page" = finding.page,
            "offset" = finding.offset,
            "problem" = %finding.problem,
            "a page of the database is damaged"
        );
    }
    Ok(())
}

/// Commits, and vacuums between commits.
pub fn run_commit(mut stage: CommitStage, jobs: &Receiver<CommitJob>, loop_: &SyncSender<Input>) {
    loop {
        let outcome = match jobs.recv_timeout(SCRUB_PAUSE) {
            Ok(CommitJob::Replace(db, index)) => {
                stage = CommitStage::new(db, index);
                let _gone = loop_.send(Input::DatabaseReplaced);
                Ok(())
            }
            Ok(CommitJob::Commit(frozen)) => run_one_commit(&mut stage, &frozen, loop_),
            Ok(CommitJob::Vacuum) => stage.vacuum().map(|step| {
                let _gone = loop_.send(Input::Vacuumed(step));
            }),
            Err(RecvTimeoutError::Timeout) => scrub(&mut stage),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if let Err(error) = outcome {
            let _gone = loop_.send(Input::Fatal(error));
            return;
        }
    }
}

fn run_one_commit(
    stage: &mut CommitStage,
    frozen: &Frozen,
    loop_: &SyncSender<Input>,
) -> Result<(), quorate_node::Error> {
    let mut said = false;
    loop {
        let (began, on_disk) = (Instant::now(), database_time());
        let outcome = stage.commit(frozen)?;
        let (took, on_disk) = (began.elapsed(), database_time().saturating_sub(on_disk));
        METRICS.backend_commit.observe(took);
        METRICS.commit_write.observe(on_disk);
        METRICS.commit_spill.observe(took.saturating_sub(on_disk));
        let reads = stage.db().open_reads() as i64;
        METRICS.open_reads.store(reads, Ordering::Relaxed);
        if let Some(committed) = outcome {
            let _gone = loop_.send(Input::CommitDone(committed));
            return Ok(());
        }
        if !std::mem::replace(&mut said, true) {
            tracing::warn!("no space to commit to the database; trying again");
        }
        std::thread::sleep(FULL_RETRY);
    }
}

/// Something for a worker.
pub enum WorkerJob {
    /// Bring watchers up to date.
    CatchUp(Step, Bounds),
    /// Plan a batch of a compaction.
    Compact(Box<CompactionStep>),
}

/// Runs steps that read views.
pub fn run_worker(jobs: &Receiver<WorkerJob>, loop_: &SyncSender<Input>) {
    while let Ok(job) = jobs.recv() {
        let input = match job {
            WorkerJob::CatchUp(step, bounds) => match catch_up::run(&step, bounds) {
                Ok(found) => Input::WatchFound(found),
                Err(error) => Input::Fatal(error.into()),
            },
            WorkerJob::Compact(step) => {
                let CompactionStep {
                    mut planner,
                    view,
                    rows,
                } = *step;
                match planner.step(&view, rows) {
                    Ok(batch) => Input::CompactionPlanned(Box::new((planner, batch))),
                    Err(error) => Input::Fatal(error.into()),
                }
            }
        };
        if loop_.send(input).is_err() {
            return;
        }
    }
}
