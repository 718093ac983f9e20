//! `snapshot save`: a member's database as a file.
//!
//! Invariants: the file appears under its name when all of it is on the disk and its digest is
//! right; until then it is `NAME.part`, which one process at a time has, and which goes away on
//! failure.

use crate::failure::Failure;
use crate::session::{Session, Setting};
use clap::Command;
use quorate_cli::exit::{self, Exit};
use quorate_cli::progress::Progress;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, flags};
use quorate_go::system;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The definition.
pub fn command() -> Command {
    flags::command(
        "snapshot",
        "snapshot <subcommand>",
        "Save snapshots of a member",
    )
    .after_help(EXAMPLES)
    .subcommand(
        flags::command(
            "save",
            "save <filename>",
            "Save a member's database to a file",
        )
        .after_help(EXAMPLES),
    )
}

const EXAMPLES: &str = "  # The database of the member at the default endpoint
  PROGRAM snapshot save today.db

  # Of another one, over TLS
  PROGRAM snapshot save --endpoints=https://10.0.0.7:2379 --cacert=ca.pem --cert=me.pem --key=me.key today.db

  # As a user whose password is asked for, and with the day in the file's name
  PROGRAM snapshot save --user=operator /var/backups/$(date +%F).db";

/// Runs `save`.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let [path] = &invocation.given.arguments()[..] else {
        return Err(Exit::bad_arguments(
            "snapshot save expects one argument <filename>",
        ));
    };
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.clone()));
    let setting = Setting::of(invocation).await?;
    let interrupted = |reason: String| Exit::new(exit::INTERRUPTED, reason);
    let [endpoint] = &setting.endpoints[..] else {
        let all = setting.endpoints.join(" ");
        return Err(interrupted(format!(
            "snapshot must be requested to one selected node, not multiple [{all}]"
        )));
    };
    let session = setting
        .connect(std::slice::from_ref(endpoint))
        .await
        .map_err(|exit| Exit {
            code: exit::INTERRUPTED,
            ..exit
        })?;
    let part = Part::create(&path).map_err(interrupted)?;
    let version = match setting.globals.command_timeout_given {
        true => {
            session
                .within(async { Ok(save(&session, part, &path).await) })
                .await
        }
        false => Ok(save(&session, part, &path).await),
    };
    let version = version
        .map_err(|failure| interrupted(failure.to_string()))?
        .map_err(interrupted)?;
    write_out(format!("Snapshot saved at {}\n", path.display()).as_bytes())?;
    match version.as_str() {
        "" => Ok(()),
        version => write_out(format!("Server version {version}\n").as_bytes()),
    }
}

/// The file that is being written.
struct Part {
    path: PathBuf,
    file: File,
    has_its_name: bool,
}

impl Part {
    fn create(target: &Path) -> Result<Part, String> {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        match claim(&path) {
            Ok(file) => Ok(Part {
                path,
                file,
                has_its_name: false,
            }),
            Err(error) => {
                let (path, reason) = (path.display(), system::text(&error));
                Err(format!("could not open {path} (open {path}: {reason})"))
            }
        }
    }
}

impl Part {
    /// Gives it its name.
    fn publish(&mut self, target: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, target)?;
        self.has_its_name = true;
        Ok(())
    }
}

