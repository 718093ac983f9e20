//! Opening a database that another process may have open.
//!
//! Its lock is waited for, as long as `--timeout` says; the lock is tried every 50 ms, as bbolt does.

use crate::error::Failure;
use quorate_bolt::{Db, Error, Options, Problem};
use quorate_disk::Disk;
use quorate_disk::real::RealDisk;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Time between two tries for the lock.
const RETRY: Duration = Duration::from_millis(50);

/// The page size that bbolt assumes of a file that does not tell.
const PAGE_BYTES: u64 = 4096;

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As long as it takes.
    Forever,
    /// So long.
    For(Duration),
}

impl Wait {
    /// As `--timeout` has it, in nanoseconds: 0 does not end, and what is negative is over, as in bbolt.
    pub fn from_flag(timeout: i64) -> Wait {
        match u64::try_from(timeout) {
            Ok(0) => Wait::Forever,
            Ok(nanos) => Wait::For(Duration::from_nanos(nanos)),
            Err(_negative) => Wait::For(Duration::ZERO),
        }
    }
}

/// The operating system's disk.
pub fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// Calls `open` until the database is not locked any more.
pub fn wait_for<T, E: From<Error>>(
    wait: Wait,
    path: &Path,
    mut open: impl FnMut() -> Result<T, E>,
    locked: impl Fn(&E) -> bool,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let begin = Instant::now();
    loop {
        match open() {
            Err(error) if locked(&error) => {
                if let Wait::For(limit) = wait
                    && begin.elapsed() + RETRY > limit
                {
                    let path = path.to_path_buf();
                    return Err(Failure::LockTimeout { path });
                }
                thread::sleep(RETRY);
            }
            other => return Ok(other?),
        }
    }
}

/// Opens for reading only; free pages are not looked for. What is no database is refused in bbolt's
/// words.
pub fn open_to_read(path: &Path, wait: Wait) -> Result<Db, Failure> {
    open_raw(path, wait).map_err(in_bbolts_words)
}

/// As [`open_to_read`], with the error as it is.
pub fn open_raw(path: &Path, wait: Wait) -> Result<Db, Failure> {
    let options = Options {
        read_only: true,
        initial_map_size: 0,
        ..Options::default()
    };
    open(path, &options, wait)
}

/// What bbolt says of a file that is no database.
fn in_bbolts_words(failure: Failure) -> Failure {
    const INVALID: &str = "invalid database";
    let Failure::Bolt(error) = failure else {
        return failure;
    };
    let text = match &error {
        Error::Io { source, .. } if source.kind() == ErrorKind::IsADirectory => INVALID.to_owned(),
        Error::NoMeta { path, first, .. } => match (std::fs::metadata(path), first) {
            (Ok(about), _) if about.len() < PAGE_BYTES => INVALID.to_owned(),
            (Ok(about), _) if about.len() < 2 * PAGE_BYTES => {
                format!("file size too small {}", about.len())
            }
            (_, Problem::Version(_)) => "version mismatch".to_owned(),
            (_, Problem::MetaChecksum) => "checksum error".to_owned(),
            _ => INVALID.to_owned(),
        },
        _ => return error.into(),
    };
    Failure::NoDatabase(text)
}

/// Opens a database that is there.
pub fn open(path: &Path, options: &Options, wait: Wait) -> Result<Db, Failure> {
    let open = || Db::open(disk(), path, options);
    wait_for(wait, path, open, |error| {
        matches!(error, Error::Locked { .. })
    })
}

/// An error in Go's words where the file is not there.
pub fn stat(path: &Path) -> Result<(), Failure> {
    std::fs::metadata(path).map_err(Failure::io("stat", path))?;
    Ok(())
}
