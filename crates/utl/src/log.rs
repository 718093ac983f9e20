//! What is told on standard error while a command works, in the shape of zap's console encoder:
//! time, level, place, message and fields, separated by tabs.

use serde_json::Value;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// A line of the log, ready to be written.
pub fn line(
    seconds: u64,
    level: &str,
    place: &str,
    message: &str,
    fields: &[(&str, Value)],
) -> String {
    let mut line = format!("{}\t{level}\t{place}\t{message}", timestamp(seconds));
    if !fields.is_empty() {
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}: {}", Value::from(*name), spaced(value)))
            .collect();
        line.push_str(&format!("\t{{{}}}", fields.join(", ")));
    }
    line.push('\n');
    line
}

/// A value with a blank behind each comma, as zap writes arrays.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// Writes a line; called through the macros.
pub fn write(level: &str, file: &str, at: u32, message: &str, fields: &[(&str, Value)]) {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let file = file.rsplit("src/").next().unwrap_or(file);
    let line = line(seconds, level, &format!("{file}:{at}"), message, fields);
    // There is nobody to tell that nobody listens.
    let _unheard = std::io::stderr().write_all(line.as_bytes());
}

/// RFC 3339 in UTC.
pub fn timestamp(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        time / 3600,
        time / 60 % 60,
        time % 60
    )
}

/// The date of a day since 1970, by 400-year eras that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + u64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

/// Logs at level info: the message, then fields as `name => value`.
macro_rules! info {
    ($message:expr $(, $name:literal => $value:expr)* $(,)?) => {
        $crate::log::write("info", file!(), line!(), $message, &[$(($name, serde_json::json!($value))),*])
    };
}

/// Logs at level warn.
macro_rules! warning {
    ($message:expr $(, $name:literal => $value:expr)* $(,)?) => {
        $crate::log::write("warn", file!(), line!(), $message, &[$(($name, serde_json::json!($value))),*])
    };
}

/// Logs at level error.
macro_rules! error {
    ($message:expr $(, $name:literal => $value:expr)* $(,)?) => {
        $crate::log::write("error", file!(), line!(), $message, &[$(($name, serde_json::json!($value))),*])
    };
}

pub(crate) use {error, info, warning};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_have_zaps_shape() {
        let fields = [
            ("storage-version", json!("3.6")),
            ("urls", json!(["a", "b"])),
        ];
        assert_eq!(
            line(
                1_795_990_307,
                "info",
                "migrate.rs:1",
                "storage version up-to-date",
                &fields
            ),
            "2026-11-29T22:11:47Z\tinfo\tmigrate.rs:1\tstorage version up-to-date\t\
             {\"storage-version\": \"3.6\", \"urls\": [\"a\", \"b\"]}\n"
        );
        assert_eq!(
            line(951_782_400, "warn", "x", "m", &[]),
            "2000-02-29T00:00:00Z\twarn\tx\tm\n"
        );
    }
}
