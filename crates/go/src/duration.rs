//! Durations as Go writes and reads them: `1.5s`, `2m0s`, `350ms`.

use super::quote::quote;
use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No number where one must be, or one that is too large.
    #[error("time: invalid duration {}", quote(.0.as_bytes()))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quote(.0.as_bytes()))]
    MissingUnit(String),
    /// A number with a unit that there is not.
    #[error("time: unknown unit {} in duration {}", quote(.0.as_bytes()), quote(.1.as_bytes()))]
    UnknownUnit(String, String),
}

/// Reads a duration. Negative ones, which only mean "already over", become zero.
pub fn parse(text: &str) -> Result<Duration, ParseError> {
    parse_nanos(text).map(of_nanos)
}

/// A number of nanoseconds, of which those below zero are zero.
pub fn of_nanos(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// Reads a duration in nanoseconds, for which zero and "already over" are two things.
pub fn parse_nanos(text: &str) -> Result<i64, ParseError> {
    let invalid = || ParseError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos = 0u128;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let unit_end = tail
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return Err(invalid());
        }
        let unit_nanos = unit_nanos(unit).ok_or_else(|| match unit {
            "" => ParseError::MissingUnit(text.to_owned()),
            unit => ParseError::UnknownUnit(unit.to_owned(), text.to_owned()),
        })?;
        nanos = part_nanos(whole, fraction, unit_nanos)
            .and_then(|part| nanos.checked_add(part))
            .filter(|sum| *sum < 1 << 63)
            .ok_or_else(invalid)?;
        rest = tail;
    }
    let nanos = i64::try_from(nanos).map_err(|_| invalid())?;
    Ok(if negative { -nanos } else { nanos })
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn part_nanos(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let whole: u128 = match whole {
        "" => 0,
        _ => whole.parse().ok()?,
    };
    // Beyond eighteen places no unit has a nanosecond.
    let fraction = &fraction[..fraction.len().min(18)];
    let part: u128 = match fraction {
        "" => 0,
        _ => fraction.parse().ok()?,
    };
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_mul(unit)?.checked_add(part * unit / scale)
}

/// Writes a duration: the largest unit first, no zeros at the end of a fraction.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{nanos}ns"),
        1_000..1_000_000 => return format!("{}µs", decimal(nanos, 1_000)),
        1_000_000..1_000_000_000 => return format!("{}ms", decimal(nanos, 1_000_000)),
        _ => {}
    }
    let minutes = nanos / 60_000_000_000;
    let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn decimal(nanos: u128, unit: u128) -> String {
    let places = unit.ilog10() as usize;
    let text = format!("{}.{:0places$}", nanos / unit, nanos % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, nanos) in [
            ("5s", 5_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h0m0.5s", 3_600_500_000_000),
            ("350ms", 350_000_000),
            ("2.968587ms", 2_968_587),
            ("1µs", 1_000),
            ("7ns", 7),
            ("1.5µs", 1_500),
            ("250ms", 250_000_000),
            ("1.000001ms", 1_000_001),
            ("1.5s", 1_500_000_000),
            ("1m1s", 61_000_000_000),
            ("1h30m0s", 5_400_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
            assert_eq!(format(Duration::from_nanos(nanos)), text);
        }
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert_eq!(parse("-5s"), Ok(Duration::ZERO));
        assert_eq!(parse_nanos("-5s"), Ok(-5_000_000_000));
        assert_eq!(parse_nanos("-0s"), Ok(0));
        assert_eq!(parse_nanos("1h"), Ok(3_600_000_000_000));
        assert_eq!(parse(".5s"), Ok(Duration::from_millis(500)));
        assert_eq!(format(Duration::ZERO), "0s");
        assert_eq!(format(Duration::from_secs(100)), "1m40s");
    }

    #[test]
    fn errors_speak_as_gos() {
        for (text, error) in [
            ("x", r#"time: invalid duration "x""#),
            ("", r#"time: invalid duration """#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5q", r#"time: unknown unit "q" in duration "5q""#),
            (".s", r#"time: invalid duration ".s""#),
            ("999999999999h", r#"time: invalid duration "999999999999h""#),
        ] {
            assert_eq!(
                parse(text).map_err(|e| e.to_string()),
                Err(error.to_owned())
            );
        }
    }
}
