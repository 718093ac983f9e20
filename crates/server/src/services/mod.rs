//! The services, between the transport and the member.
//!
//! Handlers run on a connection's worker thread and never block: what is ready is answered at once,
//! what goes through the log or takes long is answered later through the call's responder. The
//! checks here are a courtesy to the client; apply decides.

pub mod answer;
mod caller;
mod checks;
mod cluster;
mod downgrade;
mod health;
mod keep_alive;
mod kv;
mod lease;
mod maintenance;
mod propose;
mod range_stream;
pub(crate) mod sink;
mod snapshot;
mod watch;

pub use caller::Caller;
use sink::Sink;

use crate::driver::Handle;
use crate::metrics::calls::{self, RequestType};
use crate::metrics::{Feature, METRICS};
use crate::peer_api::Peers;
use crate::slow_requests::{Call, Thresholds};
use crate::transport::{
    Body, CallContext, ConnectionInbox, Ended, HttpReply, HttpRequest, Lookup, MethodId,
    MethodKind, Reply, Service, Status, StreamHandler, StreamSink,
};
use bytes::Bytes;
use prost::Message;
use quorate_api as api;
use quorate_api::etcdserverpb::{RangeRequest, ResponseHeader};
use quorate_api::{Code, Error, Method};
use std::sync::Arc;

/// Limits and settings of the services.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest encoded request, in bytes.
    pub max_request_bytes: usize,
    /// Most operations of a transaction.
    pub max_txn_ops: usize,
    /// The space quota as configured, for Status.
    pub quota_bytes: i64,
    /// Most snapshots sent at a time.
    pub max_snapshots: usize,
    /// What is slow enough for a line in the log.
    pub(crate) slow: Thresholds,
    /// Feature gates.
    pub(crate) features: Vec<Feature>,
    /// Whether a lease that is there is renewed without waiting for what is committed.
    pub(crate) fast_keep_alive: bool,
}

/// All services of a member.
pub struct Services {
    pub(crate) member: Handle,
    pub(crate) peers: Peers,
    pub(crate) limits: Limits,
    health: health::Health,
    pub(crate) watch_streams: std::sync::atomic::AtomicU64,
    pub(crate) snapshots: Arc<std::sync::atomic::AtomicUsize>,
}

/// A header without a revision.
pub fn header(cluster_id: u64, member_id: u64, raft_term: u64) -> ResponseHeader {
    ResponseHeader {
        cluster_id,
        member_id,
        revision: 0,
        raft_term,
    }
}

/// Decodes a request, or gives grpc-go's status for one that cannot be.
pub(crate) fn decode<T: Message + Default>(message: Bytes) -> Result<T, Status> {
    T::decode(message).map_err(|e| {
        Status::new(
            Code::Internal,
            format!("grpc: error unmarshalling request: {e}"),
        )
    })
}

/// Encodes an answer.
pub(crate) fn body<T: Message>(answer: &T) -> Body {
    Body::Whole(answer.encode_to_vec().into())
}

/// The status of an error of the store.
pub(crate) fn store_status(error: quorate_node::store::Error) -> Status {
    match error {
        quorate_node::store::Error::Api(error) => error.into(),
        other => {
            tracing::error!("error" = %other, "a read failed");
            Status::new(Code::DataLoss, format!("etcdserver: {other}"))
        }
    }
}

pub(crate) fn not_served(what: &str) -> Status {
    Status::new(
        Code::Unimplemented,
        format!("etcdserver: {what} is not served by this version"),
    )
}

impl Services {
    /// Services over a running member and its peers.
    pub fn new(peers: Peers, limits: Limits) -> Services {
        let stops = |feature: &Feature| feature.name == "StopGRPCServiceOnDefrag" && feature.on;
        Services {
            member: peers.member.clone(),
            peers,
            health: health::Health::new(limits.features.iter().any(stops)),
            limits,
            watch_streams: std::sync::atomic::AtomicU64::new(1),
            snapshots: Arc::default(),
        }
    }

    /// A header with a revision.
    pub(crate) fn header(&self, revision: i64) -> ResponseHeader {
        let member = &self.member;
        ResponseHeader {
            revision,
            ..header(member.cluster_id(), member.member_id(), member.term())
        }
    }

    fn check_leader(&self, context: &CallContext) -> Result<(), Status> {
        if context.requires_leader() && self.member.status().leader == 0 {
            return Err(Error::NoLeader.into());
        }
        Ok(())
    }

    /// What a learner serves: its status, and reads of what it has.
    fn check_learner(&self, method: Method, message: &Bytes) -> Result<(), Status> {
        if !self.member.status().is_learner {
            return Ok(());
        }
        let is_served = match method {
            Method::MaintenanceStatus | Method::MaintenanceSnapshot => true,
            Method::KVRange => decode::<RangeRequest>(message.clone())?.serializable,
            _ => false,
        };
        if is_served {
            Ok(())
        } else {
            Err(Error::NotSupportedForLearner.into())
        }
    }

