//! Metrics, under etcd's names.
//!
//! What is counted as it happens lives in the statics; what is a state is read from the member when
//! somebody scrapes.

use crate::driver::Handle;
use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder, exponential_buckets,
};
use quorate_api::Method;
use quorate_api::etcdserverpb::AlarmType;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The process's metrics.
pub static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);

/// Calls begun, by method; counted without a lock on the way of a call.
static STARTED: LazyLock<Vec<AtomicU64>> =
    LazyLock::new(|| Method::ALL.iter().map(|_| AtomicU64::new(0)).collect());

/// Notes that a call began.
pub fn call_started(method: Method) {
    STARTED[method as usize].fetch_add(1, Ordering::Relaxed);
}

/// All that is counted as it happens.
pub struct Metrics {
    registry: Registry,
    /// Appending to the log and syncing it.
    pub wal_fsync: Histogram,
    /// Committing to the database.
    pub backend_commit: Histogram,
    /// Health checks that passed.
    pub health_success: IntCounter,
    /// Health checks that failed.
    pub health_failures: IntCounter,
    /// The last result of each check of /livez and /readyz.
    pub healthcheck: IntGaugeVec,
    /// Results of those checks.
    pub healthchecks: IntCounterVec,
    started: IntCounterVec,
    gauges: Vec<(IntGauge, fn(&Handle) -> i64)>,
    server_id: IntGaugeVec,
    server_version: IntGaugeVec,
    cluster_version: IntGaugeVec,
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help)
}

macro_rules! register {
    ($registry:ident, $metric:expr) => {{
        let metric = $metric.expect("the name of a metric is well-formed");
        $registry
            .register(Box::new(metric.clone()))
            .expect("a metric is registered once");
        metric
    }};
}

impl Metrics {
    fn new() -> Metrics {
        let registry = Registry::new();
        let buckets = || exponential_buckets(0.001, 2.0, 14).expect("the bounds ascend");
        let histogram = |name: &str, help: &str| {
            Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets()))
        };
        let wal_fsync = register!(
            registry,
            histogram(
                "etcd_disk_wal_fsync_duration_seconds",
                "The latency distributions of fsync called by WAL."
            )
        );
        let backend_commit = register!(
            registry,
            histogram(
                "etcd_disk_backend_commit_duration_seconds",
                "The latency distributions of commit called by backend."
            )
        );
        let health_success = register!(
            registry,
            IntCounter::new(
                "etcd_server_health_success",
                "The total number of successful health checks"
            )
        );
        let health_failures = register!(
            registry,
            IntCounter::new(
                "etcd_server_health_failures",
                "The total number of failed health checks"
            )
        );
        let healthcheck = register!(
            registry,
            IntGaugeVec::new(
                opts(
                    "etcd_server_healthcheck",
                    "The result of each kind of healthcheck."
                ),
                &["type", "name"]
            )
        );
        let healthchecks = register!(
            registry,
            IntCounterVec::new(
                opts(
                    "etcd_server_healthchecks_total",
                    "The total number of each kind of healthcheck."
                ),
                &["type", "name", "status"]
            )
        );
        let started = register!(
            registry,
            IntCounterVec::new(
                opts(
                    "grpc_server_started_total",
                    "Total number of RPCs started on the server."
                ),
                &["grpc_method", "grpc_service", "grpc_type"]
            )
        );
        let labelled =
            |name: &str, help: &str, label: &str| IntGaugeVec::new(opts(name, help), &[label]);
        let server_id = register!(
            registry,
            labelled(
                "etcd_server_id",
                "Server or member ID in hexadecimal format.",
                "server_id"
            )
        );
        let server_version = register!(
            registry,
            labelled(
                "etcd_server_version",
                "Which version is running.",
                "server_version"
            )
        );
        let cluster_version = register!(
            registry,
            labelled(
                "etcd_cluster_version",
                "Which version is running.",
                "cluster_version"
            )
        );
        let own_version = register!(
            registry,
            labelled(
                "quorate_version",
                "Which version of Quorate is running.",
                "version"
            )
        );
        own_version
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let mut gauges: Vec<(IntGauge, fn(&Handle) -> i64)> = Vec::new();
        for (name, help, read) in STATES {
            gauges.push((register!(registry, IntGauge::new(*name, *help)), *read));
        }
        let process = prometheus::process_collector::ProcessCollector::for_self();
        registry
            .register(Box::new(process))
            .expect("a metric is registered once");
        Metrics {
            registry,
            wal_fsync,
            backend_commit,
            health_success,
            health_failures,
            healthcheck,
            healthchecks,
            started,
            gauges,
            server_id,
            server_version,
            cluster_version,
        }
    }

    /// Everything, in the text format.
    pub fn render(&self, member: &Handle) -> Vec<u8> {
        for (gauge, read) in &self.gauges {
            gauge.set(read(member));
        }
        let id = format!("{:x}", member.member_id());
        self.server_id.with_label_values(&[&id]).set(1);
        self.server_version
            .with_label_values(&[quorate_node::ETCD_VERSION])
            .set(1);
        if let Some(version) = &member.view().members.cluster_version {
            let short = version
                .rsplit_once('.')
                .map_or(version.as_str(), |(short, _)| short);
            self.cluster_version.reset();
            self.cluster_version.with_label_values(&[short]).set(1);
        }
        for (method, count) in Method::ALL.iter().zip(STARTED.iter()) {
            let kind = match (method.client_streaming(), method.server_streaming()) {
                (false, false) => "unary",
                (false, true) => "server_stream",
                (true, _) => "bidi_stream",
            };
            let labels = [method.name(), method.service(), kind];
            let counter = self.started.with_label_values(&labels);
            counter.inc_by(count.load(Ordering::Relaxed) - counter.get());
        }
        let mut out = Vec::new();
        let encoded = TextEncoder::new().encode(&self.registry.gather(), &mut out);
        encoded.expect("a vector takes everything");
        // The library writes states as gauges; counters among them are counters to their readers.
        let mut text = String::from_utf8(out).expect("the text format is UTF-8");
        for (name, ..) in STATES.iter().filter(|(name, ..)| name.ends_with("_total")) {
            text = text.replace(
                &format!("# TYPE {name} gauge\n"),
                &format!("# TYPE {name} counter\n"),
            );
        }
        text.into_bytes()
    }
}

