//! What a restored database differs in from its snapshot: members, consistent index, and, where
//! asked for, a raised revision that is compacted.

use super::member_files::{NewCluster, TERM};
use crate::database::{self, Wait};
use crate::error::Failure;
use crate::log;
use quorate_bolt::{Options, ReadTx};
use quorate_store::buckets::{BucketId, Edits};
use quorate_store::membership::Membership;
use quorate_store::revision::{Revision, RowKey};
use std::ops::Bound;
use std::path::Path;

/// A change of a database.
pub struct Edit<'a> {
    /// Who is in the new cluster.
    pub cluster: &'a NewCluster,
    /// How far to raise the revision.
    pub bump: Option<u64>,
    /// Whether the file is known to be as it was written.
    pub whole: bool,
    /// Address space to reserve.
    pub map_bytes: u64,
}

impl Edit<'_> {
    /// Makes the change, in one transaction.
    pub fn apply(&self, path: &Path) -> Result<(), Failure> {
        let options = Options {
            initial_map_size: usize::try_from(self.map_bytes).unwrap_or(usize::MAX),
            find_free_pages: !self.whole,
            ..Options::default()
        };
        let db = database::open(path, &options, Wait::Forever).map_err(Failure::unopened)?;
        let read = db.begin_read();
        let mut edits = Edits::default();
        log::info!("Trimming membership information from the backend...");
        for bucket in [BucketId::Members, BucketId::MembersRemoved] {
            for key in keys(&read, bucket)? {
                edits.delete(bucket, &key);
            }
        }
        let raised = match self.bump {
            Some(amount) => Some(raise(&read, amount, &mut edits)?),
            None => None,
        };
        let mut members = Membership::default();
        for member in self.cluster.members() {
            members.put(member.clone(), &mut edits);
        }
        let index = self.cluster.last_index();
        edits.put(BucketId::Meta, b"consistent_index", &index.to_be_bytes());
        edits.put(BucketId::Meta, b"term", &TERM.to_be_bytes());
        drop(read);

        let mut tx = db.begin_write()?;
        if let Some(row) = raised {
            let mut rows = tx.create_bucket_if_missing(quorate_store::view::KEY_BUCKET)?;
            rows.set_append_only(true);
            rows.put(&row.encode(), b"")?;
        }
        for (bucket, key, value) in edits.iter() {
            let mut bucket = tx.create_bucket_if_missing(bucket.name().as_bytes())?;
            match value {
                Some(value) => bucket.put(key, value)?,
                None => {
                    bucket.delete(key)?;
                }
            }
        }
        tx.commit()?;
        Ok(())
    }
}

fn keys(file: &ReadTx, bucket: BucketId) -> Result<Vec<Vec<u8>>, Failure> {
    let mut keys = Vec::new();
    if let Some(bucket) = file.bucket(bucket.name().as_bytes())? {
        let mut cursor = bucket.range(Bound::Unbounded)?;
        while let Some((key, _)) = cursor.next()? {
            keys.push(key.to_vec());
        }
    }
    Ok(keys)
}

/// Has the row that raises the revision, and marks it as the one to compact at.
fn raise(file: &ReadTx, amount: u64, edits: &mut Edits) -> Result<RowKey, Failure> {
    let newest = match file.bucket(quorate_store::view::KEY_BUCKET)? {
        Some(rows) => rows.last()?,
        None => None,
    };
    let latest = match newest {
        Some((key, _)) => RowKey::decode(key)?.revision.main,
        None => 0,
    };
    let raised = i64::try_from(amount)
        .ok()
        .and_then(|amount| latest.checked_add(amount));
    let raised = raised.ok_or_else(|| {
        Failure::Reason(format!(
            "revision {latest} cannot be increased by {amount}: it would not fit into 63 bits"
        ))
    })?;
    log::info!(
        "bumping latest revision",
        "latest-revision" => latest,
        "bump-amount" => amount,
        "new-latest-revision" => raised,
    );
    log::info!("marking revision compacted", "revision" => raised);
    let row = RowKey {
        revision: Revision::new(raised, 0),
        tombstone: false,
    };
    edits.put(BucketId::Meta, b"scheduledCompactRev", &row.encode());
    Ok(row)
}
