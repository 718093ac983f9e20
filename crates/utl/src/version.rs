//! `version`.

use crate::ETCD_NAME;
use crate::error::Failure;
use quorate_cli::Invocation;
use quorate_cli::streams::write_out;

/// The etcd that it is compatible with.
const ETCD_VERSION: &str = "3.7.3";
const API_VERSION: &str = "3.7";

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    if invocation.program != ETCD_NAME {
        let own = env!("CARGO_PKG_VERSION");
        write_out(format!("quorateutl version: {own}\n").as_bytes())?;
    }
    write_out(format!("etcdutl version: {ETCD_VERSION}\nAPI version: {API_VERSION}\n").as_bytes())?;
    Ok(())
}
