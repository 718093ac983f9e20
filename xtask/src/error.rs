//! What can go wrong in a task.

use std::io;
use std::path::PathBuf;

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A file or folder could not be read or written.
    #[error("{path}: {error}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {error}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// A program ended with a failure.
    #[error("{command} failed with {status}")]
    Program {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// A program or file said something that was not expected.
    #[error("{what}: {text}")]
    Unexpected {
        /// Where it came from.
        what: String,
        /// What it was.
        text: String,
    },
    /// A regular expression that is none.
    #[error("bad pattern: {0}")]
    Pattern(#[from] regex::Error),
    /// A check did not hold; its findings are printed.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// An error of the file system at `path`.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |error| Error::File { path, error }
    }
}
