//! quorateutl: what is done to the files of a member that does not run.
//!
//! Called as `etcdutl` it is one: same commands, texts and exit codes. Beyond it: checking, repairing
//! and looking into files. Invariants: a file that is only read is opened for reading; what is
//! written has another name until it is whole and durable, so that an error leaves nothing behind.
//!
//! Source: etcdutl 3.7.3, and etcd-dump-db and etcd-dump-logs of the same version.

mod check;
mod cli;
#[cfg(test)]
mod command_tests;
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
mod output;
mod peer_urls;
mod progress;
mod repair;
mod restore;
#[cfg(test)]
mod sample;
mod size;
mod status;
mod text_format;
mod unsynced;
mod version;

use std::path::Path;
use std::process::ExitCode;

/// The name under which nothing tells it from etcd's tool.
const ETCD_NAME: &str = "etcdutl";

/// Our own.
const OWN_NAME: &str = "quorateutl";

fn main() -> ExitCode {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let called = words.next().unwrap_or_default();
    let name = Path::new(&called)
        .file_name()
        .map(|name| name.to_string_lossy());
    let program = match name.as_deref() {
        Some(ETCD_NAME) => ETCD_NAME,
        _ => OWN_NAME,
    };
    let line: Vec<String> = words.collect();
    ExitCode::from(cli::run(&cli::command::ROOT, program, &line))
}
