//! Joining a cluster: what a member without data checks before it begins.
//!
//! One that joins a running cluster asks the others who is in it, finds itself and everybody else
//! among them by their peer URLs, takes their ids, and looks whether it speaks a version that they
//! do. One that begins a new cluster makes sure that the cluster does not run already.
//! Source: etcd's bootstrap.go, config.go and membership.ValidateClusterAndAssignIDs.

use super::Timings;
use super::exchange::Exchange;
use super::members::{FetchError, JOIN_TIMEOUT, RemoteCluster, fetch_cluster, has_started};
use super::same_urls::{Resolve, same_urls};
use super::versions::{MemberVersions, fetch_downgrade_enabled, fetch_versions};
use crate::cluster_versions::semver::{MIN_CLUSTER, OWN, Version};
use crate::config::Config;
use quorate_node::ids::member_id;
use quorate_node::store::buckets::Edits;
use quorate_node::store::membership::{Member, Membership, spell_id};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Time for one answer of a cluster that should not be there: its members may be starting too.
const NEW_TIMEOUT: Duration = Duration::from_secs(1);

/// What the flags say of the cluster.
#[derive(Clone, Debug)]
pub struct Flags {
    /// --name
    pub name: String,
    /// --initial-cluster
    pub initial_cluster: Vec<(String, Vec<String>)>,
    /// --initial-cluster-token
    pub token: String,
    /// --initial-advertise-peer-urls
    pub advertise_peer: Vec<String>,
    /// --max-learners
    pub max_learners: usize,
    /// Time for a request to a member.
    pub request_timeout: Duration,
}

/// What a member that joins begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The cluster.
    pub cluster_id: u64,
    /// This member.
    pub member_id: u64,
    /// The members as the flags describe them, with the ids that the cluster gave them.
    pub members: Vec<Member>,
    /// The members as the cluster knows them.
    pub remotes: Vec<Member>,
}

/// Why a member does not begin; in etcd's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// It is not in its own --initial-cluster.
    #[error("couldn't find local name {0:?} in the initial cluster configuration")]
    NotInCluster(String),
    /// A URL is given twice.
    #[error("initial cluster {0} has duplicate url")]
    DuplicateUrl(String),
    /// Nobody told the cluster's members.
    #[error("cannot fetch cluster info from peer urls: {0}")]
    Fetch(#[from] FetchError),
    /// The cluster's members are others than those of the flags.
    #[error("error validating peerURLs {cluster}: {why}")]
    Mismatch {
        /// The cluster.
        cluster: String,
        /// What does not match.
        why: String,
    },
    /// The cluster's version is none that this member speaks.
    #[error("incompatible with current running cluster")]
    Incompatible,
    /// The cluster has more learners than the flags allow.
    #[error("membership: too many learner members in cluster")]
    TooManyLearners,
    /// The cluster that is to begin runs already, and this member in it.
    #[error("member {} has already been bootstrapped", spell_id(*.0))]
    AlreadyStarted(u64),
    /// --initial-cluster and --initial-advertise-peer-urls say different things.
    #[error("{0}")]
    Advertised(String),
}

impl Flags {
    /// Those of a configuration.
    pub fn of(config: &Config) -> Flags {
        Flags {
            name: config.name.clone(),
            initial_cluster: config.initial_cluster.clone(),
            token: config.text("initial-cluster-token").to_owned(),
            advertise_peer: config.advertise_peer.clone(),
            max_learners: config.count("max-learners") as usize,
            request_timeout: Timings::of(config).request,
        }
    }

    fn own_urls(&self) -> Result<&[String], JoinError> {
        let own = self
            .initial_cluster
            .iter()
            .find(|(name, _)| *name == self.name);
        own.map(|(_, urls)| urls.as_slice())
            .ok_or_else(|| JoinError::NotInCluster(self.name.clone()))
    }

    fn check_duplicates(&self) -> Result<(), JoinError> {
        let urls = self.initial_cluster.iter().flat_map(|(_, urls)| urls);
        let distinct: BTreeSet<&String> = urls.clone().collect();
        if distinct.len() != urls.count() {
            return Err(JoinError::DuplicateUrl(spell(&self.initial_cluster)));
        }
        Ok(())
    }

    /// Peer URLs of the others, in order.
    fn others(&self) -> Vec<String> {
        let others = self
            .initial_cluster
            .iter()
            .filter(|(name, _)| *name != self.name);
        let mut urls: Vec<String> = others.flat_map(|(_, urls)| urls.clone()).collect();
        urls.sort();
        urls
    }

