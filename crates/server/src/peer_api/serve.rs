//! The endpoints by path, with the checks and statuses of etcd's.

use super::{Peers, hash_kv, leases, members, promote, versions};
use crate::http::{error, response};
use crate::transport::{HttpRequest, HttpResponse};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use quorate_api::Error;
use quorate_node::store;
use quorate_node::store::hash::{KeyValueHash, hash_by_revision};
use quorate_node::store::membership::spell_id;
use tokio::sync::oneshot;

const JSON: &str = "application/json";

pub(super) async fn answer(peers: &Peers, request: HttpRequest) -> HttpResponse {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        members::PATH => match only(&request, Method::GET) {
            None => in_cluster(peers, list(peers)),
            Some(refused) => refused,
        },
        hash_kv::PATH => match only(&request, Method::GET) {
            None => hash(peers, request).await,
            Some(refused) => refused,
        },
        versions::VERSION_PATH => match only(&request, Method::GET) {
            None => crate::http::version(&peers.member),
            Some(refused) => refused,
        },
        versions::DOWNGRADE_PATH => match only(&request, Method::GET) {
            None => in_cluster(peers, downgrade_enabled(peers).await),
            Some(refused) => refused,
        },
        leases::RENEW_PATH | leases::LOOK_UP_PATH => lease(peers, request).await,
        path if path.starts_with(promote::PREFIX) => match only(&request, Method::POST) {
            None => in_cluster(peers, promotion(peers, path).await),
            Some(refused) => refused,
        },
        _ => error(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

/// The refusal of any other method.
fn only(request: &HttpRequest, method: Method) -> Option<HttpResponse> {
    if *request.method() == method {
        return None;
    }
    let mut refused = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    let allowed = HeaderValue::from_str(method.as_str()).expect("methods are letters");
    refused.headers_mut().insert(header::ALLOW, allowed);
    Some(refused)
}

/// The answer with the cluster's id in its header.
fn in_cluster(peers: &Peers, mut answer: HttpResponse) -> HttpResponse {
    let id = spell_id(peers.member.cluster_id());
    let id = HeaderValue::from_str(&id).expect("hex is a header value");
    answer.headers_mut().insert(members::CLUSTER_ID_HEADER, id);
    answer
}

fn list(peers: &Peers) -> HttpResponse {
    let body = members::encode(&peers.member.view().members);
    response(StatusCode::OK, JSON, body)
}

async fn promotion(peers: &Peers, path: &str) -> HttpResponse {
    let id = match promote::id_of(path) {
        Ok(id) => id,
        Err(text) => return error(StatusCode::NOT_FOUND, &text),
    };
    let failure = match peers.promote(id).await {
        Ok(members) => {
            let mut body = store::membership::go_json(&members);
            body.push(b'\n');
            return response(StatusCode::OK, JSON, body);
        }
        Err(failure) => failure,
    };
    let refusal = promote::refusal(failure);
    tracing::warn!(
        "member-id" = spell_id(id),
        "error" = refusal.map_or(failure.text(), |(_, text)| text),
        "failed to promote a member"
    );
    match refusal {
        Some((status, text)) => error(status, text),
        None => {
            let body = r#"{"message":"Internal Server Error"}"#;
            response(StatusCode::INTERNAL_SERVER_ERROR, JSON, body)
        }
    }
}

async fn lease(peers: &Peers, request: HttpRequest) -> HttpResponse {
    if *request.method() != Method::POST {
        // Without a word of what is allowed, as etcd.
        return error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    }
    if request.body().len() > leases::REQUEST_BYTES_MAX {
        return error(StatusCode::PAYLOAD_TOO_LARGE, "request body too large");
    }
    let is_renewal = request.uri().path() == leases::RENEW_PATH;
    let body = request.into_body();
    let answered = if is_renewal {
        leases::serve_renewal(&peers.member, body).await
    } else {
        leases::serve_look_up(&peers.member, body).await
    };
    match answered {
        Ok(body) => response(StatusCode::OK, "application/protobuf", body),
        Err((status, text)) => error(status, &text),
    }
}

async fn downgrade_enabled(peers: &Peers) -> HttpResponse {
    let read = tokio::time::timeout(peers.timings.request, peers.member.linearized());
    if let Err(failure) = read.await.unwrap_or(Err(Error::Timeout)) {
        let text = format!("failed linearized read: {failure}");
        return error(StatusCode::INTERNAL_SERVER_ERROR, &text);
    }
    let enabled = peers.member.view().members.downgrade_job().is_some();
    response(StatusCode::OK, "text/plain", enabled.to_string())
}

async fn hash(peers: &Peers, request: HttpRequest) -> HttpResponse {
    let asked = request.headers().get(members::CLUSTER_ID_HEADER);
    let own = spell_id(peers.member.cluster_id());
    if asked.is_some_and(|id| !id.is_empty() && id.as_bytes() != own.as_bytes()) {
        return error(StatusCode::PRECONDITION_FAILED, hash_kv::OTHER_CLUSTER);
    }
    let question: hash_kv::Question = match serde_json::from_slice(request.body()) {
        Ok(question) => question,
        Err(failure) => {
            tracing::warn!("error" = %failure, "failed to unmarshal request");
            return error(StatusCode::BAD_REQUEST, "error unmarshalling request");
        }
    };
    match hash_here(peers, question.revision).await {
        Ok((hash, newest)) => in_cluster(
            peers,
            response(
                StatusCode::OK,
                JSON,
                Bytes::from(hash_kv::encode(hash, newest)),
            ),
        ),
        Err(text) => {
            tracing::warn!(
                "requested-revision" = question.revision,
                "error" = text.as_str(),
                "failed to get hashKV"
            );
            error(StatusCode::BAD_REQUEST, &text)
        }
    }
}

/// This member's hash, and its newest revision; computed by a thread for long reads.
pub(crate) async fn hash_here(peers: &Peers, revision: i64) -> Result<(KeyValueHash, i64), String> {
    let (sender, receiver) = oneshot::channel();
    let member = peers.member.clone();
    let job = Box::new(move || {
        let view = member.view();
        let hash = hash_by_revision(&view, &view.hashes, revision);
        let _unheard = sender.send(hash.map(|hash| (hash, view.revision)));
    });
    if peers.member.reads.run(job).is_err() {
        return Err(Error::RequestTooManyRequests.text().to_owned());
    }
    match receiver.await {
        Ok(Ok(hash)) => Ok(hash),
        Ok(Err(store::Error::Api(Error::Compacted))) => Err(hash_kv::COMPACTED.to_owned()),
        Ok(Err(store::Error::Api(Error::FutureRev))) => Err(hash_kv::FUTURE_REVISION.to_owned()),
        Ok(Err(other)) => Err(other.to_string()),
        Err(_) => Err(Error::Stopped.text().to_owned()),
    }
}
