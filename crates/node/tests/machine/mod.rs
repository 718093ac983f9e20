//! A whole member in one thread over a faulty disk, and a model of what it must hold.

use prost::Message;
use quorate_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::*;
use quorate_disk::Disk;
use quorate_disk::faulty::{FaultyDisk, Random};
use quorate_node::boot::{Boot, Directories, boot};
use quorate_node::store::index::KeyRange;
use quorate_node::store::lease;
use quorate_node::store::watch::{self, catch_up};
use quorate_node::{
    CommitStage, Config, Error, LogStage, Member, Proposal, ProposalKind, Reply, VacuumNext,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

pub fn settings() -> Boot {
    Boot {
        directories: Directories {
            data: "/data".into(),
            wal: None,
        },
        member: Config {
            member_id: 0,
            cluster_id: 0,
            name: "m".into(),
            client_urls: vec!["http://localhost:2379".into()],
            tick_ms: 100,
            election_ticks: 10,
            strict_reconfiguration: true,
            max_learners: 1,
            advance_first_election: true,
            snapshot_count: 20,
            snapshot_catch_up: 5,
            max_apply_gap: 5000,
            max_apply_gap_of_revocations: 5000,
            max_proposals: 1000,
            request_timeout_ms: 7000,
            commit_interval_ms: 100,
            commit_writes: 7,
            commit_bytes_cap: 1 << 20,
            compaction_rows: 3,
            compaction_pause_ms: 0,
        },
        heartbeat_ticks: 1,
        pre_vote: true,
        initial_cluster: vec![("m".into(), vec!["http://localhost:2380".into()])],
        token: "etcd-cluster".into(),
        join: None,
        force_new_cluster: false,
        store: quorate_node::store::Config {
            quota_bytes: 0,
            lease: lease::Config {
                min_ttl_s: 2,
                checkpoint_interval_ms: None,
            },
        },
        watch: watch::Config {
            progress_interval_ms: 600_000,
            bounds: catch_up::Bounds {
                rows: 100,
                events: 10,
                bytes: 1 << 20,
            },
        },
        max_wals: 2,
        max_snapshots: 2,
        log: Default::default(),
        start_ms: 1,
        seed: 7,
    }
}

/// A member and its stages, stepped in an order that a seed decides.
pub struct Machine {
    pub member: Member<usize>,
    log: LogStage,
    commit: CommitStage,
    /// Replies by token.
    pub replies: BTreeMap<usize, Result<(), String>>,
    random: Random,
    next_id: u64,
    vacuums: bool,
    /// Whether a commit takes until the member has been stepped once more.
    pub slow_commits: bool,
    /// Whether the log's disk hangs.
    pub log_hangs: bool,
    /// Whether the database's disk hangs.
    pub commits_hang: bool,
    /// A commit that found no space, or is under way.
    uncommitted: Option<quorate_node::store::commit::Frozen>,
}

impl Machine {
    pub fn start(disk: Arc<dyn Disk>, seed: u64) -> Result<Machine, Error> {
        Machine::start_with(disk, seed, settings(), true)
    }

    /// `vacuums`: steps of a vacuum that nobody asked for are made between others.
    pub fn start_with(
        disk: Arc<dyn Disk>,
        seed: u64,
        settings: Boot,
        vacuums: bool,
    ) -> Result<Machine, Error> {
        let booted = boot(disk, settings)?;
        let index = booted.member.view().applied_index;
        let mut machine = Machine {
            member: booted.member,
            log: booted.log,
            commit: CommitStage::new(booted.db, index),
            replies: BTreeMap::new(),
            random: Random::new(seed),
            next_id: 1 << 20,
            vacuums,
            slow_commits: false,
            log_hangs: false,
            commits_hang: false,
            uncommitted: None,
        };
        machine.settle()?;
        Ok(machine)
    }

    pub fn propose(&mut self, token: usize, request: InternalRaftRequest) {
        self.next_id += 1;
        let id = self.next_id;
        let header = Some(RequestHeader {
            id,
            ..Default::default()
        });
        let kind = match (request.compaction, &request.lease_revoke) {
            (Some(CompactionRequest { physical: true, .. }), _) => ProposalKind::PhysicalCompaction,
            (_, Some(_)) => ProposalKind::Revocation,
            _ => ProposalKind::Ordinary,
        };
        let data = InternalRaftRequest { header, ..request }
            .encode_to_vec()
            .into();
        self.member.propose(vec![Proposal {
            id,
            data,
            token: Some(token),
            kind,
        }]);
    }

    /// Steps until nothing is left to do.
    pub fn settle(&mut self) -> Result<(), Error> {
        for _ in 0..10_000 {
            if !self.step()? {
                return Ok(());
            }
        }
        panic!("a member comes to rest");
    }

    /// One round; whether anything happened.
    pub fn step(&mut self) -> Result<bool, Error> {
        self.member
            .set_now(self.member.now_ms() + self.random.below(20));
        let effects = self.member.advance()?;
        let mut busy = !effects.log.is_empty();
        effects.log.into_iter().for_each(|job| self.log.push(job));
        for (token, reply) in effects.replies {
            let outcome = match reply {
                Reply::Outcome(Ok(_)) | Reply::Ready => Ok(()),
                Reply::Outcome(Err(error)) | Reply::Failed(error) => Err(error.to_string()),
            };
            self.replies.insert(token, outcome);
        }
        let commit_first = self.random.below(2) == 0;
        if !commit_first {
            busy |= self.do_log()?;
        }
        let mut frozen = self.uncommitted.take();
        if self.slow_commits {
            self.uncommitted = effects.commit;
        } else {
            frozen = effects.commit.or(frozen);
        }
        if self.commits_hang {
            self.uncommitted = self.uncommitted.take().or(frozen);
        } else if let Some(frozen) = frozen {
            match self.commit.commit(&frozen)? {
                Some(committed) => {
                    busy = true;
                    self.member.commit_done(committed);
                }
                None => self.uncommitted = Some(frozen),
            }
        } else if self.vacuums && self.random.below(8) == 0 {
            let step = self.commit.vacuum()?;
            self.member.vacuumed(step);
        }
        if effects.vacuum {
            let step = self.commit.vacuum()?;
            busy |= step.next != VacuumNext::Wait;
            self.member.vacuumed(step);
        }
        if commit_first {
            busy |= self.do_log()?;
        }
        if let Some(mut step) = effects.compaction {
            busy = true;
            let batch = step.planner.step(&step.view, step.rows)?;
            self.member.compaction_planned(step.planner, batch);
        }
        for step in effects.watch_steps {
            busy = true;
            let found = catch_up::run(&step, self.member.hub().bounds())?;
            self.member.watch_found(found)?;
        }
        Ok(busy)
    }

    fn do_log(&mut self) -> Result<bool, Error> {
        if self.log_hangs {
            return Ok(false);
        }
        if !self.log.has_waiting() {
            self.log.idle()?;
            return Ok(false);
        }
        let mut busy = false;
        for done in self.log.step()? {
            busy |= !matches!(done, quorate_node::LogDone::Full(_));
            self.member.log_done(done)?;
        }
        Ok(busy)
    }

    /// A tick and what follows.
    pub fn tick(&mut self) -> Result<(), Error> {
        self.member.set_now(self.member.now_ms() + 100);
        self.member.tick();
        self.settle()
    }

    /// What the newest view holds at a revision.
    pub fn content(&self, at: i64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let view = self.member.view();
        let rows = view.rows().expect("the file is sound");
        let mut content = BTreeMap::new();
        let _ = view.root.walk::<()>(
            KeyRange {
                start: b"",
                end: None,
            },
            |key, entry| {
                if let Some(revision) = entry.live_at(at) {
                    let kv = rows.key_value(revision).expect("the row is sound");
                    assert_eq!(kv.key, key);
                    content.insert(key.to_vec(), kv.value.to_vec());
                }
                ControlFlow::Continue(())
            },
        );
        content
    }

    /// Scrubs the file for a few passes; how many damaged pages were told in the last.
    pub fn scrub_all(&mut self) -> usize {
        (0..20)
            .map(|_| self.commit.scrub().expect("the file can be read").len())
            .max()
            .unwrap_or(0)
    }

    pub fn file_pages(&self) -> u64 {
        self.commit.db().size() / 4096
    }

    pub fn check_file(&self) {
        let check = self.commit.db().check().expect("the file can be read");
        assert!(check.is_ok(), "{check:?}");
    }
}

/// What a member must hold: the content after each revision.
#[derive(Clone, Default)]
pub struct Model {
    /// From revision 1 on.
    pub at: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
    pub compacted: i64,
    leases: BTreeMap<i64, Vec<Vec<u8>>>,
}

impl Model {
    pub fn new() -> Model {
        Model {
            at: vec![BTreeMap::new()],
            compacted: -1,
            leases: BTreeMap::new(),
        }
    }

    pub fn revision(&self) -> i64 {
        self.at.len() as i64
    }

    pub fn content(&self, at: i64) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.at[at as usize - 1]
    }

    fn now(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.at.last().expect("there is a first revision").clone()
    }

    fn detach(&mut self, key: &[u8]) {
        for keys in self.leases.values_mut() {
            keys.retain(|held| held != key);
        }
    }

    /// Draws a request and applies it to the model.
    pub fn draw(&mut self, random: &mut Random) -> InternalRaftRequest {
        let key = |random: &mut Random| format!("k{}", random.below(12)).into_bytes();
        let value =
            |random: &mut Random| vec![b'a' + random.below(26) as u8; random.below(300) as usize];
        let mut request = InternalRaftRequest::default();
        match random.below(10) {
            0..=3 => {
                let (key, value) = (key(random), value(random));
                let lease = match self.leases.keys().next() {
                    Some(id) if random.below(3) == 0 => *id,
                    _ => 0,
                };
                self.detach(&key);
                if let Some(keys) = self.leases.get_mut(&lease) {
                    keys.push(key.clone());
                }
                let mut now = self.now();
                now.insert(key.clone(), value.clone());
                self.at.push(now);
                request.put = Some(PutRequest {
                    key: key.into(),
                    value: value.into(),
                    lease,
                    ..Default::default()
                });
            }
            4 | 5 => {
                let (start, end) = (key(random), key(random));
                let mut now = self.now();
                let doomed: Vec<Vec<u8>> = now
                    .keys()
                    .filter(|k| start <= **k && **k < end)
                    .cloned()
                    .collect();
                for key in &doomed {
                    now.remove(key);
                    self.detach(key);
                }
                if !doomed.is_empty() {
                    self.at.push(now);
                }
                request.delete_range = Some(DeleteRangeRequest {
                    key: start.into(),
                    range_end: end.into(),
                    ..Default::default()
                });
            }
            6 | 7 => {
                let (tested, put, deleted) = (key(random), key(random), key(random));
                let value = value(random);
                let exists = self.now().contains_key(&tested);
                let mut now = self.now();
                let mut changed = false;
                if exists {
                    now.insert(put.clone(), value.clone());
                    self.detach(&put);
                    changed = true;
                } else if now.remove(&deleted).is_some() {
                    self.detach(&deleted);
                    changed = true;
                }
                if changed {
                    self.at.push(now);
                }
                let op = |request| RequestOp {
                    request: Some(request),
                };
                request.txn = Some(TxnRequest {
                    compare: vec![Compare {
                        result: CompareResult::Greater as i32,
                        target: CompareTarget::Version as i32,
                        key: tested.into(),
                        target_union: Some(TargetUnion::Version(0)),
                        ..Default::default()
                    }],
                    success: vec![op(Request::RequestPut(PutRequest {
                        key: put.into(),
                        value: value.into(),
                        ..Default::default()
                    }))],
                    failure: vec![op(Request::RequestDeleteRange(DeleteRangeRequest {
                        key: deleted.into(),
                        ..Default::default()
                    }))],
                });
            }
            8 => match self.leases.keys().next().copied() {
                Some(id) if random.below(2) == 0 => {
                    let keys = self.leases.remove(&id).expect("it was found");
                    let mut now = self.now();
                    for key in &keys {
                        now.remove(key);
                    }
                    if !keys.is_empty() {
                        self.at.push(now);
                    }
                    request.lease_revoke = Some(LeaseRevokeRequest { id });
                }
                _ => {
                    let id = 1 + random.below(1 << 40) as i64;
                    self.leases.insert(id, Vec::new());
                    request.lease_grant = Some(LeaseGrantRequest { id, ttl: 1_000_000 });
                }
            },
            _ => {
                let at = self.revision() - random.below(5) as i64;
                if at > self.compacted {
                    self.compacted = at;
                }
                request.compaction = Some(CompactionRequest {
                    revision: at,
                    physical: false,
                });
            }
        }
        request
    }
}

/// A disk, its handle, and a model that went together.
pub fn faulty(seed: u64) -> Arc<FaultyDisk> {
    Arc::new(FaultyDisk::new(seed))
}
