//! One member as its driver sees it: consensus, disk, state machine, and work that is not done.

use std::collections::VecDeque;

use bytes::Bytes;
use quorate_raft::{
    AppendJob, ApplyJob, ConfChangeKind, ConfChangeSingle, ConfChangeTransition, ConfChangeV2,
    ConfState, Config, Entry, EntryKind, HardState, MemoryStorage, Raft, Snapshot,
};

/// The state machine: how far it is, under which configuration, and a digest of all before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub index: u64,
    pub conf_state: ConfState,
    pub digest: u64,
}

pub struct Member {
    pub raft: Raft<MemoryStorage>,
    pub config: Config,
    /// What a crash leaves; the commit index in it may be one that was not synced.
    pub disk: MemoryStorage,
    pub synced: HardState,
    pub machine: Machine,
    pub durable_machine: Machine,
    pub append: VecDeque<AppendJob>,
    pub apply: VecDeque<ApplyJob>,
}

/// One byte for the transition, then two for each change.
pub fn encode(change: &ConfChangeV2) -> Bytes {
    let mut data = vec![change.transition as u8];
    for single in &change.changes {
        data.extend([single.kind as u8, single.node_id as u8]);
    }
    data.into()
}

pub fn decode(_: EntryKind, data: &[u8]) -> Option<ConfChangeV2> {
    let (transition, singles) = data.split_first()?;
    let single = |pair: &[u8]| {
        Some(ConfChangeSingle {
            kind: ConfChangeKind::from_number(u64::from(pair[0]))?,
            node_id: u64::from(pair[1]),
        })
    };
    Some(ConfChangeV2 {
        transition: ConfChangeTransition::from_number(u64::from(*transition))?,
        changes: singles.chunks_exact(2).map(single).collect::<Option<_>>()?,
        context: Bytes::new(),
    })
}

pub fn read_change(entry: &Entry) -> ConfChangeV2 {
    if entry.data.is_empty() {
        return ConfChangeV2::default();
    }
    decode(entry.kind, &entry.data).expect("only readable changes are proposed")
}

pub fn snapshot_of(machine: &Machine, term: u64, number: u64) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.metadata.index = machine.index;
    snapshot.metadata.term = term;
    snapshot.metadata.conf_state = machine.conf_state.clone();
    snapshot.data = Bytes::copy_from_slice(&number.to_be_bytes());
    snapshot
}

impl Member {
    /// What the log does with a job.
    pub fn write(&mut self, job: &AppendJob) {
        if let Some(snapshot) = &job.snapshot {
            self.disk.apply_snapshot(snapshot.clone()).unwrap();
        }
        self.disk.append(&job.entries);
        if let Some(state) = job.hard_state {
            self.disk.set_hard_state(state);
        }
        if job.must_sync {
            self.synced = self.disk.hard_state();
        }
    }

    /// Takes a snapshot's state over; it is durable with it.
    pub fn install(&mut self, archive: &[Machine], snapshot: &Snapshot) {
        let number = u64::from_be_bytes(snapshot.data[..].try_into().expect("eight bytes"));
        self.machine = archive[number as usize].clone();
        assert_eq!(self.machine.index, snapshot.metadata.index);
        assert_eq!(self.machine.conf_state, snapshot.metadata.conf_state);
        self.durable_machine = self.machine.clone();
    }
}
