//! Programs started by a task.

use crate::error::Error;
use std::process::{Command, Stdio};

/// What a command is, for messages.
pub fn line(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Runs it with this process's output, to its end.
pub fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(start(command))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Program {
            command: line(command),
            status,
        })
    }
}

/// Runs it to its end and gives what it printed, trimmed; its errors go to this process's.
pub fn output(command: &mut Command) -> Result<String, Error> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(start(command))?;
    if !output.status.success() {
        return Err(Error::Program {
            command: line(command),
            status: output.status,
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The error of a command that did not start.
pub fn start(command: &Command) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let program = command.get_program().to_string_lossy().into_owned();
    move |error| Error::Start { program, error }
}

/// Cargo, the one that runs this.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
