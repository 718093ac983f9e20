//! What a command can fail with, its text and its exit code.

use std::io;
use std::path::{Path, PathBuf};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments make no sense together.
    #[error("{0}")]
    Arguments(String),
    /// An output format that there is not, or not for this.
    #[error("{0}")]
    Format(String),
    /// The command's own reason.
    #[error("{0}")]
    Reason(String),
    /// The operating system refused; in Go's words.
    #[error("{action} {}: {}", path.display(), go_text(source))]
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

    /// What the user is told; `None` where he was.
    pub fn text(&self) -> Option<String> {
        match self {
            Failure::Unsound => None,
            other => Some(other.to_string()),
        }
    }

    /// The exit code: cobrautl's numbers, and 2, with which a Go program panics.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Arguments(_) => 128,
            Failure::Format(_) => 4,
            Failure::LockTimeout { .. } => 2,
            Failure::Bolt(bolt) | Failure::Store(quorate_store::Error::Bolt(bolt))
                if is_no_database(bolt) =>
            {
                2
            }
            Failure::Reason(_)
            | Failure::Io { .. }
            | Failure::NoDatabase(_)
            | Failure::Bolt(_)
            | Failure::Wal(_)
            | Failure::Store(_)
            | Failure::Unsound => 1,
        }
    }
}

/// Whether etcd panics, since what it means to change is no database.
fn is_no_database(error: &quorate_bolt::Error) -> bool {
    matches!(error, quorate_bolt::Error::NoMeta { .. })
}

/// An operating system's error as Go spells it: the system's text, in lower case, without a number.
pub fn go_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
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
            failure.text().unwrap(),
            "stat /x: no such file or directory"
        );
        assert_eq!(failure.exit_code(), 1);
    }
}
