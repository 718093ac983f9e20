//! Requests that carry a message to a peer, and what is made of the answers.
//!
//! Source: `createPostRequest` and `checkPostResponse` of etcd's rafthttp.

use super::address::PeerUrl;
use super::dial::DialError;
use super::host::Failure;
use super::identity::{CLUSTER_ID, Incompatible, hex, text};
use super::local::Local;
use super::stream_reader::{error_text, incompatible};
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

/// Why a message did not arrive, as far as is known.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    #[error("no peer URL to post to")]
    NoUrl,
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{0}")]
    Http(String),
    #[error("no answer in time")]
    Timeout,
    #[error(transparent)]
    Removed(#[from] Failure),
    #[error(transparent)]
    Incompatible(#[from] Incompatible),
    #[error("unhandled error {0:?} when precondition failed")]
    Precondition(String),
    #[error("unexpected http status {status} while posting to {url:?}")]
    Status { status: String, url: String },
}

/// A request with this body.
pub(super) fn request<B>(
    local: &Local,
    url: &PeerUrl,
    path: &str,
    content_type: &'static str,
    body: B,
) -> Result<Request<B>, PostError> {
    let mut request = Request::post(path)
        .header(HOST, &url.authority)
        .body(body)
        .map_err(|error| PostError::Http(error.to_string()))?;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    local.identity.present(headers);
    Ok(request)
}

/// Whether a response says that the message was taken.
pub(super) async fn judge(
    local: &Local,
    to: u64,
    url: &str,
    response: Response<Incoming>,
) -> Result<(), PostError> {
    let (parts, body) = response.into_parts();
    let why = error_text(body).await;
    match parts.status {
        StatusCode::NO_CONTENT => Ok(()),
        StatusCode::FORBIDDEN => {
            local.host.failed(Failure::Removed);
            Err(Failure::Removed.into())
        }
        StatusCode::PRECONDITION_FAILED => match incompatible(&why) {
            Some(Incompatible::Version) => {
                tracing::error!(
                    "remote-peer-id" = hex(to),
                    "request sent was ignored by peer"
                );
                Err(Incompatible::Version.into())
            }
            Some(Incompatible::Cluster) => {
                tracing::error!(
                    "remote-peer-id" = hex(to),
                    "remote-peer-cluster-id" = text(&parts.headers, &CLUSTER_ID),
                    "local-member-cluster-id" = local.identity.cluster.as_str(),
                    "request sent was ignored due to cluster ID mismatch"
                );
                Err(Incompatible::Cluster.into())
            }
            None => Err(PostError::Precondition(why)),
        },
        status => Err(PostError::Status {
            status: status.canonical_reason().unwrap_or("").to_owned(),
            url: url.to_owned(),
        }),
    }
}
