//! What is read from the member when somebody scrapes.

use super::METRICS;
use super::text::{Kind, Page};
use crate::driver::Handle;
use quorate_api::etcdserverpb::AlarmType;
use quorate_node::ETCD_VERSION;
use std::sync::atomic::Ordering;

type State = (&'static str, Kind, &'static str, fn(&Handle) -> f64);

/// Writes all of it.
pub fn write(page: &mut Page, member: &Handle) {
    for (name, kind, help, read) in STATES {
        page.single(name, *kind, help, read(member));
    }
    let id = format!("{:x}", member.member_id());
    let mut told = |name: &str, help: &str, label: &str, value: &str| {
        page.begin(name, Kind::Gauge, help);
        page.sample(name, &[(label, value)], 1.0);
    };
    told(
        "etcd_server_id",
        "This member's id, in hexadecimal.",
        "server_id",
        &id,
    );
    told(
        "etcd_server_version",
        "The version of etcd that this member speaks as.",
        "server_version",
        ETCD_VERSION,
    );
    told(
        "quorate_version",
        "The version of Quorate that runs.",
        "version",
        env!("CARGO_PKG_VERSION"),
    );
    let view = member.view();
    let version = view.members.cluster_version.as_deref();
    if let Some(version) = version {
        let short = version.rsplit_once('.').map_or(version, |(short, _)| short);
        told(
            "etcd_cluster_version",
            "The version that the cluster has agreed on.",
            "cluster_version",
            short,
        );
    }
    let name = "etcd_debugging_server_alarms";
    page.begin(name, Kind::Gauge, "Active alarms, by member and type.");
    for alarm in view.alarms.of_kind(AlarmType::None as i32) {
        let member = format!("{:x}", alarm.member_id);
        let kind = AlarmType::try_from(alarm.alarm).map_or("UNKNOWN", |kind| kind.as_str_name());
        page.sample(name, &[("alarm_type", kind), ("server_id", &member)], 1.0);
    }
    let name = "etcd_network_known_peers";
    page.begin(
        name,
        Kind::Gauge,
        "Members that this one knows, itself among them.",
    );
    for known in view.members.iter() {
        let remote = format!("{:x}", known.id);
        page.sample(name, &[("Local", &id), ("Remote", &remote)], 1.0);
    }
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

const STATES: &[State] = &[
    (
        "etcd_server_has_leader",
        Kind::Gauge,
        "1 where there is a leader.",
        |m| flag(m.status().leader != 0),
    ),
    (
        "etcd_server_is_leader",
        Kind::Gauge,
        "1 where this member leads.",
        |m| flag(m.leads()),
    ),
    (
        "etcd_server_is_learner",
        Kind::Gauge,
        "1 where this member learns and does not vote.",
        |m| flag(m.status().is_learner),
    ),
    (
        "etcd_server_leader_changes_seen_total",
        Kind::Counter,
        "Leaders that came since the start.",
        |m| m.status().leader_changes as f64,
    ),
    (
        "etcd_server_proposals_committed_total",
        Kind::Gauge,
        "Index of the last entry that is committed.",
        |m| m.status().committed as f64,
    ),
    (
        "etcd_server_proposals_applied_total",
        Kind::Gauge,
        "Index of the last entry that is applied.",
        |m| m.status().applied as f64,
    ),
    (
        "etcd_server_proposals_pending",
        Kind::Gauge,
        "Proposals under way.",
        |m| m.status().pending as f64,
    ),
    (
        "etcd_server_proposals_failed_total",
        Kind::Counter,
        "Proposals given up or refused.",
        |m| m.status().failed as f64,
    ),
    (
        "etcd_server_quota_backend_bytes",
        Kind::Gauge,
        "Size of the database that raises the space alarm, in bytes; -1 for none.",
        |m| m.view().quota.max_bytes.unwrap_or(-1) as f64,
    ),
    (
        "etcd_mvcc_db_total_size_in_bytes",
        Kind::Gauge,
        "Size of the database, in bytes.",
        |m| m.view().sizes.total as f64,
    ),
    (
        "etcd_mvcc_db_total_size_in_use_in_bytes",
        Kind::Gauge,
        "Size of the database without its free pages, in bytes.",
        |m| m.view().sizes.in_use as f64,
    ),
    (
        "etcd_mvcc_db_open_read_transactions",
        Kind::Gauge,
        "Read transactions of the database that were open at the last commit.",
        |_| METRICS.open_reads.load(Ordering::Relaxed) as f64,
    ),
    (
        "etcd_debugging_mvcc_keys_total",
        Kind::Gauge,
        "Keys.",
        |m| m.view().root.live() as f64,
    ),
    (
        "etcd_debugging_mvcc_current_revision",
        Kind::Gauge,
        "The newest revision.",
        |m| m.view().revision as f64,
    ),
    (
        "etcd_debugging_mvcc_compact_revision",
        Kind::Gauge,
        "Revision of the last compaction; -1 before the first.",
        |m| m.view().compact_revision as f64,
    ),
    (
        "etcd_debugging_mvcc_watcher_total",
        Kind::Gauge,
        "Watchers.",
        |m| m.watch_counts().watchers as f64,
    ),
    (
        "etcd_debugging_mvcc_watch_stream_total",
        Kind::Gauge,
        "Watch streams.",
        |m| m.watch_counts().streams as f64,
    ),
    (
        "etcd_debugging_mvcc_slow_watcher_total",
        Kind::Gauge,
        "Watchers that catch up.",
        |m| m.watch_counts().lagging as f64,
    ),
    (
        "etcd_debugging_mvcc_pending_events_total",
        Kind::Gauge,
        "Always 0: events are not queued for watchers that lag, but read again.",
        |_| 0.0,
    ),
    (
        "etcd_debugging_auth_revision",
        Kind::Gauge,
        "Revision of the users and roles; there are none yet.",
        |_| 1.0,
    ),
];
