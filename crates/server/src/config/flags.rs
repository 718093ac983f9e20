//! Every flag of etcd 3.7, what it takes, its default, and whether it is served here.
//!
//! A flag that is not served yet is known and refused by name once it is set to anything but its
//! default: nobody should believe in a certificate that is not used. Source: etcd 3.7.3 --help.

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// One of these; a wrong one is named in the answer.
    OneOf(&'static [&'static str]),
    /// true or false; true where it is given without a value.
    Bool,
    /// A whole number.
    Number,
    /// A duration in Go's spelling.
    Duration,
}

/// How far a flag is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what etcd's does.
    Served,
    /// It is taken and has nothing to do here; the reason.
    Moot(&'static str),
    /// Refused when set.
    NotYet,
}

/// A flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its value where it is not set.
    pub default: &'static str,
    /// How far it is served.
    pub support: Support,
    /// What it does, for --help.
    pub help: &'static str,
}

const fn flag(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    support: Support,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        support,
        help,
    }
}

use Kind::{Bool, Duration, Number, OneOf, Text};
use Support::{Moot, NotYet, Served};

const ONE_FREELIST: Support = Moot("free pages are found at start and kept in memory");
const PEERS: Support = Moot("there are no peers to talk to yet");
const NOT_TRACED: Support = Moot("tracing is off");

