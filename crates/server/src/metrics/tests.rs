//! That no metric gets lost, and that what happens is counted. Against a whole member over a disk
//! in memory, behind the real transport.

use super::METRICS;
use crate::config::Config;
use crate::driver::Handle;
use crate::features::features;
use crate::lone::Lone;
use crate::services::{Frontend, Limits, Services};
use crate::slow_requests::Thresholds;
use crate::transport::tests::fake::{Outcome, call, call_request, framed, with_headers};
use crate::transport::{self, Endpoint, Listener, Transport};
use bytes::Bytes;
use h2::client::SendRequest;
use prost::Message;
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest,
};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// What a lone etcd 3.7.3 shows with --metrics=extensive, and of what type.
const NAMES: &str = "
etcd_cluster_version gauge
etcd_debugging_auth_revision gauge
etcd_debugging_disk_backend_commit_rebalance_duration_seconds histogram
etcd_debugging_disk_backend_commit_spill_duration_seconds histogram
etcd_debugging_disk_backend_commit_write_duration_seconds histogram
etcd_debugging_lease_granted_total counter
etcd_debugging_lease_renewed_total counter
etcd_debugging_lease_revoked_total counter
etcd_debugging_lease_ttl_total histogram
etcd_debugging_mvcc_compact_revision gauge
etcd_debugging_mvcc_current_revision gauge
etcd_debugging_mvcc_db_compaction_keys_total counter
etcd_debugging_mvcc_db_compaction_last gauge
etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds histogram
etcd_debugging_mvcc_db_compaction_total_duration_milliseconds histogram
etcd_debugging_mvcc_events_total counter
etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds histogram
etcd_debugging_mvcc_keys_total gauge
etcd_debugging_mvcc_pending_events_total gauge
etcd_debugging_mvcc_slow_watcher_total gauge
etcd_debugging_mvcc_total_put_size_in_bytes gauge
etcd_debugging_mvcc_watch_stream_total gauge
etcd_debugging_mvcc_watcher_total gauge
etcd_debugging_server_alarms gauge
etcd_debugging_server_lease_expired_total counter
etcd_debugging_server_watch_send_loop_control_stream_duration_seconds histogram
etcd_debugging_server_watch_send_loop_progress_duration_seconds histogram
etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds histogram
etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds histogram
etcd_debugging_snap_save_marshalling_duration_seconds histogram
etcd_debugging_snap_save_total_duration_seconds histogram
etcd_disk_backend_commit_duration_seconds histogram
etcd_disk_backend_defrag_duration_seconds histogram
etcd_disk_backend_snapshot_duration_seconds histogram
etcd_disk_defrag_inflight gauge
etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_write_bytes_total gauge
etcd_disk_wal_write_duration_seconds histogram
etcd_mvcc_db_open_read_transactions gauge
etcd_mvcc_db_total_size_in_bytes gauge
etcd_mvcc_db_total_size_in_use_in_bytes gauge
etcd_mvcc_delete_total counter
etcd_mvcc_hash_duration_seconds histogram
etcd_mvcc_hash_rev_duration_seconds histogram
etcd_mvcc_put_total counter
etcd_mvcc_range_total counter
etcd_mvcc_txn_total counter
etcd_network_client_grpc_received_bytes_total counter
etcd_network_client_grpc_sent_bytes_total counter
etcd_network_known_peers gauge
etcd_server_apply_duration_seconds histogram
etcd_server_client_requests_total counter
etcd_server_feature_enabled gauge
etcd_server_has_leader gauge
etcd_server_health_failures counter
etcd_server_health_success counter
etcd_server_healthcheck gauge
etcd_server_healthchecks_total counter
etcd_server_heartbeat_send_failures_total counter
etcd_server_id gauge
etcd_server_is_leader gauge
etcd_server_is_learner gauge
etcd_server_leader_changes_seen_total counter
etcd_server_learner_promote_successes counter
etcd_server_proposals_applied_total gauge
etcd_server_proposals_committed_total gauge
etcd_server_proposals_failed_total counter
etcd_server_proposals_pending gauge
etcd_server_quota_backend_bytes gauge
etcd_server_range_duration_seconds histogram
etcd_server_read_indexes_failed_total counter
etcd_server_request_duration_seconds histogram
etcd_server_slow_apply_total counter
etcd_server_slow_read_indexes_total counter
etcd_server_snapshot_apply_in_progress_total gauge
etcd_server_version gauge
etcd_snap_db_fsync_duration_seconds histogram
etcd_snap_db_save_total_duration_seconds histogram
etcd_snap_fsync_duration_seconds histogram
grpc_server_handled_total counter
grpc_server_handling_seconds histogram
grpc_server_msg_received_total counter
grpc_server_msg_sent_total counter
grpc_server_started_total counter
os_fd_limit gauge
os_fd_used gauge
process_cpu_seconds_total counter
process_max_fds gauge
process_network_receive_bytes_total counter
process_network_transmit_bytes_total counter
process_open_fds gauge
process_resident_memory_bytes gauge
process_start_time_seconds gauge
process_virtual_memory_bytes gauge
process_virtual_memory_max_bytes gauge
quorate_version gauge
";

