//! What goes wrong, and how it is well again.

use crate::cluster::{Cluster, Event};
use crate::machine::{Input, Work};
use crate::network::{Slot, Weather};
use crate::scenario::Trouble;

/// The end of some trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// A process goes on.
    Resume(Slot),
    /// Everything is connected.
    Heal,
    /// The network is fair.
    FairWeather,
    /// A disk is as fast as before.
    FastDisk(Slot),
    /// A disk has space.
    Space(Slot),
    /// A clock runs as it should.
    TrueClock(Slot),
    /// A process that was stopped has ended; it starts again.
    Stopped(Slot),
}

impl Cluster {
    /// Something goes wrong, and will again.
    pub(crate) fn trouble(&mut self, trouble: Trouble) {
        if self.calm {
            return;
        }
        let mean_us = self.scenario.troubles.iter();
        let mean_us = mean_us.clone().find(|(kind, _)| *kind == trouble);
        if let Some((_, mean_us)) = mean_us {
            let delay_us = self.random.around(*mean_us);
            self.schedule.after(delay_us, Event::Trouble(trouble));
        }
        let now_us = self.now_us();
        let slot = self.victim();
        self.trace
            .event(now_us, format_args!("trouble: {trouble:?} {slot}"));
        let runs = self.machines[slot].process.is_some();
        match trouble {
            Trouble::Kill => {
                if runs {
                    self.die(slot);
                    let down_us = self.downtime();
                    self.schedule.after(down_us, Event::Boot(slot));
                }
            }
            Trouble::PowerCut => {
                if runs {
                    let down_us = self.downtime();
                    self.cut_power(slot, down_us);
                }
            }
            Trouble::CutInCall => self.machines[slot].cut_in_call = runs,
            Trouble::Blackout => {
                for slot in 0..self.machines.len() {
                    if self.machines[slot].process.is_some() {
                        let down_us = self.downtime();
                        self.cut_power(slot, down_us);
                    }
                }
            }
            Trouble::Pause => {
                if runs && !self.machines[slot].paused {
                    self.machines[slot].paused = true;
                    let for_us = self.random.around(2_500_000);
                    self.relief_after(for_us, Relief::Resume(slot));
                }
            }
            Trouble::Isolate => {
                for other in 0..self.machines.len() {
                    if other != slot {
                        self.network.cut(slot, other);
                        self.network.cut(other, slot);
                    }
                }
                self.heal_later();
            }
            Trouble::Split => {
                let sides: Vec<bool> = self
                    .machines
                    .iter()
                    .map(|_| self.random.chance(500))
                    .collect();
                for from in 0..sides.len() {
                    for to in 0..sides.len() {
                        if sides[from] != sides[to] {
                            self.network.cut(from, to);
                        }
                    }
                }
                self.heal_later();
            }
            Trouble::OneWay => {
                for from in 0..self.machines.len() {
                    for to in 0..self.machines.len() {
                        if from != to && self.random.chance(300) {
                            self.network.cut(from, to);
                        }
                    }
                }
                self.heal_later();
            }
            Trouble::Storm => {
                self.network.weather = self.scenario.storm.clone();
                let for_us = self.random.around(2_000_000);
                self.relief_after(for_us, Relief::FairWeather);
            }
            Trouble::SlowDisk => {
                self.machines[slot].disk_factor = *self.random.pick(&[10, 50, 300]);
                let for_us = self.random.around(1_500_000);
                self.relief_after(for_us, Relief::FastDisk(slot));
            }
            Trouble::FullDisk => {
                let room = self.random.below(20) * 4096;
                let machine = &mut self.machines[slot];
                machine.full = true;
                let used = machine.disk.used_bytes();
                machine.disk.set_space(Some(used + room));
                let for_us = self.random.around(1_500_000);
                self.relief_after(for_us, Relief::Space(slot));
            }
            Trouble::FailedSync => {
                if runs {
                    let nth = self.random.between(1, 4);
                    self.machines[slot].sync_fails = true;
                    self.machines[slot].disk.fail_sync(nth);
                }
            }
            Trouble::ClockJump => {
                let by_us = self.random.below(6_000_000) as i64 - 1_500_000;
                let clock = &mut self.machines[slot].clock;
                let before_ms = clock.millis(now_us);
                clock.jump(now_us, by_us);
                let after_ms = clock.millis(now_us);
                self.trace.event(
                    now_us,
                    format_args!("clock of {slot} goes from {before_ms} to {after_ms} ms"),
                );
            }
            Trouble::Defragment => {
                if runs {
                    self.later(slot, 0, Work::Input(Input::Defragment));
                }
            }
            Trouble::Members => {
                if runs {
                    self.change_members(slot);
                }
            }
            Trouble::Transfer => {
                if runs {
                    let to = self.random.below(self.machines.len() as u64) as Slot;
                    let to = self.machines[to].id;
                    self.counts.transfers += u64::from(self.machines[slot].running().led.is_some());
                    self.later(slot, 0, Work::Input(Input::Transfer(to)));
                }
            }
            Trouble::Stop => {
                if runs {
                    self.later(slot, 0, Work::Input(Input::Stop));
                    let for_us = self.random.around(200_000);
                    self.relief_after(for_us, Relief::Stopped(slot));
                }
            }
            Trouble::ClockDrift => {
                let rate_ppm = self.random.between(700_000, 1_400_000);
                let machine = &mut self.machines[slot];
                machine.rate_ppm = rate_ppm;
                machine.clock.set_rate(now_us, rate_ppm);
                let for_us = self.random.around(3_000_000);
                self.relief_after(for_us, Relief::TrueClock(slot));
            }
        }
    }

