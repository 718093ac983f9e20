//! /members/hashkv: a member's hash of its key-value history at a revision.
//!
//! Request and answer are Go's encoding/json of HashKVRequest and HashKVResponse: the names of the
//! fields in snake case, zeros left out. Source: etcd's corrupt.go.

use super::exchange::Exchange;
use super::members::CLUSTER_ID_HEADER;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use quorate_node::store::hash::KeyValueHash;
use quorate_node::store::membership::{Member, spell_id};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Where it is served.
pub const PATH: &str = "/members/hashkv";
/// What a member of another cluster is answered.
pub(super) const OTHER_CLUSTER: &str = "cluster ID mismatch";
/// What a revision is answered that was compacted.
pub(super) const COMPACTED: &str = "mvcc: required revision has been compacted";
/// What a revision is answered that is yet to come.
pub(super) const FUTURE_REVISION: &str = "mvcc: required revision is a future revision";

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The question. Without a revision: the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    #[serde(default, skip_serializing_if = "is_zero")]
    cluster_id: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    member_id: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    revision: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    raft_term: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<Header>,
    #[serde(default, skip_serializing_if = "is_zero")]
    hash: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    compact_revision: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    hash_revision: i64,
}

/// A hash, and how far the member was that told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteHash {
    /// The hash and what it covers.
    pub hash: KeyValueHash,
    /// The member's newest revision.
    pub newest_revision: i64,
}

/// Why a member told no hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// It has compacted the revision.
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    /// It is not there yet.
    #[error("etcdserver: mvcc: required revision is a future revision")]
    FutureRevision,
    /// It is another cluster's.
    #[error("etcdserver: cluster ID mismatch")]
    OtherCluster,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// What became of asking a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHash {
    /// The member.
    pub id: u64,
    /// Where it was asked.
    pub urls: Vec<String>,
    /// What it said.
    pub told: Result<RemoteHash, HashError>,
}

/// The body of an answer.
pub(super) fn encode(hash: KeyValueHash, newest_revision: i64) -> Vec<u8> {
    let header = Header {
        revision: newest_revision,
        ..Default::default()
    };
    let answer = Answer {
        header: Some(header),
        hash: hash.hash,
        compact_revision: hash.compact_revision,
        hash_revision: hash.revision,
    };
    serde_json::to_vec(&answer).expect("plain data has a JSON form")
}

fn read(status: StatusCode, body: &Bytes) -> Result<RemoteHash, HashError> {
    let text = || String::from_utf8_lossy(body);
    match status {
        StatusCode::OK => {
            let answer: Answer =
                serde_json::from_slice(body).map_err(|e| HashError::Failed(e.to_string()))?;
            Ok(RemoteHash {
                hash: KeyValueHash {
                    hash: answer.hash,
                    compact_revision: answer.compact_revision,
                    revision: answer.hash_revision,
                },
                newest_revision: answer.header.unwrap_or_default().revision,
            })
        }
        StatusCode::BAD_REQUEST if text().contains(COMPACTED) => Err(HashError::Compacted),
        StatusCode::BAD_REQUEST if text().contains(FUTURE_REVISION) => {
            Err(HashError::FutureRevision)
        }
        StatusCode::PRECONDITION_FAILED if text().contains(OTHER_CLUSTER) => {
            Err(HashError::OtherCluster)
        }
        _ => Err(HashError::Failed(format!("unknown error: {}", text()))),
    }
}

fn request(cluster_id: u64, revision: i64) -> Request<Bytes> {
    let body = serde_json::to_vec(&Question { revision }).expect("plain data has a JSON form");
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = Method::GET;
    *request.uri_mut() = http::Uri::from_static(PATH);
    let cluster = HeaderValue::from_str(&spell_id(cluster_id)).expect("hex is a header value");
    let headers = request.headers_mut();
    headers.insert(CLUSTER_ID_HEADER, cluster);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    request
}

/// Who asks: this member.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// Its id.
    pub member_id: u64,
    /// Its cluster's id.
    pub cluster_id: u64,
    /// Time for one answer.
    pub timeout: Duration,
}

