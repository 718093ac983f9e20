//! The snapshot directory: `.snap` files, received databases (`.snap.db`), leftovers.
//!
//! A `.snap` file (`TERM-INDEX.snap`) is a checksum and an encoded raft snapshot. Which of them
//! counts is the log's word: only one whose term and index stand in a snapshot record.
//!
//! Invariants:
//! - A file has its final name only once its content is durable, and the name is durable when the
//!   call returns.
//! - A file whose content is bad is renamed to `.broken`, never used, never removed here. One that
//!   cannot be read for another reason is an error.
//!
//! Source: etcd's `snap` package and `snap.proto`.

use crate::WalError;
use crate::create::with_suffix;
use crate::error::Damage;
use crate::proto::{DecodeError, Fault, Fields, len_len, number_len, put_len, put_number};
use crate::purge::purge_suffix;
use crate::raftpb::{decode_snapshot, put_snapshot, snapshot_len};
use crate::segment::{names, parse_hex};
use crate::walpb;
use bytes::{Bytes, BytesMut};
use quorate_disk::{Disk, Mode};
use quorate_failpoints::fail_point;
use quorate_raft::types::Snapshot;
use std::path::{Path, PathBuf};

/// A `.snap` file's content: checksum and encoded snapshot, inside one message.
pub fn encode_file(snapshot: &Snapshot) -> Vec<u8> {
    let mut data = Vec::with_capacity(snapshot_len(snapshot));
    put_snapshot(&mut data, snapshot);
    let crc = crc32c::crc32c(&data);
    let mut out = Vec::with_capacity(number_len(u64::from(crc)) + len_len(data.len()));
    put_number(&mut out, 1, u64::from(crc));
    put_len(&mut out, 2, data.len());
    out.extend_from_slice(&data);
    out
}

/// Reads a `.snap` file's content.
pub fn decode_file(content: &Bytes) -> Result<Snapshot, Damage> {
    let (mut crc, mut data) = (0, Bytes::new());
    let mut fields = Fields::new("snappb.Snapshot", content);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                let number = fields.number(field, value)?;
                crc = u32::try_from(number).map_err(|_| -> DecodeError {
                    fields.error(Fault::UnknownValue(field, number))
                })?;
            }
            2 => data = fields.bytes(field, value)?,
            _ => return Err(fields.error(Fault::UnknownField(field)).into()),
        }
    }
    // etcd takes a zero checksum for an absent one.
    if data.is_empty() || crc == 0 {
        return Err(Damage::EmptySnapshot);
    }
    let computed = crc32c::crc32c(&data);
    if computed != crc {
        return Err(Damage::Crc {
            recorded: crc,
            computed,
        });
    }
    Ok(decode_snapshot(&data)?)
}

/// Name of the `.snap` file of a snapshot.
pub fn file_name(term: u64, index: u64) -> String {
    format!("{term:016x}-{index:016x}.snap")
}

/// Where a database received with the snapshot at `index` lies.
pub fn database_path(dir: &Path, index: u64) -> PathBuf {
    dir.join(format!("{index:016x}.snap.db"))
}

/// Where such a database is written before it is whole. [`clean_up`] removes it.
pub fn database_tmp_path(dir: &Path, index: u64) -> PathBuf {
    dir.join(format!("{index:016x}.snap.db.tmp"))
}

/// The database received with the snapshot at `index`; [`WalError::NoDatabase`] if it is not there.
pub fn find_database(disk: &dyn Disk, dir: &Path, index: u64) -> Result<PathBuf, WalError> {
    let path = database_path(dir, index);
    match disk
        .exists(&path)
        .map_err(|source| WalError::io("look for", &path, source))?
    {
        true => Ok(path),
        false => Err(WalError::NoDatabase { path }),
    }
}

/// Gives a received database, which the caller has written to [`database_tmp_path`] and synced, its
/// name. Durable when it returns.
pub fn publish_database(disk: &dyn Disk, dir: &Path, index: u64) -> Result<PathBuf, WalError> {
    let path = database_path(dir, index);
    disk.rename(&database_tmp_path(dir, index), &path)
        .map_err(|source| WalError::io("rename to", &path, source))?;
    fail_point!("snapDBRenameBeforeDirSync");
    fail_point!("snapDBDirSyncError", why => {
        let source = std::io::Error::other(why.to_string());
        return Err(WalError::sync("sync directory", dir, source));
    });
    disk.sync_dir(dir)
        .map_err(|source| WalError::sync("sync directory", dir, source))?;
    Ok(path)
}

/// Writes a snapshot's `.snap` file; nothing for the snapshot at index 0, which is none. Durable
/// when it returns.
pub fn save(disk: &dyn Disk, dir: &Path, snapshot: &Snapshot) -> Result<(), WalError> {
    let metadata = &snapshot.metadata;
    if metadata.index == 0 {
        return Ok(());
    }
    let path = dir.join(file_name(metadata.term, metadata.index));
    let tmp = with_suffix(&path, ".tmp");
    let file = disk
        .open(&tmp, Mode::Create)
        .map_err(|source| WalError::io("make", &tmp, source))?;
    let content = encode_file(snapshot);
    let written = file
        .set_len(0)
        .and_then(|()| file.write_all_at(&content, 0));
    if let Err(source) = written {
        let error = WalError::io("write", &tmp, source);
        disk.remove(&tmp)
            .map_err(|source| WalError::io("remove", &tmp, source))?;
        return Err(error);
    }
    file.sync_all()
        .map_err(|source| WalError::sync("sync", &tmp, source))?;
    rename(disk, dir, &tmp, &path)
}

