//! The pace of whoever sends a whole database: while requests are served it leaves them processors
//! and disk; otherwise it goes as fast as it can.

use super::Shared;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes a second that may be sent while requests are served.
const BUSY_BYTES_PER_S: u64 = 150_000_000;

/// Bytes that are sent between two looks at whether requests are served.
const STRETCH_BYTES: u64 = 1024 * 1024;

/// How much of the stretch of now is sent, and since when it is.
struct Stretch {
    bytes: u64,
    since: Duration,
}

impl Stretch {
    /// So many more bytes are sent at `now`; how long to rest, if the stretch ends here.
    fn sent(&mut self, bytes: u64, now: Duration, busy: bool) -> Duration {
        self.bytes += bytes;
        if self.bytes < STRETCH_BYTES {
            return Duration::ZERO;
        }
        let due = Duration::from_nanos(self.bytes * 1_000_000_000 / BUSY_BYTES_PER_S);
        let rest = match busy {
            true => due.saturating_sub(now.saturating_sub(self.since)),
            false => Duration::ZERO,
        };
        *self = Stretch {
            bytes: 0,
            since: now + rest,
        };
        rest
    }
}

/// See the module.
pub struct Pace {
    shared: Arc<Shared>,
    began: Instant,
    stretch: Stretch,
}

impl Pace {
    pub(super) fn new(shared: Arc<Shared>) -> Pace {
        Pace {
            shared,
            began: Instant::now(),
            stretch: Stretch {
                bytes: 0,
                since: Duration::ZERO,
            },
        }
    }

    /// So many more bytes are sent; waits where that was too fast.
    pub fn sent(&mut self, bytes: u64) {
        let busy = self.shared.status.load().pending > 0;
        let rest = self.stretch.sent(bytes, self.began.elapsed(), busy);
        if !rest.is_zero() {
            std::thread::sleep(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn only_beside_requests_and_only_who_is_too_fast_rests() {
        let mut stretch = Stretch {
            bytes: 0,
            since: Duration::ZERO,
        };
        assert_eq!(stretch.sent(STRETCH_BYTES - 1, ms(1), true), Duration::ZERO);
        // A mebibyte takes 7 ms.
        let rest = stretch.sent(1, ms(2), true);
        assert!((ms(4)..ms(6)).contains(&rest), "{rest:?}");
        // The next stretch begins after the rest.
        let now = ms(2) + rest;
        let rest = stretch.sent(STRETCH_BYTES, now, true);
        assert!((ms(6)..ms(8)).contains(&rest), "{rest:?}");
        let now = now + rest;
        assert_eq!(stretch.sent(STRETCH_BYTES, now, false), Duration::ZERO);
        assert_eq!(
            stretch.sent(STRETCH_BYTES, now + ms(8), true),
            Duration::ZERO
        );
    }
}
