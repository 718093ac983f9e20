//! `completion`: scripts for shells, from the definitions.

use crate::cli::tree;
use quorate_cli::exit::Exit;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, pages};

/// Runs it; the line was read with the name of a shell.
pub fn run(invocation: &Invocation) -> Result<(), Exit> {
    let program = tree::program(invocation.program);
    let shell = invocation.given.texts().concat();
    pages::completion(&program, &shell).map_or(Ok(()), |script| write_out(&script))
}
