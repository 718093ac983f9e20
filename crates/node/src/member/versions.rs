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

    pub(super) fn cluster_version_set(&mut self, version: String, initial: bool) {
        let is_own = version == CLUSTER_VERSION;
        self.effects
            .notes
            .push(Note::ClusterVersion { version, initial });
        if is_own {
            self.set_storage_version(CLUSTER_VERSION);
        }
    }
}
