//! Metrics, under etcd's names, with etcd's types, labels and buckets.
//!
//! Three kinds: what happens is counted as it happens, in [`METRICS`] and, for calls, in shards of
//! the threads ([`calls`]); what is a state is read from the member when somebody scrapes
//! ([`states`]); what the operating system knows is asked then, too ([`process`]). Nothing on the way
//! of a request takes a lock or looks a label up.
//!
//! Left out of what etcd shows: its gRPC proxy's and v2 store's metrics, and those of its language's
//! runtime and metrics library. Source: /metrics of etcd 3.7.3.

pub mod calls;
pub mod instruments;
mod operations;
mod process;
mod states;
pub mod text;

pub use operations::{Operation, Tally, TxnShape};

use crate::driver::Handle;
use instruments::{APPLY, Counter, DEFRAGMENTATION, HASH, Histogram, LATENCY, SNAPSHOT, Scale};
use operations::OPERATIONS;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use text::{Kind, Page};

/// The process's metrics.
pub static METRICS: Metrics = Metrics::new();

/// Results of health checks: kind and name, then the last one and how often each came.
type Checks = BTreeMap<(&'static str, &'static str), (bool, [u64; 2])>;

/// All that is counted as it happens, calls apart.
pub struct Metrics {
    /// Whether --metrics=extensive was given.
    extensive: AtomicBool,
    /// Writing to the log.
    pub wal_write: Histogram,
    /// Bytes written to the log.
    pub wal_write_bytes: Counter,
    /// Syncing the log.
    pub wal_fsync: Histogram,
    /// Syncing snapshot files of the log.
    pub snap_fsync: Histogram,
    /// Making such a file, from its opening until it is synced.
    pub snap_save: Histogram,
    /// Committing to the database.
    pub backend_commit: Histogram,
    /// The writes and syncs of a commit.
    pub commit_write: Histogram,
    /// The rest of a commit: placing and encoding pages.
    pub commit_spill: Histogram,
    /// Defragmentations.
    pub defragmentation: Histogram,
    /// Defragmentations under way.
    pub defragmentations: AtomicI64,
    /// Read transactions of the database, as of the last commit.
    pub open_reads: AtomicI64,
    /// Snapshots sent to clients.
    pub snapshot_sent: Histogram,
    /// Hashes of the whole file.
    pub hash: Histogram,
    /// Hashes at a revision.
    pub hash_rev: Histogram,
    /// Compactions, from their entry to their end.
    pub compaction_total: Histogram,
    /// Steps of compactions, which hold up what is applied.
    pub compaction_pause: Histogram,
    /// Rows that compactions removed.
    pub compaction_rows: Counter,
    /// When the last compaction ended, in seconds of Unix time.
    pub compaction_last_s: AtomicI64,
    /// Reads that no leader could confirm in time.
    pub read_indexes_failed: Counter,
    /// Requests whose application or reading took longer than --warning-apply-duration.
    pub slow_applies: Counter,
    /// Ranges, by failure and success.
    pub ranges: [Histogram; 2],
    /// Applied entries, by operation, failure and success.
    pub applied: [[Histogram; 2]; OPERATIONS],
    /// Puts.
    pub puts: Counter,
    /// Bytes of keys and values of puts.
    pub put_bytes: Counter,
    /// Deletions: ranges, and keys of revoked leases.
    pub deletes: Counter,
    /// Ranges of entries.
    pub ranges_applied: Counter,
    /// Entries and reads of more than one operation.
    pub txns: Counter,
    /// Leases granted.
    pub leases_granted: Counter,
    /// Leases renewed.
    pub leases_renewed: Counter,
    /// Leases revoked, expired ones among them.
    pub leases_revoked: Counter,
    /// Leases that expired.
    pub leases_expired: Counter,
    /// TTLs of granted leases, in seconds.
    pub lease_ttls: Histogram,
    /// Sending what a watch stream is told about its watchers. Extensive only, as the next two.
    pub watch_control: Histogram,
    /// Sending events.
    pub watch_events: Histogram,
    /// The same, divided by the events.
    pub watch_per_event: Histogram,
    /// Sending progress.
    pub watch_progress: Histogram,
    /// Health checks that passed.
    pub health_success: Counter,
    /// Learners promoted through this member.
    pub learner_promotions: Counter,
    /// Health checks that failed.
    pub health_failures: Counter,
    checks: Mutex<Checks>,
}

