//! Steps of a machine's process: the loop, and the stages beside it.

use crate::cluster::Cluster;
use crate::history::Outcome;
use crate::machine::{CommitJob, Input, Token, Work};
use crate::network::Slot;
use crate::oracle::Violation;
use crate::sabotage::{self, Sabotage};
use crate::wire;
use quorate_node::raft::{EntryKind, MessageKind};
use quorate_node::store::watch::catch_up;
use quorate_node::{CommitStage, Effects, Error, LogDone, LogJob, Note, Proposal, Reply};

/// Pause before a write that found no space is tried again, in microseconds.
const FULL_RETRY_US: u64 = 300_000;
/// Messages and requests that wait for a stopped process at most; more are dropped.
const DEFERRED_MAX: usize = 2_000;

impl Cluster {
    /// Does a step, if its process is still there.
    pub(crate) fn work(&mut self, slot: Slot, life: u64, work: Work) -> Result<(), Violation> {
        let machine = &mut self.machines[slot];
        if machine.life != life || machine.process.is_none() {
            return Ok(());
        }
        if machine.paused {
            if machine.deferred.len() < DEFERRED_MAX || !matches!(work, Work::Input(_)) {
                machine.deferred.push(work);
            }
            return Ok(());
        }
        let now_us = self.now_us();
        self.trace
            .event(now_us, format_args!("{slot} {}", work.name()));
        let outcome = match work {
            Work::Loop => {
                self.machines[slot].running().loop_scheduled = false;
                return self.run_loop(slot);
            }
            Work::Tick => {
                self.machines[slot].running().tick_due = true;
                self.wake(slot);
                Ok(())
            }
            Work::Input(input) => {
                self.take_input(slot, input);
                Ok(())
            }
            Work::Log => self.run_log(slot),
            Work::Commit => self.run_commit(slot),
            Work::CatchUp(step) => {
                let bounds = self.machines[slot].running().member.hub().bounds();
                let found = catch_up::run(&step, bounds);
                found.map_err(Error::from).map(|found| {
                    self.take_input(slot, Input::Found(found));
                })
            }
            Work::Compact(mut step) => {
                let batch = step.planner.step(&step.view, step.rows);
                batch.map_err(Error::from).map(|batch| {
                    let planned = Box::new((step.planner, batch));
                    self.take_input(slot, Input::Planned(planned));
                })
            }
            Work::SendSnapshot(snapshot) => {
                self.send_snapshot(slot, *snapshot);
                Ok(())
            }
            Work::Receive {
                from,
                message,
                database,
            } => {
                let to = message.to;
                let received = self.receive_snapshot(slot, from, message, &database);
                if received.is_err() {
                    // The process ends, and the connection with it.
                    self.snapshot_sent(from, to, false);
                }
                received
            }
            Work::OpenReceived(message) => self.open_received(slot, message),
            Work::Serve(operation) => {
                self.serve(slot, operation);
                Ok(())
            }
            Work::KeepAlive(keeper, attempt) => {
                self.serve_keep_alive(slot, keeper, attempt);
                Ok(())
            }
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.failed(slot, &error),
        }
    }

    /// Lets the loop run soon.
    pub(crate) fn wake(&mut self, slot: Slot) {
        let process = self.machines[slot].running();
        if !std::mem::replace(&mut process.loop_scheduled, true) {
            let delay_us = self.random.around(self.scenario.loop_us);
            self.later(slot, delay_us, Work::Loop);
        }
    }

    pub(crate) fn take_input(&mut self, slot: Slot, input: Input) {
        let process = self.machines[slot].running();
        match &input {
            Input::LogDone(done) => {
                process.log_busy = false;
                let full = done.iter().any(|done| matches!(done, LogDone::Full(_)));
                let more = !process.log_jobs.is_empty();
                if full {
                    self.start_log(slot, FULL_RETRY_US);
                } else if more {
                    self.start_log(slot, 0);
                }
            }
            Input::CommitDone(_) | Input::Vacuumed(_) | Input::DatabaseReplaced => {
                process.commit_busy = false;
                self.start_commit(slot);
            }
            _ => {}
        }
        self.machines[slot].running().inputs.push(input);
        self.wake(slot);
    }