    /// The members with the ids that a new cluster would give them, by id.
    fn members(&self) -> Vec<Member> {
        let named = self.initial_cluster.iter().map(|(name, urls)| Member {
            id: member_id(urls, &self.token),
            name: name.clone(),
            peer_urls: urls.clone(),
            ..Default::default()
        });
        let mut members: Vec<Member> = named.collect();
        members.sort_by_key(|member| member.id);
        members
    }
}

/// A cluster as --initial-cluster has it.
fn spell(cluster: &[(String, Vec<String>)]) -> String {
    let mut pairs: Vec<String> = cluster
        .iter()
        .flat_map(|(name, urls)| urls.iter().map(move |url| format!("{name}={url}")))
        .collect();
    pairs.sort();
    pairs.join(",")
}

/// Gives the members of the flags the ids of the cluster's members with the same peer URLs.
pub async fn assign_ids(
    local: &[Member],
    existing: &[Member],
    resolver: &dyn Resolve,
) -> Result<Vec<Member>, String> {
    if local.len() != existing.len() {
        return Err("member count is unequal".to_owned());
    }
    let mut members = local.to_vec();
    for known in existing {
        let (mut found, mut last) = (None, String::new());
        for (at, member) in local.iter().enumerate() {
            match same_urls(&known.peer_urls, &member.peer_urls, resolver).await {
                Ok(()) => {
                    found = Some(at);
                    break;
                }
                Err(error) => last = error,
            }
        }
        match found {
            Some(at) => members[at].id = known.id,
            None => {
                return Err(format!(
                    "PeerURLs: no match found for existing member ({}, [{}]), last resolver error ({last})",
                    spell_id(known.id),
                    known.peer_urls.join(" ")
                ));
            }
        }
    }
    members.sort_by_key(|member| member.id);
    Ok(members)
}

/// Whether a member may join that speaks `OWN`: at least one of the others tells a cluster version
/// that it speaks, and none tells another. While the cluster goes down, only the version above this
/// one is spoken.
fn is_compatible(versions: &MemberVersions, local: u64, downgrading: bool) -> bool {
    let own = OWN.minor();
    let (least, most) = if downgrading {
        let above = Version::new(own.major, own.minor + 1);
        (above.clone(), above)
    } else {
        (MIN_CLUSTER, own)
    };
    let mut told = false;
    for (id, versions) in versions.iter().filter(|(id, _)| **id != local) {
        let Some(versions) = versions else { continue };
        let Some(cluster) = Version::parse(&versions.cluster) else {
            tracing::warn!(
                "remote-member-id" = spell_id(*id),
                "remote-member-cluster-version" = versions.cluster.as_str(),
                "failed to parse cluster version of remote member"
            );
            continue;
        };
        if cluster < least {
            tracing::warn!(
                "remote-member-id" = spell_id(*id),
                "remote-member-cluster-version" = cluster.to_string(),
                "minimum-cluster-version-supported" = least.to_string(),
                "cluster version of remote member is not compatible; too low"
            );
            return false;
        }
        if most < cluster {
            tracing::warn!(
                "remote-member-id" = spell_id(*id),
                "remote-member-cluster-version" = cluster.to_string(),
                "maximum-cluster-version-supported" = most.to_string(),
                "cluster version of remote member is not compatible; too high"
            );
            return false;
        }
        told = true;
    }
    told
}

/// Asks a running cluster for everything that this member needs to join it.
pub async fn join(
    exchange: &Arc<dyn Exchange>,
    flags: &Flags,
    resolver: &dyn Resolve,
) -> Result<Joined, JoinError> {
    flags.own_urls()?;
    flags.check_duplicates()?;
    let existing = fetch_cluster(&**exchange, &flags.others(), JOIN_TIMEOUT, true).await?;
    let members = assign_ids(&flags.members(), &existing.members, resolver)
        .await
        .map_err(|why| JoinError::Mismatch {
            cluster: existing.to_string(),
            why,
        })?;
    let own = members.iter().find(|member| member.name == flags.name);
    let own = own.expect("the flags name this member").id;

    let timeout = flags.request_timeout;
    let versions = fetch_versions(exchange, &membership(&members), own, timeout).await;
    let downgrading = fetch_downgrade_enabled(&**exchange, &members, own, timeout).await;
    if !is_compatible(&versions, own, downgrading) {
        return Err(JoinError::Incompatible);
    }
    let RemoteCluster {
        id,
        members: remotes,
    } = existing;
    if remotes.iter().filter(|member| member.is_learner).count() > flags.max_learners {
        return Err(JoinError::TooManyLearners);
    }
    Ok(Joined {
        cluster_id: id,
        member_id: own,
        members,
        remotes,
    })
}

