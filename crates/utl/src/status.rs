//! `snapshot status`: what a database file holds, and whether it is whole.

use crate::database::{self, Wait};
use crate::error::Failure;
use crate::output::{self, Report};
use quorate_bolt::{Db, ReadTx};
use quorate_cli::Invocation;
use quorate_go::size::human_bytes;
use quorate_store::keyvalue::KeyValueRef;
use quorate_store::revision::RowKey;
use serde::Serialize;
use std::collections::HashSet;
use std::ops::Bound;
use std::path::Path;

/// What there is to say of a snapshot.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// CRC-32C of all buckets' names, keys and values.
    hash: u32,
    /// The newest revision.
    revision: i64,
    /// Keys that are not deleted.
    total_key: usize,
    /// Bytes in use.
    total_size: u64,
    /// Storage version; empty below 3.6.
    version: String,
}

impl Report for Status {
    fn columns(&self) -> Vec<(&'static str, String)> {
        vec![
            ("hash", format!("{:x}", self.hash)),
            ("revision", self.revision.to_string()),
            ("total keys", self.total_key.to_string()),
            ("total size", human_bytes(self.total_size)),
            ("version", self.version.clone()),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Hash", self.hash.to_string()),
            ("Revision", self.revision.to_string()),
            ("Keys", self.total_key.to_string()),
            ("Size", self.total_size.to_string()),
            ("Version", self.version.clone()),
        ]
    }
}

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let [path] = &invocation.given.texts()[..] else {
        return Err(Failure::Arguments(
            "snapshot status requires exactly one argument".into(),
        ));
    };
    let path = Path::new(path);
    database::stat(path)?;
    let format = output::form(invocation)?;
    let db = database::open_to_read(path, Wait::Forever)?;
    refuse_damage(&db)?;
    output::write(format, &status(&db.begin_read())?)
}

fn refuse_damage(db: &Db) -> Result<(), Failure> {
    let check = db.check()?;
    if check.is_ok() {
        return Ok(());
    }
    let findings: Vec<String> = check.findings.iter().map(ToString::to_string).collect();
    Err(Failure::Reason(format!(
        "snapshot file integrity check failed. {} errors found.\n{}",
        check.findings.len() as u64 + check.more_findings,
        findings.join("\n")
    )))
}

fn status(file: &ReadTx) -> Result<Status, Failure> {
    let mut status = Status {
        hash: 0,
        revision: 0,
        total_key: 0,
        total_size: file.size(),
        version: storage_version(file)?,
    };
    let mut live: HashSet<Box<[u8]>> = HashSet::new();
    for name in file.buckets()? {
        status.hash = crc32c::crc32c_append(status.hash, &name);
        let Some(bucket) = file.bucket(&name)? else {
            continue;
        };
        let mut cursor = bucket.range(Bound::Unbounded)?;
        while let Some((key, value)) = cursor.next()? {
            status.hash = crc32c::crc32c_append(status.hash, key);
            status.hash = crc32c::crc32c_append(status.hash, value);
            if name == b"key" {
                let row = RowKey::decode(key)?;
                status.revision = row.revision.main;
                let kv = KeyValueRef::decode(value).ok_or_else(|| {
                    quorate_store::Error::corrupt("key", key, "the value is no KeyValue")
                })?;
                if row.tombstone {
                    live.remove(kv.key);
                } else if !live.contains(kv.key) {
                    live.insert(kv.key.into());
                }
            }
        }
    }
    status.total_key = live.len();
    Ok(status)
}

fn storage_version(file: &ReadTx) -> Result<String, Failure> {
    let meta = file.bucket(b"meta")?;
    let version = match meta {
        Some(meta) => meta.get(b"storageVersion")?,
        None => None,
    };
    Ok(version.map_or(String::new(), |text| {
        String::from_utf8_lossy(text).into_owned()
    }))
}