impl Metrics {
    const fn new() -> Metrics {
        const fn both(scale: Scale) -> [Histogram; 2] {
            [Histogram::new(scale), Histogram::new(scale)]
        }
        Metrics {
            extensive: AtomicBool::new(false),
            wal_write: Histogram::new(LATENCY),
            wal_write_bytes: Counter::new(),
            wal_fsync: Histogram::new(LATENCY),
            snap_fsync: Histogram::new(LATENCY),
            snap_save: Histogram::new(LATENCY),
            backend_commit: Histogram::new(LATENCY),
            commit_write: Histogram::new(LATENCY),
            commit_spill: Histogram::new(LATENCY),
            defragmentation: Histogram::new(DEFRAGMENTATION),
            defragmentations: AtomicI64::new(0),
            open_reads: AtomicI64::new(0),
            snapshot_sent: Histogram::new(SNAPSHOT),
            hash: Histogram::new(HASH),
            hash_rev: Histogram::new(HASH),
            compaction_total: Histogram::new(Scale::milliseconds(100_000, 14)),
            compaction_pause: Histogram::new(Scale::milliseconds(1_000, 13)),
            compaction_rows: Counter::new(),
            compaction_last_s: AtomicI64::new(0),
            read_indexes_failed: Counter::new(),
            slow_applies: Counter::new(),
            ranges: both(APPLY),
            applied: [const { both(APPLY) }; OPERATIONS],
            puts: Counter::new(),
            put_bytes: Counter::new(),
            deletes: Counter::new(),
            ranges_applied: Counter::new(),
            txns: Counter::new(),
            leases_granted: Counter::new(),
            leases_renewed: Counter::new(),
            leases_revoked: Counter::new(),
            leases_expired: Counter::new(),
            lease_ttls: Histogram::new(Scale::numbers(1, 24)),
            watch_control: Histogram::new(LATENCY),
            watch_events: Histogram::new(LATENCY),
            watch_per_event: Histogram::new(LATENCY),
            watch_progress: Histogram::new(LATENCY),
            health_success: Counter::new(),
            learner_promotions: Counter::new(),
            health_failures: Counter::new(),
            checks: Mutex::new(BTreeMap::new()),
        }
    }

    /// Takes --metrics=extensive.
    pub fn be_extensive(&self) {
        self.extensive.store(true, Ordering::Relaxed);
    }

    /// Whether clocks are read for histograms on the way of each request.
    pub fn is_extensive(&self) -> bool {
        self.extensive.load(Ordering::Relaxed)
    }

    /// Notes the result of a check of /livez or /readyz.
    pub fn checked(&self, kind: &'static str, name: &'static str, passed: bool) {
        let mut checks = self.checks();
        let (last, counts) = checks.entry((kind, name)).or_default();
        *last = passed;
        counts[usize::from(passed)] += 1;
    }

    fn checks(&self) -> std::sync::MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything, in the text format.
    pub fn render(&self, member: &Handle, features: &[Feature]) -> String {
        let mut page = Page::default();
        self.write_disk(&mut page);
        self.write_store(&mut page, member);
        self.write_server(&mut page, features);
        states::write(&mut page, member);
        calls::write(&mut page, self.is_extensive());
        crate::peers::metrics::write(&mut page);
        process::write(&mut page);
        page.into_text()
    }

