//! /members: who is in the cluster, told to a member that wants to join.
//!
//! Body: the members' JSON in Go's spelling, sorted by id, with a newline behind; the cluster's id
//! in hex in a header. Source: etcd's etcdhttp (peer.go) and cluster_util.go.

use super::exchange::{Exchange, get};
use bytes::Bytes;
use http::Response;
use quorate_node::store::membership::{Member, Membership, go_json, spell_id};
use std::time::Duration;

/// Where it is served.
pub const PATH: &str = "/members";
/// Carries the cluster's id.
pub const CLUSTER_ID_HEADER: &str = "x-etcd-cluster-id";
/// Time for one answer when a member joins.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster as one of its members tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCluster {
    /// Its id.
    pub id: u64,
    /// Its members, by id.
    pub members: Vec<Member>,
}

/// Why no cluster was learned of; in etcd's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// A member answered, and its cluster is empty.
    #[error("failed to get raft cluster member(s) from the given URLs")]
    Empty,
    /// Nobody answered.
    #[error("could not retrieve cluster information from the given URLs")]
    NoAnswer,
}

/// The body of an answer.
pub(super) fn encode(members: &Membership) -> Vec<u8> {
    let members: Vec<&Member> = members.iter().collect();
    let mut json = go_json(&members);
    json.push(b'\n');
    json
}

/// Reads the body of an answer.
pub(super) fn decode(body: &[u8]) -> Result<Vec<Member>, serde_json::Error> {
    let members: Option<Vec<Member>> = serde_json::from_slice(body)?;
    let mut members = members.unwrap_or_default();
    members.sort_by_key(|member| member.id);
    Ok(members)
}

fn cluster_id(answer: &Response<Bytes>) -> Result<u64, String> {
    let header = answer.headers().get(CLUSTER_ID_HEADER);
    let text = header.map_or("", |value| value.to_str().unwrap_or_default());
    u64::from_str_radix(text, 16).map_err(|_| text.to_owned())
}

/// Asks the members at `urls`, one after the other, until one tells its cluster. `loud`: failures
/// are told to the operator.
pub async fn fetch_cluster(
    exchange: &dyn Exchange,
    urls: &[String],
    timeout: Duration,
    loud: bool,
) -> Result<RemoteCluster, FetchError> {
    for url in urls {
        let address = format!("{url}{PATH}");
        let failed = |what: &'static str, error: &str| {
            if loud {
                tracing::warn!("address" = address.as_str(), "error" = error, "{what}");
            }
        };
        let answer = match exchange.send(url, get(PATH), timeout).await {
            Ok(answer) => answer,
            Err(error) => {
                failed("failed to get cluster response", &error);
                continue;
            }
        };
        let members = match decode(answer.body()) {
            Ok(members) => members,
            Err(error) => {
                failed("failed to unmarshal cluster response", &error.to_string());
                continue;
            }
        };
        let id = match cluster_id(&answer) {
            Ok(id) => id,
            Err(header) => {
                failed("failed to parse cluster ID", &header);
                continue;
            }
        };
        if members.is_empty() {
            return Err(FetchError::Empty);
        }
        return Ok(RemoteCluster { id, members });
    }
    Err(FetchError::NoAnswer)
}

/// Whether the cluster at `urls` knows this member as one that has started.
pub async fn has_started(
    exchange: &dyn Exchange,
    urls: &[String],
    id: u64,
    timeout: Duration,
) -> bool {
    match fetch_cluster(exchange, urls, timeout, false).await {
        Ok(cluster) => {
            let known = cluster.members.iter().find(|member| member.id == id);
            known.is_some_and(|member| !member.client_urls.is_empty())
        }
        Err(_) => false,
    }
}

impl std::fmt::Display for RemoteCluster {
    /// For an error that tells of the whole cluster.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let members: Vec<String> = self.members.iter().map(spell_member).collect();
        write!(
            f,
            "{{ClusterID:{} Members:[{}] RemovedMemberIDs:[]}}",
            spell_id(self.id),
            members.join(" ")
        )
    }
}

