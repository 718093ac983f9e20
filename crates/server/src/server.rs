//! A server: from a configuration to a member that serves.

use crate::auto_compaction::{AutoCompaction, auto_compaction};
use crate::bootstrap;
use crate::cluster_versions;
use crate::config::{Config, Endpoint};
use crate::corruption::{self, InitialError};
use crate::data_dir::{self, DataDirError};
use crate::driver::{self, Started, start};
use crate::features::features;
use crate::listeners::{ListenError, bind_all};
use crate::logging::list;
use crate::measured_disk::MeasuredDisk;
use crate::metrics::METRICS;
use crate::peer_api::join::JoinError;
use crate::peer_api::{LateClient, PeerApi, Peers, Timings};
use crate::peers;
use crate::services::{Frontend, Limits, Services};
use crate::slow_requests::Thresholds;
use crate::stop::{finish, hand_over};
use crate::transport;
use quorate_node::boot::{Boot, Directories, boot, is_initialized};
use quorate_node::disk::Disk;
use quorate_node::disk::real::RealDisk;
use quorate_node::store::lease;
use quorate_node::store::watch::{self, catch_up::Bounds};
use quorate_node::{Config as MemberConfig, ETCD_VERSION};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What keeps a server from starting, or ends it.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The data directory.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// What the data directory holds.
    #[error("{0}")]
    Boot(quorate_node::Error),
    /// The cluster, or what the flags say of it.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Its data, compared with the others'.
    #[error(transparent)]
    Inconsistent(#[from] InitialError),
    /// The member.
    #[error(transparent)]
    Member(#[from] quorate_node::Error),
    /// The process.
    #[error("{what}: {source}")]
    Process {
        /// What was tried.
        what: &'static str,
        /// The answer.
        source: std::io::Error,
    },
    /// It did not become able to serve.
    #[error("{0}")]
    NotReady(&'static str),
}

impl ServerError {
    /// What an operator looks for in the log: etcd's words, where etcd would have ended too.
    pub fn headline(&self) -> &'static str {
        match self {
            ServerError::DataDir(DataDirError::List { .. }) => "failed to list data directory",
            ServerError::Listen(_)
            | ServerError::DataDir(_)
            | ServerError::Boot(_)
            | ServerError::Join(_)
            | ServerError::Inconsistent(_)
            | ServerError::NotReady(_) => "discovery failed",
            ServerError::Member(_) | ServerError::Process { .. } => "the server failed",
        }
    }
}

/// Tells of a failure in a part of the start; what it ends in is told by the caller.
fn told<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> E {
    move |error| {
        tracing::error!("error" = %error, "{what}");
        error
    }
}

fn process(what: &'static str) -> impl FnOnce(std::io::Error) -> ServerError {
    move |source| ServerError::Process { what, source }
}

pub(crate) fn boot_of(config: &Config, start_ms: u64) -> Boot {
    let tick_ms = config.count("heartbeat-interval");
    let election_ticks = (config.count("election-timeout") / tick_ms) as u32;
    let or = |value: u64, default: u64| if value == 0 { default } else { value };
    // A lease must outlive an election and a half: in whole seconds, rounded up.
    let min_ttl_s = (3 * u64::from(election_ticks) / 2 * tick_ms).div_ceil(1000) as i64;
    let checkpoints = config.feature("LeaseCheckpoint", false);
    let commit_interval = config.duration("backend-batch-interval").as_millis() as u64;
    let max_apply_gap = config.count("max-apply-gap");
    let pause = config.duration("compaction-sleep-interval").as_millis() as u64;
    Boot {
        directories: Directories {
            data: config.data_dir.clone(),
            wal: config.wal_dir.clone(),
        },
        member: MemberConfig {
            member_id: 0,
            cluster_id: 0,
            name: config.name.clone(),
            client_urls: config.advertise_client.clone(),
            tick_ms,
            election_ticks,
            strict_reconfiguration: config.is_set("strict-reconfig-check"),
            max_learners: config.count("max-learners") as usize,
            advance_first_election: config.is_set("initial-election-tick-advance"),
            snapshot_count: or(config.count("snapshot-count"), 10_000),
            snapshot_catch_up: config.count("snapshot-catchup-entries"),
            max_apply_gap,
            max_apply_gap_of_revocations: match config.feature("PriorityRequest", false) {
                true => 2 * max_apply_gap,
                false => max_apply_gap,
            },
            max_proposals: 100_000,
            request_timeout_ms: 5_000 + 2 * config.count("election-timeout"),
            commit_interval_ms: or(commit_interval, 100),
            commit_writes: or(config.count("backend-batch-limit"), 10_000) as usize,
            commit_bytes_cap: 256 * 1024 * 1024,
            compaction_rows: or(config.count("compaction-batch-limit"), 10_000) as usize,
            compaction_pause_ms: pause,
        },
        heartbeat_ticks: 1,
        pre_vote: config.is_set("pre-vote"),
        initial_cluster: config.initial_cluster.clone(),
        token: config.text("initial-cluster-token").to_owned(),
        join: None,
        force_new_cluster: config.is_set("force-new-cluster"),
        store: quorate_node::store::Config {
            quota_bytes: config.number("quota-backend-bytes"),
            lease: lease::Config {
                min_ttl_s,
                checkpoint_interval_ms: checkpoints.then_some(5 * 60 * 1000),
            },
        },
        watch: watch::Config {
            progress_interval_ms: config
                .duration("watch-progress-notify-interval")
                .as_millis()
                .max(100) as u64,
            bounds: Bounds {
                rows: 20_000,
                events: 1_000,
                bytes: 64 * 1024,
            },
        },
        max_wals: config.count("max-wals") as usize,
        max_snapshots: config.count("max-snapshots") as usize,
        log: quorate_node::wal::Options {
            unsafe_no_sync: config.is_set("unsafe-no-fsync"),
            ..Default::default()
        },
        start_ms,
        seed: start_ms,
    }
}

/// Runs a server until a signal or a failure.
pub fn run(config: &Config) -> Result<(), ServerError> {
    let start_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64);
    let signals = signals()?;
    data_dir::look(&config.data_dir)?;

    tracing::info!(
        "listen-peer-urls" = list(&urls_of(&config.listen_peer)),
        "configuring peer listeners"
    );
    let peer_listeners =
        bind_all(&config.listen_peer).map_err(told("creating peer listener failed"))?;
    tracing::info!(
        "listen-client-urls" = list(&urls_of(&config.listen_client)),
        "configuring client listeners"
    );
    let doors = Doors {
        clients: bind_all(&config.listen_client)?,
        http_clients: bind_all(&config.listen_client_http)?,
        metrics: bind_all(&config.listen_metrics)?,
    };

    data_dir::prepare(&config.data_dir).map_err(told("bootstrap failed"))?;
    let mut boot_settings = boot_of(config, start_ms);
    let disk: Arc<dyn Disk> = Arc::new(MeasuredDisk(RealDisk));
    let not_booted = |error| ServerError::Boot(told("bootstrap failed")(error));
    let initialized = is_initialized(&*disk, &boot_settings.directories).map_err(not_booted)?;
    log_settings(config, initialized, &boot_settings.directories.member());
    let background = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("background")
        .enable_all()
        .build()
        .map_err(process("start the background runtime"))?;
    if !initialized {
        boot_settings.join =
            bootstrap::first_start(&background, config).map_err(told("bootstrap failed"))?;
    }
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let driver_settings = driver::Settings {
        read_threads: processors,
        start_ms,
        data_dir: config.data_dir.display().to_string(),
        slow_apply: config.duration("warning-apply-duration"),
        directories: boot_settings.directories.clone(),
        disk: disk.clone(),
        store: boot_settings.store,
    };
    let booted = boot(disk, boot_settings).map_err(not_booted)?;
    tracing::info!(
        "consistent-index" = booted.found.consistent_index,
        "commit-index" = booted.found.commit,
        "entries" = booted.found.entries as u64,
        "current-rev" = booted.found.revision,
        "kvstore restored"
    );
    if let Some(repair) = &booted.found.repaired {
        tracing::warn!(
            "path" = %repair.path.display(),
            "offset" = repair.offset,
            "broken-copy" = %repair.broken_copy.display(),
            "repaired the torn tail of the log"
        );
    }
    if initialized {
        bootstrap::check_data(&background, config, &booted.member)?;
    }
    if config.text("metrics") == "extensive" {
        METRICS.be_extensive();
    }
    let election = Duration::from_millis(config.count("election-timeout"));
    let (disk, snapshot_dir) = (
        driver_settings.disk.clone(),
        driver_settings.directories.snap(),
    );
    let client = Arc::new(LateClient::default());
    let mut peers = None;
    let started = start(booted, driver_settings, |member, host| {
        let to_ask = Peers::new(
            member.clone(),
            client.clone(),
            background.handle().clone(),
            Timings::of(config),
        );
        let api = PeerApi::new(to_ask.clone());
        peers = Some(to_ask);
        let settings = peers::Settings {
            member_id: member.member_id(),
            cluster_id: member.cluster_id(),
            advertise_peer_urls: config.advertise_peer.clone(),
            snapshot_dir,
            disk,
            dial_timeout: Duration::from_secs(1) + election,
        };
        peers::Transport::start(settings, host, Arc::new(api), peer_listeners)
    })
    .map_err(process("start threads"))?;
    client.set(started.peers.client());
    let peers = peers.expect("a member that has started was connected");
    let outcome = serve(config, &started, &peers, doors, &signals, processors);
    finish(started, config, outcome)
}

