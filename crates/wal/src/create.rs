//! A new log: built under another name, then renamed, so that it is there whole or not at all.
//!
//! Source: etcd's `wal.Create`; unlike it, the new directory's names are synced before the rename.

use crate::WalError;
use crate::append::{Options, Wal, first_records};
use crate::reader::OpenSegment;
use crate::segment::{SegmentName, exists, names};
use bytes::Bytes;
use quorate_disk::{Disk, Mode};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Wal {
    /// Makes a log in `dir` with the bytes that head each of its segments. It is durable when this
    /// returns, and locked. Leftovers of an earlier attempt are removed, so `dir` must be the
    /// caller's alone; [`WalError::AlreadyExists`] if it holds segments.
    pub fn create(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        metadata: &[u8],
        options: Options,
    ) -> Result<Wal, WalError> {
        if exists(&**disk, dir)? {
            return Err(WalError::AlreadyExists {
                dir: dir.to_path_buf(),
            });
        }
        let building = with_suffix(dir, ".tmp");
        let io = |action, path: &Path| {
            let path = path.to_path_buf();
            move |source| WalError::io(action, &path, source)
        };
        disk.create_dir_all(&building)
            .map_err(io("make directory", &building))?;
        empty(&**disk, &building)?;
        if disk.exists(dir).map_err(io("look for", dir))? {
            empty(&**disk, dir)?;
        }

        let name = SegmentName { seq: 0, index: 0 };
        let path = building.join(name.to_string());
        let file = disk
            .open(&path, Mode::CreateNew)
            .map_err(io("make", &path))?;
        file.try_lock_record()
            .map_err(|source| locked(&path, source))?;
        file.allocate(options.segment_bytes)
            .map_err(io("reserve space for", &path))?;
        let (head, crc) = first_records(metadata);
        file.write_all_at(&head, 0).map_err(io("write", &path))?;
        let sync = |action, path: &Path| {
            let path = path.to_path_buf();
            move |source| WalError::sync(action, &path, source)
        };
        if !options.unsafe_no_sync {
            file.sync_data().map_err(sync("sync", &path))?;
            disk.sync_dir(&building)
                .map_err(sync("sync directory", &building))?;
        }
        disk.rename(&building, dir).map_err(io("rename to", dir))?;
        if !options.unsafe_no_sync {
            let parent = parent(dir);
            disk.sync_dir(parent)
                .map_err(sync("sync directory", parent))?;
        }
        let len = options.segment_bytes.max(head.len() as u64);
        let segment = OpenSegment {
            name,
            path: dir.join(name.to_string()),
            file,
            len,
        };
        let metadata = Bytes::copy_from_slice(metadata);
        let segments = VecDeque::from([segment]);
        Ok(Wal::of(
            disk.clone(),
            dir.to_path_buf(),
            options,
            metadata,
            segments,
            head.len() as u64,
            crc,
        ))
    }
}

pub(crate) fn locked(path: &Path, source: std::io::Error) -> WalError {
    match source.kind() {
        std::io::ErrorKind::WouldBlock => WalError::Locked {
            path: path.to_path_buf(),
        },
        _ => WalError::io("lock", path, source),
    }
}

fn empty(disk: &dyn Disk, dir: &Path) -> Result<(), WalError> {
    for name in names(disk, dir)? {
        let path = dir.join(name);
        disk.remove(&path)
            .map_err(|source| WalError::io("remove", &path, source))?;
    }
    Ok(())
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
