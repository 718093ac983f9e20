//! A data directory in the making.
//!
//! It lies beside its place, or inside of it where an empty directory is there already (that may be
//! where a volume is mounted, which cannot be replaced). A log whose place is within what is made lies
//! at that place in it; any other one lies beside its place. Dropped before it was published, all of
//! it is removed again.
//!
//! Where a place is within another is told by where the paths lead, not by how they are spelled.

use crate::database::disk;
use crate::error::Failure;
use crate::layout::{self, parent};
use quorate_go::quote::quote;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// See the module.
pub struct Staging {
    /// What is made, and what it is renamed to: the data directory, or its directory `member`.
    made: PathBuf,
    place: PathBuf,
    /// The directory `member` that is being made.
    member: PathBuf,
    /// The log that is being made.
    log: PathBuf,
    /// What it is renamed to, where it is not within `made`.
    log_place: Option<PathBuf>,
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

/// Where a path leads that need not be there: absolute, without symbolic links in the part that is
/// there, and without `.` and `..`.
fn resolved(path: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(path).map_err(Failure::io("getwd", path))?;
    let there = absolute
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, mut resolved)) = there else {
        return Ok(absolute);
    };
    let rest = absolute
        .strip_prefix(above)
        .expect("an ancestor is a prefix");
    for part in rest.components() {
        match part {
            Component::Normal(name) => resolved.push(name),
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(resolved)
}

impl Staging {
    /// Decides what is made where; makes nothing yet.
    pub fn new(data_dir: &Path, wal_dir: &Path) -> Result<Staging, Failure> {
        let (data_dir, wal_dir) = (resolved(data_dir)?, resolved(wal_dir)?);
        if layout::snap_dir(&data_dir).starts_with(&wal_dir) {
            return Err(Failure::Reason(format!(
                "wal-dir {} would hold other files of the data directory than the log's",
                quote(wal_dir.to_string_lossy().as_bytes())
            )));
        }
        let (made, place, member) = if data_dir.is_dir() {
            let place = data_dir.join("member");
            let made = beside(&place);
            (made.clone(), place, made)
        } else {
            let made = beside(&data_dir);
            let member = made.join("member");
            (made, data_dir, member)
        };
        let (log, log_place) = match wal_dir.strip_prefix(&place) {
            Ok(within) => (made.join(within), None),
            Err(_) => (beside(&wal_dir), Some(wal_dir)),
        };
        Ok(Staging {
            made,
            place,
            member,
            log,
            log_place,
            parents: Vec::new(),
            published: false,
        })
    }

    /// Where snapshot files and the database go.
    pub fn snap_dir(&self) -> PathBuf {
        self.member.join("snap")
    }

    /// Where the log goes.
    pub fn wal_dir(&self) -> PathBuf {
        self.log.clone()
    }

    /// Makes the directories, but for the log's own.
    pub fn make(&mut self) -> Result<(), Failure> {
        let mut needed = vec![parent(&self.place).to_path_buf()];
        needed.extend(
            self.log_place
                .iter()
                .map(|place| parent(place).to_path_buf()),
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
        make_dir(&self.snap_dir())?;
        make_dir(parent(&self.log))
    }

    /// Gives everything its name. All of it is durable afterwards.
    pub fn publish(mut self) -> Result<(), Failure> {
        for dir in [&self.member, &self.made] {
            sync_dir(dir)?;
        }
        if let Some(place) = &self.log_place {
            rename(&self.log, place)?;
        }
        if let Err(error) = rename(&self.made, &self.place) {
            if let Some(place) = &self.log_place {
                // Back, so that it is removed with the rest.
                let _kept = fs::rename(place, &self.log);
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
        for made in [&self.made, &self.log] {
            let _left = fs::remove_dir_all(made);
        }
        for dir in self.parents.iter().rev() {
            let _left = fs::remove_dir(dir);
        }
    }
}
