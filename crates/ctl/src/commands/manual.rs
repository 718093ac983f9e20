//! The hidden command that writes the manual pages, for packages.

use crate::cli::{Invocation, flags, tree};
use crate::exit::Exit;
use crate::failure::system;
use clap::Command;
use std::path::{Path, PathBuf};

/// The command's name: one that no command is cut to.
pub const NAME: &str = "__man";

/// The definition.
pub fn command() -> Command {
    flags::command(
        NAME,
        "__man <directory>",
        "Writes the manual pages into a directory",
    )
    .hide(true)
}

/// Runs it.
pub fn run(invocation: &Invocation) -> Result<(), Exit> {
    let [directory] = &invocation.given.texts()[..] else {
        return Err(Exit::bad_arguments("a directory is wanted"));
    };
    let directory = PathBuf::from(directory);
    let failed = |error| Exit::error(format_args!("{}: {}", directory.display(), system(&error)));
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let mut root = tree::root(invocation.program).disable_help_subcommand(true);
    root.build();
    pages(&root, "", &directory).map_err(failed)
}

/// The page of a command whose parents have these names, and those of its own commands.
fn pages(command: &Command, parents: &str, directory: &Path) -> std::io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let usage = format!("{parents}{}", usage.trim_start_matches("Usage: "));
    let page = clap_mangen::Man::new(command.clone().override_usage(usage));
    let parents = format!("{parents}{} ", command.get_name());
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(directory.join(page.get_filename()), text)?;
    command
        .get_subcommands()
        .filter(|child| !child.is_hide_set())
        .try_for_each(|child| pages(child, &parents, directory))
}
