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
use quorate_disk::Mode;
use quorate_wal::{Next, Reader, Wal, list_segments, snap};
use std::fs;
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
    let wait = Wait::from_flag(flags.nanos("timeout"));
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
    if let Some(unfinished) = unfinished(wal_dir)? {
        done.push(if dry_run {
            unfinished.planned()
        } else {
            clear(data_dir, wal_dir, &unfinished)?
        });
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

/// A write at the log's end that was never finished.
struct Unfinished {
    /// The last segment.
    segment: PathBuf,
    /// Where the log ends in it.
    offset: u64,
    /// Whether a frame begins there. Otherwise there are sectors of later ones only.
    torn: bool,
}

impl Unfinished {
    fn planned(&self) -> String {
        let (segment, offset) = (self.segment.display(), self.offset);
        match self.torn {
            true => {
                format!("would cut {segment} off at {offset}, where a write was never finished")
            }
            false => format!(
                "would clear {segment} behind {offset}, where a part of a write stands that was \
                 never finished"
            ),
        }
    }
}

/// Looks for one.
fn unfinished(wal_dir: &Path) -> Result<Option<Unfinished>, Failure> {
    let last = list_segments(&*disk(), wal_dir)?;
    let mut reader = match last.last() {
        Some(last) => Reader::open(&*disk(), wal_dir, last.index)?,
        None => return Ok(None),
    };
    let torn = loop {
        match reader.next()? {
            Next::Record(_) => {}
            Next::End => break false,
            Next::Torn(_) => break true,
        }
    };
    let offset = reader.offset();
    if !torn && reader.nonzero_behind(offset)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Unfinished {
        segment: reader.path().to_path_buf(),
        offset,
        torn,
    }))
}

/// Removes it from the log. Opening that for writing does so; of a segment that it cuts off, it keeps
/// a copy itself.
fn clear(data_dir: &Path, wal_dir: &Path, unfinished: &Unfinished) -> Result<String, Failure> {
    let kept = match unfinished.torn {
        true => None,
        false => Some(keep_copy(data_dir, &unfinished.segment)?),
    };
    let at = log_entries::newest_record(wal_dir)?;
    let (wal, recovered) = Wal::open(&disk(), wal_dir, &at, quorate_wal::Options::default())?;
    wal.close()?;
    let (segment, offset) = (unfinished.segment.display(), unfinished.offset);
    let copy = kept.or(recovered.repaired.map(|repair| repair.broken_copy));
    let copy = copy.unwrap_or_default();
    Ok(match unfinished.torn {
        true => format!(
            "cut {segment} off at {offset}, where a write was never finished; what it was is in {}",
            copy.display()
        ),
        false => format!(
            "cleared {segment} behind {offset}, where a part of a write stood that was never \
             finished; what it was is in {}",
            copy.display()
        ),
    })
}

/// Copies a file to where what repair changes is kept.
fn keep_copy(data_dir: &Path, path: &Path) -> Result<PathBuf, Failure> {
    let (kept, copy) = kept_place(data_dir, path)?;
    // A copy that was interrupted has no name that counts.
    let part = kept.join("copy.part");
    let durable = || {
        fs::copy(path, &part)?;
        disk().open(&part, Mode::Write)?.sync_all()?;
        fs::rename(&part, &copy)?;
        disk().sync_dir(&kept)
    };
    durable().map_err(Failure::io("copy", path))?;
    Ok(copy)
}

/// The directory for what is kept, which is there afterwards, and a place in it for the file that is
/// free: under its name, or with a number behind it if something was kept under that before.
fn kept_place(data_dir: &Path, path: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let kept = data_dir.join(KEPT);
    disk()
        .create_dir_all(&kept)
        .map_err(Failure::io("mkdir", &kept))?;
    let name = path.file_name().unwrap_or_default();
    let mut place = kept.join(name);
    let mut number = 0u64;
    while place.exists() {
        number += 1;
        let mut numbered = name.to_owned();
        numbered.push(format!(".{number}"));
        place = kept.join(numbered);
    }
    Ok((kept, place))
}

/// Moves a leftover to where nobody takes it for anything.
fn move_aside(data_dir: &Path, path: &Path, dry_run: bool) -> Result<String, Failure> {
    if dry_run {
        let aside = data_dir
            .join(KEPT)
            .join(path.file_name().unwrap_or_default());
        return Ok(format!(
            "would move {} to {}",
            path.display(),
            aside.display()
        ));
    }
    let (kept, aside) = kept_place(data_dir, path)?;
    disk()
        .rename(path, &aside)
        .map_err(Failure::io("rename", path))?;
    for dir in [kept.as_path(), layout::parent(path)] {
        disk().sync_dir(dir).map_err(Failure::io("fsync", dir))?;
    }
    Ok(format!("moved {} to {}", path.display(), aside.display()))
}