    /// Whom it hits: a leader rather than others.
    fn victim(&mut self) -> Slot {
        let leads = |slot: &Slot| {
            let process = self.machines[*slot].process.as_ref();
            process.is_some_and(|process| process.led.is_some())
        };
        let leaders: Vec<Slot> = (0..self.machines.len()).filter(leads).collect();
        match leaders.is_empty() || self.random.chance(600) {
            true => self.random.below(self.machines.len() as u64) as Slot,
            false => *self.random.pick(&leaders),
        }
    }

    fn downtime(&mut self) -> u64 {
        match self.random.chance(400) {
            true => self.random.between(500, 60_000),
            false => self.random.around(1_000_000),
        }
    }

    fn heal_later(&mut self) {
        let for_us = self.random.around(1_500_000);
        self.relief_after(for_us, Relief::Heal);
    }

    fn relief_after(&mut self, for_us: u64, relief: Relief) {
        self.schedule.after(for_us, Event::Relief(relief));
    }

    /// Something is well again.
    pub(crate) fn relieve(&mut self, relief: Relief) {
        let now_us = self.now_us();
        self.trace.event(now_us, format_args!("relief: {relief:?}"));
        match relief {
            Relief::Resume(slot) => {
                let machine = &mut self.machines[slot];
                machine.paused = false;
                let deferred: Vec<Work> = std::mem::take(&mut machine.deferred);
                for work in deferred {
                    let delay_us = self.random.below(200);
                    self.later(slot, delay_us, work);
                }
            }
            Relief::Stopped(slot) => {
                if self.machines[slot].process.is_some() {
                    self.die(slot);
                    let down_us = self.downtime();
                    self.schedule.after(down_us, Event::Boot(slot));
                }
            }
            Relief::Heal => self.network.heal(),
            Relief::FairWeather => self.network.weather = Weather::fair(),
            Relief::FastDisk(slot) => self.machines[slot].disk_factor = 1,
            Relief::Space(slot) => {
                let machine = &mut self.machines[slot];
                machine.full = false;
                machine.disk.set_space(None);
            }
            Relief::TrueClock(slot) => {
                let machine = &mut self.machines[slot];
                machine.rate_ppm = 1_000_000;
                machine.clock.set_rate(now_us, 1_000_000);
            }
        }
    }

    /// Ends all trouble.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.relieve(Relief::Heal);
        self.relieve(Relief::FairWeather);
        for slot in 0..self.machines.len() {
            self.machines[slot].cut_in_call = false;
            self.machines[slot].sync_fails = false;
            // No sync comes to this number.
            self.machines[slot].disk.fail_sync(u64::MAX);
            for relief in [
                Relief::Resume(slot),
                Relief::FastDisk(slot),
                Relief::Space(slot),
                Relief::TrueClock(slot),
            ] {
                self.relieve(relief);
            }
            if self.machines[slot].process.is_none() {
                self.schedule.after(0, Event::Boot(slot));
            }
        }
    }
}