fn membership(members: &[Member]) -> Membership {
    let (mut membership, mut edits) = (Membership::default(), Edits::default());
    for member in members {
        membership.put(member.clone(), &mut edits);
    }
    membership
}

/// Checks that this member may begin a new cluster.
pub async fn check_new(
    exchange: &dyn Exchange,
    flags: &Flags,
    resolver: &dyn Resolve,
) -> Result<(), JoinError> {
    let own = flags.own_urls()?;
    if let Err(error) = same_urls(&flags.advertise_peer, own, resolver).await {
        return Err(JoinError::Advertised(mismatch(flags, own, &error)));
    }
    flags.check_duplicates()?;
    let id = member_id(own, &flags.token);
    if has_started(exchange, &flags.others(), id, NEW_TIMEOUT).await {
        return Err(JoinError::AlreadyStarted(id));
    }
    Ok(())
}

/// How the URLs of --initial-cluster differ from those that are advertised.
fn mismatch(flags: &Flags, own: &[String], error: &str) -> String {
    let advertised = flags.advertise_peer.join(",");
    let named = spell(&[(flags.name.clone(), flags.advertise_peer.clone())]);
    let missing = |of: &[String], from: &[String]| -> Vec<String> {
        of.iter()
            .filter(|url| !from.contains(url))
            .cloned()
            .collect()
    };
    let unadvertised = missing(own, &flags.advertise_peer);
    if !unadvertised.is_empty() {
        let missing = spell(&[(flags.name.clone(), unadvertised)]);
        return format!(
            "--initial-cluster has {missing} but missing from --initial-advertise-peer-urls={advertised} ({error})"
        );
    }
    let unlisted = missing(&flags.advertise_peer, own);
    if !unlisted.is_empty() {
        return format!(
            "--initial-advertise-peer-urls has {} but missing from --initial-cluster={named}",
            unlisted.join(",")
        );
    }
    format!("failed to resolve {advertised} to match --initial-cluster={named} ({error})")
}

#[cfg(test)]
mod tests {
    use super::super::exchange::tests::{Script, run};
    use super::super::members::CLUSTER_ID_HEADER;
    use super::super::same_urls::tests::Names;
    use super::super::versions::Versions;
    use super::*;

    fn flags() -> Flags {
        let member = |name: &str, url: &str| (name.to_owned(), vec![url.to_owned()]);
        Flags {
            name: "b".into(),
            initial_cluster: vec![
                member("a", "http://a.example:1"),
                member("b", "http://b.example:1"),
            ],
            token: "t".into(),
            advertise_peer: vec!["http://b.example:1".into()],
            max_learners: 1,
            request_timeout: Duration::from_secs(1),
        }
    }

    const MEMBERS: &str = "[{\"id\":17,\"peerURLs\":[\"http://10.0.0.1:1\"],\"name\":\"a\",\
        \"clientURLs\":[\"http://a:2\"]},{\"id\":18,\"peerURLs\":[\"http://b.example:1\"],\
        \"isLearner\":true}]\n";

    fn cluster(version: &str) -> Script {
        let versions = format!("{{\"etcdserver\":\"3.6.13\",\"etcdcluster\":\"{version}\"}}");
        Script::default()
            .answer_with(
                "http://a.example:1/members",
                &[(CLUSTER_ID_HEADER, "ab")],
                MEMBERS,
            )
            .answer("http://a.example:1/version", 200, versions)
            .answer("http://a.example:1/downgrade/enabled", 200, "false")
    }

    fn joined(script: Script, flags: &Flags) -> Result<Joined, JoinError> {
        let exchange: Arc<dyn Exchange> = Arc::new(script);
        run(join(&exchange, flags, &Names))
    }

    #[test]
    fn a_member_takes_the_ids_that_the_cluster_gave() {
        let joined = joined(cluster("3.6.0"), &flags()).unwrap();
        assert_eq!((joined.cluster_id, joined.member_id), (0xab, 18));
        let ids: Vec<_> = joined
            .members
            .iter()
            .map(|member| (member.id, member.name.as_str()))
            .collect();
        assert_eq!(ids, [(17, "a"), (18, "b")]);
        assert!(joined.remotes[1].is_learner);
    }

