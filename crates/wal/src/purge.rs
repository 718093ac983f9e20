//! Removing the oldest files of a kind.
//!
//! A segment whose lock somebody holds is in use, and so is everything behind it; see
//! [`crate::Wal::release_to`].
//!
//! Source: etcd's `fileutil.PurgeFile`.

use crate::WalError;
use crate::segment::names;
use quorate_disk::{Disk, Mode};
use std::io;
use std::path::{Path, PathBuf};

/// Removes the oldest segments of a log until `keep` are left or one is in use. Gives the paths of
/// those that are gone, oldest first.
pub fn purge(disk: &dyn Disk, dir: &Path, keep: usize) -> Result<Vec<PathBuf>, WalError> {
    purge_suffix(disk, dir, ".wal", keep, true)
}

/// Removes the first files, by name, that end in `suffix` until `keep` are left.
pub(crate) fn purge_suffix(
    disk: &dyn Disk,
    dir: &Path,
    suffix: &str,
    keep: usize,
    locked: bool,
) -> Result<Vec<PathBuf>, WalError> {
    let mut files = names(disk, dir)?;
    files.retain(|name| name.ends_with(suffix));
    files.sort();
    files.truncate(files.len().saturating_sub(keep));
    let mut gone = Vec::new();
    for name in files {
        let path = dir.join(name);
        let mut held = None;
        if locked {
            let file = disk
                .open(&path, Mode::Write)
                .map_err(|source| WalError::io("open", &path, source))?;
            match file.try_lock_record() {
                Ok(()) => held = Some(file),
                Err(source) if source.kind() == io::ErrorKind::WouldBlock => break,
                Err(source) => return Err(WalError::io("lock", &path, source)),
            }
        }
        disk.remove(&path)
            .map_err(|source| WalError::io("remove", &path, source))?;
        drop(held);
        gone.push(path);
    }
    Ok(gone)
}
