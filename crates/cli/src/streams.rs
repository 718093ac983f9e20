//! The two streams that a program writes to.

use crate::exit::Exit;
use std::io::{self, Write};

/// The exit code of a program that SIGPIPE ends, as a shell shows it.
const BROKEN_PIPE: u8 = 128 + 13;

/// Writes to standard output. A reader that has gone ends the program quietly, as a signal would.
pub fn write_out(bytes: &[u8]) -> Result<(), Exit> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::silent(BROKEN_PIPE),
            _ => Exit::error(format_args!("write /dev/stdout: {error}")),
        })
}

/// Writes to standard error. There is nobody to tell when that fails.
pub fn write_err(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    let _unheard = stderr.write_all(bytes);
}
