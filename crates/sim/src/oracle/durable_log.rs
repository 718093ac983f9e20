//! What a log stage has acknowledged is in the log that the member finds after a crash, and what
//! else is there is a beginning of what was being written.

use super::log_matching::{Logged, MemberLog};
use super::{Violation, ensure};
use quorate_node::disk::Disk;
use quorate_node::raft::{AppendJob, Entry, HardState};
use quorate_node::wal::walpb::RecordType;
use quorate_node::wal::{Next, Reader, WalError, raftpb, snapshot_records, walpb};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

/// The checker's name.
pub const NAME: &str = "durable log";

/// What a log holds.
#[derive(Clone, Debug, Default)]
pub struct OnDisk {
    /// The last hard state.
    pub state: HardState,
    /// The entries that are not overwritten by later ones.
    pub entries: BTreeMap<u64, (Logged, Entry)>,
    /// The newest snapshot record.
    pub snapshot: (u64, u64),
}

impl OnDisk {
    /// The log as raft will see it.
    pub fn member_log(&self) -> MemberLog {
        let mut entries = self.entries.clone();
        let above = entries.split_off(&(self.snapshot.0 + 1));
        MemberLog {
            base: self.snapshot,
            entries: above,
        }
    }

    fn append(&mut self, entry: &Entry) {
        self.entries.split_off(&entry.index);
        let logged = Logged::of(entry);
        self.entries.insert(entry.index, (logged, entry.clone()));
    }
}

/// Reads a log without changing it. `None`: there is none yet.
pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<OnDisk>, WalError> {
    if !quorate_node::wal::exists(disk, dir)? {
        return Ok(None);
    }
    // Of the snapshot records, those count that are committed; they cover what is below them.
    let newest = snapshot_records(disk, dir)?
        .into_iter()
        .max_by_key(|record| record.index);
    let mut found = OnDisk {
        snapshot: newest.map_or((0, 0), |record| (record.index, record.term)),
        ..OnDisk::default()
    };
    let mut reader = Reader::open_all(disk, dir)?;
    while let Next::Record(located) = reader.next()? {
        let record = located.record;
        match RecordType::from_number(record.number) {
            Some(RecordType::Entry) => {
                let entry = raftpb::decode_entry(&record.data);
                found.append(&entry.expect("its checksum was right"));
            }
            Some(RecordType::State) => {
                let state = raftpb::decode_hard_state(&record.data);
                found.state = state.expect("its checksum was right");
            }
            Some(RecordType::Snapshot) => {
                let at = walpb::decode_snapshot(&record.data);
                let at = at.expect("its checksum was right");
                let term = found.entries.get(&at.index).map(|(logged, _)| logged.term);
                // One that the log did not lead to takes its place.
                if (at.index, at.term) == found.snapshot && term != Some(at.term) {
                    found.entries.clear();
                }
            }
            Some(RecordType::Metadata | RecordType::Crc) | None => {}
        }
    }
    Ok(Some(found))
}

/// A job's content.
struct Job {
    snapshot: Option<u64>,
    entries: Vec<Entry>,
    state: Option<HardState>,
    must_sync: bool,
}

/// What one member's log stage was given and has acknowledged.
#[derive(Default)]
pub struct DurableLog {
    state: HardState,
    /// Index of a snapshot that took the place of what was before.
    base: u64,
    entries: BTreeMap<u64, Logged>,
    waiting: VecDeque<Job>,
}

impl DurableLog {
    /// The stage gets a job.
    pub fn begins(&mut self, job: &AppendJob) {
        let snapshot = job.snapshot.as_ref();
        self.waiting.push_back(Job {
            snapshot: snapshot.map(|snapshot| snapshot.metadata.index),
            entries: job.entries.clone(),
            state: job.hard_state,
            must_sync: job.must_sync,
        });
    }

    /// The stage has done the oldest job that it has.
    pub fn ends(&mut self) {
        let job = self.waiting.pop_front();
        let job = job.expect("what is done was begun");
        if let Some(index) = job.snapshot {
            self.base = index;
            self.entries.clear();
        }
        for entry in &job.entries {
            self.entries.split_off(&entry.index);
            self.entries.insert(entry.index, Logged::of(entry));
        }
        if let Some(state) = job.state
            && job.must_sync
        {
            self.state = state;
        }
    }

    /// After a crash: judges what is there, and begins anew with it.
    pub fn restarts(&mut self, found: Option<&OnDisk>) -> Result<(), Violation> {
        let nothing = OnDisk::default();
        let found_log = found.unwrap_or(&nothing);
        self.check(found_log)?;
        self.waiting.clear();
        self.state = found_log.state;
        self.base = found_log.snapshot.0;
        let logged = |(index, (logged, _)): (&u64, &(Logged, Entry))| (*index, logged.clone());
        self.entries = found_log.entries.iter().map(logged).collect();
        Ok(())
    }

    fn check(&self, found: &OnDisk) -> Result<(), Violation> {
        let mut states = vec![(self.state.term, self.state.vote)];
        let states_begun = self.waiting.iter().filter_map(|job| job.state);
        states.extend(states_begun.map(|state| (state.term, state.vote)));
        ensure!(
            states.contains(&(found.state.term, found.state.vote)),
            NAME,
            "term {} and vote {:x} were found, {:?} acknowledged",
            found.state.term,
            found.state.vote,
            self.state
        );
        // The log after each record that may have been written.
        let (mut base, mut expected) = (self.base, self.entries.clone());
        if same(base, &expected, found) {
            return Ok(());
        }
        for job in &self.waiting {
            if let Some(index) = job.snapshot {
                (base, expected) = (index, BTreeMap::new());
                if same(base, &expected, found) {
                    return Ok(());
                }
            }
            for entry in &job.entries {
                expected.split_off(&entry.index);
                expected.insert(entry.index, Logged::of(entry));
                if same(base, &expected, found) {
                    return Ok(());
                }
            }
        }
        let ends = |log: Option<(&u64, u64)>| log.map(|(index, term)| (*index, term));
        Err(Violation {
            oracle: NAME,
            what: format!(
                "a log above {:?} that ends at {:?} was found, one above {} that ends at {:?} \
                 acknowledged, with {} jobs behind it",
                found.snapshot,
                ends(found.entries.last_key_value().map(|(i, e)| (i, e.0.term))),
                self.base,
                ends(self.entries.last_key_value().map(|(i, e)| (i, e.term))),
                self.waiting.len()
            ),
        })
    }
}

/// Whether a log above `base` is the one that was found, as far as that reaches back.
fn same(base: u64, expected: &BTreeMap<u64, Logged>, found: &OnDisk) -> bool {
    let covered = found.snapshot.0;
    let last = expected.last_key_value().map_or(base, |(index, _)| *index);
    let mut behind = found.entries.range(covered + 1..);
    let found_last = behind
        .clone()
        .next_back()
        .map_or(covered, |(index, _)| *index);
    base <= covered
        && last == found_last
        && behind.all(|(index, (logged, _))| expected.get(index) == Some(logged))
}
