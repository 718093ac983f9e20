//! Who this member says it is with each request, and whom it takes requests from.
//!
//! Source: `http.go` and `util.go` of etcd's rafthttp.

use super::host::Settings;
use crate::cluster_versions::semver::{MIN_CLUSTER, OWN, Version};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use quorate_node::ETCD_VERSION;

const SERVER_FROM: HeaderName = HeaderName::from_static("x-server-from");
pub(super) const SERVER_VERSION: HeaderName = HeaderName::from_static("x-server-version");
const MIN_CLUSTER_VERSION_HEADER: HeaderName = HeaderName::from_static("x-min-cluster-version");
/// Stands in responses to streams, and says that no etcd is at the other end.
pub(super) const QUORATE_VERSION: HeaderName = HeaderName::from_static("x-quorate-version");
pub(super) const CLUSTER_ID: HeaderName = HeaderName::from_static("x-etcd-cluster-id");
pub(super) const RAFT_TO: HeaderName = HeaderName::from_static("x-raft-to");
const PEER_URLS: HeaderName = HeaderName::from_static("x-peerurls");

/// The oldest cluster that a member of this version can be in.
const MIN_CLUSTER_VERSION: &str = "3.0.0";

/// The first version whose members serve streams.
const STREAMS_SINCE: Version = Version::new(2, 1);

/// URLs of a sender that are looked at.
const PEER_URLS_MAX: usize = 64;

/// An id as etcd spells it.
pub(super) fn hex(id: u64) -> String {
    format!("{id:x}")
}

/// The minor version of a text: all that compatibility depends on.
fn minor(text: &str) -> Option<Version> {
    Some(Version::parse(text)?.minor())
}

/// Why a member is not taken for one of this cluster. The texts are what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Incompatible {
    #[error("incompatible version")]
    Version,
    #[error("cluster ID mismatch")]
    Cluster,
}

/// This member, as it presents itself.
pub(super) struct Identity {
    pub member: String,
    pub cluster: String,
    /// What goes with every request.
    headers: HeaderMap,
}

/// A header as text; empty if it is absent or no text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or("")
}

/// A version header; absent in etcd 2.0.
fn version_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    match text(headers, name) {
        "" => "2.0.0",
        version => version,
    }
}

/// Whether a response comes from a member that serves streams.
pub(super) fn serves_streams(headers: &HeaderMap) -> bool {
    let version = minor(version_text(headers, &SERVER_VERSION));
    version.is_some_and(|version| version >= STREAMS_SINCE)
}

/// Who sent a request, and where it can be answered, if it says so.
pub(super) fn sender(headers: &HeaderMap) -> Option<(u64, Vec<String>)> {
    let id = u64::from_str_radix(text(headers, &SERVER_FROM), 16).ok()?;
    Some((id, sender_urls(headers)?))
}

/// Where the sender of a request can be answered, if it says so.
pub(super) fn sender_urls(headers: &HeaderMap) -> Option<Vec<String>> {
    let urls = text(headers, &PEER_URLS);
    let urls = urls.split(',').take(PEER_URLS_MAX).map(str::to_owned);
    let urls: Vec<String> = urls.filter(|url| !url.is_empty()).collect();
    (!urls.is_empty()).then_some(urls)
}

