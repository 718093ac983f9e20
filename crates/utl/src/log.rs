//! What is told on standard error while a command works, in the shape of zap's console encoder:
//! time, level, place, message and fields, separated by tabs.

use quorate_cli::streams::write_err;
use quorate_go::time;
use serde_json::Value;
use std::time::Duration;

/// A line of the log, ready to be written; `at` is the time since 1970.
pub fn line(
    at: Duration,
    level: &str,
    place: &str,
    message: &str,
    fields: &[(&str, Value)],
) -> String {
    let mut line = format!("{}\t{level}\t{place}\t{message}", time::seconds(at));
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
    let file = file.rsplit("src/").next().unwrap_or(file);
    let line = line(time::now(), level, &format!("{file}:{at}"), message, fields);
    write_err(line.as_bytes());
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
                Duration::from_secs(1_795_990_307),
                "info",
                "migrate.rs:1",
                "storage version up-to-date",
                &fields
            ),
            "2026-11-29T22:11:47Z\tinfo\tmigrate.rs:1\tstorage version up-to-date\t\
             {\"storage-version\": \"3.6\", \"urls\": [\"a\", \"b\"]}\n"
        );
        assert_eq!(
            line(Duration::from_secs(951_782_400), "warn", "x", "m", &[]),
            "2000-02-29T00:00:00Z\twarn\tx\tm\n"
        );
    }
}
