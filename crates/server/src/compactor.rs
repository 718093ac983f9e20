//! Automatic compaction: which revision is to be compacted, and when.
//!
//! Periodic: revisions are noted ten times a period (ten times an hour where it is longer), and
//! what was newest a period ago is compacted once a period (once an hour where it is longer); the
//! first time when a whole period has passed. By revision: every five minutes all but the newest
//! so many. What failed is tried again when it is due next. A member that does not lead notes
//! revisions and compacts nothing. Source: etcd's v3compactor.
//!
//! Invariants: time is an input; at most one compaction is under way; a revision that was compacted
//! is not asked for again.

use std::collections::VecDeque;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// Notes of the revision that are taken in a period.
const NOTES_PER_PERIOD: u32 = 10;
/// Time between two compactions by revision.
const REVISION_INTERVAL: Duration = Duration::from_secs(300);
/// Shortest time between two looks, whatever the period is.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// How much history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// What is younger than this.
    Period(Duration),
    /// This many of the newest revisions.
    Revisions(i64),
}

impl Retention {
    /// Reads --auto-compaction-mode and --auto-compaction-retention; `None` is no compaction. A
    /// number is hours or revisions; anything else is a duration, which by revision is taken for as
    /// many revisions as it has nanoseconds, as etcd does.
    pub fn parse(mode: &str, retention: &str) -> Result<Option<Retention>, String> {
        let by_revision = match mode {
            "periodic" => false,
            "revision" => true,
            other => return Err(format!("unknown auto-compaction-mode {other:?}")),
        };
        let retention = if retention.is_empty() { "0" } else { retention };
        let whole = retention.parse::<i64>().ok().filter(|number| *number >= 0);
        let invalid = |what: &str| format!("error parsing CompactionRetention: {what}");
        let parsed = match whole {
            Some(0) => return Ok(None),
            Some(number) if by_revision => Retention::Revisions(number),
            Some(hours) => {
                let seconds = (hours as u64).checked_mul(3600);
                let seconds = seconds.ok_or_else(|| invalid("the period is too long"))?;
                Retention::Period(Duration::from_secs(seconds))
            }
            None => {
                let ns = crate::config::parse_duration_ns(retention).ok_or_else(|| {
                    let numeric = retention.parse::<f64>().is_ok();
                    let what = if numeric {
                        "missing unit in duration"
                    } else {
                        "invalid duration"
                    };
                    invalid(&format!("time: {what} {retention:?}"))
                })?;
                if ns == 0 {
                    return Ok(None);
                }
                if by_revision {
                    Retention::Revisions(i64::try_from(ns).unwrap_or(i64::MAX))
                } else {
                    Retention::Period(Duration::from_nanos(ns))
                }
            }
        };
        Ok(Some(parsed))
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Revisions before this one go.
    pub revision: i64,
}

/// Decides on compactions. Times are milliseconds on any clock that does not go back.
#[derive(Debug)]
pub struct Compactor {
    retention: Retention,
    /// Notes, oldest first. Periodic only.
    noted: VecDeque<i64>,
    /// Time that must have passed since the last success.
    interval: Duration,
    last_success_ms: u64,
    last_revision: i64,
    due_ms: u64,
    running: bool,
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Compactor {
    /// Begins at a time, with the newest revision there is then.
    pub fn new(retention: Retention, now_ms: u64, revision: i64) -> Compactor {
        let mut compactor = Compactor {
            retention,
            noted: VecDeque::new(),
            interval: match retention {
                // The first compaction waits for a whole period, however long it is.
                Retention::Period(period) => period,
                Retention::Revisions(_) => REVISION_INTERVAL,
            },
            last_success_ms: now_ms,
            last_revision: 0,
            due_ms: 0,
            running: false,
        };
        compactor.look_again(now_ms, revision);
        compactor
    }

    /// How much history it keeps.
    pub fn retention(&self) -> Retention {
        self.retention
    }

    /// Time between two looks, which is also how soon what failed is tried again.
    pub fn look_interval(&self) -> Duration {
        match self.retention {
            Retention::Period(period) => (period.min(HOUR) / NOTES_PER_PERIOD).max(SHORTEST_LOOK),
            Retention::Revisions(_) => REVISION_INTERVAL,
        }
    }

    /// Looks whether something is due. The compaction that it gives is under way until
    /// [`Compactor::finished`] is told.
    pub fn step(&mut self, now_ms: u64, revision: i64, leads: bool) -> Option<Compaction> {
        if self.running || now_ms < self.due_ms {
            return None;
        }
        let wanted = match self.retention {
            Retention::Period(_) => *self.noted.front().expect("one is noted before each look"),
            Retention::Revisions(kept) => revision.saturating_sub(kept),
        };
        let waited = self.retention.waits_by_look() || {
            Duration::from_millis(now_ms - self.last_success_ms) >= self.interval
        };
        let new = wanted != self.last_revision && wanted > 0;
        if !(leads && waited && new) {
            self.look_again(now_ms, revision);
            return None;
        }
        if let Retention::Period(period) = self.retention {
            self.interval = period.min(HOUR);
        }
        self.running = true;
        Some(Compaction { revision: wanted })
    }

    /// The compaction is over; it counts as done also where somebody else had done it.
    pub fn finished(&mut self, compaction: Compaction, done: bool, now_ms: u64, revision: i64) {
        assert!(self.running, "only what was begun ends");
        self.running = false;
        if done {
            self.last_revision = compaction.revision;
            self.last_success_ms = now_ms;
        }
        self.look_again(now_ms, revision);
    }

    fn look_again(&mut self, now_ms: u64, revision: i64) {
        let interval = self.look_interval();
        if let Retention::Period(period) = self.retention {
            let most = period.as_nanos() / interval.as_nanos() + 1;
            self.noted.push_back(revision);
            while self.noted.len() as u128 > most {
                self.noted.pop_front();
            }
        }
        self.due_ms = now_ms.saturating_add(ms(interval));
    }
}

impl Retention {
    /// Whether each look is a compaction's time.
    fn waits_by_look(self) -> bool {
        matches!(self, Retention::Revisions(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    /// Runs with a revision a minute; gives the minutes at which something was compacted, and what.
    fn run(retention: &str, minutes: u64, leads: impl Fn(u64) -> bool) -> Vec<(u64, i64)> {
        let retention = Retention::parse("periodic", retention).unwrap().unwrap();
        let mut compactor = Compactor::new(retention, 0, 1);
        let mut found = Vec::new();
        for minute in 1..=minutes {
            let revision = minute as i64 + 1;
            let now_ms = minute * MINUTE;
            if let Some(compaction) = compactor.step(now_ms, revision, leads(minute)) {
                found.push((minute, compaction.revision));
                compactor.finished(compaction, true, now_ms, revision);
            }
        }
        found
    }

    #[test]
    fn an_hour_is_kept_and_compacted_by_the_hour() {
        // Noted each six minutes; the oldest of eleven notes is a note's time older than the hour.
        assert_eq!(run("1", 180, |_| true), [(60, 1), (120, 55), (180, 115)]);
        assert_eq!(run("60m", 60, |_| true), [(60, 1)]);
    }

    #[test]
    fn a_long_period_is_compacted_by_the_hour_after_its_first() {
        assert_eq!(run("3h", 300, |_| true), [(180, 1), (240, 55), (300, 115)]);
    }

    #[test]
    fn a_short_period_is_compacted_once_a_period() {
        assert_eq!(run("10m", 30, |_| true), [(10, 1), (20, 10), (30, 20)]);
    }

    #[test]
    fn who_does_not_lead_notes_and_waits() {
        assert_eq!(run("10m", 32, |minute| minute > 30), [(31, 21)]);
    }

    #[test]
    fn the_same_revision_is_compacted_once() {
        let period = Retention::Period(Duration::from_secs(60));
        let mut compactor = Compactor::new(period, 0, 5);
        let mut times = 0;
        for second in 1..=600 {
            if let Some(compaction) = compactor.step(second * 1000, 5, true) {
                assert_eq!(compaction.revision, 5);
                times += 1;
                compactor.finished(compaction, true, second * 1000, 5);
            }
        }
        assert_eq!(times, 1);
    }

    #[test]
    fn what_failed_is_tried_again_a_tenth_of_the_period_later() {
        let period = Retention::Period(Duration::from_secs(600));
        let mut compactor = Compactor::new(period, 0, 1);
        let mut tried = Vec::new();
        for second in 1..=900 {
            let now_ms = second * 1000;
            if let Some(compaction) = compactor.step(now_ms, second as i64, true) {
                assert!(compactor.step(now_ms, 7, true).is_none(), "one at a time");
                tried.push(second);
                compactor.finished(compaction, false, now_ms, second as i64);
            }
        }
        assert_eq!(tried, [600, 660, 720, 780, 840, 900]);
    }

    #[test]
    fn by_revision_the_newest_are_kept() {
        let retention = Retention::parse("revision", "100").unwrap().unwrap();
        let mut compactor = Compactor::new(retention, 0, 1);
        assert_eq!(compactor.step(5 * MINUTE - 1, 500, true), None);
        let first = compactor.step(5 * MINUTE, 500, true).unwrap();
        assert_eq!(first.revision, 400);
        compactor.finished(first, true, 5 * MINUTE, 500);
        assert_eq!(compactor.step(10 * MINUTE, 500, true), None, "nothing new");
        assert_eq!(compactor.step(15 * MINUTE, 50, true), None, "too few yet");
        assert_eq!(
            compactor.step(20 * MINUTE, 501, true).unwrap().revision,
            401
        );
    }

    #[test]
    fn flags_are_read_as_etcd_reads_them() {
        let parse = Retention::parse;
        let period = |seconds| Ok(Some(Retention::Period(Duration::from_secs(seconds))));
        assert_eq!(parse("periodic", "2"), period(7200));
        assert_eq!(parse("periodic", "90m"), period(5400));
        assert_eq!(parse("periodic", "0"), Ok(None));
        assert_eq!(parse("periodic", ""), Ok(None));
        assert_eq!(parse("revision", "0"), Ok(None));
        assert_eq!(
            parse("revision", "1000"),
            Ok(Some(Retention::Revisions(1000)))
        );
        assert_eq!(
            parse("revision", "1us"),
            Ok(Some(Retention::Revisions(1000)))
        );
        assert_eq!(
            parse("periodic", "-1").unwrap_err(),
            "error parsing CompactionRetention: time: missing unit in duration \"-1\""
        );
        assert_eq!(
            parse("periodic", "foo").unwrap_err(),
            "error parsing CompactionRetention: time: invalid duration \"foo\""
        );
        assert_eq!(
            parse("hourly", "1").unwrap_err(),
            "unknown auto-compaction-mode \"hourly\""
        );
    }
}
