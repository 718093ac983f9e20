//! Keep-alive, in both directions: how often a client may ping, and when the server does.
//!
//! A client that pings more often than it may gets a strike for each such ping; what the server
//! sends on a stream wipes them out; with the third it is told to go away. Source: grpc-go's
//! server transport, with etcd's settings.

use std::time::{Duration, Instant};

/// Strikes that are forgiven.
const STRIKES_MAX: u32 = 2;

/// How often a client may ping that has no stream open.
const IDLE_PING_INTERVAL: Duration = Duration::from_secs(2 * 60 * 60);

/// When to ping, and when to take a silent peer for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Least time between a client's pings while it has streams (`--grpc-keepalive-min-time`).
    pub min_time: Duration,
    /// Silence after which the server pings (`--grpc-keepalive-interval`).
    pub interval: Duration,
    /// Silence after such a ping that ends the connection (`--grpc-keepalive-timeout`).
    pub timeout: Duration,
}

impl Default for Keepalive {
    fn default() -> Keepalive {
        Keepalive {
            min_time: Duration::from_secs(5),
            interval: Duration::from_secs(2 * 60 * 60),
            timeout: Duration::from_secs(20),
        }
    }
}

/// What to make of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    TooMany,
}

/// Counts a client's pings.
#[derive(Debug)]
pub(super) struct PingPolicy {
    min_time: Duration,
    last: Option<Instant>,
    strikes: u32,
    /// Something was sent on a stream since the last ping.
    forgiven: bool,
}

impl PingPolicy {
    pub fn new(min_time: Duration) -> PingPolicy {
        PingPolicy {
            min_time,
            last: None,
            strikes: 0,
            forgiven: false,
        }
    }

    /// Something was sent on a stream.
    pub fn answered(&mut self) {
        self.forgiven = true;
    }

    /// A ping came.
    pub fn ping(&mut self, now: Instant, active_streams: usize) -> Verdict {
        let last = self.last.replace(now);
        if std::mem::take(&mut self.forgiven) {
            self.strikes = 0;
            return Verdict::Fine;
        }
        let least = if active_streams == 0 {
            IDLE_PING_INTERVAL
        } else {
            self.min_time
        };
        if last.is_some_and(|last| now < last + least) {
            self.strikes += 1;
        }
        if self.strikes > STRIKES_MAX {
            Verdict::TooMany
        } else {
            Verdict::Fine
        }
    }
}

/// What the silence of a peer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing until then.
    Until(Instant),
    /// A ping, and to look again then.
    Ping(Instant),
    /// The end.
    Dead,
}

/// Watches over a peer's silence.
#[derive(Debug)]
pub(super) struct SilenceWatch {
    interval: Duration,
    timeout: Duration,
    pinged: Option<Instant>,
}

impl SilenceWatch {
    pub fn new(keepalive: &Keepalive) -> SilenceWatch {
        SilenceWatch {
            interval: keepalive.interval,
            timeout: keepalive.timeout,
            pinged: None,
        }
    }

    pub fn look(&mut self, now: Instant, last_read: Instant) -> Silence {
        match self.pinged {
            Some(pinged) if last_read <= pinged => {
                let dead = pinged + self.timeout;
                return if now >= dead {
                    Silence::Dead
                } else {
                    Silence::Until(dead)
                };
            }
            _ => self.pinged = None,
        }
        let due = last_read + self.interval;
        if now < due {
            return Silence::Until(due);
        }
        self.pinged = Some(now);
        Silence::Ping(now + self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_third_hasty_ping_is_too_many() {
        let start = Instant::now();
        let mut policy = PingPolicy::new(5 * SECOND);
        assert_eq!(policy.ping(start, 1), Verdict::Fine);
        assert_eq!(policy.ping(start + SECOND, 1), Verdict::Fine);
        assert_eq!(policy.ping(start + 2 * SECOND, 1), Verdict::Fine);
        assert_eq!(policy.ping(start + 3 * SECOND, 1), Verdict::TooMany);
    }

    #[test]
    fn slow_pings_and_answers_are_fine() {
        let start = Instant::now();
        let mut policy = PingPolicy::new(5 * SECOND);
        for n in 0..100 {
            assert_eq!(policy.ping(start + n * 5 * SECOND, 1), Verdict::Fine);
        }
        for _ in 0..100 {
            policy.answered();
            assert_eq!(policy.ping(start + 500 * SECOND, 1), Verdict::Fine);
        }
    }

    #[test]
    fn without_a_stream_two_hours_are_asked_for() {
        let start = Instant::now();
        let mut policy = PingPolicy::new(5 * SECOND);
        let verdicts: Vec<_> = (0..4)
            .map(|n| policy.ping(start + n * 600 * SECOND, 0))
            .collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Fine,
                Verdict::Fine,
                Verdict::Fine,
                Verdict::TooMany
            ]
        );
    }

    #[test]
    fn silence_is_pinged_and_then_ends_the_connection() {
        let start = Instant::now();
        let mut watch = SilenceWatch::new(&Keepalive {
            interval: 10 * SECOND,
            timeout: 3 * SECOND,
            ..Keepalive::default()
        });
        assert_eq!(
            watch.look(start + SECOND, start),
            Silence::Until(start + 10 * SECOND)
        );
        assert_eq!(
            watch.look(start + 10 * SECOND, start),
            Silence::Ping(start + 13 * SECOND)
        );
        assert_eq!(
            watch.look(start + 11 * SECOND, start),
            Silence::Until(start + 13 * SECOND)
        );
        // Anything that is read is a sign of life.
        let heard = start + 12 * SECOND;
        assert_eq!(
            watch.look(start + 13 * SECOND, heard),
            Silence::Until(heard + 10 * SECOND)
        );
        assert_eq!(
            watch.look(heard + 10 * SECOND, heard),
            Silence::Ping(heard + 13 * SECOND)
        );
        assert_eq!(watch.look(heard + 13 * SECOND, heard), Silence::Dead);
    }
}
