//! The data directory as it is found at the start: what is in it, and whether it can be written.
//! Each refusal has etcd's text.

use quorate_go::system;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Name of a file that is made and removed again, to see whether that is allowed.
const PROBE: &str = ".touch";

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Its names could not be read.
    #[error("readdirent {path}: {why}")]
    List {
        /// The directory.
        path: String,
        /// The system's answer.
        why: String,
    },
    /// It could not be made, or nothing can be made in it.
    #[error("cannot access data directory: {action} {path}: {why}")]
    Access {
        /// mkdir or open.
        action: &'static str,
        /// What was made.
        path: String,
        /// The system's answer.
        why: String,
    },
}

/// Looks what is in the directory, which need not be there. Names that do not belong there are
/// told.
pub fn look(dir: &Path) -> Result<(), DataDirError> {
    let failed = |error: io::Error| DataDirError::List {
        path: dir.display().to_string(),
        why: system::text(&error),
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if name == "member" {
            tracing::info!(
                "data-dir" = %dir.display(),
                "dir-type" = "member",
                "server has already been initialized"
            );
        } else {
            tracing::warn!(
                "filename" = %name.display(),
                "data-dir" = %dir.display(),
                "found invalid file under data directory"
            );
        }
    }
    Ok(())
}

/// Makes the directory where it is not there, and sees whether files can be made in it.
pub fn prepare(dir: &Path) -> Result<(), DataDirError> {
    let denied = |action, path: &Path, error: &io::Error| DataDirError::Access {
        action,
        path: path.display().to_string(),
        why: system::text(error),
    };
    match fs::metadata(dir) {
        Ok(found) => {
            let mode = found.permissions().mode() & 0o777;
            if mode & 0o077 != 0 || mode & 0o700 != 0o700 {
                let error = format!(
                    "directory \"{}\" exist, but the permission is \"d{}\". The recommended \
                     permission is \"-rwx------\" to prevent possible unprivileged access to the data",
                    dir.display(),
                    spell_mode(mode)
                );
                tracing::warn!("error" = error.as_str(), "check file permission");
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder
                .create(dir)
                .map_err(|error| denied("mkdir", dir, &error))?;
        }
        Err(error) => return Err(denied("stat", dir, &error)),
    }
    let probe = dir.join(PROBE);
    fs::write(&probe, b"").map_err(|error| denied("open", &probe, &error))?;
    fs::remove_file(&probe).map_err(|error| denied("remove", &probe, &error))
}

/// rwx for owner, group and others.
fn spell_mode(mode: u32) -> String {
    (0..9)
        .map(|bit| {
            if mode & (0o400 >> bit) != 0 {
                ['r', 'w', 'x'][bit % 3]
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A directory of this test's own, gone with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("quorate-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_file_is_no_directory() {
        let scratch = Scratch::new("file");
        let file = scratch.0.join("file");
        fs::write(&file, b"").unwrap();
        let path = file.display();
        assert_eq!(
            look(&file).unwrap_err().to_string(),
            format!("readdirent {path}: not a directory")
        );
        let below = file.join("x");
        assert!(matches!(
            prepare(&below).unwrap_err(),
            DataDirError::Access { action: "stat", .. }
        ));
    }

    #[test]
    fn a_new_directory_is_the_owners_and_nothing_stays_in_it() {
        let scratch = Scratch::new("new");
        let dir = scratch.0.join("a/b");
        look(&dir).unwrap();
        prepare(&dir).unwrap();
        prepare(&dir).unwrap();
        let mode = fs::metadata(&dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn modes() {
        assert_eq!(spell_mode(0o755), "rwxr-xr-x");
        assert_eq!(spell_mode(0o500), "r-x------");
    }
}