    #[test]
    fn what_keeps_a_member_out() {
        assert_eq!(
            joined(cluster("3.8.0"), &flags()),
            Err(JoinError::Incompatible)
        );
        assert_eq!(
            joined(cluster("2.3.0"), &flags()),
            Err(JoinError::Incompatible)
        );
        let unsure = cluster("not_decided");
        assert_eq!(joined(unsure, &flags()), Err(JoinError::Incompatible));
        let no_learners = Flags {
            max_learners: 0,
            ..flags()
        };
        assert_eq!(
            joined(cluster("3.7.0"), &no_learners),
            Err(JoinError::TooManyLearners)
        );
        let error = joined(Script::default(), &flags()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs"
        );
        let stranger = Flags {
            name: "c".into(),
            ..flags()
        };
        let error = joined(cluster("3.7.0"), &stranger).unwrap_err();
        assert_eq!(
            error.to_string(),
            "couldn't find local name \"c\" in the initial cluster configuration"
        );
        let mut twice = flags();
        twice.initial_cluster[0].1 = vec!["http://b.example:1".into()];
        let error = joined(cluster("3.7.0"), &twice).unwrap_err();
        assert_eq!(
            error.to_string(),
            "initial cluster a=http://b.example:1,b=http://b.example:1 has duplicate url"
        );
    }

    #[test]
    fn members_are_found_by_their_urls_or_not_at_all() {
        let member = |id: u64, url: &str| Member {
            id,
            peer_urls: vec![url.into()],
            ..Default::default()
        };
        let local = [
            member(1, "http://a.example:1"),
            member(2, "http://b.example:1"),
        ];
        let assigned = |existing: &[Member]| run(assign_ids(&local, existing, &Names));
        assert_eq!(
            assigned(&[member(7, "http://10.0.0.2:1")]),
            Err("member count is unequal".into())
        );
        let existing = [
            member(7, "http://10.0.0.2:1"),
            member(8, "http://10.0.0.1:1"),
        ];
        let ids: Vec<u64> = assigned(&existing).unwrap().iter().map(|m| m.id).collect();
        assert_eq!(ids, [7, 8]);
        let existing = [
            member(7, "http://10.0.0.2:1"),
            member(0x8a, "http://10.0.0.3:1"),
        ];
        assert_eq!(
            assigned(&existing).unwrap_err(),
            "PeerURLs: no match found for existing member (8a, [http://10.0.0.3:1]), last resolver \
             error (resolved urls: \"http://10.0.0.3:1\" != \"http://10.0.0.2:1\")"
        );
    }

    #[test]
    fn versions_while_the_cluster_goes_down() {
        let versions = |cluster: &str| {
            let told = Versions {
                cluster: cluster.to_owned(),
                ..Default::default()
            };
            MemberVersions::from([(1, None), (2, Some(told)), (3, None)])
        };
        assert!(is_compatible(&versions("3.8.0"), 1, true));
        assert!(!is_compatible(&versions("3.7.0"), 1, true));
        assert!(is_compatible(&versions("3.7.0"), 1, false));
        // What is known of this member itself says nothing.
        assert!(!is_compatible(&versions("3.7.0"), 2, false));
    }

    #[test]
    fn a_new_cluster_must_be_new_and_agree_with_what_is_advertised() {
        let check = |script: &Script, flags: &Flags| run(check_new(script, flags, &Names));
        assert_eq!(check(&Script::default(), &flags()), Ok(()));
        let id = member_id(&["http://b.example:1".into()], "t");
        let body = format!("[{{\"id\":{id},\"peerURLs\":[],\"clientURLs\":[\"http://b:2\"]}}]");
        let running = Script::default().answer_with(
            "http://a.example:1/members",
            &[(CLUSTER_ID_HEADER, "ab")],
            body,
        );
        assert_eq!(
            check(&running, &flags()),
            Err(JoinError::AlreadyStarted(id))
        );

        let advertising = |urls: &[&str]| {
            let flags = Flags {
                advertise_peer: urls.iter().map(|url| (*url).to_owned()).collect(),
                ..flags()
            };
            check(&Script::default(), &flags).unwrap_err().to_string()
        };
        assert_eq!(
            advertising(&["http://a.example:1"]),
            "--initial-cluster has b=http://b.example:1 but missing from \
             --initial-advertise-peer-urls=http://a.example:1 (resolved urls: \
             \"http://10.0.0.1:1\" != \"http://10.0.0.2:1\")"
        );
        assert_eq!(
            advertising(&["http://b.example:1", "http://b.example:2"]),
            "--initial-advertise-peer-urls has http://b.example:2 but missing from \
             --initial-cluster=b=http://b.example:1,b=http://b.example:2"
        );
    }
}