fn urls_of(endpoints: &[Endpoint]) -> Vec<String> {
    endpoints
        .iter()
        .map(|endpoint| endpoint.url.clone())
        .collect()
}

/// The settings that an operator wants to see in the log of a start.
fn log_settings(config: &Config, initialized: bool, member_dir: &std::path::Path) {
    for flag in ["max-snapshots", "v2-deprecation"] {
        if config.is_given(flag) {
            let what = match flag {
                "max-snapshots" => {
                    "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8"
                }
                _ => {
                    "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default \
                      value is enforced, ignoring user input"
                }
            };
            tracing::warn!("{what}");
        }
    }
    let millis = |flag: &str| match config.count(flag) {
        whole if whole % 1000 == 0 => format!("{}s", whole / 1000),
        parts => format!("{parts}ms"),
    };
    let cluster: Vec<String> = config
        .initial_cluster
        .iter()
        .flat_map(|(name, urls)| urls.iter().map(move |url| format!("{name}={url}")))
        .collect();
    tracing::info!(
        "etcd-version" = ETCD_VERSION,
        "quorate-version" = env!("CARGO_PKG_VERSION"),
        "member-initialized" = initialized,
        "name" = config.name.as_str(),
        "data-dir" = %config.data_dir.display(),
        "wal-dir" = config.text("wal-dir"),
        "member-dir" = %member_dir.display(),
        "force-new-cluster" = config.is_set("force-new-cluster"),
        "heartbeat-interval" = millis("heartbeat-interval"),
        "election-timeout" = millis("election-timeout"),
        "initial-election-tick-advance" = config.is_set("initial-election-tick-advance"),
        "snapshot-count" = config.count("snapshot-count"),
        "max-wals" = config.count("max-wals"),
        "max-snapshots" = config.count("max-snapshots"),
        "snapshot-catchup-entries" = config.count("snapshot-catchup-entries"),
        "initial-advertise-peer-urls" = list(&config.advertise_peer),
        "listen-peer-urls" = list(&urls_of(&config.listen_peer)),
        "advertise-client-urls" = list(&config.advertise_client),
        "listen-client-urls" = list(&urls_of(&config.listen_client)),
        "listen-metrics-urls" = list(&urls_of(&config.listen_metrics)),
        "initial-cluster" = cluster.join(","),
        "initial-cluster-state" = config.text("initial-cluster-state"),
        "initial-cluster-token" = config.text("initial-cluster-token"),
        "quota-backend-bytes" = config.number("quota-backend-bytes"),
        "max-request-bytes" = config.count("max-request-bytes"),
        "max-concurrent-streams" = config.count("max-concurrent-streams"),
        "pre-vote" = config.is_set("pre-vote"),
        "auto-compaction-mode" = config.text("auto-compaction-mode"),
        // Whatever was given: the default is enforced.
        "v2-deprecation" = "write-only",
        "starting an etcd server"
    );
}

