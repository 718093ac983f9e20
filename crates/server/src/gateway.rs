//! The JSON gateway: every unary method under /v3, as grpc-gateway serves etcd's.
//!
//! Requests: protobuf's JSON, field names as in the .proto files or in camel case, unknown fields
//! and nulls passed over, bytes in base64. Answers: names as in the .proto files, default values
//! left out, 64-bit numbers as strings. A stream takes any number of requests in its body and answers
//! a line of JSON a message, each under `result`.

use crate::http::response;
use crate::metrics::{METRICS, calls};
use crate::services::sink::{self, GatewayMessages, Sink};
use crate::services::{Caller, Services};
use crate::slow_requests::Call;
use crate::transport::{
    Body, HttpBodyError, HttpRequest, HttpResponse, Peer, Reply, Status, StreamHandler,
};
use bytes::{Bytes, BytesMut};
use http::{Method as HttpMethod, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};
use quorate_api::{Code, Method};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::oneshot;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(quorate_api::DESCRIPTORS).expect("the embedded descriptors are sound")
});

/// The method behind a path. Source: the http annotations of etcd's services.
fn route(path: &str) -> Option<Method> {
    Some(match path {
        "/v3/kv/range" => Method::KVRange,
        "/v3/kv/put" => Method::KVPut,
        "/v3/kv/deleterange" => Method::KVDeleteRange,
        "/v3/kv/txn" => Method::KVTxn,
        "/v3/kv/compaction" => Method::KVCompact,
        "/v3/watch" => Method::WatchWatch,
        "/v3/lease/grant" => Method::LeaseLeaseGrant,
        "/v3/lease/revoke" | "/v3/kv/lease/revoke" => Method::LeaseLeaseRevoke,
        "/v3/lease/keepalive" => Method::LeaseLeaseKeepAlive,
        "/v3/lease/timetolive" | "/v3/kv/lease/timetolive" => Method::LeaseLeaseTimeToLive,
        "/v3/lease/leases" | "/v3/kv/lease/leases" => Method::LeaseLeaseLeases,
        "/v3/cluster/member/add" => Method::ClusterMemberAdd,
        "/v3/cluster/member/remove" => Method::ClusterMemberRemove,
        "/v3/cluster/member/update" => Method::ClusterMemberUpdate,
        "/v3/cluster/member/list" => Method::ClusterMemberList,
        "/v3/cluster/member/promote" => Method::ClusterMemberPromote,
        "/v3/maintenance/alarm" => Method::MaintenanceAlarm,
        "/v3/maintenance/status" => Method::MaintenanceStatus,
        "/v3/maintenance/defragment" => Method::MaintenanceDefragment,
        "/v3/maintenance/hash" => Method::MaintenanceHash,
        "/v3/maintenance/hashkv" => Method::MaintenanceHashKV,
        "/v3/maintenance/snapshot" => Method::MaintenanceSnapshot,
        "/v3/maintenance/transfer-leadership" => Method::MaintenanceMoveLeader,
        "/v3/maintenance/downgrade" => Method::MaintenanceDowngrade,
        "/v3/auth/enable" => Method::AuthAuthEnable,
        "/v3/auth/disable" => Method::AuthAuthDisable,
        "/v3/auth/status" => Method::AuthAuthStatus,
        "/v3/auth/authenticate" => Method::AuthAuthenticate,
        "/v3/auth/user/add" => Method::AuthUserAdd,
        "/v3/auth/user/get" => Method::AuthUserGet,
        "/v3/auth/user/list" => Method::AuthUserList,
        "/v3/auth/user/delete" => Method::AuthUserDelete,
        "/v3/auth/user/changepw" => Method::AuthUserChangePassword,
        "/v3/auth/user/grant" => Method::AuthUserGrantRole,
        "/v3/auth/user/revoke" => Method::AuthUserRevokeRole,
        "/v3/auth/role/add" => Method::AuthRoleAdd,
        "/v3/auth/role/get" => Method::AuthRoleGet,
        "/v3/auth/role/list" => Method::AuthRoleList,
        "/v3/auth/role/delete" => Method::AuthRoleDelete,
        "/v3/auth/role/grant" => Method::AuthRoleGrantPermission,
        "/v3/auth/role/revoke" => Method::AuthRoleRevokePermission,
        "/v3/lock/lock" => Method::LockLock,
        "/v3/lock/unlock" => Method::LockUnlock,
        "/v3/election/campaign" => Method::ElectionCampaign,
        "/v3/election/proclaim" => Method::ElectionProclaim,
        "/v3/election/leader" => Method::ElectionLeader,
        "/v3/election/observe" => Method::ElectionObserve,
        "/v3/election/resign" => Method::ElectionResign,
        _ => return None,
    })
}

