//! `completion`: a script that completes the command line in a shell.

use crate::cli::command::ROOT;
use crate::cli::{Invocation, pages, print};
use crate::error::Failure;

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let script = pages::completion(&ROOT, &invocation.program, &invocation.args[0]);
    print(&script.expect("the command line takes the names of known shells only"));
    Ok(())
}