/// Opens a file for this process alone, and empties it. What a process left that has ended is taken
/// over; one that is still at it has the file locked.
fn claim(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let text = "another snapshot is being saved there";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        // Between opening and locking it may have got its final name.
        let (ours, named) = (file.metadata()?, std::fs::metadata(path));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())) {
            // A device has no length.
            if ours.is_file() {
                file.set_len(0)?;
            }
            return Ok(file);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // What is there after a rename is another's.
        if !self.has_its_name {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Receives, checks and names the file. Gives the server's version.
async fn save(session: &Session, mut part: Part, path: &Path) -> Result<String, String> {
    let failure = |error| Failure::from(error).as_status();
    let mut snapshot = session.client.snapshot().await.map_err(failure)?;
    let mut check = Check::default();
    let mut version = String::new();
    let mut bar: Option<Progress> = None;
    while let Some(piece) = snapshot.next().await.map_err(|error| match bar {
        // Some of it was written.
        Some(_) => format!("could not write snapshot: {}", failure(error)),
        None => failure(error),
    })? {
        let received = piece.blob.len() as u64;
        let bar =
            bar.get_or_insert_with(|| Progress::bytes("saving", received + piece.remaining_bytes));
        if version.is_empty() {
            version = piece.version;
        }
        part.file.write_all(&piece.blob).map_err(|error| {
            format!("could not write snapshot: {}", written(&part.path, &error))
        })?;
        check.update(&piece.blob);
        bar.add(received);
    }
    drop(bar);
    check.finish()?;
    part.file
        .sync_all()
        .map_err(|error| format!("could not fsync snapshot: {}", system::text(&error)))?;
    part.publish(path).map_err(|error| {
        let (from, to) = (part.path.display(), path.display());
        // Go looks before it renames.
        let reason = match path.is_dir() {
            true => "file exists".to_owned(),
            false => system::text(&error),
        };
        format!("could not rename {from} to {to} (rename {from} {to}: {reason})")
    })?;
    sync_directory(path);
    Ok(version)
}

fn written(path: &Path, error: &io::Error) -> String {
    format!("write {}: {}", path.display(), system::text(error))
}

/// Makes the name as durable as the file. Where directories cannot be synced, the system does it.
fn sync_directory(path: &Path) {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let _ = File::open(parent).and_then(|directory| directory.sync_all());
}

/// The digest at the end of what is received is of all before it, and the database is whole
/// sectors.
#[derive(Default)]
struct Check {
    digest: Sha256,
    length: u64,
    /// The last bytes, which may be the digest.
    tail: Vec<u8>,
}

const DIGEST_BYTES: usize = 32;
const SECTOR_BYTES: u64 = 512;

impl Check {
    fn update(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        self.tail.extend_from_slice(piece);
        let done = self.tail.len().saturating_sub(DIGEST_BYTES);
        self.digest.update(&self.tail[..done]);
        self.tail.drain(..done);
    }

    fn finish(self) -> Result<(), String> {
        if self.length % SECTOR_BYTES != DIGEST_BYTES as u64 {
            return Err(format!(
                "sha256 checksum not found [bytes: {}]",
                self.length
            ));
        }
        match self.digest.finalize().as_slice() == self.tail {
            true => Ok(()),
            false => Err(format!(
                "sha256 checksum does not match [bytes: {}]",
                self.length
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&[u8]]) -> Result<(), String> {
        let mut check = Check::default();
        pieces.iter().for_each(|piece| check.update(piece));
        check.finish()
    }

    #[test]
    fn one_snapshot_at_a_time_is_saved_under_a_name() {
        let folder = std::env::temp_dir().join(format!("quoratectl-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let target = folder.join("s.db");
        let left = folder.join("s.db.part");
        std::fs::write(&left, "what a process left").expect("a file");
        let mut part = Part::create(&target).expect("nobody is at it");
        assert_eq!(part.file.metadata().expect("metadata").len(), 0);
        let error = Part::create(&target).err().expect("it is taken");
        assert!(error.contains("another snapshot is being saved"), "{error}");
        part.publish(&target).expect("renamed");
        let other = Part::create(&target).expect("the name is free again");
        drop(part);
        assert!(target.exists() && left.exists());
        drop(other);
        assert!(target.exists() && !left.exists());
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn the_digest_is_checked() {
        let database = [7; 1024];
        let digest = Sha256::digest(database);
        assert_eq!(
            check(&[&database[..100], &database[100..], &digest]),
            Ok(())
        );
        let whole = [&database[..], &digest[..]].concat();
        assert_eq!(check(&[&whole[..1030], &whole[1030..]]), Ok(()));
        assert_eq!(
            check(&[&database]),
            Err("sha256 checksum not found [bytes: 1024]".to_owned())
        );
        let wrong = [&database[..], &[0; 32]].concat();
        assert_eq!(
            check(&[&wrong]),
            Err("sha256 checksum does not match [bytes: 1056]".to_owned())
        );
    }
}
