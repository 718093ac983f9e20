//! `completion`: a script that completes the command line in a shell.

use crate::commands::program;
use crate::error::Failure;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, pages};

/// Runs the command; the line was read with the name of a shell.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let shell = invocation.given.texts().concat();
    match pages::completion(&program(invocation.program), &shell) {
        Some(script) => Ok(write_out(&script)?),
        None => Ok(()),
    }
}
