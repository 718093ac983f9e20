//! Values of flags, in Go's spelling.

use super::flags::{Flag, Kind};
use quorate_go::{duration, number};

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

/// A boolean as Go reads it.
pub fn parse_bool(text: &str) -> Option<bool> {
    number::parse_bool(text).ok()
}

/// A duration as Go reads it, if it is not negative; in nanoseconds.
pub fn parse_duration_ns(text: &str) -> Option<u64> {
    if text.starts_with('-') {
        return None;
    }
    let duration = duration::parse(text).ok()?;
    u64::try_from(duration.as_nanos()).ok()
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