/// A page's samples, by name and labels.
fn samples(member: &Handle, config: &Config) -> BTreeMap<String, f64> {
    let text = METRICS.render(member, &features(config));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
        (name.to_owned(), value.parse().expect("it is a number"))
    });
    samples.collect()
}

async fn answered(client: &SendRequest<Bytes>, path: &str, message: &impl Message) -> Outcome {
    let outcome = call(client, path, &message.encode_to_vec()).await;
    assert_eq!(outcome.code(), "0", "{path}: {}", outcome.message());
    outcome
}

fn put(key: &str, lease: i64) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: "12345".into(),
        lease,
        ..Default::default()
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// Some of everything.
async fn load(client: &SendRequest<Bytes>) {
    let kv = |name: &str| format!("/etcdserverpb.KV/{name}");
    let grant = LeaseGrantRequest { ttl: 100, id: 77 };
    answered(client, "/etcdserverpb.Lease/LeaseGrant", &grant).await;
    for (key, lease) in [("a", 0), ("b", 77), ("c", 77)] {
        answered(client, &kv("Put"), &put(key, lease)).await;
    }
    let range = RangeRequest {
        key: "a".into(),
        ..Default::default()
    };
    answered(client, &kv("Range"), &range).await;
    let future = RangeRequest {
        revision: 1000,
        ..range.clone()
    };
    let refused = call(client, &kv("Range"), &future.encode_to_vec()).await;
    assert_eq!(refused.code(), "11");
    let refused = call(client, &kv("Put"), &put("", 0).encode_to_vec()).await;
    assert_eq!(refused.code(), "3");
    let delete = DeleteRangeRequest {
        key: "a".into(),
        ..Default::default()
    };
    answered(client, &kv("DeleteRange"), &delete).await;
    let write = TxnRequest {
        success: vec![
            op(Request::RequestPut(put("d", 0))),
            op(Request::RequestDeleteRange(delete)),
        ],
        ..Default::default()
    };
    answered(client, &kv("Txn"), &write).await;
    let read = TxnRequest {
        success: vec![
            op(Request::RequestRange(range.clone())),
            op(Request::RequestRange(range)),
        ],
        ..Default::default()
    };
    answered(client, &kv("Txn"), &read).await;
    let revoke = LeaseRevokeRequest { id: 77 };
    answered(client, "/etcdserverpb.Lease/LeaseRevoke", &revoke).await;
    let compaction = CompactionRequest {
        revision: 4,
        physical: true,
    };
    answered(client, &kv("Compact"), &compaction).await;
    let request = with_headers(
        "/etcdserverpb.Maintenance/Status",
        &[("client-api-version", "3.7-metrics-test")],
    );
    let status = call_request(client, request, framed(&[])).await.unwrap();
    assert_eq!(status.code(), "0");
}

