//! What is measured: the list of figures, their goals, and medians.

use crate::probe::{Figures, Stall};
use std::collections::BTreeMap;

/// What a figure must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At most so many times etcd's.
    RatioAtMost(f64),
    /// At least so many times etcd's.
    RatioAtLeast(f64),
    /// At least this, whatever etcd does.
    AtLeast(f64),
    /// At most this, whatever etcd does.
    AtMost(f64),
    /// It explains another figure.
    None,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// `load.figure`; the load is what `--only` names.
    pub id: &'static str,
    /// For people.
    pub what: &'static str,
    /// The unit of the value.
    pub unit: &'static str,
    /// What it must reach.
    pub goal: Goal,
}

macro_rules! figures {
    ($($id:literal, $what:literal, $unit:literal, $goal:expr;)*) => {
        /// Every figure, in the order of the table.
        pub const FIGURES: &[Figure] = &[$(Figure { id: $id, what: $what, unit: $unit, goal: $goal },)*];
    };
}

use Goal::{AtLeast, AtMost, None as NoGoal, RatioAtLeast, RatioAtMost};

figures! {
    "put.cpu", "put, 200 clients: server CPU", "µs", RatioAtMost(0.25);
    "put.rate", "put, 200 clients: throughput", "/s", RatioAtLeast(2.5);
    "put.p50", "put, 200 clients: p50", "ms", NoGoal;
    "put.p99", "put, 200 clients: p99", "ms", RatioAtMost(0.4);
    "put1.p50", "put, 1 client: p50", "ms", RatioAtMost(0.9);
    "put1.cpu", "put, 1 client: server CPU", "µs", NoGoal;
    "get.cpu", "get, linearizable, 200 clients: server CPU", "µs", RatioAtMost(0.2);
    "get.rate", "get, linearizable, 200 clients: throughput", "/s", NoGoal;
    "get.p50", "get, linearizable, 200 clients: p50", "ms", NoGoal;
    "get.p99", "get, linearizable, 200 clients: p99", "ms", NoGoal;
    "sget.cpu", "get, serializable, 200 clients: server CPU", "µs", RatioAtMost(0.2);
    "sget.rate", "get, serializable, 200 clients: throughput", "/s", RatioAtLeast(2.0);
    "sget.p50", "get, serializable, 200 clients: p50", "ms", NoGoal;
    "sget.p99", "get, serializable, 200 clients: p99", "ms", NoGoal;
    "keys.load", "loading keys of 64 B + 512 B one by one", "/s", RatioAtLeast(2.2);
    "keys.page_small", "page of 10,000 keys, a fifth of the keys: server CPU", "ms", NoGoal;
    "keys.page_large", "page of 10,000 keys, all keys: server CPU", "ms", RatioAtMost(0.05);
    "keys.page_growth", "page of 10,000 keys: CPU with all keys / with a fifth", "x", AtMost(1.2);
    "keys.page500_10k", "page of 500 of 10,000 keys: p50", "ms", NoGoal;
    "keys.page500_100k", "page of 500 of 100,000 keys: p50", "ms", NoGoal;
    "keys.page500_all", "page of 500 of all keys: p50", "ms", NoGoal;
    "keys.page500_growth", "page of 500: p50 of all keys / of 10,000", "x", AtMost(1.2);
    "keys.count", "count of all keys: p50", "ms", AtMost(1.0);
    "keys.term_read", "restart after SIGTERM until a linearizable read", "s", RatioAtMost(0.2);
    "keys.term_health", "restart after SIGTERM until /health", "s", RatioAtMost(0.2);
    "keys.kill_read", "restart after SIGKILL until a linearizable read", "s", RatioAtMost(0.2);
    "keys.kill_health", "restart after SIGKILL until /health", "s", RatioAtMost(0.2);
    "keys.memory_start", "RssAnon right after that restart", "MB", RatioAtMost(0.33);
    "keys.memory_listed", "RssAnon 15 s after a paged list of all", "MB", RatioAtMost(0.33);
    "watch.cpu", "watch, 1,000 watchers of one key: server CPU an event", "µs", RatioAtMost(0.35);
    "watch.rate", "watch, 1,000 watchers of one key: events", "/s", NoGoal;
    "defrag.seconds", "defragmenting", "s", NoGoal;
    "defrag.size_before", "database before it", "MB", NoGoal;
    "defrag.size_after", "database after it", "MB", NoGoal;
    "compact.seconds", "compacting", "s", RatioAtMost(0.3);
    "bigrange.seconds", "answering all keys three times", "s", NoGoal;
    "bigrange.answer", "one such answer", "MB", NoGoal;
    "bigrange.growth", "growth of RssAnon during it / the answer", "x", AtMost(0.1);
    "catchup.seconds", "1,000 watchers catching up, writers at full speed", "s", RatioAtMost(0.5);
    "catchup.kept", "puts kept while they catch up", "x", AtLeast(0.8);
    "catchup.p99", "put p99 while they catch up", "ms", NoGoal;
    "snapshot.seconds", "three snapshots, writers at full speed", "s", NoGoal;
    "snapshot.size", "one such snapshot", "MB", NoGoal;
    "snapshot.kept", "puts kept during the snapshots", "x", AtLeast(0.8);
    "leases.gone", "leases of 5 s gone after the last was due", "s", AtMost(1.0);
    "put3.cpu", "3 members, put through all: CPU of all", "µs", RatioAtMost(0.45);
    "put3.rate", "3 members, put through all: throughput", "/s", NoGoal;
    "put3.p50", "3 members, put through all: p50", "ms", NoGoal;
    "put3.p99", "3 members, put through all: p99", "ms", NoGoal;
    "lput3.cpu", "3 members, put through the leader: CPU of all", "µs", RatioAtMost(0.45);
    "lput3.rate", "3 members, put through the leader: throughput", "/s", NoGoal;
    "lput3.p50", "3 members, put through the leader: p50", "ms", NoGoal;
    "lput3.p99", "3 members, put through the leader: p99", "ms", NoGoal;
    "get3.cpu", "3 members, get, linearizable: CPU of all", "µs", RatioAtMost(0.4);
    "get3.rate", "3 members, get, linearizable: throughput", "/s", NoGoal;
    "get3.p50", "3 members, get, linearizable: p50", "ms", NoGoal;
    "get3.p99", "3 members, get, linearizable: p99", "ms", NoGoal;
    "sget3.cpu", "3 members, get, serializable: CPU of all", "µs", RatioAtMost(0.4);
    "sget3.rate", "3 members, get, serializable: throughput", "/s", NoGoal;
    "sget3.p50", "3 members, get, serializable: p50", "ms", NoGoal;
    "sget3.p99", "3 members, get, serializable: p99", "ms", NoGoal;
    "failover.seconds", "3 members, leader killed: until a put is acknowledged", "s", RatioAtMost(1.0);
    "failover.max", "3 members, leader killed: the longest of those", "s", NoGoal;
    "tools.size", "size of the snapshot", "MB", NoGoal;
    "tools.save", "snapshot save", "s", NoGoal;
    "tools.save_memory", "snapshot save: most anonymous memory", "MB", NoGoal;
    "tools.restore", "snapshot restore", "s", RatioAtMost(0.5);
    "tools.restore_memory", "snapshot restore: most anonymous memory", "MB", RatioAtMost(0.5);
    "tools.status", "snapshot status", "s", NoGoal;
}

