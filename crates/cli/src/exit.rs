//! How a command ends: the exit codes and error lines that scripts branch on.

use crate::streams::write_err;
use std::fmt::Display;

/// An ordinary failure.
pub const ERROR: u8 = 1;
/// No connection, or the credentials were refused.
pub const BAD_CONNECTION: u8 = 2;
/// What was read from standard input is wrong.
pub const INVALID_INPUT: u8 = 3;
/// A flag has a value that is not supported.
pub const BAD_FEATURE: u8 = 4;
/// A stream was cut off.
pub const INTERRUPTED: u8 = 5;
/// Wrong arguments.
pub const BAD_ARGUMENTS: u8 = 128;

/// A command's end that is not success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process's exit code.
    pub code: u8,
    /// What is written after `Error: `; `None` where the command has said all there is to say.
    pub message: Option<String>,
}

impl Exit {
    /// Ends with this code and message.
    pub fn new(code: u8, message: impl Display) -> Exit {
        Exit {
            code,
            message: Some(message.to_string()),
        }
    }

    /// Ends as after an ordinary failure.
    pub fn error(message: impl Display) -> Exit {
        Exit::new(ERROR, message)
    }

    /// Ends since the arguments are wrong.
    pub fn bad_arguments(message: impl Display) -> Exit {
        Exit::new(BAD_ARGUMENTS, message)
    }

    /// Writes the message, where there is one, to standard error.
    pub fn tell(&self) {
        if let Some(message) = &self.message {
            write_err(format!("Error: {message}\n").as_bytes());
        }
    }

    /// Ends with a code alone.
    pub fn silent(code: u8) -> Exit {
        Exit {
            code,
            message: None,
        }
    }
}
