//! A member, its stages, its disk and its clock: what runs on one machine.
//!
//! As in the server, the loop owns the member; the log stage, the commit stage and the workers run
//! beside it, one job at a time, and tell the loop what they have done. Here each of them is a step
//! that the schedule decides the time of, so whatever order threads could take is one that a seed can
//! take.
//!
//! Invariants: what a step did is durable before its result reaches the loop; a process that died
//! leaves nothing behind but its disk.

use crate::clock::Clock;
use crate::history::OpId;
use crate::network::Slot;
use crate::oracle::lease::Reading;
use crate::random::Random;
use crate::scenario::{REQUEST_TIMEOUT_MS, Scenario, TICK_MS};
use quorate_node::bolt::Db;
use quorate_node::boot::{Boot, Booted, Directories, Join, boot};
use quorate_node::disk::faulty::FaultyDisk;
use quorate_node::ids::{cluster_id, member_id};
use quorate_node::raft::Message;
use quorate_node::store::commit::{Committed, Frozen};
use quorate_node::store::compaction::{Batch, Planner};
use quorate_node::store::lease;
use quorate_node::store::watch::catch_up::{self, Found, Step};
use quorate_node::store::watch::{self};
use quorate_node::{
    CommitStage, CompactionStep, Config, Error, LogDone, LogJob, LogStage, Member, MemberChange,
    Proposal, Received, SnapshotToSend, Vacuumed,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Who is told of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A client's operation.
    Operation(OpId),
    /// An operator.
    Operator,
    /// A keeper that wants its lease kept alive, and the number of its attempt.
    KeepAlive(usize, u64),
}

/// Something for a watch hub.
#[derive(Clone, Debug)]
pub enum WatchCall {
    /// A watcher opens its stream and creates its watcher.
    Open {
        /// Which watcher.
        watcher: usize,
        /// The number of its stream.
        stream: u64,
    },
    /// The stream is closed.
    Close(u64),
    /// The watcher wants to know how far it is.
    Progress(u64),
    /// The watcher has taken messages, so there is room.
    Room,
}

/// What reaches the loop.
pub enum Input {
    /// A peer's message.
    Message(Message),
    /// A client's request.
    Propose(Proposal<Token>),
    /// A linearizable read.
    Read(Token),
    /// The log stage is done.
    LogDone(Vec<LogDone>),
    /// The commit stage is done.
    CommitDone(Committed),
    /// The commit stage made a step of the vacuum.
    Vacuumed(Vacuumed),
    /// The commit stage uses the database that was received.
    DatabaseReplaced,
    /// A snapshot from a peer, whose database was received and checked.
    Snapshot(Box<(Message, Received)>),
    /// How sending a snapshot to a member ended.
    SnapshotSent(u64, bool),
    /// A message to a member could not be delivered.
    Unreachable(u64),
    /// An operator wants the file tidied.
    Defragment,
    /// An operator wants the membership changed.
    Change(Box<MemberChange>),
    /// An operator wants another member to lead.
    Transfer(u64),
    /// An operator wants the member to stop.
    Stop,
    /// A worker found what watchers missed.
    Found(Found),
    /// A worker planned a batch of a compaction.
    Planned(Box<(Planner, Batch)>),
    /// A watcher's call.
    Watch(WatchCall),
}

/// A step on a machine.
pub enum Work {
    /// The loop takes what is there and steps the member.
    Loop,
    /// The member's clock has gone on by a tick.
    Tick,
    /// The log stage does what waits.
    Log,
    /// The commit stage commits, or tidies.
    Commit,
    /// Something reaches the loop.
    Input(Input),
    /// A worker catches watchers up.
    CatchUp(Step),
    /// A worker plans a compaction.
    Compact(Box<CompactionStep>),
    /// A database is read out to be sent to another member.
    SendSnapshot(Box<SnapshotToSend>),
    /// A database arrives with its message, from this member's process of this number.
    Receive {
        /// Where from.
        from: (Slot, u64),
        /// The message.
        message: Message,
        /// The database.
        database: Vec<u8>,
    },
    /// A received database is opened and checked.
    OpenReceived(Message),
    /// A client's request is taken.
    Serve(OpId),
    /// A keeper's renewal is taken: which keeper's, and the number of its attempt.
    KeepAlive(usize, u64),
}

