//! `check`: whether the files of a member, or a database alone, are whole.
//!
//! Every record of the log, every snapshot file and every page of the database is read, what they
//! hold is decoded, and they are compared with each other. Nothing is changed.
//!
//! Invariants: what a crash at any moment may leave is not wrong (a write to the log that was never
//! finished, leftovers of interrupted work; they are noted); what no crash leaves is.

mod cross;
#[cfg(test)]
mod damage_tests;
mod database;
mod log;
#[cfg(test)]
mod log_tests;
mod report;
mod rows;
mod small_buckets;
mod snap_files;

use crate::database::{Wait, disk};
use crate::error::Failure;
use crate::layout;
use crate::output;
use quorate_cli::Invocation;
use quorate_wal::Wal;
pub use report::Report;
use std::path::Path;

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let [path] = &invocation.given.texts()[..] else {
        return Err(Failure::Arguments(
            "check requires exactly one argument".into(),
        ));
    };
    let path = Path::new(path);
    crate::database::stat(path)?;
    let format = output::form(invocation)?;
    let wait = Wait::from_flag(invocation.given.nanos("timeout"));
    let report = if path.is_dir() {
        let wal_dir = layout::wal_dir_or(path, &invocation.given.text("wal-dir"));
        check_member(path, &wal_dir, wait)?
    } else {
        check_database(path, wait)?
    };
    report.write(format)?;
    if report.is_whole() {
        Ok(())
    } else {
        Err(Failure::Unsound)
    }
}

/// Checks a database alone.
pub fn check_database(path: &Path, wait: Wait) -> Result<Report, Failure> {
    let mut report = Report::default();
    if let Some(contents) = database::check(path, wait, &mut report)? {
        contents.report_missing(path, &mut report);
    }
    Ok(report)
}

/// Whether a server began to make a member here, and had not written anything that counts: there is
/// no log, no snapshot, and a database without members and keys, if any.
fn is_unmade(data_dir: &Path, wal_dir: &Path, wait: Wait) -> Result<bool, Failure> {
    let snap_dir = layout::snap_dir(data_dir);
    if !layout::member_dir(data_dir).is_dir()
        || Wal::exists(&*disk(), wal_dir)?
        || snap_files::has_any(&snap_dir)?
    {
        return Ok(false);
    }
    let database = layout::database(data_dir);
    Ok(!database.exists() || database::is_blank(&database, wait)?)
}

/// Checks a data directory, of which the log may have a place of its own.
pub fn check_member(data_dir: &Path, wal_dir: &Path, wait: Wait) -> Result<Report, Failure> {
    let mut report = Report::default();
    let database = layout::database(data_dir);
    if is_unmade(data_dir, wal_dir, wait)? {
        report.note(
            data_dir,
            "no member was made here yet: a first start was interrupted, and the next one makes it",
        );
        return Ok(report);
    }
    let contents = if database.exists() {
        database::check(&database, wait, &mut report)?
    } else {
        report.wrong(&database, "there is no database");
        None
    };
    let log = log::check(wal_dir, &mut report)?;
    let snaps = snap_files::check(&layout::snap_dir(data_dir), wait, &mut report)?;
    cross::check(
        &cross::Parts {
            data_dir,
            wal_dir,
            contents: contents.as_ref(),
            log: log.as_ref(),
            snaps: &snaps,
        },
        &mut report,
    );
    Ok(report)
}
