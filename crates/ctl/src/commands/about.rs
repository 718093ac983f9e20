//! What the program says about itself: `help`, `options`, `version`.

use crate::cli::globals;
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, flags, help};

/// The version of etcd whose command line this is.
const ETCD_VERSION: &str = "3.7.3";
const API_VERSION: &str = "3.7";

/// `options`.
pub fn options_command() -> Command {
    flags::command(
        "options",
        "options",
        "Show the flags that every command takes",
    )
}

/// `version`.
pub fn version_command() -> Command {
    flags::command("version", "version", "Print the versions of PROGRAM")
}

/// Lists the flags of all commands.
pub fn options() -> Result<(), Exit> {
    let usages = help::flag_usages(globals::flags().iter());
    write_out(format!("The following options can be passed to any command:\n\n{usages}").as_bytes())
}

/// Prints the versions; its own is a line more, and only under its own name.
pub fn version(invocation: &Invocation) -> Result<(), Exit> {
    let mut text = format!("etcdctl version: {ETCD_VERSION}\nAPI version: {API_VERSION}\n");
    if invocation.program != "etcdctl" {
        text += &format!(
            "{} version: {}\n",
            invocation.program,
            env!("CARGO_PKG_VERSION")
        );
    }
    write_out(text.as_bytes())
}
