//! Processes come and go: starts, failures, deaths, power cuts.

use crate::cluster::{Cluster, Event, log_on, unexplained};
use crate::machine::Work;
use crate::network::Slot;
use crate::oracle::Violation;
use crate::oracle::log_matching::MemberLog;
use quorate_node::Error;
use quorate_node::disk::faulty::Stop;
use std::sync::Arc;

/// Pause before a process that found no space starts again, in microseconds.
const RESTART_US: u64 = 300_000;

impl Cluster {
    /// Lets the power go in one of the next calls to the disk, if that is to be.
    pub(crate) fn arm(&mut self, slot: Slot) {
        if self.machines[slot].cut_in_call {
            let call = match self.random.chance(500) {
                true => self.random.between(1, 4),
                false => self.random.between(1, 16),
            };
            let stop = *self.random.pick(&[Stop::Before, Stop::After]);
            let disk = &self.machines[slot].disk;
            disk.stop_at(disk.counts().calls + call, stop);
        }
    }

    /// The step made fewer calls: the power goes after it.
    pub(crate) fn disarm(&mut self, slot: Slot) -> Result<(), Error> {
        if !self.machines[slot].cut_in_call {
            return Ok(());
        }
        Err(Error::Io {
            action: "go on with",
            path: "/".into(),
            source: std::io::Error::other("the power went after the step"),
        })
    }

    /// A process ended with an error.
    pub(crate) fn failed(&mut self, slot: Slot, error: &Error) -> Result<(), Violation> {
        let now_us = self.now_us();
        self.trace
            .event(now_us, format_args!("{slot} fails: {error}"));
        let machine = &mut self.machines[slot];
        let power = machine.disk.stopped() || machine.cut_in_call;
        if !power && !machine.sync_fails {
            return Err(unexplained(slot, error));
        }
        machine.sync_fails = false;
        let down_us = self.random.between(1_000, 1_500_000);
        self.cut_power(slot, down_us);
        Ok(())
    }

    /// The process is gone; what its clients asked may or may not have happened.
    pub(crate) fn die(&mut self, slot: Slot) {
        let now_us = self.now_us();
        self.trace.event(now_us, format_args!("{slot} is gone"));
        // Databases on their way in: their senders see the connection break.
        let mut broken = Vec::new();
        let mut drop_work = |work: &Work| {
            if let Work::Receive { from, message, .. } = work {
                broken.push((*from, message.to));
            }
        };
        let machine = &mut self.machines[slot];
        machine.process = None;
        machine.deferred.drain(..).for_each(|work| drop_work(&work));
        machine.paused = false;
        machine.cut_in_call = false;
        self.counts.deaths += 1;
        // What was under way holds files open.
        self.schedule.retain(|event| {
            let Event::Work { slot: at, work, .. } = event else {
                return true;
            };
            if *at == slot {
                drop_work(work);
            }
            *at != slot
        });
        for (from, to) in broken {
            self.snapshot_sent(from, to, false);
        }
        self.connections_break(slot);
    }

    /// The machine loses its power, and what was not synced.
    pub(crate) fn cut_power(&mut self, slot: Slot, down_us: u64) {
        self.die(slot);
        let seed = self.random.next();
        let machine = &mut self.machines[slot];
        let full = machine.full;
        machine.disk = Arc::new(machine.disk.crash(seed));
        if full {
            let used = machine.disk.used_bytes();
            machine.disk.set_space(Some(used));
        }
        self.schedule.after(down_us, Event::Boot(slot));
    }

    /// A process starts on what the disk holds.
    pub(crate) fn boot(&mut self, slot: Slot) -> Result<(), Violation> {
        if self.machines[slot].process.is_some() || !self.machines[slot].added {
            return Ok(());
        }
        let found = log_on(slot, &*self.machines[slot].disk)?;
        let judged = self.durable[slot].restarts(found.as_ref());
        judged.map_err(|violation| Violation {
            what: format!("member {slot}: {}", violation.what),
            ..violation
        })?;
        let log = found.map_or_else(MemberLog::default, |found| found.member_log());
        self.logs.starts(slot, log)?;
        self.ledger.starts(slot);
        let now_us = self.now_us();
        let machine = &mut self.machines[slot];
        let started = machine.start(now_us, &self.scenario, &mut self.random);
        if let Err(error) = started {
            self.trace
                .event(now_us, format_args!("{slot} does not start: {error}"));
            if self.machines[slot].full {
                self.schedule.after(RESTART_US, Event::Boot(slot));
                return Ok(());
            }
            return Err(unexplained(slot, &error));
        }
        self.trace.event(now_us, format_args!("{slot} starts"));
        self.later(slot, 0, Work::Loop);
        self.machines[slot].running().loop_scheduled = true;
        let tick_us = crate::scenario::TICK_MS * 1000;
        let delay_us = self.random.below(tick_us);
        self.later(slot, delay_us, Work::Tick);
        Ok(())
    }
}