    /// A call of any unary method, as the transport and the JSON gateway make it.
    pub(crate) fn unary(
        &self,
        method: Method,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        self.check_learner(method, &message)?;
        match method {
            Method::KVRange => self.range(message, answer),
            Method::KVPut => self.put(message, answer),
            Method::KVDeleteRange => self.delete_range(message, answer),
            Method::KVTxn => self.txn(message, answer),
            Method::KVCompact => self.compact(message, answer),
            Method::LeaseLeaseGrant => self.lease_grant(message, answer),
            Method::LeaseLeaseRevoke => self.lease_revoke(message, answer),
            Method::LeaseLeaseTimeToLive => self.lease_time_to_live(message, answer),
            Method::LeaseLeaseLeases => self.lease_leases(message, answer),
            Method::ClusterMemberList => self.member_list(message, answer),
            Method::ClusterMemberAdd => self.member_add(message, answer),
            Method::ClusterMemberRemove => self.member_remove(message, answer),
            Method::ClusterMemberUpdate => self.member_update(message, answer),
            Method::ClusterMemberPromote => self.member_promote(message, answer),
            Method::MaintenanceAlarm => self.alarm(message, answer),
            Method::MaintenanceStatus => self.status(message),
            Method::MaintenanceDefragment => self.defragment(answer),
            Method::MaintenanceHash => self.hash(answer),
            Method::MaintenanceHashKV => self.hash_kv(message, answer),
            Method::MaintenanceMoveLeader => self.move_leader(message, answer),
            Method::MaintenanceDowngrade => self.downgrade(message, answer),
            Method::AuthAuthStatus => {
                Ok(Reply::Now(body(&api::etcdserverpb::AuthStatusResponse {
                    header: Some(self.header(self.member.view().revision)),
                    enabled: false,
                    auth_revision: 1,
                })))
            }
            Method::AuthAuthenticate => Err(Error::AuthNotEnabled.into()),
            Method::HealthCheck => self.health_check(message),
            _ if method.service() == "etcdserverpb.Auth" => Err(not_served("authentication")),
            _ => Err(not_served(method.service())),
        }
    }
}

impl Services {
    /// Opens a stream of any streaming method.
    pub(crate) fn stream(
        &self,
        method: Method,
        sink: Sink,
    ) -> Result<Box<dyn StreamHandler>, Status> {
        self.check_learner(method, &Bytes::new())?;
        match method {
            Method::WatchWatch => self.open_watch(sink),
            Method::LeaseLeaseKeepAlive => Ok(self.open_keep_alive(sink)),
            Method::KVRangeStream => Ok(self.open_range_stream(sink)),
            Method::MaintenanceSnapshot => self.open_snapshot(sink),
            Method::HealthWatch => Ok(self.open_health_watch(sink)),
            _ => Err(not_served(method.service())),
        }
    }
}

/// Counts the messages of a stream's client.
struct CountedStream {
    method: Method,
    handler: Box<dyn StreamHandler>,
}

impl StreamHandler for CountedStream {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        calls::received(self.method, message.len());
        self.handler.on_message(message)
    }

    fn on_half_close(&mut self) {
        self.handler.on_half_close();
    }

    fn on_cancel(&mut self) {
        self.handler.on_cancel();
    }

    fn on_writable(&mut self) {
        self.handler.on_writable();
    }
}

/// The services behind one listener.
pub struct Frontend {
    /// What is served.
    pub services: Arc<Services>,
    /// Whether gRPC is served here.
    pub grpc: bool,
    /// Whether the JSON gateway is served here.
    pub gateway: bool,
}

impl Service for Frontend {
    fn method(&self, path: &str) -> Lookup {
        if let Some(method) = Method::from_path(path).filter(|_| self.grpc) {
            let kind = match (method.client_streaming(), method.server_streaming()) {
                (false, false) => MethodKind::Unary,
                (false, true) => MethodKind::ServerStream,
                (true, _) => MethodKind::Bidi,
            };
            return Lookup::Method(MethodId(method as u16), kind);
        }
        let service = path
            .trim_start_matches('/')
            .rsplit_once('/')
            .map_or("", |(s, _)| s);
        if self.grpc && Method::knows_service(service) {
            Lookup::UnknownMethod
        } else {
            Lookup::UnknownService
        }
    }

    fn call(&self, method: MethodId, message: Bytes, context: &CallContext) -> Reply {
        let method = Method::ALL[usize::from(method.0)];
        calls::started(method, context.client_api_version());
        calls::received(method, message.len());
        let services = &self.services;
        let outcome = services.check_leader(context).and_then(|()| {
            services.unary(method, message, &mut || Caller::Grpc(context.responder()))
        });
        outcome.unwrap_or_else(Reply::Error)
    }

    fn open_stream(
        &self,
        method: MethodId,
        context: &CallContext,
        sink: StreamSink,
    ) -> Result<Box<dyn StreamHandler>, Status> {
        let method = Method::ALL[usize::from(method.0)];
        calls::started(method, context.client_api_version());
        self.services.check_leader(context)?;
        let handler = self.services.stream(method, Sink::Grpc(sink))?;
        Ok(Box::new(CountedStream { method, handler }))
    }

    fn sent(&self, method: MethodId, bytes: usize) {
        calls::sent(Method::ALL[usize::from(method.0)], bytes);
    }

    fn ended(&self, ended: &Ended<'_>) {
        let method = Method::ALL[usize::from(ended.method.0)];
        let slow = &self.services.limits.slow;
        let extensive = METRICS.is_extensive();
        let took = if extensive || slow.need_clock() {
            ended.began.elapsed()
        } else {
            ended.now - ended.began
        };
        // A stream's messages were told one by one.
        if !method.server_streaming() {
            calls::sent(method, ended.answer.map_or(0, Body::len));
        }
        calls::ended(method, ended.code, extensive.then_some(took));
        if let Some(kind) = RequestType::of(method, ended.code, ended.deferred) {
            calls::answered(kind, ended.code, took);
        }
        if !method.server_streaming() && slow.are_passed(took) {
            slow.tell(&Call {
                method,
                request: ended.request,
                answer: ended.answer,
                took,
                remote: ended.peer.address.to_string(),
            });
        }
    }

    fn flush(&self, _: &ConnectionInbox) {
        self.services.member.flush();
    }

    fn http(&self, request: HttpRequest) -> HttpReply {
        crate::http::serve(self.services.clone(), request, self.gateway)
    }
}
