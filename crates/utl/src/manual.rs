//! `manual`: a page for each command.

use crate::commands::program;
use crate::error::Failure;
use quorate_cli::{Invocation, pages};
use std::path::PathBuf;

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let dir = PathBuf::from(invocation.given.texts().concat());
    pages::manual(&program(invocation.program), &dir).map_err(Failure::io("write", &dir))
}
