//! `manual`: a page for each command.

use crate::cli::command::ROOT;
use crate::cli::{Invocation, pages};
use crate::error::Failure;
use std::path::Path;

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let dir = Path::new(&invocation.args[0]);
    pages::manual(&ROOT, &invocation.program, dir).map_err(Failure::io("write", dir))
}
