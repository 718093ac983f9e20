//! The database: its pages, and what its buckets hold.

use super::report::{DatabaseFacts, Report};
use super::rows::Rows;
use super::small_buckets::SmallBuckets;
use crate::database::{Wait, open_raw};
use crate::error::Failure;
use quorate_bolt::{Db, Error, ReadTx};
use quorate_cli::progress::Progress;
use std::ops::Bound;
use std::path::Path;

/// What other files are compared with.
pub struct Contents {
    pub consistent_index: u64,
    pub term: u64,
    pub small: SmallBuckets,
    /// Buckets that a server needs, and that are not there.
    pub missing: Vec<&'static str>,
    /// Whether nothing of the log was applied here: what is missing is made from that.
    pub is_begun: bool,
}

impl Contents {
    /// Reports the missing buckets.
    pub fn report_missing(&self, path: &Path, report: &mut Report) {
        for bucket in &self.missing {
            report.wrong(path, format!("there is no bucket {bucket}"));
        }
    }
}

/// Checks a database that is there; gives what it holds where that can be read.
pub fn check(path: &Path, wait: Wait, report: &mut Report) -> Result<Option<Contents>, Failure> {
    let db = match open_raw(path, wait) {
        Ok(db) => db,
        Err(Failure::Bolt(error)) => return damage(path, error, report).map(|()| None),
        Err(failure) => return Err(failure),
    };
    match pages(&db, report) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) => return damage(path, error, report).map(|()| None),
    }
    match contents(&db, report) {
        Ok(contents) => Ok(Some(contents)),
        Err(error) => damage(path, error, report).map(|()| None),
    }
}

/// Whether nothing that counts is in a database yet: neither members nor keys. So it is with a file
/// whose first pages were not written. One that cannot be read is not blank.
pub fn is_blank(path: &Path, wait: Wait) -> Result<bool, Failure> {
    let about = std::fs::metadata(path).map_err(Failure::io("stat", path))?;
    if about.len() == 0 {
        return Ok(true);
    }
    let db = match open_raw(path, wait) {
        Ok(db) => db,
        Err(Failure::Bolt(error)) => return unread(error),
        Err(failure) => return Err(failure),
    };
    let file = db.begin_read();
    let mut entries = 0u64;
    for name in [&b"members"[..], b"key"] {
        if let Err(error) = each_entry(&file, name, &mut |_, _| entries += 1) {
            return unread(error);
        }
    }
    Ok(entries == 0)
}

/// Damage is the check's to report.
fn unread(error: Error) -> Result<bool, Failure> {
    match error {
        Error::Corrupt { .. } | Error::NoMeta { .. } => Ok(false),
        other => Err(other.into()),
    }
}

/// Checks the pages of a database that was received and not taken over yet.
pub fn check_received(path: &Path, wait: Wait, report: &mut Report) -> Result<(), Failure> {
    let taken_over = report.database.take();
    let checked = match open_raw(path, wait) {
        Ok(db) => match pages(&db, report) {
            Ok(_sound) => Ok(()),
            Err(error) => damage(path, error, report),
        },
        Err(Failure::Bolt(error)) => damage(path, error, report),
        Err(failure) => Err(failure),
    };
    // What is told of the database is told of the one that counts.
    report.database = taken_over;
    checked
}

/// Reports an error that is about the file's bytes; others end the check.
fn damage(path: &Path, error: Error, report: &mut Report) -> Result<(), Failure> {
    match error {
        Error::Corrupt {
            page,
            offset,
            problem,
            ..
        } => report.wrong(path, format!("page {page} at offset {offset}: {problem}")),
        Error::NoMeta { first, second, .. } => report.wrong(
            path,
            format!("not a database: meta page 0: {first}; meta page 1: {second}"),
        ),
        other => return Err(other.into()),
    }
    Ok(())
}

/// Checks the pages, and says whether the tree can be read.
fn pages(db: &Db, report: &mut Report) -> Result<bool, Error> {
    let page_bytes = u64::from(db.page_size());
    let metas = db.check_metas()?;
    for finding in metas.findings {
        report.wrong(
            db.path(),
            format!("{finding}; the state of the other meta page was checked"),
        );
    }
    for torn in metas.torn {
        report.note(
            db.path(),
            format!(
                "{torn}; a power cut left a part of a meta page's write: the state is whole, and a \
                 server's next writes make the page right"
            ),
        );
    }
    let progress = Progress::bytes("checking pages", db.size());
    let check = db.check_telling(&mut |pages| progress.set(pages * page_bytes))?;
    drop(progress);
    for finding in &check.findings {
        report.wrong(db.path(), finding.to_string());
    }
    report.more_findings += check.more_findings;
    if check.sequences > 0 {
        report.wrong(
            db.path(),
            format!(
                "{} buckets have a sequence, which no server uses",
                check.sequences
            ),
        );
    }
    report.database = Some(DatabaseFacts {
        page_bytes,
        pages: check.pages,
        unverified_pages: check.unverified_pages,
        unverified_bytes: check.unverified_pages * page_bytes,
        ..DatabaseFacts::default()
    });
    Ok(check.is_ok())
}

/// Checks what the buckets hold.
fn contents(db: &Db, report: &mut Report) -> Result<Contents, Error> {
    let file = db.begin_read();
    let names = file.buckets()?;
    let mut small = SmallBuckets::default();
    let mut entries = 0u64;
    for name in names.iter().filter(|name| name[..] != *b"key") {
        each_entry(&file, name, &mut |key, value| {
            entries += 1;
            small.take(name, key, value);
        })?;
    }
    small.finish();
    let missing: Vec<&'static str> = ["key", "meta"]
        .into_iter()
        .filter(|needed| !names.iter().any(|name| name == needed.as_bytes()))
        .collect();
    let mut rows = Rows::new(small.compacted(), small.leases.clone());
    each_entry(&file, b"key", &mut |key, value| rows.take(key, value))?;
    let facts = rows.finish();
    for what in facts.wrong.iter().chain(&small.wrong) {
        report.wrong(db.path(), what.clone());
    }
    report.more_findings += facts.more_wrong;
    for what in facts.notes.iter().chain(&small.notes) {
        report.note(db.path(), what.clone());
    }
    if let Some(about) = &mut report.database {
        about.buckets = names.len() as u64;
        about.rows = facts.rows;
        about.keys = facts.keys;
        about.revision = facts.revision.max(small.compacted()).max(1);
        about.compact_revision = small.finished.unwrap_or(-1);
        about.consistent_index = small.consistent_index;
        about.term = small.term;
    }
    // Without its bucket the consistent index is not known: entries elsewhere tell that it was there.
    let is_begun = small.consistent_index == 0
        && facts.rows == 0
        && (entries == 0 || !missing.contains(&"meta"));
    Ok(Contents {
        consistent_index: small.consistent_index,
        term: small.term,
        small,
        missing,
        is_begun,
    })
}

fn each_entry(file: &ReadTx, name: &[u8], take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
    let Some(bucket) = file.bucket(name)? else {
        return Ok(());
    };
    let mut cursor = bucket.range(Bound::Unbounded)?;
    while let Some((key, value)) = cursor.next()? {
        take(key, value);
    }
    Ok(())
}
