//! Members with their disks and state machines, the network between them, and random actions.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use quorate_raft::{
    ConfChangeKind, ConfChangeSingle, ConfChangeTransition, ConfChangeV2, ConfState, Config,
    EntryKind, HardState, MemoryStorage, Message, MessageKind, Raft, Role, StepError, Storage,
    VoteResult,
};

use crate::member::{Machine, Member, decode, encode, read_change, snapshot_of};
use crate::oracle::Oracle;
use crate::random::Random;

const MEMBERS: usize = 5;
const MESSAGES_MAX: usize = 60;
/// Where the first snapshot stands, which all initial voters have.
const START: u64 = 1;

#[derive(Clone, Copy, Debug)]
enum Action {
    Tick,
    Deliver,
    Work,
    FinishAppend,
    FinishApply,
    Propose,
    ProposeConfChange,
    Read,
    Crash,
    CutOrHeal,
    Compact,
    CommitMachine,
    Transfer,
    ForgetLeader,
    Unreachable,
}

/// How often each happens in the mean; each seed leans another way.
const ACTIONS: &[(Action, usize)] = &[
    (Action::Tick, 240),
    (Action::Deliver, 720),
    (Action::Work, 240),
    (Action::FinishAppend, 160),
    (Action::FinishApply, 120),
    (Action::Propose, 60),
    (Action::ProposeConfChange, 40),
    (Action::Read, 12),
    (Action::Crash, 4),
    (Action::CutOrHeal, 4),
    (Action::Compact, 24),
    (Action::CommitMachine, 24),
    (Action::Transfer, 8),
    (Action::ForgetLeader, 2),
    (Action::Unreachable, 8),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub leaders: u64,
    pub applied: u64,
    pub crashes: u64,
    pub lost_jobs: u64,
    pub torn_jobs: u64,
    pub snapshots: u64,
    pub conf_changes: u64,
    pub joint: u64,
    pub reads: u64,
    pub transfers: u64,
    /// Groups in which nobody can be elected any more.
    pub stuck: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.leaders += other.leaders;
        self.applied += other.applied;
        self.crashes += other.crashes;
        self.lost_jobs += other.lost_jobs;
        self.torn_jobs += other.torn_jobs;
        self.snapshots += other.snapshots;
        self.conf_changes += other.conf_changes;
        self.joint += other.joint;
        self.reads += other.reads;
        self.transfers += other.transfers;
        self.stuck += other.stuck;
    }
}

pub struct Group {
    random: Random,
    weights: Vec<usize>,
    members: Vec<Member>,
    messages: Vec<Message>,
    /// Pairs that cannot hear each other.
    cut: BTreeSet<(u64, u64)>,
    oracle: Oracle,
    /// States that snapshots refer to by number.
    archive: Vec<Machine>,
    proposals: u64,
    pub counts: Counts,
}

impl Group {
    pub fn new(seed: u64) -> Group {
        let mut random = Random(seed);
        let mut template = Config::new(1, decode);
        template.election_ticks = 5;
        template.applied = START;
        template.pre_vote = random.once_in(2);
        template.check_quorum = random.once_in(2);
        template.step_down_on_removal = random.once_in(2);
        template.max_size_per_message = [0, 40, u64::MAX][random.below(3)];
        template.max_committed_size = [1, 60, u64::MAX][random.below(3)];
        template.max_uncommitted_size = [0, 200][random.below(2)];
        template.max_inflight_messages = 1 + random.below(4);
        let start = Machine {
            index: START,
            conf_state: ConfState {
                voters: vec![1, 2, 3],
                ..ConfState::default()
            },
            digest: 0,
        };
        let archive = vec![start.clone()];
        let mut members = Vec::new();
        for id in 1..=MEMBERS as u64 {
            let mut config = template.clone();
            config.id = id;
            config.seed = random.next();
            let mut disk = MemoryStorage::new();
            let mut machine = Machine::default();
            if start.conf_state.voters.contains(&id) {
                machine = start.clone();
                disk.apply_snapshot(snapshot_of(&start, 1, 0)).unwrap();
            } else {
                config.applied = 0;
            }
            members.push(Member {
                raft: Raft::new(config.clone(), disk.clone()).unwrap(),
                config,
                disk,
                synced: HardState::default(),
                durable_machine: machine.clone(),
                machine,
                append: VecDeque::new(),
                apply: VecDeque::new(),
            });
        }
        let lean = |(_, weight): &(Action, usize)| weight * [1, 4, 20][random.below(3)] / 4;
        let weights = ACTIONS.iter().map(lean).collect();
        Group {
            random,
            weights,
            members,
            messages: Vec::new(),
            cut: BTreeSet::new(),
            oracle: Oracle::default(),
            archive,
            proposals: 0,
            counts: Counts::default(),
        }
    }

