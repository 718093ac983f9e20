//! Calls, counted per method without a lock and without a shared cache line.
//!
//! Each thread has a shard of its own, which it alone writes; a scrape adds them up. So a count is a
//! load and a store to memory that no other core writes to.
//!
//! Times are those of the rounds of a connection (see [`crate::transport::Ended`]): right to a
//! fraction of a millisecond, and free. With --metrics=extensive the clock is read at each end.

use super::instruments::{Distribution, LATENCY};
use super::text::{Kind, Page};
use quorate_api::{Code, Method};
use quorate_go::grpc::code_name;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// gRPC codes there are.
const CODES: usize = 17;
/// Versions that clients call themselves, told apart; the rest are counted as one.
const VERSIONS: usize = 32;
const NAMED_VERSIONS: usize = VERSIONS - 2;
/// Where a client says no version.
const UNKNOWN_VERSION: usize = VERSIONS - 2;
/// Versions beyond those told apart.
const OTHER_VERSION: usize = VERSIONS - 1;

/// Bounds of grpc_server_handling_seconds, in nanoseconds; etcd has its library's defaults there.
const HANDLING: [u64; 11] = [
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// A count that one thread writes.
#[derive(Default)]
struct Own(AtomicU64);

impl Own {
    fn add(&self, count: u64) {
        // Nobody else writes: no read-modify-write is needed.
        self.0.store(self.0.load(Relaxed) + count, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Default)]
struct MethodShard {
    started: Own,
    received: Own,
    received_bytes: Own,
    sent: Own,
    sent_bytes: Own,
    handled: [Own; CODES],
    handling: [Own; HANDLING.len() + 1],
    handling_ns: Own,
}

#[derive(Default)]
struct TypeShard {
    /// By failure and success.
    took: [[Own; LATENCY.bounds + 1]; 2],
    took_ns: [Own; 2],
}

struct Shard {
    methods: Vec<MethodShard>,
    types: [TypeShard; RequestType::ALL.len()],
    /// By version, unary and stream.
    versions: [[Own; 2]; VERSIONS],
}

impl Shard {
    fn new() -> Shard {
        Shard {
            methods: Method::ALL.iter().map(|_| MethodShard::default()).collect(),
            types: Default::default(),
            versions: Default::default(),
        }
    }
}

/// All shards. Threads are few, and what one counted stays when it ends.
static SHARDS: Mutex<Vec<Arc<Shard>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Arc<Shard> = {
        let shard = Arc::new(Shard::new());
        shards().push(shard.clone());
        shard
    };
}

fn shards() -> std::sync::MutexGuard<'static, Vec<Arc<Shard>>> {
    SHARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own(method: Method, count: impl FnOnce(&MethodShard)) {
    OWN.with(|shard| count(&shard.methods[method as usize]));
}

/// A call begins: its version, and whether it is a stream.
pub fn started(method: Method, version: Option<&str>) {
    let version = version.map_or(UNKNOWN_VERSION, version_place);
    let stream = method.client_streaming() || method.server_streaming();
    OWN.with(|shard| {
        shard.methods[method as usize].started.add(1);
        shard.versions[version][usize::from(stream)].add(1);
    });
}

/// A message has come.
pub fn received(method: Method, bytes: usize) {
    own(method, |shard| {
        shard.received.add(1);
        shard.received_bytes.add(bytes as u64);
    });
}

/// A message leaves.
pub fn sent(method: Method, bytes: usize) {
    own(method, |shard| {
        shard.sent.add(1);
        shard.sent_bytes.add(bytes as u64);
    });
}

fn ns(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

/// A call ends. `handling` is its exact time, where that is asked for.
pub fn ended(method: Method, code: Code, handling: Option<Duration>) {
    own(method, |shard| {
        shard.handled[code as usize].add(1);
        if let Some(handling) = handling {
            let ns = ns(handling);
            shard.handling[HANDLING.partition_point(|bound| *bound < ns)].add(1);
            shard.handling_ns.add(ns);
        }
    });
}

/// A request of a type that etcd times was answered.
pub fn answered(kind: RequestType, code: Code, took: Duration) {
    OWN.with(|shard| {
        let shard = &shard.types[kind as usize];
        let (success, ns) = (usize::from(code == Code::Ok), ns(took));
        shard.took[success][LATENCY.bucket(ns)].add(1);
        shard.took_ns[success].add(ns);
    });
}

static NAMES: [OnceLock<Box<str>>; NAMED_VERSIONS] = [const { OnceLock::new() }; NAMED_VERSIONS];

/// Where a version is counted. The first ones to come are told apart: a client may claim anything,
/// and must not fill our memory by it.
fn version_place(version: &str) -> usize {
    for (place, name) in NAMES.iter().enumerate() {
        match name.get() {
            Some(known) if **known == *version => return place,
            Some(_) => {}
            None if version.len() <= 64 => {
                if **name.get_or_init(|| version.into()) == *version {
                    return place;
                }
            }
            None => return OTHER_VERSION,
        }
    }
    OTHER_VERSION
}

/// The sum of a count over all threads.
fn total(shards: &[Arc<Shard>], count: impl Fn(&Shard) -> u64) -> u64 {
    shards.iter().map(|shard| count(shard)).sum()
}

/// Ranges that clients read with calls of their own: those that were answered, and those whose
/// revision was not there.
pub fn ranges_read() -> u64 {
    [Code::Ok, Code::OutOfRange]
        .iter()
        .flat_map(|code| [(Method::KVRange, *code), (Method::KVRangeStream, *code)])
        .map(|(method, code)| handled(method, code))
        .sum()
}

/// Calls of a method that ended with a code.
fn handled(method: Method, code: Code) -> u64 {
    total(&shards(), |shard| {
        shard.methods[method as usize].handled[code as usize].get()
    })
}

fn type_name(method: Method) -> &'static str {
    match (method.client_streaming(), method.server_streaming()) {
        (false, false) => "unary",
        (false, true) => "server_stream",
        (true, _) => "bidi_stream",
    }
}

/// Whether etcd shows a method before its first call.
fn is_shown_early(method: Method) -> bool {
    !method.service().starts_with("v3lockpb.") && !method.service().starts_with("v3electionpb.")
}

/// The types of etcd_server_request_duration_seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RequestType {
    Range,
    ReadonlyTxn,
    Put,
    DeleteRange,
    Txn,
    Compaction,
    LeaseGrant,
    LeaseRevoke,
    Alarm,
    AuthStatus,
}

