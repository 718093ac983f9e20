//! quorateutl: what is done to the files of a member that does not run.
//!
//! Called as `etcdutl` it is one: same commands, texts and exit codes. Beyond it: checking, repairing
//! and looking into files. Invariants: a file that is only read is opened for reading; what is
//! written has another name until it is whole and durable, so that an error leaves nothing behind.
//!
//! Source: etcdutl 3.7.3, and etcd-dump-db and etcd-dump-logs of the same version.

mod check;
#[cfg(test)]
mod command_tests;
mod commands;
mod completion;
mod database;
mod defrag;
mod dump_db;
mod dump_wal;
mod error;
mod hashkv;
mod layout;
mod log;
mod log_entries;
mod manual;
mod migrate;
mod names;
mod output;
mod peer_urls;
mod repair;
mod restore;
#[cfg(test)]
mod sample;
mod size;
mod status;
mod text_format;
mod unsynced;
mod version;

use quorate_cli::streams::{write_err, write_out};
use quorate_cli::{Exit, Parsed, parse};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The name under which nothing tells it from etcd's tool.
const ETCD_NAME: &str = "etcdutl";

/// Our own.
const OWN_NAME: &str = "quorateutl";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments
        .first()
        .and_then(|path| Path::new(path).file_name());
    let name = match called.is_some_and(|called| called == ETCD_NAME) {
        true => ETCD_NAME,
        false => OWN_NAME,
    };
    ExitCode::from(run(name, &arguments))
}

/// Runs a line, the program's name first, and gives the exit code.
fn run(name: &'static str, arguments: &[OsString]) -> u8 {
    let ended = match parse(&commands::program(name), arguments) {
        Parsed::Run(invocation) => commands::run(&invocation).map_err(Exit::from),
        Parsed::Help(text) => write_out(text.as_bytes()),
        Parsed::Wrong(text, code) => {
            write_err(text.as_bytes());
            return code;
        }
    };
    match ended {
        Ok(()) => 0,
        Err(exit) => {
            exit.tell();
            exit.code
        }
    }
}
