//! The log that operators read: one JSON object a line, in the shape of zap's.
//!
//! Keys: `level`, `ts` (UTC, microseconds), `caller`, `msg`, then the event's fields under their
//! own names. Tests and people search for messages, so those that etcd logs have etcd's text. Field
//! names may have dashes: `tracing::info!({ "member-id" } = id, ...)` is written as
//! `"member-id" = id`.

use quorate_go::time;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;
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
#[error(
    "open sink {path:?}: open {path}: {}",
    quorate_go::system::text(source)
)]
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
        let ts = time::micros(time::now());
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
    time::micros(time::now().saturating_sub(ago))
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