/// Where clients come in.
struct Doors {
    clients: Vec<transport::Listener>,
    http_clients: Vec<transport::Listener>,
    metrics: Vec<transport::Listener>,
}

fn serve(
    config: &Config,
    started: &Started,
    peers: &Peers,
    doors: Doors,
    signals: &std::sync::mpsc::Receiver<&'static str>,
    processors: usize,
) -> Result<(), ServerError> {
    let member = &started.handle;
    tracing::info!(
        "local-member-id" = format!("{:x}", member.member_id()),
        "cluster-id" = format!("{:x}", member.cluster_id()),
        "local-server-version" = ETCD_VERSION,
        "starting etcd server"
    );
    let limits = Limits {
        max_request_bytes: config.count("max-request-bytes") as usize,
        max_txn_ops: config.count("max-txn-ops") as usize,
        quota_bytes: config.number("quota-backend-bytes"),
        max_snapshots: 8,
        slow: Thresholds {
            unary: config.duration("warning-unary-request-duration"),
            apply: config.duration("warning-apply-duration"),
        },
        features: features(config),
        fast_keep_alive: config.feature("FastLeaseKeepAlive", true),
    };
    let services = Arc::new(Services::new(peers.clone(), limits));
    let _versions = cluster_versions::start(peers, config.duration("downgrade-check-time"));
    let _corruption = corruption::start(peers, corruption::Intervals::of(config));
    let transport = transport::Transport::start(processors).map_err(process("start workers"))?;

    // Nobody is let in before a leader has applied its first entry.
    loop {
        if let Ok(error) = started.failed.try_recv() {
            return Err(error.into());
        }
        if let Ok(signal) = signals.try_recv() {
            tracing::info!("signal" = signal, "received signal; shutting down");
            return Ok(());
        }
        match started.ready.recv_timeout(Duration::from_millis(50)) {
            Ok(()) => break,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(match started.failed.recv() {
                    Ok(error) => error.into(),
                    Err(_) => ServerError::NotReady("the member ended"),
                });
            }
        }
    }
    defragment_at_start(config, started)?;
    let gateway = config.is_set("enable-grpc-gateway");
    let wire = Arc::new(transport::Limits {
        message_bytes_max: config.count("max-request-bytes") as usize + 512 * 1024,
        streams_max: u32::try_from(config.count("max-concurrent-streams")).unwrap_or(u32::MAX),
        keepalive: transport::Keepalive {
            min_time: config.duration("grpc-keepalive-min-time"),
            interval: config.duration("grpc-keepalive-interval"),
            timeout: config.duration("grpc-keepalive-timeout"),
        },
        headers_shown: std::env::var("GODEBUG")
            .is_ok_and(|settings| transport::headers_asked_for(&settings)),
        ..transport::Limits::default()
    });
    let separate_http = !doors.http_clients.is_empty();
    let listen = |listeners: Vec<transport::Listener>, grpc: bool, gateway: bool| {
        for listener in listeners {
            let service = Arc::new(Frontend {
                services: services.clone(),
                grpc,
                gateway,
            });
            let endpoint = transport::Endpoint {
                service,
                limits: wire.clone(),
                secure: None,
            };
            transport
                .listen(listener, endpoint)
                .map_err(process("listen"))?;
        }
        Ok::<(), ServerError>(())
    };
    listen(doors.clients, true, gateway && !separate_http)?;
    listen(doors.http_clients, false, gateway)?;
    listen(doors.metrics, false, false)?;
    for endpoint in &config.listen_client {
        tracing::info!(
            "traffic" = "grpc+http",
            "address" = endpoint.url.as_str(),
            "serving client traffic insecurely; this is strongly discouraged!"
        );
    }
    tracing::info!("ready to serve client requests");
    notify_systemd();

    let outcome = wait(started, signals, auto_compaction(config, member));
    if outcome.is_ok() {
        hand_over(started, config);
    }
    let closing = || {
        tracing::info!(
            "name" = config.name.as_str(),
            "data-dir" = %config.data_dir.display(),
            "closing etcd server"
        )
    };
    closing();
    transport.shutdown(Duration::from_secs(2));
    outcome
}

