//! `snapshot restore`: a data directory for the first start of a member of a new cluster, with the
//! keys of a snapshot.
//!
//! Invariants: everything is made under another name and takes its own only when all of it is
//! durable; after an error nothing is left. The database is copied in pieces and changed in one
//! transaction, so memory does not grow with it.
//!
//! Source: etcdutl's `snapshot restore`; what it writes is what this writes.

mod copy;
mod edit;
mod member_files;
mod staging;

use crate::database::disk;
use crate::error::Failure;
use crate::log;
use crate::peer_urls::InitialCluster;
use member_files::NewCluster;
use quorate_cli::Invocation;
use quorate_go::quote::quote;
use serde_json::json;
use staging::Staging;
use std::path::{Path, PathBuf};

/// What the flags ask for.
#[derive(Debug)]
struct Plan {
    snapshot: PathBuf,
    data_dir: PathBuf,
    wal_dir: PathBuf,
    /// How far to raise the revision; it is compacted there then.
    bump: Option<u64>,
    skip_hash_check: bool,
    map_bytes: u64,
}

/// Address space for the database where the flag says 0.
const MAP_BYTES: u64 = 10 << 30;

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let flags = &invocation.given;
    let [snapshot] = &invocation.given.texts()[..] else {
        return Err(Failure::Arguments(
            "snapshot restore requires exactly one argument".into(),
        ));
    };
    let bump = flags.uint("bump-revision");
    if (bump > 0) != flags.flag("mark-compacted") {
        return Err(Failure::Arguments(
            "--mark-compacted required if --revision-bump > 0".into(),
        ));
    }
    let name = flags.text("name");
    let data_dir = match &flags.text("data-dir")[..] {
        "" => PathBuf::from(format!("{name}.etcd")),
        given => PathBuf::from(given),
    };
    let plan = Plan {
        snapshot: PathBuf::from(snapshot),
        wal_dir: crate::layout::wal_dir_or(&data_dir, &flags.text("wal-dir")),
        data_dir,
        bump: (bump > 0).then_some(bump),
        skip_hash_check: flags.flag("skip-hash-check"),
        map_bytes: match flags.uint("initial-memory-map-size") {
            0 => MAP_BYTES,
            given => given,
        },
    };
    let members = InitialCluster::of(
        &name,
        &flags.text("initial-advertise-peer-urls"),
        &flags.text("initial-cluster"),
    )?;
    let cluster = NewCluster::new(&members, &flags.text("initial-cluster-token"), &name)?;
    let told = |message: &str| {
        log::write(
            "info",
            file!(),
            line!(),
            message,
            &[
                ("path", json!(plan.snapshot.to_string_lossy())),
                ("wal-dir", json!(plan.wal_dir.to_string_lossy())),
                ("data-dir", json!(plan.data_dir.to_string_lossy())),
                (
                    "snap-dir",
                    json!(crate::layout::snap_dir(&plan.data_dir).to_string_lossy()),
                ),
                ("initial-memory-map-size", json!(plan.map_bytes)),
            ],
        );
    };
    refuse_what_is_there(&plan)?;
    told("restoring snapshot");
    restore(&plan, &cluster)?;
    told("restored snapshot");
    Ok(())
}

fn refuse_what_is_there(plan: &Plan) -> Result<(), Failure> {
    let quoted = |path: &Path| quote(path.to_string_lossy().as_bytes());
    let is_there = |path: &Path| path.metadata().is_ok();
    if is_there(&plan.data_dir) {
        let is_empty = std::fs::read_dir(&plan.data_dir).is_ok_and(|mut dir| dir.next().is_none());
        if !is_empty {
            return Err(Failure::Reason(format!(
                "data-dir {} not empty or could not be read",
                quoted(&plan.data_dir)
            )));
        }
    }
    if is_there(&plan.wal_dir) {
        return Err(Failure::Reason(format!(
            "wal-dir {} exists",
            quoted(&plan.wal_dir)
        )));
    }
    Ok(())
}

fn restore(plan: &Plan, cluster: &NewCluster) -> Result<(), Failure> {
    let mut staging = Staging::new(&plan.data_dir, &plan.wal_dir)?;
    let source = copy::Source::open(&plan.snapshot)?;
    staging.make()?;
    let database = staging.snap_dir().join("db");
    let verified = source.copy(&database, plan.skip_hash_check)?;
    let edit = edit::Edit {
        cluster,
        bump: plan.bump,
        // What was not verified is looked at as a whole before it is changed.
        whole: verified,
        map_bytes: plan.map_bytes,
    };
    edit.apply(&database)?;
    cluster.write(&disk(), &staging.wal_dir(), &staging.snap_dir())?;
    staging.publish()
}