/// The HTTP status of a gRPC code, as grpc-gateway has it.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::from_u16(499).expect("499 is a status"),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn refuse(code: Code, message: &str, http: StatusCode) -> HttpResponse {
    let message = serde_json::Value::from(message);
    let text = format!("{{\"code\":{},\"message\":{message}}}", code as u8);
    response(http, "application/json", text)
}

/// Serves a request under /v3/.
pub(crate) async fn serve(services: &Services, request: HttpRequest) -> HttpResponse {
    let Some(method) = route(request.uri().path()) else {
        return refuse(Code::NotFound, "Not Found", StatusCode::NOT_FOUND);
    };
    if request.method() != HttpMethod::POST {
        return refuse(
            Code::Unimplemented,
            "Method Not Allowed",
            StatusCode::NOT_IMPLEMENTED,
        );
    }
    if method.client_streaming() || method.server_streaming() {
        return match open_stream(services, method, &request.into_body()) {
            Ok(response) => response,
            Err(status) => refuse(status.code, &status.message, http_status(status.code)),
        };
    }
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    match call(services, method, request.into_body(), peer).await {
        Ok(json) => from_grpc(response(StatusCode::OK, "application/json", json)),
        Err(status) => refuse(status.code, &status.message, http_status(status.code)),
    }
}

async fn call(
    services: &Services,
    method: Method,
    body: Bytes,
    peer: Option<Arc<Peer>>,
) -> Result<Vec<u8>, Status> {
    let message = from_json(method.input(), &body)?;
    // As etcd's gateway, which is a gRPC client of its own server.
    calls::started(method, None);
    calls::received(method, message.len());
    let began = Instant::now();
    let outcome = answer(services, method, message.clone()).await;
    let took = began.elapsed();
    let code = outcome
        .as_ref()
        .map_or_else(|status| status.code, |_| Code::Ok);
    calls::sent(method, outcome.as_ref().map_or(0, Body::len));
    calls::ended(method, code, METRICS.is_extensive().then_some(took));
    let slow = &services.limits.slow;
    if slow.are_passed(took) {
        slow.tell(&Call {
            method,
            request: Some(&message),
            answer: outcome.as_ref().ok(),
            took,
            remote: peer.map_or_else(String::new, |peer| peer.address.to_string()),
        });
    }
    to_json(method.output(), collect(outcome?)?)
}

async fn answer(services: &Services, method: Method, message: Bytes) -> Result<Body, Status> {
    let (sender, receiver) = oneshot::channel();
    let mut sender = Some(sender);
    let outcome = services.unary(method, message, &mut || {
        Caller::Gateway(sender.take().expect("a call is answered once"))
    });
    services.member.flush();
    match outcome? {
        Reply::Now(body) => Ok(body),
        Reply::Error(status) => Err(status),
        Reply::Later => receiver
            .await
            .unwrap_or_else(|_| Err(quorate_api::Error::Stopped.into())),
    }
}

fn open_stream(services: &Services, method: Method, body: &[u8]) -> Result<HttpResponse, Status> {
    let mut requests = all_from_json(method.input(), body)?;
    if requests.is_empty() && !method.client_streaming() {
        requests.push(Bytes::new());
    }
    let (sink, messages) = sink::gateway();
    let mut handler = services.stream(method, Sink::Gateway(sink))?;
    for request in requests {
        handler.on_message(request)?;
    }
    handler.on_half_close();
    services.member.flush();
    let body = StreamBody {
        messages,
        handler,
        output: method.output(),
        ended: false,
    };
    let mut response = http::Response::new(body.boxed_unsync());
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    Ok(from_grpc(response))
}

/// Adds what grpc-gateway passes on of the inner call's headers.
fn from_grpc(mut response: HttpResponse) -> HttpResponse {
    let kind = http::HeaderValue::from_static("application/grpc");
    response
        .headers_mut()
        .insert("grpc-metadata-content-type", kind);
    response
}

