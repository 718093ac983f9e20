//! The hidden command that writes the manual pages, for packages.

use crate::cli::tree;
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::{Invocation, flags, pages};
use quorate_go::system;
use std::path::PathBuf;

/// The command's name: one that no command is cut to.
pub const NAME: &str = "__man";

/// The definition.
pub fn command() -> Command {
    flags::command(
        NAME,
        "__man <directory>",
        "Write the manual pages into a directory",
    )
    .hide(true)
}

/// Runs it.
pub fn run(invocation: &Invocation) -> Result<(), Exit> {
    let [directory] = &invocation.given.texts()[..] else {
        return Err(Exit::bad_arguments("a directory is wanted"));
    };
    let directory = PathBuf::from(directory);
    let failed = |error| {
        Exit::error(format_args!(
            "{}: {}",
            directory.display(),
            system::text(&error)
        ))
    };
    std::fs::create_dir_all(&directory).map_err(failed)?;
    pages::manual(&tree::program(invocation.program), &directory).map_err(failed)
}
