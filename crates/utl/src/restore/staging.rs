//! A data directory in the making.
//!
//! It lies beside its place, or inside of it where an empty directory is there already (that may be
//! where a volume is mounted, which cannot be replaced). A log with a place of its own lies beside
//! that. Dropped before it was published, all of it is removed again.

use crate::database::disk;
use crate::error::Failure;
use crate::layout::{self, parent};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// See the module.
pub struct Staging {
    /// What is made, and what it is renamed to: the data directory, or its directory `member`.
    made: PathBuf,
    place: PathBuf,
    /// The directory `member` that is being made.
    member: PathBuf,
    /// Likewise a log with a place of its own.
    log: Option<(PathBuf, PathBuf)>,
    /// Directories above that were missing, the outermost first.
    parents: Vec<PathBuf>,
    published: bool,
}

/// A name beside `path` that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".restoring-{}", std::process::id()));
    parent(path).join(name)
}

impl Staging {
    /// Decides what is made where; makes nothing yet.
    pub fn new(data_dir: &Path, wal_dir: &Path) -> Staging {
        let (made, place, member) = if data_dir.is_dir() {
            let place = data_dir.join("member");
            let made = beside(&place);
            (made.clone(), place, made)
        } else {
            let made = beside(data_dir);
            let member = made.join("member");
            (made, data_dir.to_path_buf(), member)
        };
        let own_log = wal_dir != layout::wal_dir(data_dir);
        Staging {
            made,
            place,
            member,
            log: own_log.then(|| (beside(wal_dir), wal_dir.to_path_buf())),
            parents: Vec::new(),
            published: false,
        }
    }

    /// Where snapshot files and the database go.
    pub fn snap_dir(&self) -> PathBuf {
        self.member.join("snap")
    }

    /// Where the log goes.
    pub fn wal_dir(&self) -> PathBuf {
        match &self.log {
            Some((made, _)) => made.clone(),
            None => self.member.join("wal"),
        }
    }

    /// Makes the directories, but for the log's.
    pub fn make(&mut self) -> Result<(), Failure> {
        let mut needed = vec![parent(&self.place).to_path_buf()];
        needed.extend(
            self.log
                .iter()
                .map(|(_, place)| parent(place).to_path_buf()),
        );
        for dir in needed {
            let missing: Vec<PathBuf> = dir
                .ancestors()
                .filter(|above| !above.as_os_str().is_empty() && !above.exists())
                .map(Path::to_path_buf)
                .collect();
            self.parents.extend(missing.into_iter().rev());
            make_dir(&dir)?;
        }
        make_dir(&self.snap_dir())
    }

    /// Gives everything its name. All of it is durable afterwards.
    pub fn publish(mut self) -> Result<(), Failure> {
        for dir in [&self.member, &self.made] {
            sync_dir(dir)?;
        }
        let log = self.log.clone();
        if let Some((made, place)) = &log {
            rename(made, place)?;
        }
        if let Err(error) = rename(&self.made, &self.place) {
            if let Some((made, place)) = &log {
                // Back, so that it is removed with the rest.
                let _kept = fs::rename(place, made);
            }
            return Err(error);
        }
        self.published = true;
        Ok(())
    }
}

fn make_dir(dir: &Path) -> Result<(), Failure> {
    let is_there = |above: &&Path| !above.as_os_str().is_empty() && above.exists();
    if let Some(above) = dir.ancestors().find(is_there)
        && !above.is_dir()
    {
        let error = io::Error::from(io::ErrorKind::NotADirectory);
        return Err(Failure::io("mkdir", above)(error));
    }
    disk()
        .create_dir_all(dir)
        .map_err(Failure::io("mkdir", dir))
}

fn sync_dir(dir: &Path) -> Result<(), Failure> {
    disk().sync_dir(dir).map_err(Failure::io("fsync", dir))
}

fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    disk().rename(from, to).map_err(Failure::io("rename", to))?;
    sync_dir(parent(to))
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        // What cannot be removed is not worth another error than the one that led here.
        let log = self.log.as_ref().map(|(made, _)| made);
        for made in [Some(&self.made), log].into_iter().flatten() {
            let _left = fs::remove_dir_all(made);
        }
        for dir in self.parents.iter().rev() {
            let _left = fs::remove_dir(dir);
        }
    }
}