    fn pick(&mut self) -> Action {
        let sum: usize = self.weights.iter().sum();
        let mut rest = self.random.below(sum);
        for (weight, (action, _)) in self.weights.iter().zip(ACTIONS) {
            if rest < *weight {
                return *action;
            }
            rest -= weight;
        }
        unreachable!("a number below the sum falls into one of the parts")
    }

    /// One thing happens, somewhere.
    pub fn act(&mut self) {
        let at = self.random.below(MEMBERS);
        match self.pick() {
            Action::Tick => self.members[at].raft.tick(),
            Action::Deliver => self.deliver_some(),
            Action::Work => self.work(at),
            Action::FinishAppend => self.finish_append(at),
            Action::FinishApply => self.finish_apply(at),
            Action::Propose => self.propose(at),
            Action::ProposeConfChange => self.propose_conf_change(at),
            Action::Read => self.read(at),
            Action::Crash => self.crash(at),
            Action::CutOrHeal => self.cut_or_heal(),
            Action::Compact => self.compact(at),
            Action::CommitMachine => self.commit_machine(at),
            Action::Transfer => {
                let to = 1 + self.random.below(MEMBERS) as u64;
                self.members[at].raft.transfer_leader(to);
                self.counts.transfers += u64::from(self.members[at].raft.soft_state().lead != 0);
            }
            Action::ForgetLeader => self.members[at].raft.forget_leader(),
            Action::Unreachable => {
                let id = 1 + self.random.below(MEMBERS) as u64;
                self.members[at].raft.report_unreachable(id);
            }
        }
        self.watch(at);
        if self.random.once_in(40) {
            let other = self.random.below(MEMBERS);
            Oracle::match_logs(&self.members[at].raft, &self.members[other].raft);
        }
    }

    fn watch(&mut self, at: usize) {
        let raft = &self.members[at].raft;
        if raft.soft_state().role == Role::Leader && self.oracle.leads(raft) {
            self.counts.leaders += 1;
        }
    }

    fn send(&mut self, messages: Vec<Message>) {
        for message in messages {
            if self.messages.len() >= MESSAGES_MAX {
                let lost = self.random.below(self.messages.len());
                let lost = self.messages.swap_remove(lost);
                self.snapshot_status(&lost, false);
            }
            self.messages.push(message);
        }
    }

    fn snapshot_status(&mut self, message: &Message, sent: bool) {
        if message.kind == MessageKind::Snap {
            let sender = &mut self.members[message.from as usize - 1].raft;
            sender.report_snapshot(message.to, sent);
        }
    }

    fn deliver_some(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let position = self.random.below(self.messages.len());
        let message = if self.random.once_in(12) {
            self.messages[position].clone()
        } else {
            self.messages.swap_remove(position)
        };
        let is_cut = self.cut.contains(&(message.from, message.to));
        let is_lost = is_cut || self.random.once_in(20);
        self.snapshot_status(&message, !is_lost);
        if !is_lost {
            self.deliver(message);
        }
    }

    fn deliver(&mut self, message: Message) {
        let at = message.to as usize - 1;
        match self.members[at].raft.step(message) {
            Ok(()) | Err(StepError::ProposalDropped | StepError::PeerNotFound) => {}
            Err(error) => panic!("member {} refuses: {error}", at + 1),
        }
        self.watch(at);
    }