impl RequestType {
    const ALL: [RequestType; 10] = [
        RequestType::Range,
        RequestType::ReadonlyTxn,
        RequestType::Put,
        RequestType::DeleteRange,
        RequestType::Txn,
        RequestType::Compaction,
        RequestType::LeaseGrant,
        RequestType::LeaseRevoke,
        RequestType::Alarm,
        RequestType::AuthStatus,
    ];

    fn name(self) -> &'static str {
        match self {
            RequestType::Range => "Range",
            RequestType::ReadonlyTxn => "ReadonlyTxn",
            RequestType::Put => "Put",
            RequestType::DeleteRange => "DeleteRange",
            RequestType::Txn => "Txn",
            RequestType::Compaction => "Compaction",
            RequestType::LeaseGrant => "LeaseGrant",
            RequestType::LeaseRevoke => "LeaseRevoke",
            RequestType::Alarm => "Alarm",
            RequestType::AuthStatus => "AuthStatus",
        }
    }

    /// The type of a call that has ended. `deferred`: it was not answered at once, so a write was
    /// proposed; what is refused before that is not timed. A transaction that was answered at once
    /// was read; one that reads so much that it went to another thread passes for a write.
    pub fn of(method: Method, code: Code, deferred: bool) -> Option<RequestType> {
        match method {
            Method::KVRange => return Some(RequestType::Range),
            Method::KVTxn if !deferred && code == Code::Ok => {
                return Some(RequestType::ReadonlyTxn);
            }
            Method::AuthAuthStatus => return Some(RequestType::AuthStatus),
            _ => {}
        }
        let write = match method {
            Method::KVPut => RequestType::Put,
            Method::KVDeleteRange => RequestType::DeleteRange,
            Method::KVTxn => RequestType::Txn,
            Method::KVCompact => RequestType::Compaction,
            Method::LeaseLeaseGrant => RequestType::LeaseGrant,
            Method::LeaseLeaseRevoke => RequestType::LeaseRevoke,
            Method::MaintenanceAlarm => RequestType::Alarm,
            _ => return None,
        };
        deferred.then_some(write)
    }
}

