//! A data directory in the making.
//!
//! It lies beside its place, or inside of it where an empty directory is there already (that may be
//! where a volume is mounted, which cannot be replaced). A log whose place is within what is made lies
//! at that place in it; any other one lies beside its place.
//!
//! Invariants: what is made lies within directories that were not there before and have names of their
//! own, so no other restore writes into them; dropped before it was published, they and the parents
//! that were missing are removed again, and nothing else is.
//!
//! Where a place is within another is told by where the paths lead, not by how they are spelled.

use crate::database::disk;
use crate::error::Failure;
use crate::layout::{self, parent};
use crate::names;
use quorate_go::quote::quote;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
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
    /// The directory that it is made in and what it is renamed to, where it is not within `made`.
    log_apart: Option<(PathBuf, PathBuf)>,
    /// Directories above that were missing and were made, the outermost first.
    parents: Vec<PathBuf>,
    /// Those that it is made in, as far as they were made.
    tops: Vec<PathBuf>,
    published: bool,
}

/// A name beside `path` that is likely to be free.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".restoring-{:016x}", names::random()));
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
        let (log, log_apart) = match wal_dir.strip_prefix(&place) {
            Ok(within) => (made.join(within), None),
            Err(_) => {
                // Within a directory of its own: what makes a log makes something beside it.
                let top = beside(&wal_dir);
                (top.join("wal"), Some((top, wal_dir)))
            }
        };
        Ok(Staging {
            made,
            place,
            member,
            log,
            log_apart,
            parents: Vec::new(),
            tops: Vec::new(),
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
        let log_apart = self.log_apart.clone();
        let tops = [Some((self.made.clone(), self.place.clone())), log_apart];
        for (top, place) in tops.into_iter().flatten() {
            self.make_parents(parent(&place))?;
            create(&top).map_err(Failure::io("mkdir", &top))?;
            self.tops.push(top);
        }
        make_dir(&self.snap_dir())?;
        make_dir(parent(&self.log))
    }

    fn make_parents(&mut self, dir: &Path) -> Result<(), Failure> {
        refuse_files(dir)?;
        let missing: Vec<&Path> = dir.ancestors().filter(|above| !above.exists()).collect();
        for dir in missing.into_iter().rev() {
            match create(dir) {
                Ok(()) => self.parents.push(dir.to_path_buf()),
                // Somebody else made it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
                Err(error) => return Err(Failure::io("mkdir", dir)(error)),
            }
        }
        Ok(())
    }

    /// Gives everything its name. All of it is durable afterwards.
    pub fn publish(mut self) -> Result<(), Failure> {
        for dir in [&self.member, &self.made] {
            sync_dir(dir)?;
        }
        if let Some((_, place)) = &self.log_apart {
            rename(&self.log, place)?;
        }
        if let Err(error) = rename(&self.made, &self.place) {
            if let Some((_, place)) = &self.log_apart {
                // Back, so that it is removed with the rest.
                let _kept = fs::rename(place, &self.log);
            }
            return Err(error);
        }
        self.published = true;
        Ok(())
    }
}

/// Where a directory is to be there must not be something else on the way.
fn refuse_files(dir: &Path) -> Result<(), Failure> {
    match dir.ancestors().find(|above| above.exists()) {
        Some(above) if !above.is_dir() => {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            Err(Failure::io("mkdir", above)(error))
        }
        _ => Ok(()),
    }
}

fn make_dir(dir: &Path) -> Result<(), Failure> {
    refuse_files(dir)?;
    disk()
        .create_dir_all(dir)
        .map_err(Failure::io("mkdir", dir))
}

/// Makes a directory that is not there.
fn create(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(dir)?;
    disk().sync_dir(parent(dir))
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
        // What cannot be removed is not worth another error than the one that led here. What was
        // published has another name by now.
        for top in &self.tops {
            let _left = fs::remove_dir_all(top);
        }
        if self.published {
            return;
        }
        for dir in self.parents.iter().rev() {
            let _left = fs::remove_dir(dir);
        }
    }
}