    fn write_disk(&self, page: &mut Page) {
        let all: [(&str, &str, &Histogram); 11] = [
            (
                "etcd_disk_wal_write_duration_seconds",
                "Time that writes to the log took.",
                &self.wal_write,
            ),
            (
                "etcd_disk_wal_fsync_duration_seconds",
                "Time that syncs of the log took.",
                &self.wal_fsync,
            ),
            (
                "etcd_disk_backend_commit_duration_seconds",
                "Time that commits to the database took.",
                &self.backend_commit,
            ),
            (
                "etcd_debugging_disk_backend_commit_write_duration_seconds",
                "Time that the writes and syncs of a commit took.",
                &self.commit_write,
            ),
            (
                "etcd_debugging_disk_backend_commit_spill_duration_seconds",
                "Time that placing and encoding the pages of a commit took.",
                &self.commit_spill,
            ),
            (
                "etcd_debugging_disk_backend_commit_rebalance_duration_seconds",
                "Always empty: pages are rebalanced while they are placed.",
                &NEVER,
            ),
            (
                "etcd_disk_backend_defrag_duration_seconds",
                "Time that defragmentations took; the member serves meanwhile.",
                &self.defragmentation,
            ),
            (
                "etcd_disk_backend_snapshot_duration_seconds",
                "Time that sending a snapshot to a client took.",
                &self.snapshot_sent,
            ),
            (
                "etcd_snap_fsync_duration_seconds",
                "Time that syncs of .snap files took.",
                &self.snap_fsync,
            ),
            (
                "etcd_debugging_snap_save_total_duration_seconds",
                "Time that making a .snap file took.",
                &self.snap_save,
            ),
            (
                "etcd_debugging_snap_save_marshalling_duration_seconds",
                "Always empty: a .snap file holds next to nothing to encode.",
                &NEVER,
            ),
        ];
        write_histograms(page, &all);
        page.single(
            "etcd_disk_wal_write_bytes_total",
            Kind::Gauge,
            "Bytes written to the log.",
            self.wal_write_bytes.get() as f64,
        );
        page.single(
            "etcd_disk_defrag_inflight",
            Kind::Gauge,
            "1 while a defragmentation runs.",
            f64::from(u8::from(self.defragmentations.load(Ordering::Relaxed) > 0)),
        );
    }

    fn write_store(&self, page: &mut Page, member: &Handle) {
        let all: [(&str, &str, &Histogram); 10] = [
            (
                "etcd_mvcc_hash_duration_seconds",
                "Time that hashes of the whole database took.",
                &self.hash,
            ),
            (
                "etcd_mvcc_hash_rev_duration_seconds",
                "Time that hashes at a revision took.",
                &self.hash_rev,
            ),
            (
                "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
                "Time from a compaction's entry to its end.",
                &self.compaction_total,
            ),
            (
                "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds",
                "Time that a compaction's step held up what is applied.",
                &self.compaction_pause,
            ),
            (
                "etcd_debugging_lease_ttl_total",
                "TTLs of granted leases, in seconds.",
                &self.lease_ttls,
            ),
            (
                "etcd_debugging_server_watch_send_loop_control_stream_duration_seconds",
                "Time that telling a stream about its watchers took (extensive only).",
                &self.watch_control,
            ),
            (
                "etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds",
                "Time that sending a stream its events took (extensive only).",
                &self.watch_events,
            ),
            (
                "etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds",
                "The same, divided by the events (extensive only).",
                &self.watch_per_event,
            ),
            (
                "etcd_debugging_server_watch_send_loop_progress_duration_seconds",
                "Time that sending progress took (extensive only).",
                &self.watch_progress,
            ),
            (
                "etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds",
                "Always empty: the index is compacted with the rows, step by step.",
                &NEVER_INDEX,
            ),
        ];
        write_histograms(page, &all);
        let read = calls::ranges_read();
        let counters: [(&str, &str, u64); 10] = [
            ("etcd_mvcc_put_total", "Puts.", self.puts.get()),
            ("etcd_mvcc_delete_total", "Deletions.", self.deletes.get()),
            (
                "etcd_mvcc_range_total",
                "Ranges.",
                self.ranges_applied.get() + read,
            ),
            (
                "etcd_mvcc_txn_total",
                "Transactions of more than one operation.",
                self.txns.get(),
            ),
            (
                "etcd_debugging_mvcc_db_compaction_keys_total",
                "Rows that compactions removed.",
                self.compaction_rows.get(),
            ),
            (
                "etcd_debugging_lease_granted_total",
                "Leases granted.",
                self.leases_granted.get(),
            ),
            (
                "etcd_debugging_lease_renewed_total",
                "Leases renewed by this member.",
                self.leases_renewed.get(),
            ),
            (
                "etcd_debugging_lease_revoked_total",
                "Leases revoked, expired ones among them.",
                self.leases_revoked.get(),
            ),
            (
                "etcd_debugging_server_lease_expired_total",
                "Leases that expired.",
                self.leases_expired.get(),
            ),
            (
                "etcd_debugging_mvcc_events_total",
                "Events handed to watch streams.",
                member.watch_counts().events,
            ),
        ];
        for (name, help, value) in counters {
            page.single(name, Kind::Counter, help, value as f64);
        }
        page.single(
            "etcd_debugging_mvcc_total_put_size_in_bytes",
            Kind::Gauge,
            "Bytes of keys and values of puts.",
            self.put_bytes.get() as f64,
        );
        page.single(
            "etcd_debugging_mvcc_db_compaction_last",
            Kind::Gauge,
            "When the last compaction ended, in seconds of Unix time; 0 before the first since the start.",
            self.compaction_last_s.load(Ordering::Relaxed) as f64,
        );
    }

