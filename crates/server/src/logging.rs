//! The log that operators read: one JSON object a line, in the shape of zap's.
//!
//! Keys: `level`, `ts` (UTC, microseconds), `caller`, `msg`, then the event's fields under their
//! own names. Tests and people search for messages, so those that etcd logs have etcd's text. Field
//! names may have dashes: `tracing::info!({ "member-id" } = id, ...)` is written as
//! `"member-id" = id`.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// Where lines go.
enum Output {
    Stdout,
    Stderr,
    File(File),
}

/// A file for the log could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("open sink {path:?}: open {path}: {}", crate::errno::spell(source))]
pub struct OpenError {
    /// Which one.
    pub path: String,
    /// The system's answer.
    pub source: io::Error,
}

/// A subscriber that writes each event as a line. Spans are not used and not kept.
pub struct Logger {
    most_verbose: Level,
    console: bool,
    outputs: Mutex<Vec<Output>>,
}

impl Logger {
    /// `level` and `format` as the flags have them; `outputs` is `default`, `stderr`, `stdout` or
    /// paths, with commas between them.
    pub fn new(level: &str, format: &str, outputs: &str) -> Result<Logger, OpenError> {
        let most_verbose = match level {
            "debug" => Level::DEBUG,
            "info" => Level::INFO,
            "warn" => Level::WARN,
            _ => Level::ERROR,
        };
        let mut opened = Vec::new();
        for output in outputs
            .split(',')
            .map(str::trim)
            .filter(|output| !output.is_empty())
        {
            opened.push(match output {
                "default" | "stderr" => Output::Stderr,
                "stdout" => Output::Stdout,
                "/dev/null" => continue,
                path => {
                    let file = OpenOptions::new().create(true).append(true).open(path);
                    Output::File(file.map_err(|source| OpenError {
                        path: path.to_owned(),
                        source,
                    })?)
                }
            });
        }
        Ok(Logger {
            most_verbose,
            console: format == "console",
            outputs: Mutex::new(opened),
        })
    }

    /// Makes it the process's.
    pub fn install(self) {
        // A second one can only come from a test in the same process, which then logs to the first.
        let _first = tracing::subscriber::set_global_default(self);
    }
}

impl Subscriber for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Crates below have logs of their own that nobody asked for.
        *metadata.level() <= self.most_verbose && metadata.target().starts_with("quorate")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let level = match *metadata.level() {
            Level::ERROR if metadata.target() == FATAL => "fatal",
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            _ => "debug",
        };
        let file = metadata.file().unwrap_or("unknown");
        let file = match file.match_indices('/').nth_back(1) {
            Some((at, _)) => &file[at + 1..],
            None => file,
        };
        let caller = format!("{file}:{}", metadata.line().unwrap_or(0));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let ts = timestamp(now.as_secs(), now.subsec_micros());
        let line = if self.console {
            let rest = if fields.json.is_empty() {
                String::new()
            } else {
                format!("\t{{{}}}", &fields.json[1..])
            };
            format!("{ts}\t{level}\t{caller}\t{}{rest}\n", fields.message)
        } else {
            format!(
                "{{\"level\":\"{level}\",\"ts\":\"{ts}\",\"caller\":{},\"msg\":{}{}}}\n",
                quote(&caller),
                quote(&fields.message),
                fields.json
            )
        };
        let Ok(mut outputs) = self.outputs.lock() else {
            return;
        };
        for output in outputs.iter_mut() {
            // A log that cannot be written must not end the server.
            let _unwritten = match output {
                Output::Stdout => io::stdout().write_all(line.as_bytes()),
                Output::Stderr => io::stderr().write_all(line.as_bytes()),
                Output::File(file) => file.write_all(line.as_bytes()),
            };
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Fields {
    message: String,
    /// `,"name":value` for each.
    json: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &str) {
        write!(self.json, ",{}:{value}", quote(field.name())).expect("a string takes everything");
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.add(field, &quote(&text));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else if let Some(json) = value.strip_prefix(RAW) {
            self.add(field, json);
        } else {
            self.add(field, &quote(value));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, &value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, if value { "true" } else { "false" });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, &serde_json::json!(value).to_string());
    }
}

/// Target of events that end the process, which zap has a level for.
pub const FATAL: &str = "quorate::fatal";

/// Marks a string field whose text is JSON already.
const RAW: &str = "\u{1}json:";

/// A list of texts as a field's value.
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quote(item.as_ref())).collect();
    format!("{RAW}[{}]", quoted.join(","))
}

/// The time `ago` before now, as the log has it.
pub fn time_before(ago: Duration) -> String {
    let then = SystemTime::now() - ago;
    let then = then.duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp(then.as_secs(), then.subsec_micros())
}

/// A duration as Go spells it: 1h30m0s, 1.5s, 250ms, 12.5µs.
pub fn spell_duration(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    // Digits before and behind the point, without zeros at the end.
    let with_fraction = |whole: u64, fraction: u32, digits: usize| {
        let text = format!("{whole}.{fraction:0digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match (seconds, nanos) {
        (0, 0) => "0s".to_owned(),
        (0, 1..1_000) => format!("{nanos}ns"),
        (0, 1_000..1_000_000) => {
            let whole = u64::from(nanos / 1_000);
            format!("{}µs", with_fraction(whole, nanos % 1_000, 3))
        }
        (0, _) => {
            let whole = u64::from(nanos / 1_000_000);
            format!("{}ms", with_fraction(whole, nanos % 1_000_000, 6))
        }
        _ => {
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let rest = with_fraction(seconds % 60, nanos, 9);
            match (hours, minutes) {
                (0, 0) => format!("{rest}s"),
                (0, _) => format!("{minutes}m{rest}s"),
                _ => format!("{hours}h{minutes}m{rest}s"),
            }
        }
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// RFC 3339 in UTC with microseconds.
fn timestamp(seconds: u64, micros: u32) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years (Howard Hinnant's civil_from_days).
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_spelled_as_go_spells_them() {
        for (nanos, text) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (250_000_000, "250ms"),
            (1_000_001, "1.000001ms"),
            (1_500_000_000, "1.5s"),
            (61_000_000_000, "1m1s"),
            (5_400_000_000_000, "1h30m0s"),
        ] {
            assert_eq!(spell_duration(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn times_are_spelled_right() {
        assert_eq!(timestamp(0, 7), "1970-01-01T00:00:00.000007Z");
        assert_eq!(timestamp(951_827_696, 0), "2000-02-29T12:34:56.000000Z");
        assert_eq!(
            timestamp(1_795_966_200, 999_999),
            "2026-11-29T15:30:00.999999Z"
        );
    }
}
