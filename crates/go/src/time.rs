//! Times in UTC, as RFC 3339 writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970. A clock that is set before shows 1970.
pub fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// In seconds.
pub fn seconds(since: Duration) -> String {
    format!("{}Z", clock(since))
}

/// In microseconds.
pub fn micros(since: Duration) -> String {
    format!("{}.{:06}Z", clock(since), since.subsec_micros())
}

fn clock(since: Duration) -> String {
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Year, month and day of a day after 1970-01-01 (the method of Howard Hinnant's days_from_civil,
/// turned round: years that begin in March, in eras of 400).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = match march_month {
        0..10 => march_month + 3,
        _ => march_month - 9,
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_088), (2024, 12, 31));
        assert_eq!(civil(20_089), (2025, 1, 1));
    }

    #[test]
    fn times_are_rfc_3339() {
        let since = Duration::new(1_795_990_307, 60_789);
        assert_eq!(seconds(since), "2026-11-29T22:11:47Z");
        assert_eq!(micros(since), "2026-11-29T22:11:47.000060Z");
        for (seconds, nanos, text) in [
            (0, 7_000, "1970-01-01T00:00:00.000007Z"),
            (951_827_696, 0, "2000-02-29T12:34:56.000000Z"),
            (1_795_966_200, 999_999_000, "2026-11-29T15:30:00.999999Z"),
        ] {
            assert_eq!(micros(Duration::new(seconds, nanos)), text);
        }
    }
}