/// The names of the loads on one member, in the order they run.
pub const LOADS: &[&str] = &[
    "put", "put1", "get", "sget", "keys", "watch", "idle", "defrag", "compact", "bigrange",
    "catchup", "snapshot", "leases",
];

/// Those on clusters of three.
pub const LOADS_OF_THREE: &[&str] = &["put3", "lput3", "get3", "sget3", "failover"];

/// What is measured of the command-line tools.
pub const TOOLS: &str = "tools";

/// What one run of one load on one server gave.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Figures by their id.
    pub values: BTreeMap<&'static str, f64>,
    /// The probe's, where the load has one.
    pub stall: Option<Stall>,
}

impl Run {
    /// Adds a figure, which is in the list and not yet there.
    pub fn set(&mut self, id: &'static str, value: f64) {
        assert!(FIGURES.iter().any(|figure| figure.id == id), "{id}");
        let before = self.values.insert(id, value);
        assert!(before.is_none(), "{id} is measured twice");
    }
}

/// The median of each figure over several runs.
pub fn medians(runs: &[Run]) -> Run {
    let values = FIGURES
        .iter()
        .filter_map(|figure| {
            let of_runs: Vec<f64> = runs
                .iter()
                .filter_map(|run| run.values.get(figure.id).copied())
                .collect();
            (!of_runs.is_empty()).then(|| (figure.id, median(of_runs)))
        })
        .collect();
    let stalls: Vec<Stall> = runs.iter().filter_map(|run| run.stall).collect();
    let stall = (!stalls.is_empty()).then(|| Stall {
        subject: median_figures(stalls.iter().map(|stall| stall.subject)),
        control: median_figures(stalls.iter().map(|stall| stall.control)),
        probes: median(stalls.iter().map(|stall| stall.probes).collect()),
        slowest_sync_ms: median(stalls.iter().map(|stall| stall.slowest_sync_ms).collect()),
    });
    Run { values, stall }
}

fn median_figures(all: impl Iterator<Item = Figures>) -> Figures {
    let all: Vec<Figures> = all.collect();
    let of = |get: fn(&Figures) -> f64| median(all.iter().map(get).collect());
    Figures {
        put_p50: of(|figures| figures.put_p50),
        put_p99: of(|figures| figures.put_p99),
        put_max: of(|figures| figures.put_max),
        get_p50: of(|figures| figures.get_p50),
        get_p99: of(|figures| figures.get_p99),
        get_max: of(|figures| figures.get_max),
    }
}

/// The middle value; of an even number, the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![7.0]), 7.0);
    }

    #[test]
    fn each_figure_is_of_a_load_and_has_an_id_of_its_own() {
        let mut ids: Vec<_> = FIGURES.iter().map(|figure| figure.id).collect();
        for id in &ids {
            let (load, _) = id.split_once('.').expect("load.figure");
            let places = [LOADS, LOADS_OF_THREE, &[TOOLS]].map(|loads| loads.contains(&load));
            assert_eq!(places.iter().filter(|here| **here).count(), 1, "{id}");
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), FIGURES.len());
    }
}
