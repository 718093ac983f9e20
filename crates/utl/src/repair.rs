//! `repair`: what can be repaired without losing anything that was ever durable.
//!
//! That is a write to the log that was never finished, and leftovers of interrupted work. Invariants:
//! nothing is touched unless everything else is whole; what is changed or removed is kept under
//! another name; the database's lock is held meanwhile, so that no server runs.

use crate::check;
use crate::database::{self, Wait, disk};
use crate::error::Failure;
use crate::{layout, log_entries};
use quorate_bolt::Options;
use quorate_cli::Invocation;
use quorate_cli::streams::write_out;
use quorate_wal::{Next, Reader, Wal, list_segments, snap};
use std::path::{Path, PathBuf};

/// Where leftovers go, in the data directory.
const KEPT: &str = "kept-by-repair";

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let flags = &invocation.given;
    let [data_dir] = &invocation.given.texts()[..] else {
        return Err(Failure::Arguments(
            "repair requires exactly one argument".into(),
        ));
    };
    let data_dir = Path::new(data_dir);
    database::stat(data_dir)?;
    let wal_dir = layout::wal_dir_or(data_dir, &flags.text("wal-dir"));
    let wait = Wait::from_flag(flags.duration("timeout"));
    let report = check::check_member(data_dir, &wal_dir, wait)?;
    if !report.is_whole() {
        report.write(quorate_cli::format::Format::Simple)?;
        return Err(Failure::Reason(
            "there is damage that cannot be repaired without losing data; nothing was changed. \
             Restore a snapshot, or remove this member and add it anew"
                .into(),
        ));
    }
    let done = repair(data_dir, &wal_dir, wait, flags.flag("dry-run"))?;
    if done.is_empty() {
        write_out(b"nothing to repair\n")?;
    }
    for line in done {
        write_out(format!("{line}\n").as_bytes())?;
    }
    Ok(())
}

/// Repairs a directory that is whole otherwise, and tells what was done.
fn repair(
    data_dir: &Path,
    wal_dir: &Path,
    wait: Wait,
    dry_run: bool,
) -> Result<Vec<String>, Failure> {
    // The lock is what counts. The check has read every page a moment ago.
    let options = Options {
        find_free_pages: false,
        ..Options::default()
    };
    let locked = database::open(&layout::database(data_dir), &options, wait)?;
    let mut done = Vec::new();
    if let Some((segment, offset)) = unfinished(wal_dir)? {
        if dry_run {
            done.push(format!(
                "would cut {} off at {offset}, where a write was never finished",
                segment.display()
            ));
        } else {
            done.extend(cut_off(wal_dir)?);
        }
    }
    let snap_dir = layout::snap_dir(data_dir);
    let names = disk()
        .list(&snap_dir)
        .map_err(Failure::io("open", &snap_dir))?;
    for name in names.iter().filter(|name| snap::is_leftover(name)) {
        done.push(move_aside(data_dir, &snap_dir.join(name), dry_run)?);
    }
    drop(locked);
    Ok(done)
}

/// The last segment and where a write in it was never finished.
fn unfinished(wal_dir: &Path) -> Result<Option<(PathBuf, u64)>, Failure> {
    let last = list_segments(&*disk(), wal_dir)?;
    let mut reader = match last.last() {
        Some(last) => Reader::open(&*disk(), wal_dir, last.index)?,
        None => return Ok(None),
    };
    loop {
        match reader.next()? {
            Next::Record(_) => {}
            Next::End => return Ok(None),
            Next::Torn(torn) => return Ok(Some((reader.path().to_path_buf(), torn.offset))),
        }
    }
}

/// Cuts the log off; opening it for writing does that, and keeps a copy of the segment.
fn cut_off(wal_dir: &Path) -> Result<Option<String>, Failure> {
    let at = log_entries::newest_record(wal_dir)?;
    let (wal, recovered) = Wal::open(&disk(), wal_dir, &at, quorate_wal::Options::default())?;
    wal.close()?;
    Ok(recovered.repaired.map(|repair| {
        format!(
            "cut {} off at {}, where a write was never finished; what it was is in {}",
            repair.path.display(),
            repair.offset,
            repair.broken_copy.display()
        )
    }))
}

/// Moves a leftover to where nobody takes it for anything.
fn move_aside(data_dir: &Path, path: &Path, dry_run: bool) -> Result<String, Failure> {
    let kept = data_dir.join(KEPT);
    let aside = kept.join(path.file_name().unwrap_or_default());
    if dry_run {
        return Ok(format!(
            "would move {} to {}",
            path.display(),
            aside.display()
        ));
    }
    if aside.exists() {
        return Err(Failure::Reason(format!(
            "{} is in the way of {}",
            aside.display(),
            path.display()
        )));
    }
    disk()
        .create_dir_all(&kept)
        .map_err(Failure::io("mkdir", &kept))?;
    disk()
        .rename(path, &aside)
        .map_err(Failure::io("rename", path))?;
    for dir in [kept.as_path(), layout::parent(path)] {
        disk().sync_dir(dir).map_err(Failure::io("fsync", dir))?;
    }
    Ok(format!("moved {} to {}", path.display(), aside.display()))
}