    /// The loop: inputs, a tick that is due, and what follows from them.
    fn run_loop(&mut self, slot: Slot) -> Result<(), Violation> {
        let now_us = self.now_us();
        let machine = &mut self.machines[slot];
        let now_ms = machine.clock.millis(now_us);
        let process = machine.running();
        process.member.set_now(now_ms);
        let mut outcome = Ok(());
        let mut proposals: Vec<Proposal<Token>> = Vec::new();
        let mut calls = Vec::new();
        for input in std::mem::take(&mut process.inputs) {
            if let Input::Propose(proposal) = input {
                proposals.push(proposal);
                continue;
            }
            if !proposals.is_empty() {
                process.member.propose(std::mem::take(&mut proposals));
            }
            let member = &mut process.member;
            outcome = match input {
                Input::Propose(_) => unreachable!("it was taken above"),
                Input::Message(message) => member.step(message),
                Input::Snapshot(snapshot) => {
                    let (message, received) = *snapshot;
                    member.step_snapshot(message, received)
                }
                Input::SnapshotSent(to, sent) => {
                    member.report_snapshot(to, sent);
                    Ok(())
                }
                Input::Unreachable(id) => {
                    member.report_unreachable(id);
                    Ok(())
                }
                Input::DatabaseReplaced => {
                    member.database_replaced();
                    Ok(())
                }
                Input::Change(change) => {
                    member.change_membership(&change, Token::Operator);
                    Ok(())
                }
                Input::Transfer(to) => {
                    member.transfer_leader(to, Token::Operator);
                    Ok(())
                }
                Input::Stop => {
                    member.hand_over(Token::Operator);
                    member.commit_now(Token::Operator);
                    Ok(())
                }
                Input::Read(token) => {
                    member.read_index(token);
                    Ok(())
                }
                Input::LogDone(done) => done.into_iter().try_for_each(|done| member.log_done(done)),
                Input::CommitDone(committed) => {
                    member.commit_done(committed);
                    Ok(())
                }
                Input::Vacuumed(step) => {
                    member.vacuumed(step);
                    Ok(())
                }
                Input::Defragment => {
                    member.defragment(Token::Operator);
                    Ok(())
                }
                Input::Found(found) => member.watch_found(found),
                Input::Planned(planned) => {
                    let (planner, batch) = *planned;
                    member.compaction_planned(planner, batch);
                    Ok(())
                }
                Input::Watch(call) => {
                    calls.push(call);
                    Ok(())
                }
            };
            if outcome.is_err() {
                break;
            }
        }
        if !proposals.is_empty() {
            process.member.propose(proposals);
        }
        for call in calls {
            self.serve_watch(slot, call);
        }
        if std::mem::take(&mut self.machines[slot].running().tick_due) {
            self.tell_connections(slot);
            self.machines[slot].running().member.tick();
            let tick_us = crate::scenario::TICK_MS * 1000;
            let delay_us = self.machines[slot].clock.real_micros(tick_us);
            self.later(slot, delay_us, Work::Tick);
        }
        let member = &mut self.machines[slot].running().member;
        match outcome.and_then(|()| member.advance()) {
            Ok(effects) => self.take_effects(slot, effects),
            Err(error) => self.failed(slot, &error),
        }
    }

