//! Which version the cluster, and this member's data, should have: decided from what is known, with
//! nothing asked and nothing done.
//!
//! Source: etcd's server/etcdserver/version (monitor.go, downgrade.go) and storage/schema.

use super::semver::{MIN_CLUSTER, OWN, Version};
use crate::peer_api::versions::MemberVersions;
use quorate_node::store::membership::spell_id;

/// A downgrade whose target cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid downgrade target")]
pub struct InvalidDowngradeTarget;

/// Whether a cluster of version `from` may go down to `to`.
fn is_downgrade(from: &Version, to: &Version) -> bool {
    *to == from.below()
}

/// Whether the cluster version may change this way: down by one, or up within a major version.
fn may_change(from: &Version, to: &Version) -> bool {
    let (from, to) = (from.minor(), to.minor());
    is_downgrade(&from, &to) || (from.major == to.major && from < to)
}

/// The least version among the members; `None` where one is not known.
pub fn least_server_version(versions: &MemberVersions) -> Option<Version> {
    let mut least: Option<Version> = None;
    for (id, told) in versions {
        let told = &told.as_ref()?.server;
        let Some(version) = Version::parse(told) else {
            tracing::warn!(
                "remote-member-id" = spell_id(*id),
                "remote-member-version" = told.as_str(),
                "failed to parse server version of remote member"
            );
            return None;
        };
        if OWN < version {
            tracing::warn!(
                "local-member-version" = OWN.to_string(),
                "remote-member-id" = spell_id(*id),
                "remote-member-version" = told.as_str(),
                "leader found higher-versioned member"
            );
        }
        least = match least {
            Some(least) if least <= version => Some(least),
            _ => Some(version),
        };
    }
    least
}

/// Whether every member runs this minor version.
pub fn all_run(versions: &MemberVersions, target: &Version) -> bool {
    let target = target.minor();
    versions.iter().all(|(id, told)| {
        let Some(told) = told else { return false };
        let Some(version) = Version::parse(&told.server) else {
            tracing::warn!(
                "remote-member-id" = spell_id(*id),
                "remote-member-version" = told.server.as_str(),
                "failed to parse server version of remote member"
            );
            return false;
        };
        let version = version.minor();
        if version != target {
            tracing::warn!(
                "remote-member-id" = spell_id(*id),
                "current-server-version" = version.to_string(),
                "target-version" = target.to_string(),
                "remotes server has mismatching etcd version"
            );
        }
        version == target
    })
}

/// The cluster version that is to be proposed; `None`: none.
pub fn cluster_version(
    current: Option<&Version>,
    least: Option<&Version>,
    downgrade_target: Option<&Version>,
) -> Result<Option<Version>, InvalidDowngradeTarget> {
    let Some(current) = current else {
        return Ok(Some(least.map_or(MIN_CLUSTER, Version::minor)));
    };
    let Some(least) = least else {
        return Ok(None);
    };
    let Some(target) = downgrade_target else {
        let rises = current < least && may_change(current, least);
        return Ok(rises.then(|| least.minor()));
    };
    if target == current {
        return Ok(None);
    }
    if !is_downgrade(current, target) {
        tracing::error!(
            "downgrade-target" = target.to_string(),
            "cluster-version" = current.to_string(),
            "Cannot downgrade from cluster-version to downgrade-target"
        );
        return Err(InvalidDowngradeTarget);
    }
    if !is_downgrade(least, target) {
        tracing::error!(
            "downgrade-target" = target.to_string(),
            "minimal-server-version" = least.to_string(),
            "Cannot downgrade from minimal-server-version to downgrade-target"
        );
        return Err(InvalidDowngradeTarget);
    }
    Ok(Some(target.minor()))
}

/// Why the storage version stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageRefusal {
    /// Nothing was applied yet that tells the version of the data.
    #[error("cannot detect storage schema version: missing term information")]
    Unknown,
    /// Another major version.
    #[error("cannot create migration plan: changing major storage version is not supported")]
    Major,
    /// This member knows no such layout.
    #[error("cannot create migration plan: version \"{0}\" is not supported")]
    Unsupported(Version),
    /// An entry that would be replayed is beyond the target.
    #[error(
        "cannot downgrade storage, WAL contains newer entries, as the target version ({target}) is \
         lower than the version ({log}) detected from WAL logs"
    )]
    NewerEntries {
        /// Where it should have gone.
        target: Version,
        /// What the log needs.
        log: Version,
    },
}

/// The layouts that this member writes.
const LAYOUTS: [Version; 2] = [Version::new(3, 6), Version::new(3, 7)];

