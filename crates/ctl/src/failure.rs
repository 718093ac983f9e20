//! Why a call has no answer, in the words of etcd's Go client, which scripts compare.

use quorate_client::Error;
use quorate_client::api::Error as Known;
use quorate_go::grpc;
use quorate_go::quote::quote;
use quorate_go::system;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A call that failed.
#[derive(Debug)]
pub enum Failure {
    /// The command's time is up.
    Deadline,
    /// The client's own error.
    Client(Error),
}

impl Failure {
    /// Whether the server refused with this error.
    pub fn is(&self, known: Known) -> bool {
        matches!(self, Failure::Client(Error::Known(found)) if *found == known)
    }

    /// The text where Go's client gives the status as it came: for the watch's end and snapshots.
    pub fn as_status(&self) -> String {
        match self {
            Failure::Client(Error::Known(known)) => {
                let code = code_name(i32::from(known.code() as u8));
                format!("rpc error: code = {code} desc = {}", known.text())
            }
            other => other.to_string(),
        }
    }

    /// Whether trying again on another connection may help: nothing was refused.
    pub fn is_transient(&self) -> bool {
        match self {
            Failure::Deadline => false,
            Failure::Client(Error::Connection { .. } | Error::Ended { .. }) => true,
            Failure::Client(Error::Known(known)) => known.code() as i32 == UNAVAILABLE,
            Failure::Client(Error::Status { code, .. }) => *code == UNAVAILABLE,
            Failure::Client(_) => false,
        }
    }
}

const UNAVAILABLE: i32 = 14;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Deadline { .. } => Failure::Deadline,
            other => Failure::Client(other),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rpc = |f: &mut fmt::Formatter<'_>, code: &str, text: &str| {
            write!(f, "rpc error: code = {code} desc = {text}")
        };
        match self {
            Failure::Deadline => f.write_str("context deadline exceeded"),
            Failure::Client(Error::NoEndpoint) => f.write_str("etcdclient: no available endpoints"),
            Failure::Client(Error::Known(known)) => f.write_str(known.text()),
            // Go's client knows etcd's errors by their texts, whatever the code.
            Failure::Client(Error::Status { text, .. })
                if Known::ALL.iter().any(|known| known.text() == text) =>
            {
                f.write_str(text)
            }
            Failure::Client(Error::Status { code, text, .. }) => match too_large(text) {
                Some(text) => rpc(f, "ResourceExhausted", &text),
                None => rpc(f, code_name(*code), text),
            },
            Failure::Client(Error::Connection { reason, unsent, .. }) => match unsent {
                true => rpc(f, "Unavailable", reason),
                false => rpc(f, "Unavailable", "error reading from server: EOF"),
            },
            Failure::Client(Error::Ended { .. }) => f.write_str("EOF"),
            Failure::Client(other) => other.fmt(f),
        }
    }
}

/// Of an answer above the limit, what Go's client says; the transport has other words for it.
fn too_large(text: &str) -> Option<String> {
    let numbers = text.strip_prefix("Error, decoded message length too large: found ")?;
    let (found, limit) = numbers.split_once(" bytes, the limit is: ")?;
    let limit = limit.trim_end_matches(" bytes");
    Some(format!(
        "grpc: received message larger than max ({found} vs. {limit})"
    ))
}

/// The name of a gRPC code, as Go's client writes it.
fn code_name(code: i32) -> &'static str {
    grpc::code_name(usize::try_from(code).unwrap_or(usize::MAX))
}

/// How a program that was run has ended, in Go's words.
pub fn process(status: ExitStatus) -> String {
    let dumped = if status.core_dumped() {
        " (core dumped)"
    } else {
        ""
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal: {}{dumped}", signal_name(signal)),
        (None, None) => status.to_string(),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        6 => "aborted",
        8 => "floating point exception",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// Why a program could not be run, in Go's words.
pub fn not_started(program: &str, error: &std::io::Error) -> String {
    match (error.kind(), program.contains('/')) {
        (std::io::ErrorKind::NotFound, false) => {
            let quoted = quote(program.as_bytes());
            format!("exec: {quoted}: executable file not found in $PATH")
        }
        _ => format!("fork/exec {program}: {}", system::text(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_speak_as_gos_client() {
        let text = |error: Error| Failure::from(error).to_string();
        assert_eq!(
            text(Error::Deadline { method: "/a" }),
            "context deadline exceeded"
        );
        assert_eq!(
            text(Error::Known(Known::NoSpace)),
            "etcdserver: mvcc: database space exceeded"
        );
        assert_eq!(
            text(Error::NoEndpoint),
            "etcdclient: no available endpoints"
        );
        let status = Error::Status {
            method: "/a",
            code: 8,
            text: "trying to send message larger than max (17 vs. 10)".to_owned(),
        };
        assert_eq!(
            text(status),
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (17 vs. 10)"
        );
        let found =
            "Error, decoded message length too large: found 27 bytes, the limit is: 10 bytes";
        assert_eq!(
            too_large(found).as_deref(),
            Some("grpc: received message larger than max (27 vs. 10)")
        );
    }
}