fn rename(disk: &dyn Disk, dir: &Path, from: &Path, to: &Path) -> Result<(), WalError> {
    disk.rename(from, to)
        .map_err(|source| WalError::io("rename to", to, source))?;
    disk.sync_dir(dir)
        .map_err(|source| WalError::sync("sync directory", dir, source))
}

/// Reads a `.snap` file.
pub fn read(disk: &dyn Disk, path: &Path) -> Result<Snapshot, WalError> {
    let io = |action| move |source| WalError::io(action, path, source);
    let file = disk.open(path, Mode::Read).map_err(io("open"))?;
    let len = usize::try_from(file.len().map_err(io("measure"))?)
        .expect("a file's length fits the address space");
    let mut content = BytesMut::zeroed(len);
    file.read_exact_at(&mut content, 0).map_err(io("read"))?;
    decode_file(&content.freeze()).map_err(|damage| WalError::damaged(path, 0, damage))
}

/// What [`load_newest_available`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The newest snapshot that stands in the log.
    pub snapshot: Snapshot,
    /// Bad files that were renamed to `.broken` on the way: the new name and what is wrong.
    pub broken: Vec<(PathBuf, Damage)>,
}

/// Reads the newest `.snap` file whose term and index stand in one of the log's snapshot records;
/// [`WalError::NoSnapshot`] if there is none.
pub fn load_newest_available(
    disk: &dyn Disk,
    dir: &Path,
    records: &[walpb::Snapshot],
) -> Result<Loaded, WalError> {
    let mut files = names(disk, dir)?;
    files.retain(|name| name.ends_with(".snap"));
    files.sort();
    let mut broken = Vec::new();
    for name in files.iter().rev() {
        let path = dir.join(name);
        match read(disk, &path) {
            Ok(snapshot) => {
                let metadata = &snapshot.metadata;
                let recorded = |record: &walpb::Snapshot| {
                    record.term == metadata.term && record.index == metadata.index
                };
                if records.iter().any(recorded) {
                    return Ok(Loaded { snapshot, broken });
                }
            }
            Err(WalError::Damaged { damage, .. }) => {
                let aside = with_suffix(&path, ".broken");
                disk.rename(&path, &aside)
                    .map_err(|source| WalError::io("rename to", &aside, source))?;
                broken.push((aside, damage));
            }
            Err(error) => return Err(error),
        }
    }
    Err(WalError::NoSnapshot {
        dir: dir.to_path_buf(),
    })
}

/// Removes what interrupted operations left: halves of `.snap` and `.snap.db` files, of databases
/// that etcd received (`tmp` and digits) or defragmented (`db.tmp…`). Gives the paths. Only the
/// process that holds the database's lock may call it, and before it writes any of these itself.
pub fn clean_up(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>, WalError> {
    remove_where(disk, dir, is_leftover)
}

/// Whether [`clean_up`] removes a file of this name.
pub fn is_leftover(name: &str) -> bool {
    let received = name
        .strip_prefix("tmp")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
    received
        || name.starts_with("db.tmp")
        || name.contains(".snap.db.tmp")
        || name.ends_with(".snap.tmp")
}

/// Removes received databases below `index`, which a newer snapshot has made useless. Gives the
/// paths.
pub fn release_databases(
    disk: &dyn Disk,
    dir: &Path,
    index: u64,
) -> Result<Vec<PathBuf>, WalError> {
    let old = |name: &str| {
        name.strip_suffix(".snap.db")
            .and_then(parse_hex)
            .is_some_and(|at| at < index)
    };
    remove_where(disk, dir, old)
}

fn remove_where(
    disk: &dyn Disk,
    dir: &Path,
    matches: impl Fn(&str) -> bool,
) -> Result<Vec<PathBuf>, WalError> {
    let mut gone = Vec::new();
    for name in names(disk, dir)? {
        if matches(&name) {
            let path = dir.join(name);
            disk.remove(&path)
                .map_err(|source| WalError::io("remove", &path, source))?;
            gone.push(path);
        }
    }
    Ok(gone)
}

/// Removes the oldest `.snap` files and received databases until `keep` of each are left. Gives
/// the paths.
pub fn purge(disk: &dyn Disk, dir: &Path, keep: usize) -> Result<Vec<PathBuf>, WalError> {
    let mut gone = purge_suffix(disk, dir, ".snap", keep, false)?;
    gone.extend(purge_suffix(disk, dir, ".snap.db", keep, false)?);
    Ok(gone)
}

#[cfg(test)]
#[path = "snap_tests.rs"]
mod tests;
