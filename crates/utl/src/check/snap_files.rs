//! The snapshot directory: `.snap` files, received databases, leftovers.

use super::database;
use super::report::Report;
use crate::database::{Wait, disk};
use crate::error::Failure;
use quorate_wal::WalError;
use quorate_wal::snap;
use std::io;
use std::path::{Path, PathBuf};

/// What other files are compared with.
#[derive(Default)]
pub struct SnapFiles {
    /// Term and index of each `.snap` file that can be read.
    pub snapshots: Vec<(u64, u64)>,
    /// Those that cannot.
    pub unreadable: Vec<Unreadable>,
}

/// A `.snap` file that cannot be read.
pub struct Unreadable {
    pub path: PathBuf,
    /// Index of the snapshot, as the file's name has it.
    pub index: Option<u64>,
    /// What is wrong with it.
    pub what: String,
}

/// Whether there is a `.snap` file.
pub fn has_any(dir: &Path) -> Result<bool, Failure> {
    match disk().list(dir) {
        Ok(names) => Ok(names.iter().any(|name| name.ends_with(".snap"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::io("open", dir)(error)),
    }
}

/// The index in the name `TERM-INDEX.snap`.
fn index_in(name: &str) -> Option<u64> {
    let (_term, index) = name.strip_suffix(".snap")?.split_once('-')?;
    u64::from_str_radix(index, 16).ok()
}

/// Checks the directory's files, but for the database.
pub fn check(dir: &Path, wait: Wait, report: &mut Report) -> Result<SnapFiles, Failure> {
    let mut found = SnapFiles::default();
    let names = match disk().list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report.wrong(dir, "there is no such directory");
            return Ok(found);
        }
        Err(error) => return Err(Failure::io("open", dir)(error)),
    };
    for name in names {
        let path = dir.join(&name);
        if name.ends_with(".snap") {
            match snap::read(&*disk(), &path) {
                Ok(snapshot) => {
                    let (term, index) = (snapshot.metadata.term, snapshot.metadata.index);
                    found.snapshots.push((term, index));
                    if name != snap::file_name(term, index) {
                        report.wrong(
                            &path,
                            format!("it holds the snapshot at {index} of term {term}"),
                        );
                    }
                }
                Err(WalError::Damaged { damage, .. }) => found.unreadable.push(Unreadable {
                    index: index_in(&name),
                    what: damage.to_string(),
                    path,
                }),
                Err(error) => return Err(error.into()),
            }
            report.snapshot_files += 1;
        } else if name.ends_with(".snap.db") {
            database::check_received(&path, wait, report)?;
        } else if snap::is_leftover(&name) {
            report.note(
                &path,
                "left by interrupted work; the next start removes it, and repair moves it aside",
            );
        } else if name.ends_with(".broken") {
            report.note(&path, "put aside because it could not be read");
        }
    }
    Ok(found)
}