/// Writes all metrics of calls.
pub fn write(page: &mut Page, extensive: bool) {
    let shards = shards();
    let of = |method: Method, count: &dyn Fn(&MethodShard) -> u64| {
        total(&shards, |shard| count(&shard.methods[method as usize]))
    };
    type Simple = (&'static str, &'static str, fn(&MethodShard) -> u64);
    let simple: [Simple; 3] = [
        ("grpc_server_started_total", "Calls that began.", |shard| {
            shard.started.get()
        }),
        (
            "grpc_server_msg_received_total",
            "Messages that came.",
            |shard| shard.received.get(),
        ),
        (
            "grpc_server_msg_sent_total",
            "Messages that were sent.",
            |shard| shard.sent.get(),
        ),
    ];
    for (name, help, count) in simple {
        page.begin(name, Kind::Counter, help);
        for method in Method::ALL {
            let value = of(*method, &count);
            if value > 0 || is_shown_early(*method) {
                page.sample(name, &labels(*method), value as f64);
            }
        }
    }
    let name = "grpc_server_handled_total";
    page.begin(name, Kind::Counter, "Calls that ended, by code.");
    for method in Method::ALL {
        for code in 0..CODES {
            let value = of(*method, &|shard| shard.handled[code].get());
            if value > 0 || is_shown_early(*method) {
                let [name_label, service, kind] = labels(*method);
                let labels = [("grpc_code", code_name(code)), name_label, service, kind];
                page.sample(name, &labels, value as f64);
            }
        }
    }
    if extensive {
        let name = "grpc_server_handling_seconds";
        page.begin(name, Kind::Histogram, "Time that calls took.");
        for method in Method::ALL {
            let labels = labels(*method);
            let counts: Vec<u64> = (0..=HANDLING.len())
                .map(|bucket| of(*method, &|shard| shard.handling[bucket].get()))
                .collect();
            let count: u64 = counts.iter().sum();
            if count == 0 && !is_shown_early(*method) {
                continue;
            }
            let mut below = 0;
            for (bound, count) in HANDLING.iter().zip(&counts) {
                below += count;
                let bound = super::text::spell(*bound as f64 / 1e9);
                page.bucket(name, &labels, &bound, below);
            }
            let ns = of(*method, &|shard| shard.handling_ns.get());
            page.rest_of_histogram(name, &labels, ns as f64 / 1e9, count);
        }
    }
    let bytes = |count: fn(&MethodShard) -> u64| {
        Method::ALL
            .iter()
            .map(|method| of(*method, &count))
            .sum::<u64>() as f64
    };
    page.single(
        "etcd_network_client_grpc_received_bytes_total",
        Kind::Counter,
        "Bytes of messages that came from gRPC clients.",
        bytes(|shard| shard.received_bytes.get()),
    );
    page.single(
        "etcd_network_client_grpc_sent_bytes_total",
        Kind::Counter,
        "Bytes of messages that were sent to gRPC clients.",
        bytes(|shard| shard.sent_bytes.get()),
    );
    let name = "etcd_server_client_requests_total";
    page.begin(
        name,
        Kind::Counter,
        "Client requests by version of the client.",
    );
    for place in 0..VERSIONS {
        let version = match place {
            UNKNOWN_VERSION => "unknown",
            OTHER_VERSION => "other",
            named => NAMES[named].get().map_or("", |name| name),
        };
        for (which, kind) in ["unary", "stream"].into_iter().enumerate() {
            let value = total(&shards, |shard| shard.versions[place][which].get());
            if value > 0 {
                let labels = [("client_api_version", version), ("type", kind)];
                page.sample(name, &labels, value as f64);
            }
        }
    }
    let name = "etcd_server_request_duration_seconds";
    page.begin(
        name,
        Kind::Histogram,
        "Time until a request was answered, by type.",
    );
    for kind in RequestType::ALL {
        for (success, shown) in ["false", "true"].into_iter().enumerate() {
            let mut found = Distribution::new(LATENCY);
            for bucket in 0..=LATENCY.bounds {
                found.buckets[bucket] = total(&shards, |shard| {
                    shard.types[kind as usize].took[success][bucket].get()
                });
            }
            found.sum = total(&shards, |shard| {
                shard.types[kind as usize].took_ns[success].get()
            });
            if found.count() > 0 {
                let labels = [("success", shown), ("type", kind.name())];
                page.distribution(name, &labels, &found);
            }
        }
    }
}

