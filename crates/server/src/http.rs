//! Plain HTTP: health, versions, metrics, and the JSON gateway.
//!
//! A handful of fixed paths, so a match stands where others have a router.

use crate::cluster_versions::storage_version_of;
use crate::driver::Handle;
use crate::gateway;
use crate::metrics::METRICS;
use crate::peer_api::versions::Versions;
use crate::services::Services;
use crate::transport::{HttpBodyError, HttpReply, HttpRequest, HttpResponse};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use quorate_api::etcdserverpb::AlarmType;
use quorate_node::store::membership::go_json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Longest that a health check waits for a linearizable read.
const CHECK_TIMEOUT: Duration = Duration::from_secs(7);

/// A response with a body at hand.
pub(crate) fn response(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> HttpResponse {
    let body = Full::new(body.into()).map_err(|never| -> HttpBodyError { match never {} });
    let mut response = http::Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

const TEXT: &str = "text/plain; charset=utf-8";

/// As Go's http.Error writes it.
pub(crate) fn error(status: StatusCode, text: &str) -> HttpResponse {
    let mut response = response(status, TEXT, format!("{text}\n"));
    response.headers_mut().insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// Values of a query parameter.
fn query<'q>(request: &'q HttpRequest, name: &str) -> Vec<&'q str> {
    let pairs = request.uri().query().unwrap_or("").split('&');
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value)
        .collect()
}

/// Serves a request.
pub(crate) fn serve(
    services: Arc<Services>,
    request: HttpRequest,
    with_gateway: bool,
) -> HttpReply {
    Box::pin(async move {
        let mut response = route(services, request, with_gateway).await;
        for (name, value) in CORS {
            response
                .headers_mut()
                .insert(*name, HeaderValue::from_static(value));
        }
        response
    })
}

/// What --cors=* answers to every request.
const CORS: &[(&str, &str)] = &[
    (
        "access-control-allow-headers",
        "accept, content-type, authorization",
    ),
    (
        "access-control-allow-methods",
        "POST, GET, OPTIONS, PUT, DELETE",
    ),
    ("access-control-allow-origin", "*"),
];

async fn route(services: Arc<Services>, request: HttpRequest, with_gateway: bool) -> HttpResponse {
    if request.method() == Method::OPTIONS {
        return response(StatusCode::OK, TEXT, "");
    }
    let path = request.uri().path().to_owned();
    if with_gateway && path.starts_with("/v3/") {
        return gateway::serve(&services, request).await;
    }
    let member = &services.member;
    let known = [
        "/health",
        "/livez",
        "/readyz",
        "/version",
        "/metrics",
        "/debug/vars",
    ];
    let checks = path.starts_with("/livez/") || path.starts_with("/readyz/");
    if !checks && !known.contains(&path.as_str()) {
        return error(StatusCode::NOT_FOUND, "404 page not found");
    }
    if request.method() != Method::GET {
        let mut refused = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        refused
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static("GET"));
        return refused;
    }
    match path.as_str() {
        "/health" => health(member, &request).await,
        "/version" => version(member),
        "/metrics" => response(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            METRICS.render(member, &services.limits.features),
        ),
        "/debug/vars" => debug_vars(member),
        checks => run_checks(member, &request, checks).await,
    }
}

pub(crate) fn version(member: &Handle) -> HttpResponse {
    let view = member.view();
    let storage = storage_version_of(&view).map(|version| version.to_string());
    let versions = Versions::own(view.members.cluster_version.as_deref(), storage.as_deref());
    response(StatusCode::OK, "application/json", go_json(&versions))
}

fn debug_vars(member: &Handle) -> HttpResponse {
    let status = member.status();
    let vars = serde_json::json!({
        "cmdline": std::env::args().collect::<Vec<_>>(),
        "raft.status": {
            "id": format!("{:x}", member.member_id()),
            "term": status.term,
            "commit": status.committed,
            "applied": status.applied,
            "lead": format!("{:x}", status.leader),
        },
    });
    response(
        StatusCode::OK,
        "application/json; charset=utf-8",
        vars.to_string(),
    )
}

