//! Where things are in a data directory.

use std::path::{Path, PathBuf};

/// All that is a member's.
pub fn member_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("member")
}

/// The directory of the database and the snapshot files.
pub fn snap_dir(data_dir: &Path) -> PathBuf {
    member_dir(data_dir).join("snap")
}

/// The database.
pub fn database(data_dir: &Path) -> PathBuf {
    snap_dir(data_dir).join("db")
}

/// The log.
pub fn wal_dir(data_dir: &Path) -> PathBuf {
    member_dir(data_dir).join("wal")
}

/// The log, or where the user says that it is.
pub fn wal_dir_or(data_dir: &Path, given: &str) -> PathBuf {
    if given.is_empty() {
        wal_dir(data_dir)
    } else {
        PathBuf::from(given)
    }
}

/// The directory that a path's last name is in.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