    /// Takes what a member wants done.
    fn work(&mut self, at: usize) {
        if !self.members[at].raft.has_ready() {
            return;
        }
        let output = self.members[at].raft.ready();
        for state in &output.read_states {
            self.oracle.answers(state);
            self.counts.reads += 1;
        }
        let member = &mut self.members[at];
        if let Some(job) = output.append {
            self.oracle.writes(&job.entries);
            if let (Some(snapshot), Some(first)) = (&job.snapshot, job.entries.first()) {
                assert_eq!(first.index, snapshot.metadata.index + 1);
            }
            member.append.push_back(job);
        }
        if let Some(job) = output.apply {
            let waits =
                job.ends_with_conf_change() && member.raft.soft_state().role != Role::Leader;
            member.apply.push_back(job);
            // The rule of the interface: no vote is counted by a configuration that is over.
            while waits && !self.members[at].apply.is_empty() {
                self.finish_apply(at);
            }
        }
        let mut messages = output.messages;
        for message in &mut messages {
            if message.kind == MessageKind::Snap {
                self.freshen(at, message);
            }
        }
        self.send(messages);
        self.members[at].raft.take_journal();
    }

    /// As a member does: what is sent is the state of now, under a configuration that has the
    /// receiver, not the old snapshot that raft asked for.
    fn freshen(&mut self, at: usize, message: &mut Message) {
        let member = &self.members[at];
        let term = member.raft.term_at(member.machine.index).unwrap();
        let number = self.archive.len() as u64;
        self.archive.push(member.machine.clone());
        message.snapshot = Some(Box::new(snapshot_of(&member.machine, term, number)));
    }

    fn finish_append(&mut self, at: usize) {
        let id = at as u64 + 1;
        let member = &mut self.members[at];
        let Some(mut job) = member.append.pop_front() else {
            return;
        };
        member.write(&job);
        if let Some(snapshot) = &job.snapshot {
            member
                .raft
                .storage_mut()
                .apply_snapshot(snapshot.clone())
                .unwrap();
            member.install(&self.archive, snapshot);
            self.counts.snapshots += 1;
        }
        member.raft.storage_mut().append(&job.entries);
        let (others, own) = job.split_responses(id);
        member.raft.append_done(own);
        self.send(others);
    }