/// The steps, one minor version each, from the data's version to the cluster's. `storage` is the
/// data's, where it is recorded; `log` the least version that can read what would be replayed.
pub fn storage_steps(
    storage: &Version,
    cluster: &Version,
    log: Option<&Version>,
) -> Result<Vec<Version>, StorageRefusal> {
    let (from, to) = (storage.minor(), cluster.minor());
    if from.major != to.major {
        return Err(StorageRefusal::Major);
    }
    let mut steps = Vec::new();
    let mut at = from.clone();
    while at != to {
        at.minor += if at < to { 1 } else { -1 };
        if !LAYOUTS.contains(&at) {
            return Err(StorageRefusal::Unsupported(at));
        }
        steps.push(at.clone());
    }
    match log {
        Some(log) if to < from && to < *log => Err(StorageRefusal::NewerEntries {
            target: to,
            log: log.clone(),
        }),
        _ => Ok(steps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_api::versions::Versions;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    fn told(servers: &[Option<&str>]) -> MemberVersions {
        let versions = servers.iter().zip(1..).map(|(server, id)| {
            let versions = server.map(|server| Versions {
                server: server.to_owned(),
                ..Default::default()
            });
            (id, versions)
        });
        versions.collect()
    }

    #[test]
    fn the_least_version_needs_all_members() {
        let least = |servers: &[Option<&str>]| {
            least_server_version(&told(servers)).map(|version| version.to_string())
        };
        assert_eq!(least(&[]), None);
        assert_eq!(least(&[Some("3.7.3")]), Some("3.7.3".into()));
        assert_eq!(
            least(&[Some("3.7.3"), Some("3.6.13"), Some("3.8.0")]),
            Some("3.6.13".into())
        );
        assert_eq!(least(&[Some("3.7.3"), None]), None);
        assert_eq!(least(&[Some("3.7.3"), Some("x")]), None);
    }

    #[test]
    fn a_downgrade_is_over_when_all_run_its_target() {
        let over = |servers: &[Option<&str>]| all_run(&told(servers), &version("3.6.0"));
        assert!(over(&[Some("3.6.1"), Some("3.6.13")]));
        assert!(!over(&[Some("3.6.1"), Some("3.7.0")]));
        assert!(!over(&[Some("3.6.1"), None]));
        assert!(!over(&[Some("3.6.1"), Some("x")]));
    }

    /// Decides from texts.
    fn decided(
        current: Option<&str>,
        least: Option<&str>,
        target: Option<&str>,
    ) -> Result<Option<String>, InvalidDowngradeTarget> {
        let [current, least, target] = [current, least, target].map(|text| text.map(version));
        cluster_version(current.as_ref(), least.as_ref(), target.as_ref())
            .map(|decided| decided.map(|version| version.to_string()))
    }

    #[test]
    fn the_first_version_is_the_least_or_the_oldest() {
        assert_eq!(decided(None, Some("3.7.3"), None), Ok(Some("3.7.0".into())));
        assert_eq!(
            decided(None, Some("3.6.13"), None),
            Ok(Some("3.6.0".into()))
        );
        assert_eq!(decided(None, None, None), Ok(Some("3.0.0".into())));
    }

    #[test]
    fn the_version_rises_with_the_least_and_stays_otherwise() {
        assert_eq!(
            decided(Some("3.6.0"), Some("3.7.3"), None),
            Ok(Some("3.7.0".into()))
        );
        assert_eq!(
            decided(Some("3.0.0"), Some("3.7.3"), None),
            Ok(Some("3.7.0".into()))
        );
        assert_eq!(decided(Some("3.7.0"), Some("3.7.3"), None), Ok(None));
        assert_eq!(decided(Some("3.7.0"), Some("3.6.13"), None), Ok(None));
        assert_eq!(decided(Some("3.6.0"), None, None), Ok(None));
        assert_eq!(decided(Some("3.7.0"), Some("4.0.0"), None), Ok(None));
    }

    #[test]
    fn a_downgrade_goes_one_down_and_no_further() {
        let target = Some("3.6.0");
        assert_eq!(
            decided(Some("3.7.0"), Some("3.7.3"), target),
            Ok(Some("3.6.0".into()))
        );
        assert_eq!(decided(Some("3.6.0"), Some("3.7.3"), target), Ok(None));
        assert_eq!(decided(Some("3.6.0"), Some("3.6.13"), target), Ok(None));
        let refused = Err(InvalidDowngradeTarget);
        assert_eq!(decided(Some("3.8.0"), Some("3.8.0"), target), refused);
        assert_eq!(decided(Some("3.7.0"), Some("3.8.0"), target), refused);
        // A member that runs the target already holds the decision up.
        assert_eq!(decided(Some("3.7.0"), Some("3.6.13"), target), refused);
        assert_eq!(decided(Some("3.7.0"), None, target), Ok(None));
    }

    fn steps(storage: &str, cluster: &str, log: Option<&str>) -> Result<Vec<String>, String> {
        let log = log.map(version);
        storage_steps(&version(storage), &version(cluster), log.as_ref())
            .map(|steps| steps.iter().map(Version::to_string).collect())
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn the_data_follows_step_by_step() {
        assert_eq!(steps("3.5.0", "3.7.0", None).unwrap(), ["3.6.0", "3.7.0"]);
        assert_eq!(steps("3.6.0", "3.7.0", Some("3.9.0")).unwrap(), ["3.7.0"]);
        assert_eq!(steps("3.7.0", "3.6.0", None).unwrap(), ["3.6.0"]);
        assert_eq!(steps("3.7.0", "3.6.0", Some("3.6.0")).unwrap(), ["3.6.0"]);
        assert_eq!(steps("3.7.0", "3.7.0", None).unwrap(), [""; 0]);
    }

    #[test]
    fn what_keeps_the_data_where_it_is() {
        assert_eq!(
            steps("3.7.0", "3.6.0", Some("3.7.0")).unwrap_err(),
            "cannot downgrade storage, WAL contains newer entries, as the target version (3.6.0) is \
             lower than the version (3.7.0) detected from WAL logs"
        );
        assert_eq!(
            steps("3.7.0", "3.8.0", None).unwrap_err(),
            "cannot create migration plan: version \"3.8.0\" is not supported"
        );
        assert_eq!(
            steps("3.7.0", "4.0.0", None).unwrap_err(),
            "cannot create migration plan: changing major storage version is not supported"
        );
    }
}