type State = (&'static str, &'static str, fn(&Handle) -> i64);

/// What is read from the member when somebody scrapes.
const STATES: &[State] = &[
    (
        "etcd_server_has_leader",
        "Whether or not a leader exists. 1 is existence, 0 is not.",
        |m| i64::from(m.status().leader != 0),
    ),
    (
        "etcd_server_is_leader",
        "Whether or not this member is a leader. 1 if is, 0 otherwise.",
        |m| i64::from(m.status().leader == m.member_id()),
    ),
    (
        "etcd_server_is_learner",
        "Whether or not this member is a learner. 1 if is, 0 otherwise.",
        |m| i64::from(m.status().is_learner),
    ),
    (
        "etcd_server_leader_changes_seen_total",
        "The number of leader changes seen.",
        |m| m.status().leader_changes as i64,
    ),
    (
        "etcd_server_proposals_committed_total",
        "The total number of consensus proposals committed.",
        |m| m.status().committed as i64,
    ),
    (
        "etcd_server_proposals_applied_total",
        "The total number of consensus proposals applied.",
        |m| m.status().applied as i64,
    ),
    (
        "etcd_server_proposals_pending",
        "The current number of pending proposals to commit.",
        |m| m.status().pending as i64,
    ),
    (
        "etcd_server_proposals_failed_total",
        "The total number of failed proposals seen.",
        |m| m.status().failed as i64,
    ),
    (
        "etcd_server_quota_backend_bytes",
        "Current backend storage quota size in bytes.",
        |m| m.view().quota.max_bytes.unwrap_or(-1),
    ),
    (
        "etcd_mvcc_db_total_size_in_bytes",
        "Total size of the underlying database physically allocated in bytes.",
        |m| m.view().sizes.total,
    ),
    (
        "etcd_mvcc_db_total_size_in_use_in_bytes",
        "Total size of the underlying database logically in use in bytes.",
        |m| m.view().sizes.in_use,
    ),
    (
        "etcd_debugging_mvcc_keys_total",
        "Total number of keys.",
        |m| m.view().root.live() as i64,
    ),
    (
        "etcd_debugging_mvcc_current_revision",
        "The current revision of store.",
        |m| m.view().revision,
    ),
    (
        "etcd_debugging_mvcc_compact_revision",
        "The revision of the last compaction in store.",
        |m| m.view().compact_revision,
    ),
    (
        "etcd_debugging_mvcc_watcher_total",
        "Total number of watchers.",
        |m| m.watch_counts().watchers as i64,
    ),
    (
        "etcd_debugging_mvcc_watch_stream_total",
        "Total number of watch streams.",
        |m| m.watch_counts().streams as i64,
    ),
    (
        "etcd_debugging_mvcc_slow_watcher_total",
        "Total number of unsynced slow watchers.",
        |m| m.watch_counts().lagging as i64,
    ),
    (
        "etcd_debugging_mvcc_events_total",
        "Total number of events sent by this member.",
        |m| m.watch_counts().events as i64,
    ),
    (
        "etcd_debugging_server_alarms",
        "Alarms that are active on any member.",
        |m| m.view().alarms.of_kind(AlarmType::None as i32).len() as i64,
    ),
];
