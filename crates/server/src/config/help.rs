//! The text of `--help`: flags in the order in which a person comes to need them.

use super::flags::{FLAGS, Flag, Kind, Support, find};
use std::fmt::Write as _;

/// Flags that are served, under the question that they answer.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "Who this is, and where it keeps its data",
        &["name", "data-dir", "wal-dir"],
    ),
    (
        "Where it listens, and what it tells others of itself",
        &[
            "listen-client-urls",
            "advertise-client-urls",
            "listen-client-http-urls",
            "listen-metrics-urls",
            "listen-peer-urls",
            "initial-advertise-peer-urls",
        ],
    ),
    (
        "Beginning a cluster",
        &[
            "initial-cluster",
            "initial-cluster-state",
            "initial-cluster-token",
            "force-new-cluster",
            "strict-reconfig-check",
            "max-learners",
            "max-apply-gap",
        ],
    ),
    (
        "Looking after the cluster",
        &[
            "corrupt-check-time",
            "compact-hash-check-time",
            "downgrade-check-time",
        ],
    ),
    (
        "How much it keeps",
        &[
            "quota-backend-bytes",
            "auto-compaction-mode",
            "auto-compaction-retention",
            "compaction-batch-limit",
            "compaction-sleep-interval",
            "bootstrap-defrag-threshold-megabytes",
            "snapshot-count",
            "snapshot-catchup-entries",
            "max-snapshots",
            "max-wals",
        ],
    ),
    (
        "What clients may do",
        &[
            "max-request-bytes",
            "max-txn-ops",
            "max-concurrent-streams",
            "grpc-keepalive-min-time",
            "grpc-keepalive-interval",
            "grpc-keepalive-timeout",
            "watch-progress-notify-interval",
            "enable-grpc-gateway",
        ],
    ),
    (
        "What it logs and shows",
        &[
            "log-level",
            "log-format",
            "log-outputs",
            "warning-apply-duration",
            "warning-unary-request-duration",
            "metrics",
        ],
    ),
    (
        "Elections and commits",
        &[
            "heartbeat-interval",
            "election-timeout",
            "pre-vote",
            "initial-election-tick-advance",
            "backend-batch-interval",
            "backend-batch-limit",
            "unsafe-no-fsync",
            "feature-gates",
        ],
    ),
];

/// Columns of a line.
const WIDTH: usize = 96;
/// Where explanations begin.
const INDENT: usize = 6;

/// The whole text.
pub fn text() -> String {
    let mut out = String::from(
        "quorate, a replicated, revisioned key-value store that speaks etcd 3.7.\n\n\
         Usage:\n  quorate [flags]\n  quorate --version\n\n\
         A flag may have one dash or two, and its value behind = or a space (true and false only\n\
         behind =). Where a flag is not given, the environment stands in: ETCD_DATA_DIR for\n\
         --data-dir, and so on.\n",
    );
    for (title, names) in SECTIONS {
        push(&mut out, format_args!("\n{title}\n"));
        for name in *names {
            let flag = find(name).expect("a section names known flags");
            describe(&mut out, flag);
        }
    }
    list(
        &mut out,
        "Taken, and without effect here",
        |support| match support {
            Support::Moot(why) => Some(why),
            Support::Served | Support::NotYet => None,
        },
    );
    let refused: Vec<String> = FLAGS
        .iter()
        .filter(|flag| flag.support == Support::NotYet)
        .map(|flag| format!("--{}", flag.name))
        .collect();
    out.push_str("\nKnown, and refused when set, since they are not served yet\n");
    wrap(&mut out, 2, &refused.join(" "));
    out
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("a string takes everything");
}

fn describe(out: &mut String, flag: &Flag) {
    let takes = match flag.kind {
        Kind::Text | Kind::OneOf(_) => " TEXT",
        Kind::Bool => "[=true|false]",
        Kind::Number => " NUMBER",
        Kind::Duration => " DURATION",
    };
    push(out, format_args!("  --{}{takes}\n", flag.name));
    let default = match flag.default {
        "" => String::new(),
        default => format!(" [{default}]"),
    };
    wrap(out, INDENT, &format!("{}{default}", flag.help));
}

/// Flags that share a reason, behind it.
fn list(out: &mut String, title: &str, reason: impl Fn(Support) -> Option<&'static str>) {
    push(out, format_args!("\n{title}\n"));
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for flag in FLAGS {
        let Some(why) = reason(flag.support) else {
            continue;
        };
        let name = format!("--{}", flag.name);
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    for (why, names) in reasons {
        wrap(out, 2, &format!("{} ({why})", names.join(" ")));
    }
}

/// Writes words in lines of at most [`WIDTH`] columns.
fn wrap(out: &mut String, indent: usize, words: &str) {
    let mut column = 0;
    for word in words.split(' ') {
        let len = word.chars().count();
        if column == 0 || column + 1 + len > WIDTH {
            if column > 0 {
                out.push('\n');
            }
            out.push_str(&" ".repeat(indent));
            column = indent + len;
        } else {
            out.push(' ');
            column += 1 + len;
        }
        out.push_str(word);
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_is_found_once() {
        let mut named: Vec<&str> = SECTIONS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        named.sort_unstable();
        let mut served: Vec<&str> = FLAGS
            .iter()
            .filter(|flag| flag.support == Support::Served)
            .map(|flag| flag.name)
            .collect();
        served.sort_unstable();
        assert_eq!(named, served);
        let text = text();
        for flag in FLAGS {
            let name = format!("--{}", flag.name);
            let whole = |word: &&str| word.split(['[', '=']).next() == Some(&name);
            let described = text.lines().filter(|line| line.starts_with("  --"));
            let times = described.flat_map(str::split_whitespace).filter(whole);
            assert_eq!(times.count(), 1, "{name}");
        }
    }

    #[test]
    fn lines_fit_a_terminal() {
        for line in text().lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(text().contains("  --data-dir TEXT\n      data directory"));
        assert!(text().contains("[2h0m0s]"));
    }
}
