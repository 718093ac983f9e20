//! The log stage: what raft wants durable is appended and synced, batch by batch.
//!
//! Jobs are done in order. All that wait are written together and share one sync. A failed sync
//! ends the member. Where there is no space, nothing is acknowledged: the jobs stay, the member is
//! told, and the next step tries again.
//!
//! A received snapshot is stored in this order, each step durable before the next: its database (by
//! who received it), the `.snap` file, the log's record, the entries behind it; then the database
//! takes its place. A crash in between leaves the old state, or one from which
//! [`boot`](crate::boot) goes on.

use crate::Error;
use quorate_disk::Disk;
use quorate_failpoints::fail_point;
use quorate_raft::{AppendJob, Message, Snapshot, SnapshotMetadata};
use quorate_wal::{Wal, WalError, snap, walpb};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// Something for the log to do.
#[derive(Debug)]
pub enum LogJob {
    /// Entries, a hard state.
    Append(AppendJob),
    /// A snapshot whose state is durable in the database: write its `.snap` file and its record,
    /// and let go of what it covers.
    Snapshot(Snapshot),
    /// Remove segments and snapshot files beyond those to be kept.
    Purge,
}

/// What was done.
#[derive(Debug)]
pub enum LogDone {
    /// An append, durable where it had to be.
    Append(Box<Appended>),
    /// A snapshot is recorded.
    Snapshot {
        /// Its index.
        index: u64,
    },
    /// There was no space for a snapshot. Appends may have some, since theirs is reserved.
    NoSnapshot,
    /// Files that were removed.
    Purged(Vec<PathBuf>),
    /// There is no space; what waits is tried again with the next step.
    Full(String),
}

/// An append that was done.
#[derive(Debug)]
pub struct Appended {
    /// The job, entries and all: they go to the storage that raft reads.
    pub job: AppendJob,
}

impl Appended {
    /// Responses to other members, and to this one.
    pub fn split_responses(&mut self, id: u64) -> (Vec<Message>, Vec<Message>) {
        self.job.split_responses(id)
    }
}

/// The log and its snapshot files.
pub struct LogStage {
    wal: Wal,
    disk: Arc<dyn Disk>,
    snap_dir: PathBuf,
    database: PathBuf,
    max_wals: usize,
    max_snapshots: usize,
    waiting: VecDeque<LogJob>,
    syncs: u64,
}

impl LogStage {
    /// A stage over an open log. 0 files to keep means all.
    pub fn new(
        wal: Wal,
        disk: Arc<dyn Disk>,
        snap_dir: PathBuf,
        database: PathBuf,
        max_wals: usize,
        max_snapshots: usize,
    ) -> LogStage {
        let waiting = VecDeque::new();
        LogStage {
            wal,
            disk,
            snap_dir,
            database,
            max_wals,
            max_snapshots,
            waiting,
            syncs: 0,
        }
    }

    /// Takes a job; it is done with the next [`LogStage::step`].
    pub fn push(&mut self, job: LogJob) {
        self.waiting.push_back(job);
    }

    /// Whether jobs wait.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Does all that waits.
    pub fn step(&mut self) -> Result<Vec<LogDone>, Error> {
        let mut done = Vec::new();
        while let Some(job) = self.waiting.front() {
            match job {
                LogJob::Append(job) if job.snapshot.is_some() => {
                    if !self.replace_by_snapshot(&mut done)? {
                        break;
                    }
                }
                LogJob::Append(_) => {
                    if !self.append_waiting(&mut done)? {
                        break;
                    }
                }
                LogJob::Snapshot(snapshot) => {
                    let index = snapshot.metadata.index;
                    if let Err(error) = self.save_snapshot() {
                        if let Error::Wal(WalError::StorageFull { .. }) = error {
                            // The log stays whole without it; a later snapshot makes up for it.
                            done.push(LogDone::NoSnapshot);
                        } else {
                            return Err(error);
                        }
                    } else {
                        done.push(LogDone::Snapshot { index });
                    }
                    self.waiting.pop_front();
                }
                LogJob::Purge => {
                    let mut gone = Vec::new();
                    if self.max_wals > 0 {
                        gone.extend(quorate_wal::purge(
                            &*self.disk,
                            self.wal.dir(),
                            self.max_wals,
                        )?);
                    }
                    if self.max_snapshots > 0 {
                        gone.extend(snap::purge(
                            &*self.disk,
                            &self.snap_dir,
                            self.max_snapshots,
                        )?);
                    }
                    done.push(LogDone::Purged(gone));
                    self.waiting.pop_front();
                }
            }
        }
        Ok(done)
    }

