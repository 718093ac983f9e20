//! A module that is pinned, with some of its text changed.
//!
//! The module cache is not to be written to, so the module is copied, and a go.mod beside the copy
//! has the pinning one's content and a line that puts the copy in the module's place.

use super::module_folder;
use crate::command;
use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The copy and what names it.
pub struct ChangedModule {
    /// The copy's folder.
    pub folder: PathBuf,
    /// What `-modfile` takes.
    pub mod_file: PathBuf,
}

impl ChangedModule {
    /// Copies `module`, which the module in `pinning` pins, into the folder `work`.
    pub fn copy(pinning: &Path, module: &str, work: &Path) -> Result<ChangedModule, Error> {
        let folder = work.join("source");
        command::run(
            Command::new("cp")
                .args(["-r", "--no-preserve=mode"])
                .arg(module_folder(pinning, module)?)
                .arg(&folder),
        )?;
        let mod_file = work.join("go.mod");
        let pinned = pinning.join("go.mod");
        let mut text = fs::read_to_string(&pinned).map_err(Error::file(pinned))?;
        text.push_str(&format!("\nreplace {module} => {}\n", folder.display()));
        fs::write(&mod_file, text).map_err(Error::file(&mod_file))?;
        let sums = pinning.join("go.sum");
        fs::copy(&sums, work.join("go.sum")).map_err(Error::file(sums))?;
        Ok(ChangedModule { folder, mod_file })
    }

    /// Replaces `from`, which must be there as often as `count` says, in a file of the copy.
    pub fn edit(&self, file: &str, from: &str, to: &str, count: usize) -> Result<(), Error> {
        let path = self.folder.join(file);
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        let found = text.matches(from).count();
        if found != count {
            return Err(Error::Unexpected {
                what: path.display().to_string(),
                text: format!("{from:?} is there {found} times, not {count}"),
            });
        }
        fs::write(&path, text.replace(from, to)).map_err(Error::file(path))
    }
}

/// Empties a folder, or makes it.
pub fn fresh(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::file(folder)(error));
        }
        _ => {}
    }
    fs::create_dir_all(folder).map_err(Error::file(folder))
}
