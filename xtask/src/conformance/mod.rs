//! The suites that hold the server against the real etcd.
//!
//! `conformance/` is a Go module that pins the real etcd, its tools, its own test suites and our
//! own black-box tests. Everything that is built from it lies in target/conformance:
//!
//! - `real/HASH/`: the real binaries, built once for each content of the module's go.mod, and in
//!   its folder `failpoints` the server with its failpoints;
//! - `bin/SUITE/`: what a suite runs, under etcd's names, as links to ours or to the real ones;
//! - `SUITE.test`, `SUITE.log`: a suite's test program, and all that its last run printed.
//!
//! A suite runs in network, process and mount namespaces of its own: etcd's suites have fixed ports,
//! and nothing that a test started outlives it.

use crate::command;
use crate::error::Error;
use arguments::{Arguments, Suite};
use std::path::{Path, PathBuf};
use std::process::Command;

mod arguments;
mod binaries;
mod changed_module;
mod failpoints;
mod go_suite;
mod golden;
mod passing;
mod pattern;
mod plain_peers;
mod results;
mod robustness;

use binaries::Binaries;

/// Runs one suite; the last line it prints has the counts.
pub fn run(arguments: &[String]) -> Result<(), Error> {
    let arguments = Arguments::parse(arguments)?;
    match arguments.suite {
        Suite::Raft => golden::run(),
        Suite::Robustness => robustness::run(&arguments, &Binaries::prepare(&arguments)?),
        _ => go_suite::run(&arguments, &Binaries::prepare(&arguments)?),
    }
}

/// The conformance module's folder.
fn module() -> PathBuf {
    crate::root().join("conformance")
}

/// Where all that is built for the suites lies.
fn work() -> PathBuf {
    crate::root().join("target/conformance")
}

/// `go` in the conformance module.
fn go() -> Command {
    let mut go = Command::new("go");
    go.current_dir(module());
    go
}

/// The folder of a module that the module in `pinning` pins.
fn module_folder(pinning: &Path, module: &str) -> Result<String, Error> {
    let go = || {
        let mut go = Command::new("go");
        go.current_dir(pinning);
        go
    };
    command::run(go().args(["mod", "download", module]))?;
    let folder = command::output(go().args(["list", "-m", "-f", "{{.Dir}}", module]))?;
    if folder.is_empty() {
        return Err(Error::Unexpected {
            what: "go list".to_owned(),
            text: format!("no folder for {module}"),
        });
    }
    Ok(folder)
}