async fn ask(exchange: &dyn Exchange, asker: Asker, member: &Member, revision: i64) -> PeerHash {
    let mut told = Err(HashError::Failed("the member has no peer URLs".to_owned()));
    for url in &member.peer_urls {
        let request = request(asker.cluster_id, revision);
        told = match exchange.send(url, request, asker.timeout).await {
            Ok(answer) => read(answer.status(), answer.body()),
            Err(error) => Err(HashError::Failed(error)),
        };
        match &told {
            Ok(_) => break,
            Err(error) => tracing::warn!(
                "local-member-id" = spell_id(asker.member_id),
                "requested-revision" = revision,
                "remote-peer-endpoint" = url.as_str(),
                "error" = %error,
                "failed hash kv request"
            ),
        }
    }
    PeerHash {
        id: member.id,
        urls: member.peer_urls.clone(),
        told,
    }
}

/// Asks all members but this one, at once; their answers by id.
pub async fn fetch_hashes(
    exchange: &Arc<dyn Exchange>,
    asker: Asker,
    members: impl IntoIterator<Item = &Member>,
    revision: i64,
) -> Vec<PeerHash> {
    let mut asked = JoinSet::new();
    for member in members {
        if member.id != asker.member_id && !member.peer_urls.is_empty() {
            let (exchange, member) = (exchange.clone(), member.clone());
            asked.spawn(async move { ask(&*exchange, asker, &member, revision).await });
        }
    }
    let mut hashes = Vec::with_capacity(asked.len());
    while let Some(told) = asked.join_next().await {
        hashes.extend(told);
    }
    hashes.sort_by_key(|hash| hash.id);
    hashes
}

#[cfg(test)]
mod tests {
    use super::super::exchange::tests::{Script, run};
    use super::*;

    const HASH: KeyValueHash = KeyValueHash {
        hash: 1084519789,
        compact_revision: -1,
        revision: 1,
    };

    fn asker() -> Asker {
        Asker {
            member_id: 1,
            cluster_id: 0xab,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn spelled_as_etcd_does() {
        assert_eq!(
            encode(HASH, 1),
            br#"{"header":{"revision":1},"hash":1084519789,"compact_revision":-1,"hash_revision":1}"#
        );
        let empty = KeyValueHash {
            hash: 0,
            compact_revision: 0,
            revision: 0,
        };
        assert_eq!(encode(empty, 0), br#"{"header":{}}"#);
        let request = request(0xab, 0);
        assert_eq!(&request.body()[..], b"{}");
        assert_eq!(request.headers()[CLUSTER_ID_HEADER], "ab");
        assert_eq!(&super::request(1, 7).body()[..], br#"{"revision":7}"#);
    }

    #[test]
    fn answers_and_refusals() {
        let body = |text: &'static str| Bytes::from_static(text.as_bytes());
        let told = read(StatusCode::OK, &encode(HASH, 9).into()).unwrap();
        assert_eq!((told.hash, told.newest_revision), (HASH, 9));
        for (status, text, error) in [
            (
                400,
                "mvcc: required revision has been compacted\n",
                HashError::Compacted,
            ),
            (
                400,
                "mvcc: required revision is a future revision\n",
                HashError::FutureRevision,
            ),
            (412, "cluster ID mismatch\n", HashError::OtherCluster),
            (404, "no\n", HashError::Failed("unknown error: no\n".into())),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(read(status, &body(text)), Err(error));
        }
        assert!(matches!(
            read(StatusCode::OK, &body("{")),
            Err(HashError::Failed(_))
        ));
    }

    #[test]
    fn every_other_member_is_asked_until_one_url_answers() {
        let member = |id: u64, urls: &[&str]| Member {
            id,
            peer_urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            ..Default::default()
        };
        let members = [
            member(1, &["http://own"]),
            member(2, &["http://gone", "http://b"]),
            member(3, &["http://c"]),
            member(4, &[]),
        ];
        let script = Script::default()
            .answer("http://b/members/hashkv", 200, encode(HASH, 9))
            .answer("http://c/members/hashkv", 400, COMPACTED);
        let exchange: Arc<dyn Exchange> = Arc::new(script);
        let told = run(fetch_hashes(&exchange, asker(), &members, 1));
        assert_eq!(told.iter().map(|told| told.id).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(told[0].told.as_ref().unwrap().hash, HASH);
        assert_eq!(told[1].told, Err(HashError::Compacted));
    }
}
