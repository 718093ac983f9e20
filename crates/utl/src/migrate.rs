//! `migrate`: another storage version in a database.
//!
//! What versions differ in is little: from 3.6 on the version itself is stored. Going down is refused
//! where the log holds what the older version cannot read. Source: etcd's `schema.Migrate`.

mod version;

use crate::database::{self, Wait};
use crate::error::Failure;
use crate::log;
use crate::{layout, log_entries};
use prost::Message as _;
use quorate_api::etcdserverpb::InternalRaftRequest;
use quorate_bolt::{Db, Options, WriteTx};
use quorate_cli::Invocation;
use quorate_go::quote::quote;
use quorate_wal::types::{Entry, EntryKind};
use std::path::{Path, PathBuf};
use version::Version;

const META: &[u8] = b"meta";
const STORAGE_VERSION: &[u8] = b"storageVersion";

/// The version that a database has that stores none.
const UNTOLD: Version = Version::new(3, 5);
/// The first that is stored.
const FIRST_TOLD: Version = Version::new(3, 6);
/// The newest that is known.
const NEWEST: Version = Version::new(3, 7);

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let flags = &invocation.given;
    let target = target(&flags.text("target-version")).map_err(Failure::Arguments)?;
    let data_dir = PathBuf::from(flags.text("data-dir"));
    let path = layout::database(&data_dir);
    database::stat(&path)?;
    let wait = Wait::from_flag(flags.nanos("timeout"));
    let db = database::open(&path, &Options::default(), wait).map_err(Failure::unopened)?;
    let Some(current) = detect(&db)? else {
        log::error!(
            "failed to detect storage version. Please make sure you are using data dir from etcd v3.5 and older"
        );
        return Err(Failure::Reason("missing term information".into()));
    };
    if current == target {
        log::info!("storage version up-to-date", "storage-version" => current.minor_text());
        return Ok(());
    }
    let needed = needed_by_log(&data_dir).inspect_err(|failure| {
        log::error!("Failed to finalize config", "error" => failure.to_string());
    })?;
    let mut tx = db.begin_write()?;
    if let Err(failure) = migrate(&mut tx, current, target, needed) {
        if !flags.flag("force") {
            return Err(failure);
        }
        log::info!("normal migrate failed, trying with force", "error" => failure.to_string());
        force(&mut tx, target)?;
    }
    tx.commit()?;
    Ok(())
}

fn target(text: &str) -> Result<Version, String> {
    if text.matches('.').count() != 1 {
        return Err(format!(
            "wrong target version format, expected \"X.Y\", got {}",
            quote(text.as_bytes())
        ));
    }
    let target = Version::parse(&format!("{text}.0"))
        .map_err(|why| format!("failed to parse target version: {why}"))?;
    if target < UNTOLD {
        return Err(format!(
            "target version {} not supported. Minimal \"3.5\"",
            quote(target.minor_text().as_bytes())
        ));
    }
    Ok(target)
}

/// The database's version; `None` where there is nothing to tell it by.
fn detect(db: &Db) -> Result<Option<Version>, Failure> {
    let read = db.begin_read();
    let Some(meta) = read.bucket(META)? else {
        return Ok(None);
    };
    if let Some(stored) = meta.get(STORAGE_VERSION)? {
        let text = String::from_utf8_lossy(stored);
        let version = Version::parse(&text)
            .map_err(|why| Failure::Reason(format!("stored version {text}: {why}")))?;
        return Ok(Some(version));
    }
    let has_term = meta
        .get(b"term")?
        .is_some_and(|term| term.iter().any(|byte| *byte != 0));
    Ok(has_term.then_some(UNTOLD))
}

/// The lowest version that reads the log from its newest snapshot on.
fn needed_by_log(data_dir: &Path) -> Result<Option<Version>, Failure> {
    let wal_dir = layout::wal_dir(data_dir);
    let failed = |what: &'static str| {
        move |failure: Failure| Failure::Reason(format!("failed to {what}: {failure}"))
    };
    let newest = log_entries::newest_record(&wal_dir);
    // The misspelling is what scripts look for.
    let newest = newest.map_err(failed("get the lastest snapshot"))?;
    let log = log_entries::read_from(&wal_dir, newest).map_err(failed("read wal"))?;
    Ok(log.entries.iter().filter_map(needed_by_entry).max())
}

