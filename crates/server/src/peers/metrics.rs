//! What goes between this member and each other one, under etcd's names.
//!
//! A link's counters are looked up once, by who keeps the link. Ids that strangers claim are counted
//! while there are few.
//!
//! Source: `metrics.go` of etcd's rafthttp and snap packages.

use super::identity::hex;
use crate::metrics::instruments::{Counter, Histogram, LATENCY, RECEIVED_SNAPSHOT, Scale};
use crate::metrics::text::{Kind, Page};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Links that are shown.
const LINKS_MAX: usize = 256;

/// Round trips: 100 µs to 3.2768 s.
const ROUND_TRIP: Scale = Scale::seconds(100, 16);

/// The process's links.
pub(super) static NETWORK: Network = Network {
    links: Mutex::new(BTreeMap::new()),
    unknown_failures: Counter::new(),
    unknown_snapshots: Counter::new(),
    database_fsync: Histogram::new(LATENCY),
    database_save: Histogram::new(RECEIVED_SNAPSHOT),
};

/// Links by the ids of both ends.
type Links = BTreeMap<(u64, u64), Arc<Link>>;

pub(super) struct Network {
    links: Mutex<Links>,
    /// Messages that could not be read and so have no sender.
    pub unknown_failures: Counter,
    /// Snapshots that were refused before their sender was known.
    pub unknown_snapshots: Counter,
    /// Syncing received databases.
    pub database_fsync: Histogram,
    /// Receiving and syncing them.
    pub database_save: Histogram,
}

/// Between this member and another.
pub(super) struct Link {
    pub active: AtomicI64,
    pub disconnected: Counter,
    pub sent_bytes: Counter,
    pub received_bytes: Counter,
    pub sent_failures: Counter,
    pub received_failures: Counter,
    pub round_trip: Histogram,
    pub snapshots_sent: Transfers,
    pub snapshots_received: Transfers,
}

/// Snapshots in one direction.
pub(super) struct Transfers {
    pub done: Counter,
    pub failed: Counter,
    pub under_way: AtomicI64,
    pub took: Histogram,
}

impl Transfers {
    const fn new() -> Transfers {
        Transfers {
            done: Counter::new(),
            failed: Counter::new(),
            under_way: AtomicI64::new(0),
            took: Histogram::new(RECEIVED_SNAPSHOT),
        }
    }

    /// Counts one that is under way, as long as the value lives.
    pub fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }
}

/// A transfer that is under way.
pub(super) struct UnderWay<'a>(&'a Transfers);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    const fn new() -> Link {
        Link {
            active: AtomicI64::new(0),
            disconnected: Counter::new(),
            sent_bytes: Counter::new(),
            received_bytes: Counter::new(),
            sent_failures: Counter::new(),
            received_failures: Counter::new(),
            round_trip: Histogram::new(ROUND_TRIP),
            snapshots_sent: Transfers::new(),
            snapshots_received: Transfers::new(),
        }
    }
}

impl Network {
    /// The link between `local` and `remote`.
    pub fn link(&self, local: u64, remote: u64) -> Arc<Link> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(&(local, remote)) {
            return link.clone();
        }
        let link = Arc::new(Link::new());
        if links.len() < LINKS_MAX {
            links.insert((local, remote), link.clone());
        }
        link
    }

    fn links(&self) -> Links {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.clone()
    }
}

/// Name, type, help, label.
type Number = (
    &'static str,
    Kind,
    &'static str,
    &'static str,
    fn(&Link) -> f64,
);

/// Name, type, help; labelled by both ends.
type Between = (&'static str, Kind, &'static str, fn(&Link) -> f64);

/// Name, help, label.
type Time = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Link) -> &Histogram,
);

const NUMBERS: &[Number] = &[
    (
        "etcd_network_peer_sent_bytes_total",
        Kind::Counter,
        "Bytes of messages sent to members.",
        "To",
        |link| link.sent_bytes.get() as f64,
    ),
    (
        "etcd_network_peer_received_bytes_total",
        Kind::Counter,
        "Bytes of messages received from members.",
        "From",
        |link| link.received_bytes.get() as f64,
    ),
    (
        "etcd_network_peer_sent_failures_total",
        Kind::Counter,
        "Messages to members that were lost here.",
        "To",
        |link| link.sent_failures.get() as f64,
    ),
    (
        "etcd_network_peer_received_failures_total",
        Kind::Counter,
        "Messages from members that were lost here.",
        "From",
        |link| link.received_failures.get() as f64,
    ),
    (
        "etcd_network_snapshot_send_success",
        Kind::Counter,
        "Snapshots sent to members.",
        "To",
        |link| link.snapshots_sent.done.get() as f64,
    ),
    (
        "etcd_network_snapshot_send_failures",
        Kind::Counter,
        "Snapshots to members that failed.",
        "To",
        |link| link.snapshots_sent.failed.get() as f64,
    ),
    (
        "etcd_network_snapshot_send_inflights_total",
        Kind::Gauge,
        "Snapshots to members that are under way.",
        "To",
        |link| link.snapshots_sent.under_way.load(Ordering::Relaxed) as f64,
    ),
    (
        "etcd_network_snapshot_receive_success",
        Kind::Counter,
        "Snapshots received from members.",
        "From",
        |link| link.snapshots_received.done.get() as f64,
    ),
    (
        "etcd_network_snapshot_receive_failures",
        Kind::Counter,
        "Snapshots from members that failed.",
        "From",
        |link| link.snapshots_received.failed.get() as f64,
    ),
    (
        "etcd_network_snapshot_receive_inflights_total",
        Kind::Gauge,
        "Snapshots from members that are under way.",
        "From",
        |link| link.snapshots_received.under_way.load(Ordering::Relaxed) as f64,
    ),
];