impl Work {
    /// For the trace.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Loop => "loop",
            Work::Tick => "tick",
            Work::Log => "log",
            Work::Commit => "commit",
            Work::Input(input) => match input {
                Input::Message(_) => "message",
                Input::Propose(_) => "propose",
                Input::Read(_) => "read",
                Input::LogDone(_) => "log done",
                Input::CommitDone(_) => "commit done",
                Input::Vacuumed(_) => "vacuumed",
                Input::DatabaseReplaced => "database replaced",
                Input::Snapshot(_) => "snapshot",
                Input::SnapshotSent(..) => "snapshot sent",
                Input::Unreachable(_) => "unreachable",
                Input::Defragment => "defragment",
                Input::Change(_) => "change members",
                Input::Transfer(_) => "transfer leadership",
                Input::Stop => "stop",
                Input::Found(_) => "watchers caught up",
                Input::Planned(_) => "compaction planned",
                Input::Watch(_) => "watch",
            },
            Work::CatchUp(_) => "catch up",
            Work::Compact(_) => "plan compaction",
            Work::SendSnapshot(_) => "send snapshot",
            Work::Receive { .. } => "receive snapshot",
            Work::OpenReceived(_) => "open received database",
            Work::Serve(_) => "serve",
            Work::KeepAlive(..) => "keep alive",
        }
    }
}

/// Something for the commit stage to do.
pub enum CommitJob {
    /// Commit what was applied.
    Commit(Frozen),
    /// Make a step of the vacuum.
    Vacuum,
    /// Use another database from now on, whose consistent index is this.
    Replace(Db, u64),
}

/// A running process.
pub struct Process {
    /// The machine of states.
    pub member: Member<Token>,
    /// The log stage.
    pub log: LogStage,
    /// The commit stage.
    pub commit: CommitStage,
    /// What waits for the loop.
    pub inputs: Vec<Input>,
    /// Whether a tick is due.
    pub tick_due: bool,
    /// Whether the loop is about to run.
    pub loop_scheduled: bool,
    /// Jobs on their way to the log stage.
    pub log_jobs: Vec<LogJob>,
    /// Whether the log stage is at work.
    pub log_busy: bool,
    /// Jobs on their way to the commit stage.
    pub commit_jobs: VecDeque<CommitJob>,
    /// Whether the commit stage is at work.
    pub commit_busy: bool,
    /// Consistent index of the last commit, for a planted bug.
    pub committed_index: u64,
    /// Whether this member led, and in which term, when it was looked at last.
    pub led: Option<u64>,
}

/// A machine.
pub struct Machine {
    /// Its place.
    pub slot: Slot,
    /// The member's id.
    pub id: u64,
    /// Its disk.
    pub disk: Arc<FaultyDisk>,
    /// Its clock.
    pub clock: Clock,
    /// Speed of its clock, in parts per million.
    pub rate_ppm: u64,
    /// Counts its starts.
    pub life: u64,
    /// Whether it joins a cluster that is there already.
    pub joins: bool,
    /// Whether it is, or was, a member: one that was never added does not start.
    pub added: bool,
    /// The process, while it runs.
    pub process: Option<Process>,
    /// Whether the process is stopped for a while.
    pub paused: bool,
    /// What happened to it meanwhile.
    pub deferred: Vec<Work>,
    /// How many times as long as usual its disk takes.
    pub disk_factor: u64,
    /// Whether its disk is full.
    pub full: bool,
    /// Whether its disk will fail to sync, or has.
    pub sync_fails: bool,
    /// Whether its power goes in the middle of the next step of a stage.
    pub cut_in_call: bool,
}

/// Where a member's files are.
pub fn directories() -> Directories {
    Directories {
        data: "/data".into(),
        wal: None,
    }
}

/// The name of the member at a place.
pub fn name_of(slot: Slot) -> String {
    format!("m{slot}")
}

/// The peer URL of the member at a place.
pub fn url_of(slot: Slot) -> String {
    format!("http://10.0.0.{slot}:2380")
}

/// The token of the cluster.
const TOKEN: &str = "sim";

/// The id of the member at a place.
pub fn id_of(slot: Slot) -> u64 {
    member_id(&[url_of(slot)], TOKEN)
}

impl Machine {
    /// A machine with an empty disk, switched off.
    pub fn new(slot: Slot, random: &mut Random) -> Machine {
        Machine {
            slot,
            id: id_of(slot),
            disk: Arc::new(FaultyDisk::new(random.next())),
            clock: Clock::new(0, 1_000_000),
            rate_ppm: 1_000_000,
            life: 0,
            joins: false,
            added: true,
            process: None,
            paused: false,
            deferred: Vec::new(),
            disk_factor: 1,
            full: false,
            sync_fails: false,
            cut_in_call: false,
        }
    }

