//! /version and /downgrade/enabled: which versions members run, and whether they are on their way
//! down.
//!
//! Source: etcd's api/version (the JSON) and cluster_util.go (who is asked, and what a member counts
//! as that does not answer).

use super::exchange::{Exchange, get};
use bytes::Bytes;
use quorate_go::number;
use quorate_node::ETCD_VERSION;
use quorate_node::store::membership::{Member, Membership, spell_id};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Where versions are told.
pub const VERSION_PATH: &str = "/version";
/// Where it is told whether a downgrade is under way.
pub const DOWNGRADE_PATH: &str = "/downgrade/enabled";

/// What a member says of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The program's.
    #[serde(rename = "etcdserver", default)]
    pub server: String,
    /// The cluster's, or `not_decided`.
    #[serde(rename = "etcdcluster", default)]
    pub cluster: String,
    /// The data directory's, or `unknown`.
    #[serde(rename = "storage", default)]
    pub storage: String,
}

impl Versions {
    /// This member's.
    pub fn own(cluster: Option<&str>, storage: Option<&str>) -> Versions {
        Versions {
            server: ETCD_VERSION.to_owned(),
            cluster: cluster.unwrap_or("not_decided").to_owned(),
            storage: storage.unwrap_or("unknown").to_owned(),
        }
    }
}

/// Versions by member; `None` for one that did not tell.
pub type MemberVersions = BTreeMap<u64, Option<Versions>>;

/// Asks a member at its URLs, one after the other, until an answer can be read.
async fn ask<T>(
    exchange: &dyn Exchange,
    member: &Member,
    path: &'static str,
    timeout: Duration,
    read: impl Fn(&Bytes) -> Result<T, (&'static str, String)>,
) -> Result<T, String> {
    let mut last = "the member has no peer URLs".to_owned();
    for url in &member.peer_urls {
        let answer = exchange.send(url, get(path), timeout).await;
        let outcome = answer
            .map_err(|error| ("failed to reach the peer URL", error))
            .and_then(|answer| read(answer.body()));
        match outcome {
            Ok(told) => return Ok(told),
            Err((what, error)) => {
                tracing::warn!(
                    "address" = format!("{url}{path}"),
                    "remote-member-id" = spell_id(member.id),
                    "error" = error.as_str(),
                    "{what}"
                );
                last = error;
            }
        }
    }
    Err(last)
}

async fn versions_of(
    exchange: &dyn Exchange,
    member: &Member,
    timeout: Duration,
) -> Option<Versions> {
    let read = |body: &Bytes| {
        serde_json::from_slice(body).map_err(|e| ("failed to unmarshal response", e.to_string()))
    };
    match ask(exchange, member, VERSION_PATH, timeout, read).await {
        Ok(versions) => Some(versions),
        Err(error) => {
            tracing::warn!(
                "remote-member-id" = spell_id(member.id),
                "error" = error.as_str(),
                "failed to get version"
            );
            None
        }
    }
}

/// The versions of all members. `local` is not asked: its own are known.
pub async fn fetch_versions(
    exchange: &Arc<dyn Exchange>,
    members: &Membership,
    local: u64,
    timeout: Duration,
) -> MemberVersions {
    let mut asked = JoinSet::new();
    let mut versions = MemberVersions::new();
    for member in members.iter() {
        if member.id == local {
            let own = Versions::own(members.cluster_version.as_deref(), None);
            versions.insert(local, Some(own));
            continue;
        }
        // One that is not heard of in the end has not told.
        versions.insert(member.id, None);
        let (exchange, member) = (exchange.clone(), member.clone());
        asked.spawn(async move { (member.id, versions_of(&*exchange, &member, timeout).await) });
    }
    while let Some(told) = asked.join_next().await {
        if let Ok((id, told)) = told {
            versions.insert(id, told);
        }
    }
    versions
}

/// Whether the cluster is on its way down, by the first member that tells; no, where none does.
pub async fn fetch_downgrade_enabled(
    exchange: &dyn Exchange,
    members: &[Member],
    local: u64,
    timeout: Duration,
) -> bool {
    let read = |body: &Bytes| {
        let text = String::from_utf8_lossy(body);
        number::parse_bool(&text).map_err(|_| ("failed to convert response", text.into_owned()))
    };
    for member in members.iter().filter(|member| member.id != local) {
        match ask(exchange, member, DOWNGRADE_PATH, timeout, read).await {
            Ok(enabled) => return enabled,
            Err(error) => tracing::warn!(
                "remote-member-id" = spell_id(member.id),
                "error" = error.as_str(),
                "failed to get downgrade enabled status"
            ),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::exchange::tests::{Script, run};
    use super::*;
    use quorate_node::store::buckets::Edits;
    use quorate_node::store::membership::go_json;

    const SECOND: Duration = Duration::from_secs(1);

    fn members() -> Membership {
        let (mut members, mut edits) = (Membership::default(), Edits::default());
        for (id, urls) in [
            (1, &["http://a"][..]),
            (2, &["http://b", "http://c"]),
            (3, &["http://d"]),
        ] {
            members.put(
                Member {
                    id,
                    peer_urls: urls.iter().map(|url| (*url).to_owned()).collect(),
                    ..Default::default()
                },
                &mut edits,
            );
        }
        members.set_cluster_version("3.6.0", &mut edits);
        members
    }

    #[test]
    fn spelled_as_etcd_does() {
        assert_eq!(
            go_json(&Versions::own(Some("3.7.0"), Some("3.7.0"))),
            br#"{"etcdserver":"3.7.3","etcdcluster":"3.7.0","storage":"3.7.0"}"#
        );
        assert_eq!(
            go_json(&Versions::own(None, None)),
            br#"{"etcdserver":"3.7.3","etcdcluster":"not_decided","storage":"unknown"}"#
        );
    }

    #[test]
    fn all_but_this_member_are_asked_at_all_their_urls() {
        let script = Script::default()
            .answer("http://b/version", 200, "no json")
            .answer(
                "http://c/version",
                200,
                r#"{"etcdserver":"3.6.13","etcdcluster":"3.6.0"}"#,
            );
        let script = Arc::new(script);
        let exchange: Arc<dyn Exchange> = script.clone();
        let versions = run(fetch_versions(&exchange, &members(), 1, SECOND));
        let of = |id: u64| versions[&id].as_ref().map(|told| told.server.as_str());
        assert_eq!([of(1), of(2), of(3)], [Some("3.7.3"), Some("3.6.13"), None]);
        assert_eq!(versions[&1].as_ref().unwrap().cluster, "3.6.0");
        let asked = script.asked.lock().unwrap();
        assert!(asked.iter().all(|(at, ..)| at != "http://a/version"));
    }

    #[test]
    fn the_first_answer_says_whether_the_cluster_goes_down() {
        let members: Vec<Member> = members().iter().cloned().collect();
        let script = Script::default()
            .answer("http://a/downgrade/enabled", 200, "false")
            .answer("http://c/downgrade/enabled", 200, "maybe")
            .answer("http://d/downgrade/enabled", 200, "true");
        assert!(run(fetch_downgrade_enabled(&script, &members, 1, SECOND)));
        assert!(!run(fetch_downgrade_enabled(&script, &members, 2, SECOND)));
        let nobody = Script::default();
        assert!(!run(fetch_downgrade_enabled(&nobody, &members, 1, SECOND)));
    }
}