    /// Hands out what is to be done, as the server's loop does: the log first, then what readers see,
    /// then the replies.
    fn take_effects(&mut self, slot: Slot, effects: Effects<Token>) -> Result<(), Violation> {
        self.observe(slot, &effects)?;
        let now_us = self.now_us();
        if let Some(db) = effects.replaced_db {
            let process = self.machines[slot].running();
            let index = process.member.view().applied_index;
            process.commit_jobs.push_back(CommitJob::Replace(db, index));
            self.start_commit(slot);
        }
        let mut jobs = effects.log;
        if self.sabotage == Some(Sabotage::LostVote) {
            jobs.iter_mut().for_each(sabotage::lose_vote);
        }
        if !jobs.is_empty() {
            let process = self.machines[slot].running();
            process.log_jobs.extend(jobs);
            if !process.log_busy {
                self.start_log(slot, 0);
            }
        }
        self.machines[slot].running().member.tell_revoked();
        for note in &effects.notes {
            self.hear_of_members(note);
            match note {
                Note::Raft(line) => self
                    .trace
                    .event(now_us, format_args!("{slot} {} {}", line.level, line.text)),
                other => self.trace.event(now_us, format_args!("{slot} {other:?}")),
            }
        }
        for (token, reply) in effects.replies {
            self.reply(slot, token, reply);
        }
        if let Some(mut frozen) = effects.commit {
            let process = self.machines[slot].running();
            if self.sabotage == Some(Sabotage::StaleIndex) {
                let before = std::mem::replace(&mut process.committed_index, frozen.index);
                sabotage::make_stale(&mut frozen, before);
            }
            process.commit_jobs.push_back(CommitJob::Commit(frozen));
            self.start_commit(slot);
        }
        if effects.vacuum {
            let process = self.machines[slot].running();
            process.commit_jobs.push_back(CommitJob::Vacuum);
            self.start_commit(slot);
        }
        for snapshot in effects.snapshots {
            let delay_us = self.random.around(5_000);
            self.later(slot, delay_us, Work::SendSnapshot(Box::new(snapshot)));
        }
        for step in effects.watch_steps {
            let delay_us = self.random.around(1_000);
            self.later(slot, delay_us, Work::CatchUp(step));
        }
        if let Some(step) = effects.compaction {
            let delay_us = self.random.around(2_000);
            self.later(slot, delay_us, Work::Compact(Box::new(step)));
        }
        let mut voted = false;
        for message in effects.messages {
            voted |= message.kind == MessageKind::VoteResp && !message.reject;
            self.send(slot, message);
        }
        let due_ms = self.machines[slot].running().member.next_due_ms();
        if let Some(due_ms) = due_ms {
            let clock = self.machines[slot].clock.clone();
            let wait_us = (due_ms * 1000).saturating_sub(clock.micros(now_us));
            // Later ones are looked at with the next tick.
            if wait_us < crate::scenario::TICK_MS * 1000
                && !self.machines[slot].running().loop_scheduled
            {
                let delay_us = clock.real_micros(wait_us) + 1_000;
                self.machines[slot].running().loop_scheduled = true;
                self.later(slot, delay_us, Work::Loop);
            }
        }
        let adopts = effects
            .notes
            .iter()
            .any(|note| matches!(note, Note::Adopted { .. }));
        let chance = match (voted, adopts) {
            _ if self.calm => 0,
            (true, _) => self.scenario.cut_after_vote,
            (_, true) => self.scenario.cut_at_snapshot,
            (false, false) => 0,
        };
        if self.random.chance(chance) {
            let down_us = self.random.between(200, 20_000);
            self.cut_power(slot, down_us);
        }
        Ok(())
    }

    /// Shows the oracles what a member is about to do, and where it stands.
    fn observe(&mut self, slot: Slot, effects: &Effects<Token>) -> Result<(), Violation> {
        let now_us = self.now_us();
        let reading = self.machines[slot].reading(now_us);
        for message in &effects.messages {
            if message.kind == MessageKind::Prop {
                for entry in &message.entries {
                    self.see_revocation(slot, entry.kind, &entry.data, reading);
                }
            }
        }
        for job in &effects.log {
            if let LogJob::Append(append) = job {
                if let Some(snapshot) = &append.snapshot {
                    let at = &snapshot.metadata;
                    self.logs.installs(slot, at.index, at.term);
                }
                self.logs.appends(slot, &append.entries)?;
                for entry in &append.entries {
                    self.see_revocation(slot, entry.kind, &entry.data, reading);
                }
            }
        }
        let machine = &mut self.machines[slot];
        let id = machine.id;
        let process = machine.running();
        let status = process.member.status();
        let leads = (status.leader == id).then_some(status.term);
        if leads != process.led {
            process.led = leads;
            if let Some(term) = leads
                && self.election.leads(slot, term)?
            {
                self.trace
                    .event(now_us, format_args!("{slot} leads term {term}"));
                self.ledger.leads(slot, term, self.logs.of(slot))?;
            }
        }
        self.ledger
            .commits(slot, status.committed, status.term, self.logs.of(slot))?;
        self.read_ledger()
    }

