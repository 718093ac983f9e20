//! Whether log, snapshot files and database belong together.

use super::database::Contents;
use super::log::Log;
use super::report::Report;
use super::snap_files::SnapFiles;
use crate::layout;
use quorate_store::membership::spell_id;
use quorate_wal::snap;
use std::path::Path;

/// What is compared; a part that could not be read is absent.
pub struct Parts<'a> {
    pub data_dir: &'a Path,
    pub wal_dir: &'a Path,
    pub contents: Option<&'a Contents>,
    pub log: Option<&'a Log>,
    pub snaps: &'a SnapFiles,
}

/// Compares the parts with each other.
pub fn check(parts: &Parts<'_>, report: &mut Report) {
    unreadable_snapshots(parts, report);
    missing_buckets(parts, report);
    let Some(log) = parts.log else { return };
    start(parts, log, report);
    snapshot_file(parts, log, report);
    let Some(contents) = parts.contents else {
        return;
    };
    let database = layout::database(parts.data_dir);
    let index = contents.consistent_index;
    if index > log.entries.last_index {
        report.wrong(
            parts.wal_dir,
            format!(
                "the log ends at index {}, before the database's consistent index {index}: entries \
                 were lost",
                log.entries.last_index
            ),
        );
    }
    let snapshot = log.newest_snapshot().map_or(0, |snapshot| snapshot.index);
    if snapshot > index {
        let snap_dir = layout::snap_dir(parts.data_dir);
        let received = snap::database_path(&snap_dir, snapshot);
        if received.exists() {
            report.note(
                &received,
                "received with a snapshot; the next start puts it in the database's place",
            );
        } else {
            report.wrong(
                &database,
                format!(
                    "its consistent index is {index}, before the newest snapshot of the log at \
                     {snapshot}, and no database was received with that"
                ),
            );
        }
    } else if log.entries.first_index > index + 1 && log.entries.last_index > index {
        report.wrong(
            parts.wal_dir,
            format!(
                "the log begins at index {}, behind the database's consistent index {index}",
                log.entries.first_index
            ),
        );
    }
    if let Some(term) = log.entries.term_at(index)
        && contents.term != 0
        && contents.term != term
    {
        report.wrong(
            &database,
            format!(
                "its consistent index {index} is of term {}, and the log's entry of term {term}",
                contents.term
            ),
        );
    }
    if index > 0
        && let Some(identity) = log.identity
    {
        let (members, id) = (&contents.small.members, identity.member_id);
        if !members.is_empty() && members.get(id).is_none() && !members.is_removed(id) {
            report.note(
                &database,
                format!(
                    "the log is of member {}, which is none of the database's",
                    spell_id(id)
                ),
            );
        }
    }
}

/// Files of snapshots that cannot be read. The log's record follows when a file is durable: one that
/// has none, though the log reaches back as far, was never finished, and nobody needs it.
fn unreadable_snapshots(parts: &Parts<'_>, report: &mut Report) {
    let log = parts.log.filter(|log| log.is_read);
    for file in &parts.snaps.unreadable {
        let unfinished = match (log, file.index) {
            (Some(log), Some(index)) => {
                index >= log.begins_at && log.snapshots.iter().all(|it| it.index != index)
            }
            _ => false,
        };
        if unfinished {
            let what = format!(
                "{}: its write was never finished, and the log does not name it",
                file.what
            );
            report.note(&file.path, what);
        } else {
            report.wrong(&file.path, file.what.clone());
        }
    }
}

/// A server makes the log first, and writes the database's buckets with its first batch. What it did
/// not come to is made by the next start, of a log that has all from the first entry.
fn missing_buckets(parts: &Parts<'_>, report: &mut Report) {
    let Some(contents) = parts.contents.filter(|it| !it.missing.is_empty()) else {
        return;
    };
    let database = layout::database(parts.data_dir);
    let log_has_all = parts.log.is_some_and(|log| {
        log.is_read
            && log.begins_at == 0
            && log.entries.first_index <= 1
            && log.newest_snapshot().is_some_and(|it| it.index == 0)
    });
    if contents.is_begun && log_has_all {
        report.note(
            &database,
            "nothing was applied here yet: the next start makes it of the log",
        );
    } else {
        contents.report_missing(&database, report);
    }
}

/// What a start begins with: the newest snapshot record, and the segment that begins before it. What
/// can be read says itself what is missing; the beginning of a log does not.
fn start(parts: &Parts<'_>, log: &Log, report: &mut Report) {
    if !log.is_read {
        return;
    }
    match log.newest_snapshot() {
        None => report.wrong(
            parts.wal_dir,
            "no snapshot record is committed, and every log begins with one: segments are missing, \
             and no server starts",
        ),
        Some(newest) if newest.index < log.begins_at => report.wrong(
            parts.wal_dir,
            format!(
                "the first segment begins at index {}, behind the newest snapshot at {}: segments \
                 are missing, and no server starts",
                log.begins_at, newest.index
            ),
        ),
        Some(_) => {}
    }
}

/// The file of the newest snapshot record; servers of 3.6 need it.
fn snapshot_file(parts: &Parts<'_>, log: &Log, report: &mut Report) {
    let Some(newest) = log.newest_snapshot().filter(|newest| newest.index > 0) else {
        return;
    };
    if !parts.snaps.snapshots.contains(&(newest.term, newest.index)) {
        let snap_dir = layout::snap_dir(parts.data_dir);
        report.note(
            &snap_dir.join(snap::file_name(newest.term, newest.index)),
            "the log names this snapshot, and its file is not there",
        );
    }
}