#[test]
fn what_happens_is_counted_and_no_name_is_lost() {
    let arguments = ["--data-dir=/m", "--metrics=extensive"].map(str::to_owned);
    let config = Config::parse(arguments.into_iter(), |_| None).unwrap();
    METRICS.be_extensive();
    let slow = Duration::from_secs(3600);
    // Whatever is applied is slow.
    let Lone {
        started,
        peers,
        runtime,
    } = Lone::start(&config, Duration::ZERO);
    let member = started.handle.clone();
    let limits = Limits {
        max_request_bytes: 1 << 20,
        max_txn_ops: 128,
        quota_bytes: 0,
        max_snapshots: 1,
        slow: Thresholds {
            unary: slow,
            apply: slow,
        },
        features: features(&config),
        fast_keep_alive: true,
    };
    let transport = Transport::start(2).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let service = Arc::new(Frontend {
        services: Arc::new(Services::new(peers, limits)),
        grpc: true,
        gateway: true,
    });
    let endpoint = Endpoint {
        service,
        limits: Arc::new(transport::Limits::default()),
        secure: None,
    };
    transport.listen(Listener::Tcp(listener), endpoint).unwrap();

    let before = samples(&member, &config);
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(socket).await.unwrap();
        let connection = tokio::spawn(connection);
        load(&client).await;
        drop(client);
        connection.await.unwrap().unwrap();
    });
    // The loop tells of a compaction after it has answered; a question is answered after that.
    let (sender, asked) = channel();
    assert!(
        member
            .ask(Box::new(move |_, _| sender.send(()).unwrap()))
            .is_ok()
    );
    asked.recv().unwrap();
    let after = samples(&member, &config);
    let grown = |name: &str| {
        let at = |page: &BTreeMap<String, f64>| page.get(name).copied().unwrap_or(0.0);
        at(&after) - at(&before)
    };
    let labels = |method: &str, service: &str| {
        format!(
            "grpc_method=\"{method}\",grpc_service=\"etcdserverpb.{service}\",grpc_type=\"unary\"}}"
        )
    };
    for (name, expected) in [
        ("etcd_mvcc_put_total", 4.0),
        ("etcd_debugging_mvcc_total_put_size_in_bytes", 24.0),
        // A deletion, one in a transaction, and the two keys of the lease.
        ("etcd_mvcc_delete_total", 4.0),
        // The transaction that writes, and the one that reads.
        ("etcd_mvcc_txn_total", 2.0),
        ("etcd_mvcc_range_total", 4.0),
        ("etcd_debugging_lease_granted_total", 1.0),
        ("etcd_debugging_lease_revoked_total", 1.0),
        ("etcd_debugging_server_lease_expired_total", 0.0),
        ("etcd_debugging_lease_ttl_total_bucket{le=\"64\"}", 0.0),
        ("etcd_debugging_lease_ttl_total_bucket{le=\"128\"}", 1.0),
        (
            "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds_count",
            1.0,
        ),
        (
            "etcd_server_apply_duration_seconds_count{op=\"Put\",success=\"true\",version=\"v3\"}",
            3.0,
        ),
        (
            "etcd_server_apply_duration_seconds_count{op=\"Txn\",success=\"true\",version=\"v3\"}",
            1.0,
        ),
        (
            "etcd_server_range_duration_seconds_count{success=\"true\"}",
            1.0,
        ),
        (
            "etcd_server_range_duration_seconds_count{success=\"false\"}",
            1.0,
        ),
        (
            "etcd_server_request_duration_seconds_count{success=\"true\",type=\"Put\"}",
            3.0,
        ),
        (
            "etcd_server_request_duration_seconds_count{success=\"true\",type=\"ReadonlyTxn\"}",
            1.0,
        ),
        (
            "etcd_server_request_duration_seconds_count{success=\"false\",type=\"Range\"}",
            1.0,
        ),
        (
            "etcd_server_client_requests_total{client_api_version=\"3.7-metrics-test\",type=\"unary\"}",
            1.0,
        ),
        (
            "etcd_server_client_requests_total{client_api_version=\"unknown\",type=\"unary\"}",
            12.0,
        ),
    ] {
        assert_eq!(grown(name), expected, "{name}");
    }
    for (name, method, expected) in [
        ("grpc_server_started_total{", "Put", 4.0),
        ("grpc_server_msg_received_total{", "Put", 4.0),
        ("grpc_server_msg_sent_total{", "Put", 4.0),
        ("grpc_server_handled_total{grpc_code=\"OK\",", "Put", 3.0),
        (
            "grpc_server_handled_total{grpc_code=\"InvalidArgument\",",
            "Put",
            1.0,
        ),
        (
            "grpc_server_handled_total{grpc_code=\"OutOfRange\",",
            "Range",
            1.0,
        ),
        ("grpc_server_handling_seconds_count{", "Txn", 2.0),
    ] {
        let name = format!("{name}{}", labels(method, "KV"));
        assert_eq!(grown(&name), expected, "{name}");
    }
    assert!(grown("etcd_server_proposals_applied_total") >= 8.0);
    assert_eq!(grown("etcd_server_slow_apply_total"), 8.0);
    assert!(grown("etcd_network_client_grpc_received_bytes_total") > 50.0);
    assert!(grown("etcd_network_client_grpc_sent_bytes_total") > 100.0);
    assert!(after["etcd_disk_backend_commit_duration_seconds_count"] > 0.0);
    assert_eq!(after["etcd_server_is_leader"], 1.0);

    let text = METRICS.render(&member, &features(&config));
    let mut shown: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    // Other tests of this process may have peers.
    for name in crate::peers::metrics::names_of_links() {
        shown.remove(name);
    }
    let expected: BTreeMap<&str, &str> = NAMES
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    assert_eq!(shown, expected);

    transport.shutdown(Duration::ZERO);
    let (sender, stopped) = channel();
    member.stop(sender);
    stopped.recv().unwrap();
}
