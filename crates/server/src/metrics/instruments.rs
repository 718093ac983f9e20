//! What counts and what measures: atomics that anybody may touch without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A number that grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// As it stands.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Most buckets that a histogram has, the last one (everything) included.
pub const BUCKETS_MAX: usize = 25;

/// Buckets whose bounds double, which all of etcd's but one are. Values are whole numbers of a small
/// unit (nanoseconds, say) and are shown in a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Bound of the first bucket, in small units.
    pub first: u64,
    /// Bounds.
    pub bounds: usize,
    /// Small units in a shown one.
    pub unit: u64,
}

const NS_PER_S: u64 = 1_000_000_000;

impl Scale {
    /// Seconds, kept in nanoseconds.
    pub const fn seconds(first_us: u64, bounds: usize) -> Scale {
        assert!(bounds < BUCKETS_MAX);
        Scale {
            first: first_us * 1000,
            bounds,
            unit: NS_PER_S,
        }
    }

    /// Milliseconds, kept in nanoseconds.
    pub const fn milliseconds(first_us: u64, bounds: usize) -> Scale {
        assert!(bounds < BUCKETS_MAX);
        Scale {
            first: first_us * 1000,
            bounds,
            unit: 1_000_000,
        }
    }

    /// Whole numbers.
    pub const fn numbers(first: u64, bounds: usize) -> Scale {
        assert!(bounds < BUCKETS_MAX);
        Scale {
            first,
            bounds,
            unit: 1,
        }
    }

    /// The bucket that a value falls in: the first whose bound is not below it.
    pub fn bucket(&self, value: u64) -> usize {
        if value <= self.first {
            return 0;
        }
        let doublings = u64::BITS - ((value - 1) / self.first).leading_zeros();
        (doublings as usize).min(self.bounds)
    }

    /// A bucket's bound as it is shown; `None` for the last, which has none.
    pub fn bound(&self, bucket: usize) -> Option<f64> {
        (bucket < self.bounds).then(|| (self.first << bucket) as f64 / self.unit as f64)
    }
}

/// The latencies that most of etcd's histograms are for: 1 ms to 8.192 s.
pub const LATENCY: Scale = Scale::seconds(1_000, 14);
/// Times of applying and ranging: 100 µs to 52.4288 s.
pub const APPLY: Scale = Scale::seconds(100, 20);
/// Hashes: 10 ms to 163.84 s.
pub const HASH: Scale = Scale::seconds(10_000, 15);
/// Snapshots sent: 10 ms to 655.36 s.
pub const SNAPSHOT: Scale = Scale::seconds(10_000, 17);
/// Defragmentation: 100 ms to 409.6 s.
pub const DEFRAGMENTATION: Scale = Scale::seconds(100_000, 13);
/// Snapshots received: 100 ms to 51.2 s.
pub const RECEIVED_SNAPSHOT: Scale = Scale::seconds(100_000, 10);

/// A distribution.
#[derive(Debug)]
pub struct Histogram {
    scale: Scale,
    buckets: [AtomicU64; BUCKETS_MAX],
    sum: AtomicU64,
}

impl Histogram {
    /// Without values.
    pub const fn new(scale: Scale) -> Histogram {
        Histogram {
            scale,
            buckets: [const { AtomicU64::new(0) }; BUCKETS_MAX],
            sum: AtomicU64::new(0),
        }
    }

    /// Takes a duration into one whose small unit is the nanosecond.
    pub fn observe(&self, took: Duration) {
        self.observe_units(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes a value in small units.
    pub fn observe_units(&self, value: u64) {
        self.observe_many(value, 1);
    }

    /// Takes a value in small units so many times.
    pub fn observe_many(&self, value: u64, times: u64) {
        self.buckets[self.scale.bucket(value)].fetch_add(times, Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Relaxed);
    }

    /// As it stands.
    pub fn read(&self) -> Distribution {
        let mut found = Distribution::new(self.scale);
        for (into, bucket) in found.buckets.iter_mut().zip(&self.buckets) {
            *into = bucket.load(Relaxed);
        }
        found.sum = self.sum.load(Relaxed);
        found
    }
}

/// What a histogram had when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Its buckets.
    pub scale: Scale,
    /// Values in each bucket alone.
    pub buckets: [u64; BUCKETS_MAX],
    /// Sum of the values, in small units.
    pub sum: u64,
}

impl Distribution {
    /// Nothing.
    pub fn new(scale: Scale) -> Distribution {
        Distribution {
            scale,
            buckets: [0; BUCKETS_MAX],
            sum: 0,
        }
    }

    /// Values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_in_the_first_bucket_that_holds_it() {
        for value in [
            0, 1, 999_999, 1_000_000, 1_000_001, 2_000_000, 2_000_001, 4_000_000,
        ] {
            let bucket = LATENCY.bucket(value);
            let simple = (0..LATENCY.bounds)
                .find(|i| value <= LATENCY.first << i)
                .unwrap_or(LATENCY.bounds);
            assert_eq!(bucket, simple, "{value}");
        }
        assert_eq!(LATENCY.bucket(8_192_000_000), 13);
        assert_eq!(LATENCY.bucket(8_192_000_001), 14);
        assert_eq!(LATENCY.bucket(u64::MAX), 14);
        assert_eq!(
            (LATENCY.bound(0), LATENCY.bound(13), LATENCY.bound(14)),
            (Some(0.001), Some(8.192), None)
        );
        assert_eq!(APPLY.bound(19), Some(52.4288));
    }

    #[test]
    fn a_histogram_counts_and_sums() {
        let histogram = Histogram::new(LATENCY);
        histogram.observe(Duration::from_millis(1));
        histogram.observe(Duration::from_secs(100));
        histogram.observe_many(3_000_000, 5);
        let found = histogram.read();
        assert_eq!(found.count(), 7);
        assert_eq!(
            (found.buckets[0], found.buckets[2], found.buckets[14]),
            (1, 5, 1)
        );
        assert_eq!(found.sum, 100_016_000_000);
    }
}