    /// Writes the appends at the head of the queue and syncs once. Whether there was space.
    fn append_waiting(&mut self, done: &mut Vec<LogDone>) -> Result<bool, Error> {
        let (mut written, mut must_sync, mut full) = (0, false, None);
        for job in &self.waiting {
            let LogJob::Append(job) = job else { break };
            if job.snapshot.is_some() {
                break;
            }
            match self.wal.append(job.hard_state.as_ref(), &job.entries) {
                Ok(sync) => must_sync |= sync && job.must_sync,
                Err(error @ WalError::StorageFull { .. }) => {
                    full = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            written += 1;
        }
        if must_sync {
            self.wal.sync()?;
            self.syncs += 1;
        }
        for job in self.waiting.drain(..written) {
            let LogJob::Append(job) = job else {
                unreachable!("only appends were counted")
            };
            done.push(LogDone::Append(Box::new(Appended { job })));
        }
        let space = full.is_none();
        done.extend(full.map(LogDone::Full));
        Ok(space)
    }

    /// Stores a received snapshot and what follows it. Whether there was space.
    fn replace_by_snapshot(&mut self, done: &mut Vec<LogDone>) -> Result<bool, Error> {
        let Some(LogJob::Append(job)) = self.waiting.front() else {
            unreachable!("it is the job at the head");
        };
        let snapshot = job.snapshot.as_ref().expect("the caller looked");
        let index = snapshot.metadata.index;
        let received = snap::database_path(&self.snap_dir, index);
        let record = record_of(&snapshot.metadata);
        fail_point!("raftBeforeSaveSnap");
        let stored = snap::save(&*self.disk, &self.snap_dir, snapshot)
            .and_then(|()| self.wal.save_snapshot_record(&record))
            .and_then(|_| {
                fail_point!("raftAfterSaveSnap");
                // The record counts once the state that commits it is there: no entry of what
                // follows it may be there earlier.
                self.wal.append(job.hard_state.as_ref(), &[])
            })
            .and_then(|_| self.wal.append(None, &job.entries));
        match stored {
            Ok(_) => {}
            Err(error @ WalError::StorageFull { .. }) => {
                done.push(LogDone::Full(error.to_string()));
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        self.wal.sync()?;
        self.syncs += 1;
        fail_point!("raftBeforeApplySnap");
        fail_point!("applyBeforeOpenSnapshot");
        self.disk
            .rename(&received, &self.database)
            .map_err(Error::io("rename to", &self.database))?;
        self.disk
            .sync_dir(&self.snap_dir)
            .map_err(Error::io("sync directory", &self.snap_dir))?;
        fail_point!("applyAfterOpenSnapshot");
        self.wal.release_to(index);
        snap::release_databases(&*self.disk, &self.snap_dir, index)?;
        fail_point!("raftAfterWALRelease");
        let Some(LogJob::Append(job)) = self.waiting.pop_front() else {
            unreachable!("it was at the head");
        };
        done.push(LogDone::Append(Box::new(Appended { job })));
        Ok(true)
    }

    fn save_snapshot(&mut self) -> Result<(), Error> {
        let Some(LogJob::Snapshot(snapshot)) = self.waiting.front() else {
            unreachable!("it is the job at the head");
        };
        let metadata = &snapshot.metadata;
        snap::save(&*self.disk, &self.snap_dir, snapshot)?;
        fail_point!("raftBeforeWALSaveSnaphot");
        self.wal.save_snapshot_record(&record_of(metadata))?;
        self.wal.release_to(metadata.index);
        snap::release_databases(&*self.disk, &self.snap_dir, metadata.index)?;
        Ok(())
    }

    /// For when nothing waits: reserves the segment that will follow.
    pub fn idle(&mut self) -> Result<(), Error> {
        match self.wal.prepare_next_segment() {
            Ok(()) | Err(WalError::StorageFull { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes all durable and lets go of the files.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.wal.close()?)
    }
}

/// The log's record of a snapshot.
fn record_of(metadata: &SnapshotMetadata) -> walpb::Snapshot {
    walpb::Snapshot {
        index: metadata.index,
        term: metadata.term,
        conf_state: Some(metadata.conf_state.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_disk::Mode;
    use quorate_disk::faulty::{FaultyDisk, Stop};
    use quorate_raft::{ConfState, Entry, EntryKind, HardState};
    use quorate_wal::{Options, snapshot_records};
    use std::path::Path;

    const SNAPSHOT: u64 = 20;
    const OPTIONS: Options = Options {
        segment_bytes: 64 * 1024,
        unsafe_no_sync: false,
    };

    fn entries(term: u64, indexes: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
        let entry = |index| Entry {
            term,
            index,
            kind: EntryKind::Normal,
            data: vec![index as u8; 300].into(),
        };
        indexes.map(entry).collect()
    }

    fn state(term: u64, commit: u64) -> HardState {
        HardState {
            term,
            vote: 1,
            commit,
        }
    }

    /// A stage over a log of entries 1 to `last` of term 1, and a snapshot of term 2 on its way to it.
    fn stage(disk: &FaultyDisk, last: u64) -> LogStage {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let (wal_dir, snap_dir) = (Path::new("/wal"), Path::new("/snap"));
        disk.create_dir_all(snap_dir).unwrap();
        let mut wal = Wal::create(&disk, wal_dir, b"who", OPTIONS).unwrap();
        wal.append(Some(&state(1, 3)), &entries(1, 1..=last))
            .unwrap();
        wal.sync().unwrap();
        let received = snap::database_path(snap_dir, SNAPSHOT);
        let file = disk.open(&received, Mode::CreateNew).unwrap();
        file.sync_all().unwrap();
        disk.sync_dir(snap_dir).unwrap();
        let database = snap_dir.join("db");
        let mut stage = LogStage::new(wal, disk, snap_dir.into(), database, 2, 2);
        let metadata = SnapshotMetadata {
            conf_state: ConfState {
                voters: vec![1],
                ..Default::default()
            },
            index: SNAPSHOT,
            term: 2,
        };
        stage.push(LogJob::Append(AppendJob {
            entries: entries(2, SNAPSHOT + 1..=SNAPSHOT + 8),
            hard_state: Some(state(2, SNAPSHOT)),
            snapshot: Some(Snapshot {
                data: Default::default(),
                metadata,
            }),
            must_sync: true,
            responses: Vec::new(),
        }));
        stage
    }

    /// The newest committed snapshot record, and the entries behind it.
    fn found(disk: &FaultyDisk) -> (u64, Vec<Entry>) {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let records = snapshot_records(&*disk, Path::new("/wal")).unwrap();
        let newest = records.into_iter().max_by_key(|r| r.index).unwrap();
        let opened = Wal::open(&disk, Path::new("/wal"), &newest, OPTIONS);
        (newest.index, opened.unwrap().1.entries)
    }

    #[test]
    fn a_crash_while_a_snapshot_is_stored_leaves_the_log_of_before_or_of_after() {
        // A log that ends before the snapshot, and one with entries that the snapshot contradicts.
        for last in [3, 25] {
            for call in 1.. {
                let mut over = false;
                for stop in [Stop::Before, Stop::After] {
                    let disk = FaultyDisk::new(call);
                    let mut stage = stage(&disk, last);
                    disk.stop_at(disk.counts().calls + call, stop);
                    over = stage.step().is_ok();
                    for crash in 0..20 {
                        let disk = disk.crash(crash);
                        let (index, entries) = found(&disk);
                        let old = index == 0 && entries.len() as u64 == last;
                        let new = entries.iter().all(|e| e.term == 2 && e.index > SNAPSHOT);
                        assert!(
                            old || index == SNAPSHOT && new,
                            "call {call} {stop:?} crash {crash}: above {index} {entries:?}"
                        );
                    }
                }
                if over {
                    break;
                }
            }
        }
    }
}
