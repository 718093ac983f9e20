//! The small buckets (all but `key`): what was changed since the last commit.
//!
//! They are served from memory by whoever owns their meaning; here are only the writes on their
//! way to the file. The last write of a key wins.

use std::collections::BTreeMap;

/// A top-level bucket other than `key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BucketId {
    /// Consistent index, term, conf state, compaction marks, storage version.
    Meta,
    /// Leases.
    Lease,
    /// Active alarms.
    Alarm,
    /// Cluster version and downgrade.
    Cluster,
    /// Members.
    Members,
    /// Ids of members that were removed.
    MembersRemoved,
    /// Whether auth is on, and its revision.
    Auth,
    /// Users.
    AuthUsers,
    /// Roles.
    AuthRoles,
}

impl BucketId {
    /// All of them.
    pub const ALL: [BucketId; 9] = [
        BucketId::Meta,
        BucketId::Lease,
        BucketId::Alarm,
        BucketId::Cluster,
        BucketId::Members,
        BucketId::MembersRemoved,
        BucketId::Auth,
        BucketId::AuthUsers,
        BucketId::AuthRoles,
    ];

    /// Its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            BucketId::Meta => "meta",
            BucketId::Lease => "lease",
            BucketId::Alarm => "alarm",
            BucketId::Cluster => "cluster",
            BucketId::Members => "members",
            BucketId::MembersRemoved => "members_removed",
            BucketId::Auth => "auth",
            BucketId::AuthUsers => "authUsers",
            BucketId::AuthRoles => "authRoles",
        }
    }
}

/// Writes that are not in the file yet.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    writes: BTreeMap<(BucketId, Vec<u8>), Option<Vec<u8>>>,
}

impl Edits {
    /// Sets a key.
    pub fn put(&mut self, bucket: BucketId, key: &[u8], value: &[u8]) {
        self.writes
            .insert((bucket, key.to_vec()), Some(value.to_vec()));
    }

    /// Removes a key.
    pub fn delete(&mut self, bucket: BucketId, key: &[u8]) {
        self.writes.insert((bucket, key.to_vec()), None);
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Number of keys to write.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// The writes, bucket by bucket, keys ascending; `None` removes.
    pub fn iter(&self) -> impl Iterator<Item = (BucketId, &[u8], Option<&[u8]>)> {
        self.writes
            .iter()
            .map(|((bucket, key), value)| (*bucket, &key[..], value.as_deref()))
    }
}
