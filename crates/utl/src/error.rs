//! What a command can fail with, its text and its exit code.

use quorate_cli::exit::{self, Exit};
use quorate_go::system;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments make no sense together.
    #[error("{0}")]
    Arguments(String),
    /// An output format that there is not for this.
    #[error("{0}")]
    Format(String),
    /// An end that the command line knows by itself.
    #[error("{}", .0.message.as_deref().unwrap_or_default())]
    Exit(Exit),
    /// The command's own reason.
    #[error("{0}")]
    Reason(String),
    /// The operating system refused; in Go's words.
    #[error("{action} {}: {}", path.display(), system::text(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// Another process has the database for longer than we wait.
    #[error("failed to open database {}: timeout", path.display())]
    LockTimeout {
        /// The database.
        path: PathBuf,
    },
    /// A database that cannot be opened, where etcd would panic.
    #[error(transparent)]
    Unopened(Box<Failure>),
    /// A file that is no database, in bbolt's words.
    #[error("{0}")]
    NoDatabase(String),
    /// The database file.
    #[error(transparent)]
    Bolt(#[from] quorate_bolt::Error),
    /// The log or a snapshot file.
    #[error(transparent)]
    Wal(#[from] quorate_wal::WalError),
    /// What the database holds.
    #[error(transparent)]
    Store(#[from] quorate_store::Error),
    /// Everything was said already; the exit code is left to tell.
    #[error("what was checked is not whole")]
    Unsound,
}

impl Failure {
    /// To be used with `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Failure {
        let path = path.to_path_buf();
        move |source| Failure::Io {
            action,
            path: path.clone(),
            source,
        }
    }

    /// To be used with `map_err` where a database is opened that etcd panics without.
    pub fn unopened(self) -> Failure {
        Failure::Unopened(Box::new(self))
    }

    /// The exit code: the command line's numbers.
    fn exit_code(&self) -> u8 {
        match self {
            Failure::Arguments(_) => exit::BAD_ARGUMENTS,
            Failure::Format(_) => exit::BAD_FEATURE,
            Failure::Exit(exit) => exit.code,
            Failure::LockTimeout { .. } | Failure::Unopened(_) => PANIC,
            Failure::Reason(_)
            | Failure::Io { .. }
            | Failure::NoDatabase(_)
            | Failure::Bolt(_)
            | Failure::Wal(_)
            | Failure::Store(_)
            | Failure::Unsound => exit::ERROR,
        }
    }
}

/// With what a Go program that panics ends.
const PANIC: u8 = 2;

impl From<Exit> for Failure {
    fn from(exit: Exit) -> Failure {
        Failure::Exit(exit)
    }
}

impl From<Failure> for Exit {
    fn from(failure: Failure) -> Exit {
        match failure {
            Failure::Exit(exit) => exit,
            // All was said.
            Failure::Unsound => Exit::silent(failure.exit_code()),
            other => Exit::new(other.exit_code(), &other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_spells_errors_in_lower_case() {
        let error = io::Error::from_raw_os_error(2);
        let failure = Failure::io("stat", Path::new("/x"))(error);
        assert_eq!(
            Exit::from(failure),
            Exit::error("stat /x: no such file or directory")
        );
    }
}