/// --bootstrap-defrag-threshold-megabytes: tidies the file before anybody is let in, where enough of
/// it is free.
fn defragment_at_start(config: &Config, started: &Started) -> Result<(), ServerError> {
    let threshold = config.number("bootstrap-defrag-threshold-megabytes") * 1024 * 1024;
    if threshold <= 0 {
        return Ok(());
    }
    let sizes = started.handle.view().sizes;
    if sizes.total - sizes.in_use < threshold {
        tracing::info!(
            "current-db-size-bytes" = sizes.total,
            "current-db-size-in-use-bytes" = sizes.in_use,
            "bootstrap-defrag-threshold-bytes" = threshold,
            "Skipping defragmentation"
        );
        return Ok(());
    }
    let (sender, receiver) = channel();
    started.handle.defragment(Box::new(move |_, _| {
        // The receiver waits below, unless the member failed meanwhile.
        let _gone = sender.send(());
    }));
    match receiver.recv() {
        Ok(()) => Ok(()),
        Err(_) => Err(ServerError::NotReady(
            "the member ended while it defragmented",
        )),
    }
}

fn wait(
    started: &Started,
    signals: &std::sync::mpsc::Receiver<&'static str>,
    mut compaction: Option<AutoCompaction>,
) -> Result<(), ServerError> {
    loop {
        if let Some(compaction) = &mut compaction {
            compaction.step();
        }
        match signals.recv_timeout(Duration::from_millis(100)) {
            Ok(signal) => {
                tracing::info!("signal" = signal, "received signal; shutting down");
                return Ok(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ServerError::NotReady("the signal thread ended"));
            }
        }
        if let Ok(error) = started.failed.try_recv() {
            return Err(error.into());
        }
    }
}