/// Only requests that tests write need a version above the oldest one.
fn needed_by_entry(entry: &Entry) -> Option<Version> {
    if entry.kind != EntryKind::Normal {
        return None;
    }
    let request = InternalRaftRequest::decode(&entry.data[..]).ok()?;
    let test = request.downgrade_version_test?;
    let said = Version::parse(&test.ver).unwrap_or(FIRST_TOLD);
    Some(said.max(FIRST_TOLD))
}

fn migrate(
    tx: &mut WriteTx<'_>,
    current: Version,
    target: Version,
    needed: Option<Version>,
) -> Result<(), Failure> {
    let steps = plan(current, target)
        .map_err(|why| Failure::Reason(format!("cannot create migration plan: {why}")))?;
    if target < current
        && let Some(needed) = needed
        && target < needed
    {
        return Err(Failure::Reason(format!(
            "cannot downgrade storage, WAL contains newer entries, as the target version ({target}) \
             is lower than the version ({needed}) detected from WAL logs"
        )));
    }
    for step in steps {
        let mut meta = tx.create_bucket_if_missing(META)?;
        if step < FIRST_TOLD {
            meta.delete(STORAGE_VERSION)?;
        } else {
            meta.put(STORAGE_VERSION, step.to_string().as_bytes())?;
        }
        log::info!("updated storage version", "new-storage-version" => step.to_string());
    }
    Ok(())
}

/// The versions on the way, the target last.
fn plan(current: Version, target: Version) -> Result<Vec<Version>, String> {
    if current.major != target.major {
        log::error!(
            "Changing major storage version is not supported",
            "storage-version" => Version::new(current.major, current.minor).to_string(),
            "target-storage-version" => Version::new(target.major, target.minor).to_string(),
        );
        return Err("changing major storage version is not supported".into());
    }
    let mut at = Version::new(current.major, current.minor);
    let target = Version::new(target.major, target.minor);
    let mut steps = Vec::new();
    while at != target {
        let minor = if at < target {
            at.minor + 1
        } else {
            at.minor - 1
        };
        let next = Version::new(at.major, minor);
        // A change is known by the higher version of the two.
        let higher = at.max(next);
        if higher < FIRST_TOLD || higher > NEWEST {
            return Err(format!(
                "version {} is not supported",
                quote(higher.to_string().as_bytes())
            ));
        }
        steps.push(next);
        at = next;
    }
    Ok(steps)
}

fn force(tx: &mut WriteTx<'_>, target: Version) -> Result<(), Failure> {
    let mut meta = tx.create_bucket_if_missing(META)?;
    if target < FIRST_TOLD {
        meta.delete(STORAGE_VERSION)?;
        log::warning!("forcefully cleared storage version");
    } else {
        meta.put(STORAGE_VERSION, target.to_string().as_bytes())?;
        log::warning!("forcefully set storage version", "storage-version" => target.minor_text());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        assert_eq!(target("3.6"), Ok(Version::new(3, 6)));
        assert_eq!(
            target("3.a").unwrap_err(),
            "failed to parse target version: strconv.ParseInt: parsing \"a\": invalid syntax"
        );
        assert_eq!(
            target("3.4").unwrap_err(),
            "target version \"3.4\" not supported. Minimal \"3.5\""
        );
        assert_eq!(
            target("-3.6").unwrap_err(),
            "failed to parse target version:  is not in dotted-tri format"
        );
    }

    #[test]
    fn plans() {
        let v = |minor| Version::new(3, minor);
        assert_eq!(plan(v(5), v(7)), Ok(vec![v(6), v(7)]));
        assert_eq!(plan(v(7), v(5)), Ok(vec![v(6), v(5)]));
        assert_eq!(
            plan(v(7), v(9)).unwrap_err(),
            "version \"3.8.0\" is not supported"
        );
        assert_eq!(
            plan(v(9), v(7)).unwrap_err(),
            "version \"3.9.0\" is not supported"
        );
        assert!(plan(v(7), Version::new(4, 0)).is_err());
    }
}