/// All of them.
pub const FLAGS: &[Flag] = &[
    // Member.
    flag(
        "name",
        Text,
        "default",
        Served,
        "human-readable name of this member",
    ),
    flag(
        "data-dir",
        Text,
        "",
        Served,
        "data directory; NAME.etcd where it is not set",
    ),
    flag(
        "wal-dir",
        Text,
        "",
        Served,
        "directory of the log, where it is not in the data directory",
    ),
    flag(
        "snapshot-count",
        Number,
        "10000",
        Served,
        "entries applied between two snapshot records",
    ),
    flag(
        "snapshot-catchup-entries",
        Number,
        "5000",
        Served,
        "entries kept in memory below a snapshot",
    ),
    flag(
        "heartbeat-interval",
        Number,
        "100",
        Served,
        "milliseconds between heartbeats (one tick)",
    ),
    flag(
        "election-timeout",
        Number,
        "1000",
        Served,
        "milliseconds without a leader before an election",
    ),
    flag(
        "initial-election-tick-advance",
        Bool,
        "true",
        Served,
        "begin with most of the election timeout passed",
    ),
    flag(
        "listen-peer-urls",
        Text,
        "http://localhost:2380",
        Served,
        "where peers are listened to",
    ),
    flag(
        "listen-client-urls",
        Text,
        "http://localhost:2379",
        Served,
        "where clients are listened to",
    ),
    flag(
        "listen-client-http-urls",
        Text,
        "",
        Served,
        "where HTTP clients are listened to; the client URLs then speak gRPC alone",
    ),
    flag(
        "max-snapshots",
        Number,
        "5",
        Served,
        "snapshot files to keep (0: all)",
    ),
    flag(
        "max-wals",
        Number,
        "5",
        Served,
        "log segments to keep (0: all)",
    ),
    flag("memory-mlock", Bool, "false", NotYet, "lock memory"),
    flag(
        "quota-backend-bytes",
        Number,
        "0",
        Served,
        "size of the database that raises the space alarm (0: 2 GiB; negative: none)",
    ),
    flag(
        "backend-bbolt-freelist-type",
        Text,
        "map",
        ONE_FREELIST,
        "kind of free list",
    ),
    flag(
        "backend-batch-interval",
        Duration,
        "0s",
        Served,
        "longest time between two commits (0: 100ms)",
    ),
    flag(
        "backend-batch-limit",
        Number,
        "0",
        Served,
        "writes that make a commit due (0: 10000)",
    ),
    flag(
        "max-txn-ops",
        Number,
        "128",
        Served,
        "most operations of a transaction",
    ),
    flag(
        "max-request-bytes",
        Number,
        "1572864",
        Served,
        "largest request",
    ),
    flag(
        "max-concurrent-streams",
        Number,
        "4294967295",
        Served,
        "most streams of a client connection",
    ),
    flag(
        "grpc-keepalive-min-time",
        Duration,
        "5s",
        Served,
        "shortest time between a client's pings",
    ),
    flag(
        "grpc-keepalive-interval",
        Duration,
        "2h0m0s",
        Served,
        "time between pings to a client (0: none)",
    ),
    flag(
        "grpc-keepalive-timeout",
        Duration,
        "20s",
        Served,
        "time for a client to answer a ping",
    ),
    flag(
        "socket-reuse-port",
        Bool,
        "false",
        NotYet,
        "SO_REUSEPORT on listeners",
    ),
    flag(
        "socket-reuse-address",
        Bool,
        "false",
        Moot("listeners always set SO_REUSEADDR"),
        "SO_REUSEADDR on listeners",
    ),
    flag(
        "enable-grpc-gateway",
        Bool,
        "true",
        Served,
        "serve JSON under /v3",
    ),
    flag(
        "raft-read-timeout",
        Duration,
        "5s",
        PEERS,
        "read timeout of peer connections",
    ),
    flag(
        "raft-write-timeout",
        Duration,
        "5s",
        PEERS,
        "write timeout of peer connections",
    ),
    flag(
        "feature-gates",
        Text,
        "",
        Served,
        "features to switch on or off, as NAME=true,...",
    ),
    // Clustering.
    flag(
        "initial-advertise-peer-urls",
        Text,
        "http://localhost:2380",
        Served,
        "peer URLs that other members are told",
    ),
    flag(
        "initial-cluster",
        Text,
        "",
        Served,
        "members of a new cluster, as NAME=URL,...",
    ),
    flag(
        "initial-cluster-state",
        Text,
        "new",
        Served,
        "new, or existing to join",
    ),
    flag(
        "initial-cluster-token",
        Text,
        "etcd-cluster",
        Served,
        "token of a new cluster",
    ),
    flag(
        "advertise-client-urls",
        Text,
        "http://localhost:2379",
        Served,
        "client URLs that clients are told",
    ),
    flag("discovery", Text, "", NotYet, "discovery URL"),
    flag("discovery-token", Text, "", NotYet, "discovery token"),
    flag(
        "discovery-endpoints",
        Text,
        "",
        NotYet,
        "discovery endpoints",
    ),
    flag(
        "discovery-dial-timeout",
        Duration,
        "2s",
        Moot("no discovery"),
        "discovery dial timeout",
    ),
    flag(
        "discovery-request-timeout",
        Duration,
        "5s",
        Moot("no discovery"),
        "discovery request timeout",
    ),
    flag(
        "discovery-keepalive-time",
        Duration,
        "2s",
        Moot("no discovery"),
        "discovery keep-alive time",
    ),
    flag(
        "discovery-keepalive-timeout",
        Duration,
        "6s",
        Moot("no discovery"),
        "discovery keep-alive timeout",
    ),
    flag(
        "discovery-insecure-transport",
        Bool,
        "true",
        Moot("no discovery"),
        "discovery without TLS",
    ),
    flag(
        "discovery-insecure-skip-tls-verify",
        Bool,
        "false",
        Moot("no discovery"),
        "discovery without verification",
    ),
    flag("discovery-cert", Text, "", NotYet, "discovery certificate"),
    flag("discovery-key", Text, "", NotYet, "discovery key"),
    flag("discovery-cacert", Text, "", NotYet, "discovery CA"),
    flag("discovery-user", Text, "", NotYet, "discovery user"),
    flag("discovery-password", Text, "", NotYet, "discovery password"),
    flag(
        "discovery-fallback",
        OneOf(&["exit", "proxy"]),
        "exit",
        Moot("no discovery"),
        "what to do when discovery fails",
    ),
    flag("discovery-proxy", Text, "", NotYet, "discovery proxy"),
    flag(
        "discovery-srv",
        Text,
        "",
        NotYet,
        "DNS domain for discovery",
    ),
    flag(
        "discovery-srv-name",
        Text,
        "",
        NotYet,
        "suffix of the DNS name for discovery",
    ),
    flag(
        "strict-reconfig-check",
        Bool,
        "true",
        Served,
        "refuse changes of membership that risk the quorum",
    ),
    flag("pre-vote", Bool, "true", Served, "ask before an election"),
    flag(
        "auto-compaction-retention",
        Text,
        "0",
        Served,
        "history that automatic compaction keeps: hours, a duration (90m), or revisions (0: no compaction)",
    ),
    flag(
        "auto-compaction-mode",
        Text,
        "periodic",
        Served,
        "what the retention counts: periodic (time) or revision",
    ),
    flag(
        "v2-deprecation",
        OneOf(&["gone", "write-only", "write-only-drop-data"]),
        "write-only",
        Moot("there is no v2 API"),
        "stage of the v2 API's removal",
    ),
    flag("max-learners", Number, "1", Served, "most learners"),
    // etcd's figure, which has no flag there.
    flag(
        "max-apply-gap",
        Number,
        "5000",
        Served,
        "entries committed and not applied before writes are refused",
    ),
    // Security.
    flag("cert-file", Text, "", NotYet, "client TLS certificate"),
    flag("key-file", Text, "", NotYet, "client TLS key"),
    flag(
        "client-cert-auth",
        Bool,
        "false",
        NotYet,
        "require client certificates",
    ),
    flag("client-cert-file", Text, "", NotYet, "client certificate"),
    flag("client-key-file", Text, "", NotYet, "client key"),
    flag(
        "client-crl-file",
        Text,
        "",
        NotYet,
        "client revocation list",
    ),
    flag(
        "client-cert-allowed-hostname",
        Text,
        "",
        NotYet,
        "allowed host names of client certificates",
    ),
    flag("trusted-ca-file", Text, "", NotYet, "client CA"),
    flag(
        "auto-tls",
        Bool,
        "false",
        NotYet,
        "client TLS with generated certificates",
    ),
    flag("peer-cert-file", Text, "", NotYet, "peer TLS certificate"),
    flag("peer-key-file", Text, "", NotYet, "peer TLS key"),
    flag(
        "peer-client-cert-auth",
        Bool,
        "false",
        NotYet,
        "require peer certificates",
    ),
    flag(
        "peer-client-cert-file",
        Text,
        "",
        NotYet,
        "peer client certificate",
    ),
    flag("peer-client-key-file", Text, "", NotYet, "peer client key"),
    flag("peer-trusted-ca-file", Text, "", NotYet, "peer CA"),
    flag(
        "peer-cert-allowed-cn",
        Text,
        "",
        NotYet,
        "allowed common name of peers",
    ),
    flag(
        "peer-cert-allowed-hostname",
        Text,
        "",
        NotYet,
        "allowed host name of peers",
    ),
    flag(
        "peer-auto-tls",
        Bool,
        "false",
        NotYet,
        "peer TLS with generated certificates",
    ),
    flag(
        "peer-skip-client-san-verification",
        Bool,
        "false",
        Moot("no peer TLS"),
        "skip verification of peers' names",
    ),
    flag(
        "self-signed-cert-validity",
        Number,
        "1",
        Moot("no generated certificates"),
        "years that generated certificates hold",
    ),
    flag("peer-crl-file", Text, "", NotYet, "peer revocation list"),
    flag("cipher-suites", Text, "", NotYet, "TLS cipher suites"),
    flag(
        "cors",
        Text,
        "*",
        Moot("every origin is allowed"),
        "allowed origins",
    ),
    flag(
        "host-whitelist",
        Text,
        "*",
        Moot("every host is allowed"),
        "allowed hosts",
    ),
    flag(
        "tls-min-version",
        Text,
        "TLS1.2",
        Moot("no TLS"),
        "lowest TLS version",
    ),
    flag(
        "tls-max-version",
        Text,
        "",
        Moot("no TLS"),
        "highest TLS version",
    ),
    // Auth.
    flag(
        "auth-token",
        Text,
        "simple",
        Moot("no authentication"),
        "kind of token",
    ),
    flag(
        "bcrypt-cost",
        Number,
        "10",
        Moot("no authentication"),
        "cost of password hashes",
    ),
    flag(
        "auth-token-ttl",
        Number,
        "300",
        Moot("no authentication"),
        "seconds that a token holds",
    ),
    // Profiling and monitoring.
    flag("enable-pprof", Bool, "false", NotYet, "serve profiles"),
    flag("metrics", Text, "basic", Served, "basic or extensive"),
    flag(
        "listen-metrics-urls",
        Text,
        "",
        Served,
        "where metrics and health are served besides",
    ),
    // Logging.
    flag("logger", Text, "zap", Moot("there is one logger"), "logger"),
    flag(
        "log-outputs",
        Text,
        "default",
        Served,
        "default, stdout, stderr, or files",
    ),
    flag(
        "log-level",
        Text,
        "info",
        Served,
        "debug, info, warn, error, panic or fatal",
    ),
    flag("log-format", Text, "json", Served, "json or console"),
    flag(
        "enable-log-rotation",
        Bool,
        "false",
        NotYet,
        "rotate the log file",
    ),
    flag(
        "log-rotation-config-json",
        Text,
        "",
        NotYet,
        "rotation settings",
    ),
    flag(
        "warning-unary-request-duration",
        Duration,
        "300ms",
        Served,
        "slowest request that is not worth a warning",
    ),
    // Tracing.
    flag(
        "enable-distributed-tracing",
        Bool,
        "false",
        NotYet,
        "OpenTelemetry tracing",
    ),
    flag(
        "distributed-tracing-address",
        Text,
        "localhost:4317",
        NOT_TRACED,
        "tracing collector",
    ),
    flag(
        "distributed-tracing-service-name",
        Text,
        "etcd",
        NOT_TRACED,
        "tracing service name",
    ),
    flag(
        "distributed-tracing-instance-id",
        Text,
        "",
        NOT_TRACED,
        "tracing instance id",
    ),
    flag(
        "distributed-tracing-sampling-rate",
        Number,
        "0",
        NOT_TRACED,
        "samples per million",
    ),
    // Features.
    flag(
        "corrupt-check-time",
        Duration,
        "0s",
        Served,
        "time between checks against other members",
    ),
    flag(
        "compact-hash-check-time",
        Duration,
        "1m0s",
        Served,
        "time between checks of compaction hashes",
    ),
    flag(
        "compaction-batch-limit",
        Number,
        "0",
        Served,
        "rows of a step of compaction (0: 10000)",
    ),
    flag(
        "compaction-sleep-interval",
        Duration,
        "0s",
        Served,
        "pause between two steps of compaction",
    ),
    flag(
        "watch-progress-notify-interval",
        Duration,
        "10m0s",
        Served,
        "time after which a quiet watcher is told so",
    ),
    flag(
        "warning-apply-duration",
        Duration,
        "100ms",
        Served,
        "slowest apply that is not worth a warning",
    ),
    flag(
        "bootstrap-defrag-threshold-megabytes",
        Number,
        "0",
        Served,
        "free megabytes that make a defragmentation at start worth it",
    ),
    flag(
        "downgrade-check-time",
        Duration,
        "5s",
        Served,
        "time between checks of a downgrade",
    ),
    // Unsafe.
    flag(
        "force-new-cluster",
        Bool,
        "false",
        Served,
        "make a cluster of this member alone",
    ),
    flag(
        "unsafe-no-fsync",
        Bool,
        "false",
        Served,
        "do not sync the log: a crash may lose acknowledged writes",
    ),
    flag("config-file", Text, "", NotYet, "YAML file with settings"),
];

/// The flag of this name.
pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_defaults_fit_their_kinds() {
        let mut names: Vec<_> = FLAGS.iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FLAGS.len());
        for flag in FLAGS {
            assert!(
                super::super::values::check(flag, flag.default).is_ok(),
                "{}",
                flag.name
            );
        }
    }
}
