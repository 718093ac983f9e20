//! What the buckets beside `key` hold: that it can be read.
//!
//! A name that is not known is wrong, since damage makes such names, unless the file says that a
//! later release wrote it.

use prost::Message;
use quorate_api::{authpb, etcdserverpb, leasepb};
use quorate_store::buckets::BucketId;
use quorate_store::membership::Membership;
use quorate_store::revision::RowKey;
use std::collections::BTreeSet;

/// The newest release whose files are known to the last name: major, minor.
const NEWEST: (u64, u64) = (3, 7);

/// Whether a key is one of those that releases up to [`NEWEST`] write.
enum Known {
    Yes,
    No,
}

/// What they hold.
#[derive(Default)]
pub struct SmallBuckets {
    pub consistent_index: u64,
    pub term: u64,
    /// Revision of the last compaction that was ordered.
    pub scheduled: Option<i64>,
    /// Revision of the last compaction that is done.
    pub finished: Option<i64>,
    pub leases: BTreeSet<i64>,
    pub members: Membership,
    pub wrong: Vec<String>,
    pub notes: Vec<String>,
    /// What is not known, and where.
    unknown: BTreeSet<String>,
    /// A later release than this one wrote the file.
    is_later: bool,
}

impl SmallBuckets {
    /// Highest revision that a compaction was ordered for; 0 for none.
    pub fn compacted(&self) -> i64 {
        self.scheduled.max(self.finished).unwrap_or(0)
    }

    /// Takes an entry of a bucket.
    pub fn take(&mut self, bucket: &[u8], key: &[u8], value: &[u8]) {
        let name = String::from_utf8_lossy(bucket).into_owned();
        let shown = String::from_utf8_lossy(key).into_owned();
        let Some(id) = BucketId::ALL.into_iter().find(|id| *id.name() == *name) else {
            self.unknown.insert(format!("bucket {name}"));
            return;
        };
        match self.read(id, key, value) {
            Ok(Known::Yes) => {}
            Ok(Known::No) => {
                self.unknown.insert(format!("bucket {name}, key {shown}"));
            }
            Err(what) => self
                .wrong
                .push(format!("bucket {name}, key {shown}: {what}")),
        }
    }

    /// Decides on what is not known, once all is taken.
    pub fn finish(&mut self) {
        let told = match self.is_later {
            true => &mut self.notes,
            false => &mut self.wrong,
        };
        let unknown = std::mem::take(&mut self.unknown);
        told.extend(unknown.iter().map(|what| format!("{what} is not known")));
    }

    fn read(&mut self, bucket: BucketId, key: &[u8], value: &[u8]) -> Result<Known, String> {
        let text = |error: prost::DecodeError| error.to_string();
        match bucket {
            BucketId::Meta => self.meta(key, value),
            BucketId::Lease => {
                let lease = leasepb::Lease::decode(value).map_err(text)?;
                if key != lease.id.to_be_bytes() {
                    return Err("the lease has another id".into());
                }
                self.leases.insert(lease.id);
                Ok(Known::Yes)
            }
            BucketId::Alarm => etcdserverpb::AlarmMember::decode(key)
                .map(|_| Known::Yes)
                .map_err(text),
            BucketId::Cluster if key != b"clusterVersion" && key != b"downgrade" => Ok(Known::No),
            BucketId::Members | BucketId::MembersRemoved | BucketId::Cluster => {
                let restored = self.members.restore(bucket, key, value);
                restored
                    .map(|()| Known::Yes)
                    .map_err(|error| error.to_string())
            }
            BucketId::Auth => match (key, value.len()) {
                (b"authEnabled", 1) | (b"authRevision", 8) => Ok(Known::Yes),
                (b"authEnabled" | b"authRevision", len) => Err(format!("is {len} bytes long")),
                _ => Ok(Known::No),
            },
            BucketId::AuthUsers => {
                let user = authpb::User::decode(value).map_err(text)?;
                same_name(key, &user.name)
            }
            BucketId::AuthRoles => {
                let role = authpb::Role::decode(value).map_err(text)?;
                same_name(key, &role.name)
            }
        }
    }

    fn meta(&mut self, key: &[u8], value: &[u8]) -> Result<Known, String> {
        let number = || {
            let bytes: Result<[u8; 8], _> = value.try_into();
            bytes
                .map(u64::from_be_bytes)
                .map_err(|_| format!("is {} bytes long, not 8", value.len()))
        };
        let revision = || {
            let row = RowKey::decode(value).map_err(|error| error.to_string())?;
            Ok::<i64, String>(row.revision.main)
        };
        match key {
            b"consistent_index" => self.consistent_index = number()?,
            b"term" => self.term = number()?,
            b"scheduledCompactRev" => self.scheduled = Some(revision()?),
            b"finishedCompactRev" => self.finished = Some(revision()?),
            b"confState" => {
                let json: Result<serde_json::Value, _> = serde_json::from_slice(value);
                json.map_err(|error| error.to_string())?;
            }
            b"storageVersion" => {
                let text = str::from_utf8(value).map_err(|error| error.to_string())?;
                let numbers: Vec<u64> = text.split('.').map_while(|n| n.parse().ok()).collect();
                let [major, minor, _patch] = numbers[..] else {
                    return Err(format!("{text} is no version"));
                };
                self.is_later = (major, minor) > NEWEST;
            }
            _ => return Ok(Known::No),
        }
        if let (Some(finished), Some(scheduled)) = (self.finished, self.scheduled)
            && finished > scheduled
        {
            return Err(format!(
                "a compaction at {finished} is done, and the last one ordered is at {scheduled}"
            ));
        }
        Ok(Known::Yes)
    }
}

fn same_name(key: &[u8], name: &[u8]) -> Result<Known, String> {
    if key == name {
        Ok(Known::Yes)
    } else {
        Err("it says it has another name".into())
    }
}