/// A stream's messages as lines of JSON.
struct StreamBody {
    messages: GatewayMessages,
    handler: Box<dyn StreamHandler>,
    output: &'static str,
    ended: bool,
}

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = HttpBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpBodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = self.messages.poll(cx) else {
            return Poll::Pending;
        };
        let (message, drained) = next.unwrap_or((Err(GatewayMessages::abandoned()), false));
        if drained {
            self.handler.on_writable();
        }
        let line = match message.and_then(|body| to_json(self.output, collect(body)?)) {
            Ok(json) => [b"{\"result\":", &json[..], b"}\n"].concat(),
            Err(status) => {
                self.ended = true;
                if status.code == Code::Ok {
                    return Poll::Ready(None);
                }
                let message = serde_json::Value::from(&*status.message);
                let code = status.code as u8;
                format!("{{\"error\":{{\"code\":{code},\"message\":{message}}}}}\n").into_bytes()
            }
        };
        Poll::Ready(Some(Ok(Frame::data(line.into()))))
    }
}

fn from_json(name: &str, json: &[u8]) -> Result<Bytes, Status> {
    let mut all = all_from_json(name, json)?;
    if all.len() > 1 {
        return Err(Status::new(Code::InvalidArgument, "trailing characters"));
    }
    Ok(all.pop().unwrap_or_default())
}

/// The messages of a body, one JSON value behind the other.
fn all_from_json(name: &str, json: &[u8]) -> Result<Vec<Bytes>, Status> {
    let descriptor = POOL
        .get_message_by_name(name)
        .expect("the method table names known messages");
    let bad = |what: String| Status::new(Code::InvalidArgument, what);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let mut messages = Vec::new();
    for value in serde_json::Deserializer::from_slice(json).into_iter::<serde_json::Value>() {
        let value = value.map_err(|e| bad(e.to_string()))?;
        let message = DynamicMessage::deserialize_with_options(descriptor.clone(), value, &options)
            .map_err(|e| bad(e.to_string()))?;
        messages.push(message.encode_to_vec().into());
    }
    Ok(messages)
}

fn to_json(name: &str, encoded: Bytes) -> Result<Vec<u8>, Status> {
    let descriptor = POOL
        .get_message_by_name(name)
        .expect("the method table names known messages");
    let internal = |what: String| Status::new(Code::Internal, what);
    let message =
        DynamicMessage::decode(descriptor, encoded).map_err(|e| internal(e.to_string()))?;
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(true)
        .skip_default_fields(true);
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut json);
    message
        .serialize_with_options(&mut serializer, &options)
        .map_err(|e| internal(e.to_string()))?;
    Ok(json)
}

fn collect(body: Body) -> Result<Bytes, Status> {
    let len = body.len();
    Ok(match body {
        Body::Whole(bytes) => bytes,
        Body::Parts(parts) => parts.concat().into(),
        Body::Source { mut source, .. } => {
            let mut all = BytesMut::with_capacity(len);
            while all.len() < len {
                let chunk = source.next_chunk(len - all.len());
                all.extend_from_slice(
                    &chunk.ok_or_else(|| {
                        Status::new(Code::DataLoss, "etcdserver: a range broke off")
                    })?,
                );
            }
            all.freeze()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::etcdserverpb::{PutRequest, PutResponse, ResponseHeader, WatchResponse};

    #[test]
    fn requests_are_read_as_etcd_reads_them() {
        let json = br#"{"key":"Zm9v","value":"YmFy","lease":"7","prevKv":true,"unknown":[1],"ignore_lease":null}"#;
        let put = PutRequest::decode(from_json("etcdserverpb.PutRequest", json).unwrap()).unwrap();
        assert_eq!(
            (&put.key[..], &put.value[..], put.lease),
            (&b"foo"[..], &b"bar"[..], 7)
        );
        assert!(put.prev_kv && !put.ignore_lease);
        assert!(from_json("etcdserverpb.PutRequest", b"{\"key\":1}").is_err());
        assert!(from_json("etcdserverpb.PutRequest", b"{} x").is_err());
        assert!(from_json("etcdserverpb.PutRequest", b"").is_ok());
    }

    #[test]
    fn answers_leave_defaults_out_and_quote_large_numbers() {
        let header = ResponseHeader {
            cluster_id: 1 << 60,
            revision: 5,
            ..Default::default()
        };
        let put = PutResponse {
            header: Some(header),
            prev_kv: None,
        };
        let json = to_json("etcdserverpb.PutResponse", put.encode_to_vec().into()).unwrap();
        assert_eq!(
            json,
            br#"{"header":{"cluster_id":"1152921504606846976","revision":"5"}}"#
        );
        let watch = WatchResponse {
            created: true,
            ..Default::default()
        };
        let json = to_json("etcdserverpb.WatchResponse", watch.encode_to_vec().into()).unwrap();
        assert_eq!(json, br#"{"created":true}"#);
    }
}
