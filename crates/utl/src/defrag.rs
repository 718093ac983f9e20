//! `defrag`: a database without free pages.
//!
//! All entries are copied, in the order of their keys, to a new file beside the old one, which then
//! takes its place; the old one's lock is held until then, and an error leaves it as it was. The new
//! file is one that was not there before: what a killed defragmentation left is of another time.
//! The new file's pages all have checksums.

use crate::database::{self, Wait, disk};
use crate::error::Failure;
use crate::layout;
use crate::log;
use crate::names;
use crate::unsynced::UnsyncedDisk;
use quorate_bolt::{Bucket, Db, Options};
use quorate_cli::Invocation;
use quorate_cli::progress::Progress;
use quorate_disk::Mode;
use quorate_go::size::human_bytes;
use std::ffi::OsString;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Bytes that are put into one transaction.
const BATCH_BYTES: usize = 16 << 20;

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let data_dir = invocation.given.text("data-dir");
    let path = layout::database(Path::new(&data_dir));
    let wait = Wait::from_flag(invocation.given.nanos("timeout"));
    database::stat(&path)
        .and_then(|()| defrag(&path, wait))
        .map_err(|failure| match failure {
            Failure::Unopened(_) => failure,
            why => Failure::Reason(format!(
                "Failed to defragment etcd data[{data_dir}] ({why})"
            )),
        })
}

/// A file that is gone with the value, unless it got another name.
struct Unfinished(PathBuf);

impl Unfinished {
    /// Makes it beside the database, empty. A server that finds such a name at its start removes the
    /// file.
    fn beside(path: &Path) -> Result<Unfinished, Failure> {
        let name = format!("db.tmp.{}", names::random());
        let made = path.with_file_name(name);
        disk()
            .open(&made, Mode::CreateNew)
            .map_err(Failure::io("open", &made))?;
        Ok(Unfinished(made))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _renamed = fs::remove_file(&self.0);
        // Under this name a database is made, and has the other one once it is whole.
        let mut making = OsString::from(&self.0);
        making.push(".tmp");
        let _renamed = fs::remove_file(making);
    }
}

fn defrag(path: &Path, wait: Wait) -> Result<(), Failure> {
    let begin = Instant::now();
    let old = database::open(path, &Options::default(), wait).map_err(Failure::unopened)?;
    let (size, in_use) = (old.size(), old.size_in_use());
    log::info!(
        "defragmenting",
        "path" => path.to_string_lossy(),
        "current-db-size-bytes" => size,
        "current-db-size" => human_bytes(size),
        "current-db-size-in-use-bytes" => in_use,
        "current-db-size-in-use" => human_bytes(in_use),
    );
    let unfinished = Unfinished::beside(path)?;
    let tmp = unfinished.0.clone();
    let options = Options {
        page_size: Some(old.page_size()),
        ..Options::default()
    };
    // Synced as a whole at the end.
    let new = Db::open(Arc::new(UnsyncedDisk), &tmp, &options)?;
    copy(&old, &new)?;
    let (new_size, new_in_use) = (new.size(), new.size_in_use());
    drop(new);
    cut(&tmp, new_size)?;
    disk()
        .rename(&tmp, path)
        .map_err(Failure::io("rename", &tmp))?;
    let dir = layout::parent(path);
    disk().sync_dir(dir).map_err(Failure::io("fsync", dir))?;
    drop(unfinished);
    log::info!(
        "finished defragmenting directory",
        "path" => path.to_string_lossy(),
        "current-db-size-bytes-diff" => new_size as i64 - size as i64,
        "current-db-size-bytes" => new_size,
        "current-db-size" => human_bytes(new_size),
        "current-db-size-in-use-bytes-diff" => new_in_use as i64 - in_use as i64,
        "current-db-size-in-use-bytes" => new_in_use,
        "current-db-size-in-use" => human_bytes(new_in_use),
        "took" => format!("{:?}", begin.elapsed()),
    );
    Ok(())
}

fn copy(old: &Db, new: &Db) -> Result<(), Failure> {
    let progress = Progress::bytes("copying", old.size_in_use());
    let read = old.begin_read();
    let mut done = 0;
    for name in read.buckets()? {
        let from = read.bucket(&name)?;
        let from = from.expect("a bucket that was listed is there");
        if !from.buckets()?.is_empty() {
            return Err(Failure::Reason(format!(
                "bucket {} holds buckets, which etcd never makes",
                String::from_utf8_lossy(&name)
            )));
        }
        copy_bucket(&name, from, new, &mut |bytes| {
            done += bytes as u64;
            progress.set(done);
        })?;
    }
    Ok(())
}

fn copy_bucket(
    name: &[u8],
    from: Bucket<'_>,
    new: &Db,
    copied: &mut dyn FnMut(usize),
) -> Result<(), Failure> {
    let mut cursor = from.range(Bound::Unbounded)?;
    loop {
        let mut tx = new.begin_write()?;
        let mut to = tx.create_bucket_if_missing(name)?;
        to.set_append_only(true);
        to.set_sequence(from.sequence());
        let mut batch = 0;
        let mut at_end = false;
        while batch < BATCH_BYTES {
            let Some((key, value)) = cursor.next()? else {
                at_end = true;
                break;
            };
            to.put(key, value)?;
            batch += key.len() + value.len();
        }
        tx.commit()?;
        copied(batch);
        if at_end {
            return Ok(());
        }
    }
}

/// Gives back what the file is longer than it is in use, and makes it durable.
fn cut(path: &Path, len: u64) -> Result<(), Failure> {
    let file = disk()
        .open(path, Mode::Write)
        .map_err(Failure::io("open", path))?;
    file.set_len(len)
        .and_then(|()| file.sync_all())
        .map_err(Failure::io("truncate", path))
}