fn spell_member(member: &Member) -> String {
    format!(
        "&{{ID:{} RaftAttributes:{{PeerURLs:[{}] IsLearner:{}}} Attributes:{{Name:{} ClientURLs:[{}]}}}}",
        spell_id(member.id),
        member.peer_urls.join(" "),
        member.is_learner,
        member.name,
        member.client_urls.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::exchange::tests::{Script, run};
    use super::*;
    use quorate_node::store::buckets::Edits;

    fn member(id: u64, url: &str) -> Member {
        Member {
            id,
            peer_urls: vec![url.into()],
            ..Default::default()
        }
    }

    const BODY: &str = "[{\"id\":1,\"peerURLs\":[\"http://a:1\"],\"isLearner\":true},\
        {\"id\":7383792418829112008,\"peerURLs\":[\"http://127.0.0.1:42380\"],\"name\":\"default\",\
        \"clientURLs\":[\"http://127.0.0.1:42379\"]}]\n";

    fn two() -> Vec<Member> {
        let learner = Member {
            is_learner: true,
            ..member(1, "http://a:1")
        };
        let voter = Member {
            name: "default".into(),
            client_urls: vec!["http://127.0.0.1:42379".into()],
            ..member(7383792418829112008, "http://127.0.0.1:42380")
        };
        vec![learner, voter]
    }

    #[test]
    fn spelled_as_etcd_does() {
        let (mut members, mut edits) = (Membership::default(), Edits::default());
        for member in two().into_iter().rev() {
            members.put(member, &mut edits);
        }
        assert_eq!(String::from_utf8(encode(&members)).unwrap(), BODY);
        assert_eq!(decode(BODY.as_bytes()).unwrap(), two());
        assert_eq!(decode(b"null").unwrap(), []);
        assert!(decode(b"{}").is_err());
    }

    #[test]
    fn the_first_that_tells_a_cluster_is_taken() {
        let header = &[(CLUSTER_ID_HEADER, "dc50b8daae93b3e0")];
        let script = Script::default()
            .answer("http://b/members", 200, "404 page not found")
            .answer("http://c/members", 200, BODY)
            .answer_with("http://d/members", header, BODY)
            .answer_with("http://e/members", header, "[]");
        let fetch = |urls: &[&str]| {
            let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
            run(fetch_cluster(&script, &urls, JOIN_TIMEOUT, true))
        };
        let found = fetch(&["http://a", "http://b", "http://c", "http://d", "http://e"]).unwrap();
        assert_eq!((found.id, found.members), (0xdc50b8daae93b3e0, two()));
        // Without a header, there is no cluster.
        assert_eq!(fetch(&["http://a", "http://c"]), Err(FetchError::NoAnswer));
        assert_eq!(fetch(&["http://e", "http://d"]), Err(FetchError::Empty));
        assert_eq!(
            FetchError::NoAnswer.to_string(),
            "could not retrieve cluster information from the given URLs"
        );
    }

    #[test]
    fn a_member_has_started_once_it_has_told_its_client_urls() {
        let header = &[(CLUSTER_ID_HEADER, "1")];
        let script = Script::default().answer_with("http://d/members", header, BODY);
        let started = |id| run(has_started(&script, &["http://d".into()], id, JOIN_TIMEOUT));
        assert!(started(7383792418829112008));
        assert!(!started(1));
        assert!(!started(2));
    }

    #[test]
    fn told_in_an_error() {
        let cluster = RemoteCluster {
            id: 0xab,
            members: two()[..1].to_vec(),
        };
        assert_eq!(
            cluster.to_string(),
            "{ClusterID:ab Members:[&{ID:1 RaftAttributes:{PeerURLs:[http://a:1] IsLearner:true} \
             Attributes:{Name: ClientURLs:[]}}] RemovedMemberIDs:[]}"
        );
    }
}