    fn write_server(&self, page: &mut Page, features: &[Feature]) {
        let name = "etcd_server_apply_duration_seconds";
        page.begin(
            name,
            Kind::Histogram,
            "Time that applying an entry took, by operation.",
        );
        for (operation, by_success) in Operation::ALL.iter().zip(&self.applied) {
            for (histogram, success) in by_success.iter().zip(["false", "true"]) {
                let found = histogram.read();
                if found.count() > 0 {
                    let labels = [
                        ("op", operation.name()),
                        ("success", success),
                        ("version", "v3"),
                    ];
                    page.distribution(name, &labels, &found);
                }
            }
        }
        let name = "etcd_server_range_duration_seconds";
        page.begin(name, Kind::Histogram, "Time that ranges took.");
        for (histogram, success) in self.ranges.iter().zip(["false", "true"]) {
            let found = histogram.read();
            if found.count() > 0 {
                page.distribution(name, &[("success", success)], &found);
            }
        }
        let counters: [(&str, &str, u64); 7] = [
            (
                "etcd_server_slow_apply_total",
                "Requests that took longer to apply or read than --warning-apply-duration.",
                self.slow_applies.get(),
            ),
            (
                "etcd_server_read_indexes_failed_total",
                "Reads that were not confirmed in time.",
                self.read_indexes_failed.get(),
            ),
            (
                "etcd_server_slow_read_indexes_total",
                "Reads that waited for a leader far ahead; a lone member has none.",
                0,
            ),
            (
                "etcd_server_heartbeat_send_failures_total",
                "Heartbeats sent too late; a lone member sends none.",
                0,
            ),
            (
                "etcd_server_learner_promote_successes",
                "Learners promoted.",
                self.learner_promotions.get(),
            ),
            (
                "etcd_server_health_success",
                "Health checks that passed.",
                self.health_success.get(),
            ),
            (
                "etcd_server_health_failures",
                "Health checks that failed.",
                self.health_failures.get(),
            ),
        ];
        for (name, help, value) in counters {
            page.single(name, Kind::Counter, help, value as f64);
        }
        page.single(
            "etcd_server_snapshot_apply_in_progress_total",
            Kind::Gauge,
            "1 while a received snapshot is taken over; a lone member receives none.",
            0.0,
        );
        let name = "etcd_server_feature_enabled";
        page.begin(name, Kind::Gauge, "1 where a feature is on.");
        for feature in features {
            let labels = [("name", feature.name), ("stage", feature.stage)];
            page.sample(name, &labels, f64::from(u8::from(feature.on)));
        }
        let checks = self.checks();
        let name = "etcd_server_healthcheck";
        page.begin(
            name,
            Kind::Gauge,
            "Last result of a check of /livez or /readyz.",
        );
        for ((kind, check), (last, _)) in checks.iter() {
            let value = f64::from(u8::from(*last));
            page.sample(name, &[("name", check), ("type", kind)], value);
        }
        let name = "etcd_server_healthchecks_total";
        page.begin(name, Kind::Counter, "Results of those checks.");
        for ((kind, check), (_, counts)) in checks.iter() {
            for (count, status) in counts.iter().zip(["error", "success"]) {
                if *count > 0 {
                    let labels = [("name", *check), ("status", status), ("type", *kind)];
                    page.sample(name, &labels, *count as f64);
                }
            }
        }
    }
}

/// A feature gate, as it is shown.
#[derive(Clone, Debug)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// ALPHA or BETA.
    pub stage: &'static str,
    /// Whether it is on.
    pub on: bool,
}

/// For what etcd has and nothing here does.
static NEVER: Histogram = Histogram::new(LATENCY);
static NEVER_INDEX: Histogram = Histogram::new(Scale::milliseconds(500, 14));

fn write_histograms(page: &mut Page, all: &[(&str, &str, &Histogram)]) {
    for (name, help, histogram) in all {
        page.begin(name, Kind::Histogram, help);
        page.distribution(name, &[], &histogram.read());
    }
}

#[cfg(test)]
mod tests;