/// Whether a linearizable read would be answered, by a member that works.
async fn can_read(member: &Handle) -> Result<(), String> {
    let read = member.done(|member, waiter| member.read_for_health(waiter));
    match tokio::time::timeout(CHECK_TIMEOUT, read).await {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err("context deadline exceeded".into()),
    }
}

fn alarm_name(alarm: i32) -> &'static str {
    AlarmType::try_from(alarm).map_or("UNKNOWN", |alarm| alarm.as_str_name())
}

async fn health(member: &Handle, request: &HttpRequest) -> HttpResponse {
    let excluded: BTreeSet<&str> = query(request, "exclude").into_iter().collect();
    let serializable = query(request, "serializable").first() == Some(&"true");
    let view = member.view();
    let alarm = view
        .alarms
        .of_kind(AlarmType::None as i32)
        .into_iter()
        .map(|alarm| alarm_name(alarm.alarm))
        .find(|name| !excluded.contains(name));
    let reason = if let Some(alarm) = alarm {
        format!("ALARM {alarm}")
    } else if !serializable && member.status().leader == 0 {
        "RAFT NO LEADER".to_owned()
    } else if serializable {
        String::new()
    } else {
        match can_read(member).await {
            Ok(()) => String::new(),
            Err(error) => format!("RANGE ERROR:{error}"),
        }
    };
    let healthy = reason.is_empty();
    let text = format!(
        "{{\"health\":\"{healthy}\",\"reason\":{}}}",
        serde_json::Value::from(reason.as_str())
    );
    if healthy {
        METRICS.health_success.inc();
        response(StatusCode::OK, TEXT, text)
    } else {
        METRICS.health_failures.inc();
        tracing::warn!(
            "output" = text.as_str(),
            "status-code" = 503,
            "/health error"
        );
        error(StatusCode::SERVICE_UNAVAILABLE, &text)
    }
}

const LIVEZ: &[&str] = &["serializable_read"];
const READYZ: &[&str] = &[
    "data_corruption",
    "linearizable_read",
    "non_learner",
    "serializable_read",
];

async fn run_check(member: &Handle, name: &str) -> Result<(), String> {
    match name {
        "data_corruption" if member.view().alarms.any(AlarmType::Corrupt) => {
            Err("alarm activated: CORRUPT".into())
        }
        "linearizable_read" => can_read(member)
            .await
            .map_err(|e| format!("range error: {e}")),
        "non_learner" if member.status().is_learner => Err("not supported for learner".into()),
        _ => Ok(()),
    }
}

async fn run_checks(member: &Handle, request: &HttpRequest, path: &str) -> HttpResponse {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (kind, all) = match parts.next() {
        Some("livez") => ("livez", LIVEZ),
        _ => ("readyz", READYZ),
    };
    let mut excluded: BTreeSet<&str> = query(request, "exclude").into_iter().collect();
    excluded.remove("");
    let chosen: Vec<&str> = match parts.next() {
        Some(one) => match all.iter().find(|name| **name == one) {
            Some(name) => vec![name],
            None => return error(StatusCode::NOT_FOUND, "404 page not found"),
        },
        None => all
            .iter()
            .copied()
            .filter(|name| !excluded.remove(name))
            .collect(),
    };
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        tracing::warn!(
            "missing-health-checks" = names.join(","),
            "some health checks cannot be excluded"
        );
    }
    let (mut report, mut healthy) = (String::new(), true);
    for name in chosen {
        let (line, passed) = match run_check(member, name).await {
            Ok(()) => (format!("[+]{name} ok\n"), true),
            Err(why) => (format!("[-]{name} failed: {why}\n"), false),
        };
        report.push_str(&line);
        healthy &= passed;
        METRICS.checked(kind, name, passed);
    }
    if !healthy {
        tracing::error!(
            "path" = path,
            "reason" = report.as_str(),
            "status-code" = 503,
            "Health check error"
        );
        return error(StatusCode::SERVICE_UNAVAILABLE, &report);
    }
    let verbose = request.uri().query().is_some_and(|q| {
        q.split('&')
            .any(|p| p == "verbose" || p.starts_with("verbose="))
    });
    let text = if verbose {
        format!("{report}ok\n")
    } else {
        "ok\n".to_owned()
    };
    let mut response = response(StatusCode::OK, TEXT, text);
    response.headers_mut().insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}
