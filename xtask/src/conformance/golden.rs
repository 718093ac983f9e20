//! The golden traces of etcd's raft module, replayed on our core.
//!
//! The traces are read from the module's folder; they are no part of this project.

use super::{module, module_folder};
use crate::command;
use crate::error::Error;

/// Replays all of them; the program prints the counts last, and fails where a file is missing.
pub fn run() -> Result<(), Error> {
    let folder = module_folder(&module(), "go.etcd.io/raft/v3")?;
    command::run(
        command::cargo()
            .args(["run", "--quiet", "--release", "--package", "quorate-raft"])
            .args(["--example", "golden", "--"])
            .arg(folder)
            .current_dir(crate::root()),
    )
}
