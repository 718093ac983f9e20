//! Durations as Go writes them: `1s`, `1m30s`, `1.5h`, `100ms`.

use std::time::Duration;

/// Nanoseconds of each unit; longer names before those that they begin with.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Reads one that is not negative.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut nanoseconds) = (text, 0.0);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, factor) = UNITS.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        nanoseconds += number * factor;
        rest = &rest[unit.len()..];
    }
    // Go's longest duration; a longer one is none.
    (nanoseconds <= i64::MAX as f64).then(|| Duration::from_nanos(nanoseconds as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_does() {
        for (text, milliseconds) in [
            ("1s", 1000),
            ("100ms", 100),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("2000us", 2),
            ("3000µs", 3),
            ("0", 0),
        ] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(parse(text), Some(duration), "{text}");
        }
        for text in ["", "1", "s", "1x", "-1s", "1s2", "1..5s", "9999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
