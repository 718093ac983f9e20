//! Latencies of one kind of request, and their quantiles.

use std::time::Duration;

/// Latencies, in the order they were recorded.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    micros: Vec<u32>,
}

impl Latencies {
    /// Adds one; beyond 71 minutes it counts as 71 minutes.
    pub fn record(&mut self, latency: Duration) {
        self.micros
            .push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.micros.len()
    }

    /// The smallest latency that at least `part` (0 to 1) of all do not exceed, in milliseconds;
    /// NaN without any.
    pub fn quantile_ms(&self, part: f64) -> f64 {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable();
        let rank = (part * sorted.len() as f64).ceil() as usize;
        match sorted.get(rank.saturating_sub(1)) {
            Some(&micros) => f64::from(micros) / 1e3,
            None => f64::NAN,
        }
    }

    /// The largest, in milliseconds; NaN without any.
    pub fn max_ms(&self) -> f64 {
        self.quantile_ms(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let mut latencies = Latencies::default();
        assert!(latencies.quantile_ms(0.5).is_nan());
        for ms in (1..=100).rev() {
            latencies.record(Duration::from_millis(ms));
        }
        assert_eq!(latencies.quantile_ms(0.5), 50.0);
        assert_eq!(latencies.quantile_ms(0.99), 99.0);
        assert_eq!(latencies.quantile_ms(0.991), 100.0);
        assert_eq!(latencies.quantile_ms(0.0), 1.0);
        assert_eq!(latencies.max_ms(), 100.0);
    }
}
