//! A member's clock: how its own time runs beside the simulation's.
//!
//! It is the steady clock of a process: it begins at 0 when the member starts. It may run fast or
//! slow, and jump ahead, as a virtual machine's does that was suspended. A jump back shows as time
//! that stands still, since the member takes no time that is behind the one it has.

/// Parts per million of the simulation's time.
const MILLION: u64 = 1_000_000;

/// A member's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Speed, in parts per million of the simulation's.
    rate_ppm: u64,
    /// The simulation's time when it had `base_us`.
    since_us: u64,
    base_us: u64,
    /// The latest time that it has shown before it was last set.
    latest_us: u64,
}

impl Clock {
    /// A clock that stands at 0 now.
    pub fn new(now_us: u64, rate_ppm: u64) -> Clock {
        Clock {
            rate_ppm,
            since_us: now_us,
            base_us: 0,
            latest_us: 0,
        }
    }

    /// What it shows, in microseconds.
    pub fn micros(&self, now_us: u64) -> u64 {
        self.base_us + now_us.saturating_sub(self.since_us) * self.rate_ppm / MILLION
    }

    /// What it shows, in milliseconds.
    pub fn millis(&self, now_us: u64) -> u64 {
        self.micros(now_us) / 1000
    }

    /// The latest time that it has shown, in microseconds.
    pub fn latest_micros(&self, now_us: u64) -> u64 {
        self.latest_us.max(self.micros(now_us))
    }

    /// Sets it ahead, or back to what it showed a while ago.
    pub fn jump(&mut self, now_us: u64, by_us: i64) {
        self.latest_us = self.latest_micros(now_us);
        self.base_us = self.micros(now_us).saturating_add_signed(by_us);
        self.since_us = now_us;
    }

    /// Lets it run at another speed from now on.
    pub fn set_rate(&mut self, now_us: u64, rate_ppm: u64) {
        self.base_us = self.micros(now_us);
        self.since_us = now_us;
        self.rate_ppm = rate_ppm;
    }

    /// Time of the simulation that passes while the clock goes on by `micros`.
    pub fn real_micros(&self, micros: u64) -> u64 {
        micros * MILLION / self.rate_ppm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_drifts_and_jumps() {
        let mut clock = Clock::new(5_000_000, 1_100_000);
        assert_eq!(clock.millis(6_000_000), 1100);
        clock.jump(6_000_000, 900_000);
        assert_eq!(clock.millis(6_000_000), 2000);
        clock.set_rate(6_000_000, 500_000);
        assert_eq!(clock.millis(8_000_000), 3000);
        assert_eq!(clock.real_micros(100), 200);
        clock.jump(8_000_000, -1_000_000);
        assert_eq!(clock.millis(8_000_000), 2000);
        assert_eq!(clock.latest_micros(8_000_000), 3_000_000);
    }
}