/// Tells names of signals that ask the process to end.
fn signals() -> Result<std::sync::mpsc::Receiver<&'static str>, ServerError> {
    let (sender, receiver) = channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(process("start the signal runtime"))?;
    // Handlers stand before this returns, so that a signal during the start is not lost.
    let (mut terminate, mut interrupt) = {
        let _inside = runtime.enter();
        use tokio::signal::unix::{SignalKind, signal};
        (
            signal(SignalKind::terminate()).map_err(process("handle SIGTERM"))?,
            signal(SignalKind::interrupt()).map_err(process("handle SIGINT"))?,
        )
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(async move {
                loop {
                    let name = tokio::select! {
                        _ = terminate.recv() => "terminated",
                        _ = interrupt.recv() => "interrupt",
                    };
                    if sender.send(name).is_err() {
                        return;
                    }
                }
            });
        })
        .map_err(process("start the signal thread"))?;
    Ok(receiver)
}

/// sd_notify(3): READY=1 to the socket that systemd names.
fn notify_systemd() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let told = std::os::unix::net::UnixDatagram::unbound()
        .and_then(|socket| socket.send_to(b"READY=1\n", &path));
    match told {
        Ok(_) => tracing::info!("successfully notified init daemon"),
        Err(error) => tracing::error!("error" = %error, "failed to notify systemd for readiness"),
    }
}