impl Identity {
    pub fn new(settings: &Settings) -> Identity {
        let (member, cluster) = (hex(settings.member_id), hex(settings.cluster_id));
        let mut headers = HeaderMap::new();
        let mut put = |name, value: &str| {
            // URLs come from the configuration; one that no header can hold is told to nobody.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        put(SERVER_FROM, &member);
        put(SERVER_VERSION, ETCD_VERSION);
        put(MIN_CLUSTER_VERSION_HEADER, MIN_CLUSTER_VERSION);
        put(CLUSTER_ID, &cluster);
        if !settings.advertise_peer_urls.is_empty() {
            put(PEER_URLS, &settings.advertise_peer_urls.join(","));
        }
        Identity {
            member,
            cluster,
            headers,
        }
    }

    /// Adds what goes with every request.
    pub fn present(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
    }

    /// Looks at what a request presents.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Incompatible> {
        let name = text(headers, &SERVER_FROM);
        let server = version_text(headers, &SERVER_VERSION);
        let min_cluster = version_text(headers, &MIN_CLUSTER_VERSION_HEADER);
        let versions = (minor(server), minor(min_cluster));
        let error = match versions {
            (None, _) | (_, None) => Some("remote version is no version"),
            (Some(server), _) if server < MIN_CLUSTER => Some("remote version is too low"),
            (_, Some(min_cluster)) if min_cluster > OWN.minor() => Some("local version is too low"),
            _ => None,
        };
        if let Some(error) = error {
            tracing::warn!(
                "local-member-id" = self.member.as_str(),
                "local-member-cluster-id" = self.cluster.as_str(),
                "local-member-server-version" = ETCD_VERSION,
                "local-member-server-minimum-cluster-version" = MIN_CLUSTER_VERSION,
                "remote-peer-server-name" = name,
                "remote-peer-server-version" = server,
                "remote-peer-server-minimum-cluster-version" = min_cluster,
                "error" = format!("{error}: remote[{name}]={server}, local={ETCD_VERSION}"),
                "failed version compatibility check"
            );
            return Err(Incompatible::Version);
        }
        let cluster = text(headers, &CLUSTER_ID);
        if cluster != self.cluster {
            tracing::warn!(
                "local-member-id" = self.member.as_str(),
                "local-member-cluster-id" = self.cluster.as_str(),
                "local-member-server-version" = ETCD_VERSION,
                "local-member-server-minimum-cluster-version" = MIN_CLUSTER_VERSION,
                "remote-peer-server-name" = name,
                "remote-peer-server-version" = server,
                "remote-peer-server-minimum-cluster-version" = min_cluster,
                "remote-peer-cluster-id" = cluster,
                "request cluster ID mismatch"
            );
            return Err(Incompatible::Cluster);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    fn identity() -> Identity {
        let mut presented = HeaderMap::new();
        presented.insert(CLUSTER_ID, HeaderValue::from_static("abc"));
        Identity {
            member: "1".into(),
            cluster: "abc".into(),
            headers: presented,
        }
    }

    #[test]
    fn only_members_of_the_cluster_with_fitting_versions_are_taken() {
        let check = |server: &'static str, min: &'static str, cluster| {
            let mut list = vec![("x-etcd-cluster-id", cluster)];
            if !server.is_empty() {
                list.push(("x-server-version", server));
            }
            if !min.is_empty() {
                list.push(("x-min-cluster-version", min));
            }
            identity().check(&headers(&list))
        };
        assert_eq!(check("3.7.3", "3.0.0", "abc"), Ok(()));
        assert_eq!(check("3.6.13", "3.0.0", "abc"), Ok(()));
        assert_eq!(check("3.8.0", "3.7.0", "abc"), Ok(()));
        assert_eq!(check("3.8.0", "3.8.0", "abc"), Err(Incompatible::Version));
        assert_eq!(check("2.3.0", "2.3.0", "abc"), Err(Incompatible::Version));
        assert_eq!(check("", "", "abc"), Err(Incompatible::Version));
        assert_eq!(check("x", "3.0.0", "abc"), Err(Incompatible::Version));
        assert_eq!(check("3.7.3", "3.0.0", "abd"), Err(Incompatible::Cluster));
        assert_eq!(Incompatible::Cluster.to_string(), "cluster ID mismatch");
        assert_eq!(MIN_CLUSTER.to_string(), MIN_CLUSTER_VERSION);
    }

    #[test]
    fn a_sender_is_known_by_id_and_urls() {
        let urls = ("x-peerurls", "http://a:1,http://b:2");
        assert_eq!(
            sender(&headers(&[("x-server-from", "8e9e05c52164694d"), urls])),
            Some((
                0x8e9e_05c5_2164_694d,
                vec!["http://a:1".to_owned(), "http://b:2".to_owned()]
            ))
        );
        assert_eq!(sender(&headers(&[("x-server-from", "xyz"), urls])), None);
        assert_eq!(sender(&headers(&[("x-server-from", "1")])), None);
        assert_eq!(
            sender(&headers(&[("x-server-from", "1"), ("x-peerurls", ",")])),
            None
        );
    }

    #[test]
    fn streams_are_served_since_2_1() {
        for (version, serves) in [("2.0.0", false), ("2.1.0", true), ("3.9.0", true)] {
            assert_eq!(
                serves_streams(&headers(&[("x-server-version", version)])),
                serves
            );
        }
        assert!(!serves_streams(&HeaderMap::new()));
    }
}
