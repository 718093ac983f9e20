//! `hashkv`: the hash of history that all members share.

use crate::database::{self, Wait};
use crate::error::Failure;
use crate::output::{self, Report};
use quorate_cli::Invocation;
use quorate_store::hash::hash_by_revision;
use serde::Serialize;
use std::path::PathBuf;

/// A hash and what it covers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Hash {
    hash: u32,
    hash_revision: i64,
    compact_revision: i64,
}

impl Report for Hash {
    fn columns(&self) -> Vec<(&'static str, String)> {
        vec![
            ("hash", self.hash.to_string()),
            ("hash revision", self.hash_revision.to_string()),
            ("compact revision", self.compact_revision.to_string()),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Hash", self.hash.to_string()),
            ("Hash revision", self.hash_revision.to_string()),
            ("Compact revision", self.compact_revision.to_string()),
        ]
    }
}

/// Runs the command. Unlike etcdutl's, it leaves the file as it is.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let format = output::form(invocation)?;
    let path = PathBuf::from(invocation.given.texts().concat());
    database::stat(&path)?;
    let wait = Wait::from_flag(invocation.given.nanos("timeout"));
    let open = || quorate_store::open_read_only(database::disk(), &path);
    let locked = |error: &quorate_store::Error| {
        matches!(
            error,
            quorate_store::Error::Bolt(quorate_bolt::Error::Locked { .. })
        )
    };
    let store = database::wait_for(wait, &path, open, locked);
    let mut store = store.map_err(Failure::unopened)?;
    let view = store.publish();
    let hash = hash_by_revision(&view, &view.hashes, invocation.given.int("rev"));
    let hash = hash.map_err(|error| match error {
        // Beneath the server, where this error begins, it has not got its first word yet.
        quorate_store::Error::Api(refused) => {
            let text = refused.to_string();
            let bare = text.strip_prefix("etcdserver: ").unwrap_or(&text);
            Failure::Reason(bare.to_owned())
        }
        other => other.into(),
    })?;
    output::write(
        format,
        &Hash {
            hash: hash.hash,
            hash_revision: hash.revision,
            compact_revision: hash.compact_revision,
        },
    )
}
