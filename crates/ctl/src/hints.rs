//! What an error line does not say, for whoever sits before a terminal or asked with `--debug`:
//! which endpoint it is about, and what is likely the cause. Scripts never see it.

use crate::cli::Globals;
use quorate_cli::Invocation;
use quorate_cli::colour::{Stream, Tone, tinted};
use quorate_cli::streams::write_err;
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long an endpoint may take to be found alive.
const PROBE_LIMIT: Duration = Duration::from_millis(500);

/// Writes hints under an error that was written.
pub async fn give(invocation: &Invocation, message: &str) {
    let debug = invocation.given.flag("debug");
    if !debug && !stderr().is_terminal() {
        return;
    }
    let mut hints: Vec<String> = about(message).map(str::to_owned).into_iter().collect();
    if message.contains("deadline exceeded") || message.contains("code = Unavailable") {
        hints.extend(probe(&endpoints(invocation)).await);
    }
    for hint in hints {
        let hint = tinted(format_args!("hint: {hint}"), Tone::Aside, Stream::Err);
        write_err(format!("  {hint}\n").as_bytes());
    }
}

/// The endpoints of the line or the environment, without a word about what is wrong there.
fn endpoints(invocation: &Invocation) -> Vec<String> {
    Globals::quietly(&invocation.path, &invocation.given)
        .map(|globals| globals.endpoints)
        .unwrap_or_default()
}

/// What an error text mostly comes from.
fn about(message: &str) -> Option<&'static str> {
    let known = [
        (
            "user name is empty",
            "the cluster asks who calls: use --user NAME[:PASSWORD]",
        ),
        (
            "invalid user ID or password",
            "check --user and --password; ETCDCTL_USER counts as well",
        ),
        (
            "permission denied",
            "the user has no role that permits this: see `user get NAME --detail`",
        ),
        (
            "database space exceeded",
            "compact, defragment, then `alarm disarm`; or raise --quota-backend-bytes",
        ),
        (
            "mvcc: required revision has been compacted",
            "the history before the last compaction is gone; use a newer --rev",
        ),
        (
            "too many requests",
            "the cluster cannot keep up: see `endpoint status` and the members' disks",
        ),
        (
            "no leader",
            "no majority of the members is up: see `endpoint health --cluster`",
        ),
        (
            "re-configuration failed due to not enough started members",
            "start the members that were added, or remove those that are gone",
        ),
        (
            "authentication is not enabled",
            "`auth enable` turns it on, after a user root was added",
        ),
    ];
    known
        .iter()
        .find(|(text, _)| message.contains(text))
        .map(|(_, hint)| *hint)
}

/// What each endpoint says to a connection.
async fn probe(endpoints: &[String]) -> Vec<String> {
    let mut hints = Vec::new();
    for endpoint in endpoints {
        let address = endpoint
            .split_once("://")
            .map_or(endpoint.as_str(), |(_, rest)| rest);
        if endpoint.starts_with("unix") {
            continue;
        }
        let reason = match timeout(PROBE_LIMIT, TcpStream::connect(address)).await {
            Err(_) => "does not answer: a firewall, or no such host?".to_owned(),
            Ok(Err(error)) => format!("cannot be reached: {}", quorate_go::system::text(&error)),
            Ok(Ok(_)) if endpoint.starts_with("https") => {
                "listens; does it speak TLS, with a certificate that --cacert trusts?".to_owned()
            }
            Ok(Ok(_)) => {
                "listens; does it want TLS (https://), or has the cluster no leader?".to_owned()
            }
        };
        hints.push(format!("{endpoint} {reason}"));
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_named() {
        assert!(about("etcdserver: permission denied").is_some_and(|hint| hint.contains("role")));
        assert_eq!(about("something else"), None);
    }
}
