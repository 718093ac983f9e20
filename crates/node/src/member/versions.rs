//! Versions: what the cluster speaks, what the file's layout is, and a downgrade under way.
//!
//! A leader alone decides at its first commit; with others, whoever asks them for their versions
//! decides and proposes through here. The layout's version is this member's own affair and follows
//! the cluster's.

use super::{CLUSTER_VERSION, Member, Note};
use quorate_api::etcdserverpb::InternalRaftRequest;
use quorate_api::membershippb::{ClusterVersionSetRequest, DowngradeInfoSetRequest};

impl<T> Member<T> {
    /// Proposes a cluster version (`major.minor.patch`).
    pub fn set_cluster_version(&mut self, version: String, token: Option<T>) {
        let set = ClusterVersionSetRequest { ver: version };
        let request = InternalRaftRequest {
            cluster_version_set: Some(set),
            ..Default::default()
        };
        self.propose_with(request, token);
    }

    /// Proposes that a downgrade to `version` begins, or that none is under way.
    pub fn set_downgrade(&mut self, enabled: bool, version: String, token: Option<T>) {
        let set = DowngradeInfoSetRequest {
            enabled,
            ver: version,
        };
        let request = InternalRaftRequest {
            downgrade_info_set: Some(set),
            ..Default::default()
        };
        self.propose_with(request, token);
    }

    /// Records the version of the file's layout (`major.minor.patch`), which follows the cluster's.
    pub fn set_storage_version(&mut self, version: &str) {
        if self.store.storage_version() == Some(version) {
            return;
        }
        self.store.set_storage_version(version);
        self.view_changed();
        self.effects.notes.push(Note::StorageVersion {
            version: version.to_owned(),
        });
    }

    /// An entry has set the cluster version.
    pub(super) fn cluster_version_set(&mut self, version: String, before: Option<String>) {
        if version == CLUSTER_VERSION {
            self.set_storage_version(CLUSTER_VERSION);
        }
        let lowered = before.as_deref().is_some_and(|b| is_below(&version, b));
        if lowered {
            // An older etcd refuses a log whose replay takes it to a version above its own.
            self.log_snapshots.force();
        }
        self.effects.notes.push(Note::ClusterVersion {
            version,
            before,
            lowered,
        });
    }
}

/// Whether a version (`major.minor.patch`) is lower than another.
fn is_below(version: &str, other: &str) -> bool {
    let numbers = |version: &str| -> Vec<u64> {
        let parts = version.split('.');
        parts.map(|part| part.parse().unwrap_or(0)).collect()
    };
    numbers(version) < numbers(other)
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(is_below("3.6.0", "3.7.0"));
        assert!(is_below("3.9.0", "3.10.0"));
        assert!(!is_below("3.7.0", "3.7.0"));
        assert!(!is_below("4.0.0", "3.7.0"));
    }
}