fn labels(method: Method) -> [(&'static str, &'static str); 3] {
    [
        ("grpc_method", method.name()),
        ("grpc_service", method.service()),
        ("grpc_type", type_name(method)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of the page, by its text up to the value.
    fn value(text: &str, sample: &str) -> f64 {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    // Other tests of the process make calls too: a method that none of them uses is taken.
    const QUIET: Method = Method::MaintenanceDowngrade;

    #[test]
    fn what_threads_count_is_added_up() {
        let labels = "{grpc_method=\"Downgrade\",grpc_service=\"etcdserverpb.Maintenance\",grpc_type=\"unary\"}";
        let count = || {
            started(QUIET, Some("9.9-test"));
            received(QUIET, 10);
            sent(QUIET, 20);
            let took = Duration::from_millis(30);
            ended(QUIET, Code::Unimplemented, Some(took));
        };
        count();
        std::thread::spawn(count).join().unwrap();
        let mut page = Page::default();
        write(&mut page, true);
        let text = page.into_text();
        for name in ["started", "msg_received", "msg_sent"] {
            let sample = format!("grpc_server_{name}_total{labels}");
            assert_eq!(value(&text, &sample), 2.0, "{sample}");
        }
        let handled = "grpc_server_handled_total{grpc_code=\"Unimplemented\",";
        assert_eq!(value(&text, &format!("{handled}{}", &labels[1..])), 2.0);
        assert_eq!(handled_of(&text, "0.025"), 0.0);
        assert_eq!(handled_of(&text, "0.05"), 2.0);
        let requests =
            "etcd_server_client_requests_total{client_api_version=\"9.9-test\",type=\"unary\"}";
        assert_eq!(value(&text, requests), 2.0);
    }

    fn handled_of(text: &str, bound: &str) -> f64 {
        let sample = "grpc_server_handling_seconds_bucket{grpc_method=\"Downgrade\",grpc_service=\"etcdserverpb.Maintenance\",grpc_type=\"unary\",le=";
        value(text, &format!("{sample}\"{bound}\"}}"))
    }

    #[test]
    fn types_are_those_of_requests_that_were_taken() {
        let of = RequestType::of;
        assert_eq!(of(Method::KVPut, Code::Ok, true), Some(RequestType::Put));
        assert_eq!(of(Method::KVPut, Code::InvalidArgument, false), None);
        assert_eq!(of(Method::KVTxn, Code::Ok, true), Some(RequestType::Txn));
        assert_eq!(
            of(Method::KVTxn, Code::Ok, false),
            Some(RequestType::ReadonlyTxn)
        );
        assert_eq!(
            of(Method::KVRange, Code::OutOfRange, false),
            Some(RequestType::Range)
        );
        for (i, kind) in RequestType::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, i);
        }
    }

    #[test]
    fn versions_beyond_those_told_apart_are_counted_as_one() {
        assert_eq!(version_place(&"x".repeat(65)), OTHER_VERSION);
        let first = version_place("made up");
        assert_eq!(version_place("made up"), first);
    }
}
