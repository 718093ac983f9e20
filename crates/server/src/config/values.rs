//! Values of flags, in Go's spelling.

use super::flags::{Flag, Kind};

/// Whether a value fits its flag; else what is wrong, in Go's words.
pub fn check(flag: &Flag, value: &str) -> Result<(), String> {
    let fits = match flag.kind {
        Kind::Text => true,
        Kind::OneOf(values) => values.contains(&value),
        Kind::Bool => parse_bool(value).is_some(),
        Kind::Number => value.parse::<i64>().is_ok(),
        Kind::Duration => parse_duration_ns(value).is_some(),
    };
    if fits {
        return Ok(());
    }
    let name = flag.name;
    Err(match flag.kind {
        Kind::Bool => format!("invalid boolean value \"{value}\" for -{name}: parse error"),
        Kind::OneOf(_) => {
            format!("invalid value \"{value}\" for flag -{name}: invalid value \"{value}\"")
        }
        _ => format!("invalid value \"{value}\" for flag -{name}: parse error"),
    })
}

/// Go's strconv.ParseBool.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Go's time.ParseDuration, for durations that are not negative; in nanoseconds.
pub fn parse_duration_ns(text: &str) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut total) = (text, 0u64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let unit_ns: u64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        total = total.checked_add(whole.checked_mul(unit_ns)?)?;
        if !fraction.is_empty() {
            let fraction: f64 = format!("0.{fraction}").parse().ok()?;
            total = total.checked_add((fraction * unit_ns as f64) as u64)?;
        }
        rest = tail;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_none_of_the_allowed_is_named() {
        let flag = crate::config::flags::find("v2-deprecation").expect("it is a flag");
        assert_eq!(check(flag, "gone"), Ok(()));
        let refused =
            r#"invalid value "not-yet" for flag -v2-deprecation: invalid value "not-yet""#;
        assert_eq!(check(flag, "not-yet"), Err(refused.to_owned()));
    }

    #[test]
    fn durations_as_go_reads_them() {
        for (text, ns) in [
            ("0", Some(0)),
            ("300ms", Some(300_000_000)),
            ("1h2m3.5s", Some(3_723_500_000_000)),
            (".5s", Some(500_000_000)),
            ("10", None),
            ("", None),
            ("5x", None),
            ("-5s", None),
            (".s", None),
        ] {
            assert_eq!(parse_duration_ns(text), ns, "{text}");
        }
    }
}