    /// Takes note of a proposal to revoke a lease that is due.
    fn see_revocation(
        &mut self,
        slot: Slot,
        kind: EntryKind,
        data: &bytes::Bytes,
        reading: crate::oracle::lease::Reading,
    ) {
        if kind != EntryKind::Normal || data.is_empty() {
            return;
        }
        if let (id, Some(crate::model::Request::Revoke(lease))) = wire::decode(data) {
            let now_us = self.now_us();
            self.leases.proposed(id, lease, slot, reading, now_us);
        }
    }

    fn start_log(&mut self, slot: Slot, delay_us: u64) {
        self.machines[slot].running().log_busy = true;
        let delay_us = delay_us + self.random.below(20);
        self.later(slot, delay_us, Work::Log);
    }

    fn run_log(&mut self, slot: Slot) -> Result<(), Error> {
        let stores_snapshot = |job: &LogJob| match job {
            LogJob::Append(append) => append.snapshot.is_some(),
            _ => false,
        };
        let jobs = &self.machines[slot].running().log_jobs;
        if jobs.iter().any(stores_snapshot)
            && !self.calm
            && self.random.chance(self.scenario.cut_at_snapshot)
        {
            self.machines[slot].cut_in_call = true;
        }
        self.arm(slot);
        let process = self.machines[slot].running();
        for job in process.log_jobs.drain(..) {
            if let LogJob::Append(append) = &job {
                self.durable[slot].begins(append);
            }
            process.log.push(job);
        }
        let done = process.log.step()?;
        for done in &done {
            if let LogDone::Append(_) = done {
                self.durable[slot].ends();
            }
        }
        if !process.log.has_waiting() {
            process.log.idle()?;
        }
        self.disarm(slot)?;
        let delay_us = self.random.around(self.scenario.append_us);
        let delay_us = delay_us * self.machines[slot].disk_factor;
        self.later(slot, delay_us, Work::Input(Input::LogDone(done)));
        Ok(())
    }

    fn start_commit(&mut self, slot: Slot) {
        let process = self.machines[slot].running();
        if !process.commit_busy && !process.commit_jobs.is_empty() {
            process.commit_busy = true;
            self.later(slot, 0, Work::Commit);
        }
    }

    /// The commit stage does the oldest of its jobs.
    fn run_commit(&mut self, slot: Slot) -> Result<(), Error> {
        self.arm(slot);
        let process = self.machines[slot].running();
        let input = match process.commit_jobs.pop_front() {
            Some(CommitJob::Commit(frozen)) => match process.commit.commit(&frozen)? {
                Some(committed) => Some(Input::CommitDone(committed)),
                None => {
                    process.commit_jobs.push_front(CommitJob::Commit(frozen));
                    None
                }
            },
            Some(CommitJob::Vacuum) => Some(Input::Vacuumed(process.commit.vacuum()?)),
            Some(CommitJob::Replace(db, index)) => {
                process.commit = CommitStage::new(db, index);
                process.committed_index = index;
                Some(Input::DatabaseReplaced)
            }
            None => unreachable!("it is started for a job"),
        };
        self.disarm(slot)?;
        let delay_us = self.random.around(self.scenario.commit_us);
        let delay_us = delay_us * self.machines[slot].disk_factor;
        match input {
            Some(input) => self.later(slot, delay_us, Work::Input(input)),
            None => self.later(slot, FULL_RETRY_US, Work::Commit),
        }
        Ok(())
    }

    /// A member answers.
    fn reply(&mut self, slot: Slot, token: Token, reply: Reply) {
        match token {
            Token::Operation(operation) => {
                let outcome = match reply {
                    Reply::Outcome(outcome) => Outcome::Written(wire::answer_from(outcome)),
                    Reply::Ready => self.read(slot, operation),
                    Reply::Failed(error) => match error {
                        quorate_node::api::Error::RequestTooManyRequests
                        | quorate_node::api::Error::NoSpace => Outcome::Refused,
                        _ => Outcome::Unknown,
                    },
                };
                self.answer(operation, outcome);
            }
            Token::Operator => {}
            Token::KeepAlive(keeper, attempt) => self.keep_alive(slot, keeper, attempt, &reply),
        }
    }
}