const BETWEEN: &[Between] = &[
    (
        "etcd_network_active_peers",
        Kind::Gauge,
        "1 where the connections with a member are up.",
        |link| link.active.load(Ordering::Relaxed) as f64,
    ),
    (
        "etcd_network_disconnected_peers_total",
        Kind::Counter,
        "Times that the connections with a member broke.",
        |link| link.disconnected.get() as f64,
    ),
];

const TIMES: &[Time] = &[
    (
        "etcd_network_peer_round_trip_time_seconds",
        "Round trips of probes between members.",
        "To",
        |link| &link.round_trip,
    ),
    (
        "etcd_network_snapshot_send_total_duration_seconds",
        "Time that sending snapshots to members took.",
        "To",
        |link| &link.snapshots_sent.took,
    ),
    (
        "etcd_network_snapshot_receive_total_duration_seconds",
        "Time that receiving snapshots from members took.",
        "From",
        |link| &link.snapshots_received.took,
    ),
];

/// Writes all of it. A name stands there once there is something to say under it.
pub fn write(page: &mut Page) {
    for (name, help, histogram) in [
        (
            "etcd_snap_db_fsync_duration_seconds",
            "Time that syncs of received databases took.",
            &NETWORK.database_fsync,
        ),
        (
            "etcd_snap_db_save_total_duration_seconds",
            "Time that saving received databases took.",
            &NETWORK.database_save,
        ),
    ] {
        page.begin(name, Kind::Histogram, help);
        page.distribution(name, &[], &histogram.read());
    }
    let links = NETWORK.links();
    let unknown = [
        (
            "etcd_network_peer_received_failures_total",
            "unknown",
            &NETWORK.unknown_failures,
        ),
        (
            "etcd_network_snapshot_receive_failures",
            "UNKNOWN_SNAPSHOT_SENDER",
            &NETWORK.unknown_snapshots,
        ),
    ];
    for (name, kind, help, label, value) in NUMBERS {
        let unknown = unknown.iter().find(|(of, _, _)| of == name);
        let unknown = unknown.filter(|(_, _, counter)| counter.get() > 0);
        if links.is_empty() && unknown.is_none() {
            continue;
        }
        page.begin(name, *kind, help);
        for ((_, remote), link) in &links {
            page.sample(name, &[(label, &hex(*remote))], value(link));
        }
        if let Some((_, who, counter)) = unknown {
            page.sample(name, &[(label, who)], counter.get() as f64);
        }
    }
    for (name, kind, help, value) in BETWEEN {
        if links.is_empty() {
            break;
        }
        page.begin(name, *kind, help);
        for ((local, remote), link) in &links {
            let labels = [("Local", hex(*local)), ("Remote", hex(*remote))];
            let labels = labels.each_ref().map(|(name, id)| (*name, id.as_str()));
            page.sample(name, &labels, value(link));
        }
    }
    for (name, help, label, histogram) in TIMES {
        let found = links
            .iter()
            .map(|((_, remote), link)| (remote, histogram(link).read()));
        let found: Vec<_> = found.filter(|(_, found)| found.count() > 0).collect();
        if found.is_empty() {
            continue;
        }
        page.begin(name, Kind::Histogram, help);
        for (remote, found) in found {
            page.distribution(name, &[(label, &hex(*remote))], &found);
        }
    }
}

/// The names that depend on there being other members.
#[cfg(test)]
pub fn names_of_links() -> impl Iterator<Item = &'static str> {
    let numbers = NUMBERS.iter().map(|(name, ..)| *name);
    let between = BETWEEN.iter().map(|(name, ..)| *name);
    let times = TIMES.iter().map(|(name, ..)| *name);
    numbers.chain(between).chain(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_shown_under_etcds_names() {
        let link = NETWORK.link(0xfe01, 0xfe02);
        link.sent_bytes.add(7);
        link.active.store(1, Ordering::Relaxed);
        link.snapshots_sent.took.observe_units(150_000_000);
        assert!(Arc::ptr_eq(&link, &NETWORK.link(0xfe01, 0xfe02)));
        let mut page = Page::default();
        write(&mut page);
        let text = page.into_text();
        for line in [
            "etcd_network_peer_sent_bytes_total{To=\"fe02\"} 7\n",
            "etcd_network_peer_received_bytes_total{From=\"fe02\"} 0\n",
            "etcd_network_active_peers{Local=\"fe01\",Remote=\"fe02\"} 1\n",
            "etcd_network_snapshot_send_total_duration_seconds_bucket{To=\"fe02\",le=\"0.2\"} 1\n",
            "etcd_network_snapshot_send_total_duration_seconds_bucket{To=\"fe02\",le=\"51.2\"} 1\n",
            "# TYPE etcd_snap_db_fsync_duration_seconds histogram\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        let headers = |name: &str| text.matches(&format!("# TYPE {name} ")).count();
        for name in names_of_links().filter(|name| !name.ends_with("_seconds")) {
            assert_eq!(headers(name), 1, "{name}");
        }
    }
}