    /// What its clock has shown at the latest: members take no time for less than they had.
    pub fn reading(&self, now_us: u64) -> Reading {
        Reading {
            life: self.life,
            micros: self.clock.latest_micros(now_us),
        }
    }

    /// Starts the process.
    pub fn start(
        &mut self,
        now_us: u64,
        scenario: &Scenario,
        random: &mut Random,
    ) -> Result<(), Error> {
        let initial: Vec<Slot> = (0..scenario.members).collect();
        let initial = &initial[..];
        assert!(self.process.is_none(), "a machine runs one process");
        self.life += 1;
        self.clock = Clock::new(now_us, self.rate_ppm);
        // The wall clock: all that matters is that request ids are new.
        let start_ms = 1_700_000_000_000 + now_us / 1000 + self.life * 10_000;
        let seed = random.next();
        let join = self.joins.then(|| Join {
            member_id: self.id,
            cluster_id: cluster_id(&initial.iter().map(|slot| id_of(*slot)).collect::<Vec<_>>()),
        });
        let boot_with = settings(self.slot, scenario, initial, join, start_ms, seed);
        let Booted {
            member,
            log,
            db,
            found,
        } = boot(self.disk.clone(), boot_with)?;
        self.process = Some(Process {
            commit: CommitStage::new(db, member.view().applied_index),
            member,
            log,
            inputs: Vec::new(),
            tick_due: false,
            loop_scheduled: false,
            log_jobs: Vec::new(),
            log_busy: false,
            commit_jobs: VecDeque::new(),
            commit_busy: false,
            committed_index: found.consistent_index,
            led: None,
        });
        Ok(())
    }

    /// The process, which runs.
    pub fn running(&mut self) -> &mut Process {
        self.process.as_mut().expect("the caller saw it run")
    }

    /// Whether the process runs and is not stopped.
    pub fn is_awake(&self) -> bool {
        self.process.is_some() && !self.paused
    }
}

fn settings(
    slot: Slot,
    scenario: &Scenario,
    initial: &[Slot],
    join: Option<Join>,
    start_ms: u64,
    seed: u64,
) -> Boot {
    let member_of = |slot: &Slot| (name_of(*slot), vec![url_of(*slot)]);
    Boot {
        directories: directories(),
        member: Config {
            member_id: 0,
            cluster_id: 0,
            name: name_of(slot),
            client_urls: vec![format!("http://10.0.0.{slot}:2379")],
            tick_ms: TICK_MS,
            election_ticks: scenario.election_ticks,
            strict_reconfiguration: scenario.strict_reconfiguration,
            max_learners: 1,
            advance_first_election: scenario.pre_vote,
            snapshot_count: scenario.snapshot_count,
            snapshot_catch_up: scenario.snapshot_catch_up,
            max_apply_gap: 5000,
            max_apply_gap_of_revocations: 5000,
            max_proposals: 1000,
            request_timeout_ms: REQUEST_TIMEOUT_MS,
            commit_interval_ms: scenario.commit_interval_ms,
            commit_writes: scenario.commit_writes,
            commit_bytes_cap: 1 << 20,
            compaction_rows: scenario.compaction_rows,
            compaction_pause_ms: 0,
        },
        heartbeat_ticks: 1,
        pre_vote: scenario.pre_vote,
        initial_cluster: initial.iter().map(member_of).collect(),
        token: TOKEN.into(),
        join,
        force_new_cluster: false,
        store: settings_of_store(),
        watch: watch::Config {
            progress_interval_ms: 600_000,
            bounds: catch_up::Bounds {
                rows: 40,
                events: 10,
                bytes: 1 << 20,
            },
        },
        max_wals: 2,
        max_snapshots: 2,
        log: quorate_node::wal::Options {
            segment_bytes: scenario.segment_bytes,
            unsafe_no_sync: false,
        },
        start_ms,
        seed,
    }
}

/// How stores are kept.
pub fn settings_of_store() -> quorate_node::store::Config {
    quorate_node::store::Config {
        quota_bytes: 0,
        lease: lease::Config {
            min_ttl_s: crate::model::MIN_TTL_S,
            checkpoint_interval_ms: None,
        },
    }
}
