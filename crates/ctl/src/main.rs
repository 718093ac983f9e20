//! `quoratectl`: the command-line client. Called by the name `etcdctl` it is etcdctl 3.7.3: the
//! same commands, flags, variables, output, streams and exit codes.
//!
//! Invariants:
//! - What a script can see is etcdctl's: standard output, and standard error where that is no
//!   terminal, carry nothing of our own.
//! - An answer is printed after the call that gave it, and nothing after a failure.
//!
//! Source: etcdctl 3.7.3 as it behaves, and the printed forms that come from Go's libraries.

mod cli;
mod commands;
mod discovery;
mod failure;
mod hints;
mod kubernetes;
mod print;
mod ranges;
mod session;
mod signals;
mod terminal;
mod words;

use cli::tree;
use quorate_cli::streams::{write_err, write_out};
use quorate_cli::{Invocation, Parsed, exit, parse};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let code = match parse(&tree::program(program(&arguments)), &arguments) {
        Parsed::Run(invocation) => run(&invocation),
        Parsed::Help(text) => write_out(text.as_bytes()).map_or_else(|exit| exit.code, |()| 0),
        Parsed::Wrong(text, code) => {
            write_err(text.as_bytes());
            code
        }
    };
    ExitCode::from(code)
}

/// The name that help and scripts use.
fn program(arguments: &[OsString]) -> &'static str {
    let called = arguments
        .first()
        .and_then(|path| Path::new(path).file_name());
    match called.is_some_and(|name| name == "etcdctl") {
        true => "etcdctl",
        false => "quoratectl",
    }
}

/// Runs a command to its end.
fn run(invocation: &Invocation) -> u8 {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            write_err(format!("Error: {}\n", quorate_go::system::text(&error)).as_bytes());
            return exit::ERROR;
        }
    };
    let result = runtime.block_on(commands::run(invocation));
    let code = match result {
        Ok(()) => 0,
        Err(exit) => {
            exit.tell();
            if let Some(message) = &exit.message {
                runtime.block_on(hints::give(invocation, message));
            }
            exit.code
        }
    };
    // Nothing waits for what is still under way: a read from a terminal would never end.
    runtime.shutdown_background();
    code
}