    fn finish_apply(&mut self, at: usize) {
        let member = &mut self.members[at];
        let Some(job) = member.apply.pop_front() else {
            return;
        };
        let term = member.raft.hard_state().term;
        for entry in &job.entries {
            // A snapshot may have overtaken the job.
            if entry.index <= member.machine.index {
                continue;
            }
            assert_eq!(
                entry.index,
                member.machine.index + 1,
                "an entry was left out"
            );
            self.oracle.applies(entry, term);
            member.machine.index = entry.index;
            let mut digest = member.machine.digest ^ entry.term.rotate_left(32);
            for byte in &entry.data {
                digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            member.machine.digest = digest;
            if entry.kind.is_conf_change() {
                // A change that cannot be made is refused by every member alike.
                if member
                    .raft
                    .apply_conf_change(entry.index, &read_change(entry))
                    .is_ok()
                {
                    self.counts.conf_changes += 1;
                }
                member.machine.conf_state = member.raft.membership().conf_state();
                self.counts.joint += u64::from(member.raft.membership().voters.is_joint());
            }
            self.counts.applied += 1;
        }
        member.raft.apply_done(job.done);
    }

    fn propose(&mut self, at: usize) {
        let count = 1 + self.random.below(3);
        let batch = (0..count).map(|_| {
            self.proposals += 1;
            Bytes::from(format!("proposal {}", self.proposals))
        });
        let batch = batch.collect();
        match self.members[at].raft.propose_batch(batch) {
            Ok(()) | Err(StepError::ProposalDropped) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn propose_conf_change(&mut self, at: usize) {
        let kinds = [
            ConfChangeKind::AddNode,
            ConfChangeKind::AddNode,
            ConfChangeKind::AddLearnerNode,
            ConfChangeKind::RemoveNode,
        ];
        let single = |random: &mut Random| ConfChangeSingle {
            kind: kinds[random.below(4)],
            node_id: 1 + random.below(MEMBERS) as u64,
        };
        let mut change = ConfChangeV2::default();
        let count = [0, 1, 1, 2, 3][self.random.below(5)];
        change.changes = (0..count).map(|_| single(&mut self.random)).collect();
        if count > 0 && self.random.once_in(4) {
            change.transition = ConfChangeTransition::JointExplicit;
        }
        let data = if count == 0 {
            Bytes::new()
        } else {
            encode(&change)
        };
        match self.members[at]
            .raft
            .propose_conf_change(EntryKind::ConfChangeV2, data)
        {
            Ok(()) | Err(StepError::ProposalDropped) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn read(&mut self, at: usize) {
        self.proposals += 1;
        let context = Bytes::copy_from_slice(&self.proposals.to_be_bytes());
        self.oracle.asks(context.clone());
        self.members[at].raft.read_index(context);
    }

    fn cut_or_heal(&mut self) {
        if !self.cut.is_empty() {
            self.cut.clear();
            return;
        }
        for from in 1..=MEMBERS as u64 {
            for to in 1..=MEMBERS as u64 {
                if self.random.once_in(3) {
                    self.cut.insert((from, to));
                }
            }
        }
    }

    fn commit_machine(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.durable_machine = member.machine.clone();
    }

    /// Makes a snapshot of the durable state and drops the log up to a while before it.
    fn compact(&mut self, at: usize) {
        let member = &mut self.members[at];
        let durable = &member.durable_machine;
        let index = durable.index;
        if index <= member.raft.storage().last_snapshot().metadata.index {
            return;
        }
        let number = self.archive.len() as u64;
        self.archive.push(durable.clone());
        let data = Bytes::copy_from_slice(&number.to_be_bytes());
        let drop_to = index - self.random.below(4).min((index - START) as usize) as u64;
        for storage in [member.raft.storage_mut(), &mut member.disk] {
            let state = durable.conf_state.clone();
            storage
                .create_snapshot(index, Some(state), data.clone())
                .unwrap();
            if drop_to >= storage.first_index() {
                storage.compact(drop_to).unwrap();
            }
        }
    }

    /// Some of what was being written is there afterwards, most of it is not.
    fn crash(&mut self, at: usize) {
        self.counts.crashes += 1;
        let survivors = self.random.below(3);
        let tears = self.random.once_in(2);
        let member = &mut self.members[at];
        for _ in 0..survivors {
            let Some(job) = member.append.pop_front() else {
                break;
            };
            member.write(&job);
            if let Some(snapshot) = &job.snapshot {
                member.install(&self.archive, snapshot);
            }
        }
        if let Some(job) = member.append.pop_front() {
            self.counts.lost_jobs += 1;
            if tears && !job.entries.is_empty() && job.snapshot.is_none() {
                let kept = self.random.below(job.entries.len());
                member.disk.append(&job.entries[..kept]);
                self.counts.torn_jobs += 1;
            }
        }
        let forget_commit = self.random.once_in(2);
        self.restart(at, forget_commit);
    }

    fn restart(&mut self, at: usize, forget_commit: bool) {
        let member = &mut self.members[at];
        member.append.clear();
        member.apply.clear();
        member.machine = member.durable_machine.clone();
        let mut state = member.disk.hard_state();
        if forget_commit && state.term == member.synced.term && state.vote == member.synced.vote {
            state.commit = member.synced.commit;
        }
        // The state machine is never ahead of what was committed.
        state.commit = state.commit.max(member.machine.index);
        member.disk.set_hard_state(state);
        let mut storage = member.disk.clone();
        // The configuration is that of the state machine, which may be ahead of the snapshot.
        storage.set_conf_state(member.machine.conf_state.clone());
        member.config.applied = member.machine.index;
        member.config.seed = self.random.next();
        member.raft = Raft::new(member.config.clone(), storage).unwrap();
    }

    /// Everything works again: there must be a leader, and one state.
    pub fn heal_and_agree(&mut self) {
        self.cut.clear();
        let floor = self.oracle.newest_applied();
        let mut proposed = None;
        let mut running: Vec<usize> = (0..MEMBERS).collect();
        for round in 0..4_000 {
            if round > 300 {
                self.stop_removed(&mut running);
            }
            if round % 4 == 0 {
                for at in running.iter().copied() {
                    self.members[at].raft.tick();
                    self.watch(at);
                }
            }
            for at in running.iter().copied() {
                self.work(at);
                while !self.members[at].append.is_empty() {
                    self.finish_append(at);
                }
                while !self.members[at].apply.is_empty() {
                    self.finish_apply(at);
                }
                self.watch(at);
            }
            for message in std::mem::take(&mut self.messages) {
                let is_heard = running.contains(&(message.to as usize - 1));
                self.snapshot_status(&message, is_heard);
                if is_heard {
                    self.deliver(message);
                }
            }
            let leader = running.iter().copied().find(|at| {
                let raft = &self.members[*at].raft;
                raft.soft_state().role == Role::Leader
                    && raft.status().progress.contains_key(&raft.id())
            });
            let Some(leader) = leader else {
                continue;
            };
            // What one leader has taken the next may have dropped.
            let raft = &mut self.members[leader].raft;
            let term = raft.hard_state().term;
            if round > 600 && proposed.is_none_or(|(in_term, _)| in_term != term) {
                let taken = raft.propose(Bytes::from_static(b"the last word"));
                proposed = taken.is_ok().then_some((term, raft.last_index()));
            }
            if proposed.is_some_and(|(_, last)| self.agree(leader, last)) {
                assert!(self.members[leader].machine.index >= floor);
                return;
            }
        }
        if !running.iter().any(|at| self.can_win(*at)) {
            self.counts.stuck += 1;
            return;
        }
        let states = self.members.iter().map(|member| {
            let status = member.raft.status();
            format!(
                "{status} {} {}",
                status.membership,
                member.raft.last_index()
            )
        });
        panic!(
            "no agreement among {running:?}: {}",
            states.collect::<Vec<_>>().join("\n")
        );
    }

    /// Whether a member could win an election by its own configuration. In etcd's algorithm a group
    /// can come to where nobody can: those who were removed or demoted have longer logs than those
    /// who do not know yet that they vote alone.
    fn can_win(&self, at: usize) -> bool {
        let end = |raft: &Raft<MemoryStorage>| {
            let index = raft.last_index();
            (raft.term_at(index).unwrap(), index)
        };
        let candidate = &self.members[at].raft;
        let status = candidate.status();
        let votes = |id: u64| Some(end(&self.members[id as usize - 1].raft) <= end(candidate));
        status.membership.voters.contains(candidate.id())
            && status.membership.voters.vote_result(votes) == VoteResult::Won
    }

    /// A member that was removed stops, once those who stay know it.
    fn stop_removed(&self, running: &mut Vec<usize>) {
        let newest = running
            .iter()
            .max_by_key(|at| self.members[**at].machine.index);
        let newest = &self.members[*newest.expect("someone stays")];
        let stays = |at: usize| newest.raft.progress().contains_key(&(at as u64 + 1));
        let knows = |at: usize| {
            let member = &self.members[at];
            let has_no_more = member.raft.last_index() == member.machine.index;
            has_no_more && member.machine.index == newest.machine.index
        };
        if running.iter().all(|at| knows(*at) || !stays(*at)) {
            running.retain(|at| stays(*at));
        }
    }

    fn agree(&self, leader: usize, last: u64) -> bool {
        let reference = &self.members[leader];
        if reference.machine.index < last {
            return false;
        }
        // Without pre-vote and check of the quorum nobody tells a leader that a learner's term, driven
        // up by some removed candidate, is above its own. Etcd's algorithm leaves it so.
        let is_deaf = |member: &Member| {
            let config = member.raft.config();
            let term = |member: &Member| member.raft.hard_state().term;
            let is_learner = member.raft.basic_status().is_learner;
            is_learner && term(member) > term(reference) && !config.pre_vote && !config.check_quorum
        };
        let mut members = reference
            .raft
            .progress()
            .keys()
            .map(|id| &self.members[*id as usize - 1]);
        members.all(|member| {
            let is_level = member.machine.index == reference.machine.index;
            if is_level {
                assert_eq!(member.machine, reference.machine);
            }
            is_level || is_deaf(member)
        })
    }
}
