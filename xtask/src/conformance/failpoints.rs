//! Servers with failpoints: ours by a feature, the real etcd's by gofail, which turns comments in
//! its source into code.

use super::changed_module::{ChangedModule, fresh};
use crate::command;
use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SERVER: &str = "go.etcd.io/etcd/server/v3";

/// Builds the server that the module in `pinning` pins with its failpoints, once for each content
/// of the module; gives its path. `real` is the folder with the binaries of that content.
pub fn real(pinning: &Path, real: &Path) -> Result<PathBuf, Error> {
    let binary = real.join("failpoints/etcd");
    if binary.is_file() {
        return Ok(binary);
    }
    eprintln!("building {} with failpoints ...", pinning.display());
    let work = real.join(format!("failpoints.{}", std::process::id()));
    fresh(&work)?;
    let server = ChangedModule::copy(pinning, SERVER, &work)?;
    let mut folders = Vec::new();
    with_failpoints(&server.folder, &mut folders)?;
    command::run(
        Command::new(real.join("gofail"))
            .arg("enable")
            .args(&folders),
    )?;
    command::run(
        Command::new("go")
            .arg("build")
            .arg(format!("-modfile={}", server.mod_file.display()))
            .arg("-o")
            .arg(work.join("etcd"))
            .arg(SERVER)
            .env("CGO_ENABLED", "0")
            .current_dir(pinning),
    )?;
    fs::remove_dir_all(&server.folder).map_err(Error::file(&server.folder))?;
    let folder = real.join("failpoints");
    fs::rename(&work, &folder).map_err(Error::file(folder))?;
    Ok(binary)
}

/// The folders below `folder` with a source file, not of tests, that has failpoints.
fn with_failpoints(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let mut here = false;
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        if path.is_dir() {
            with_failpoints(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "go") {
            let name = path.to_string_lossy();
            let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
            here |= !name.ends_with("_test.go") && text.contains("// gofail: var ");
        }
    }
    if here {
        found.push(folder.to_owned());
    }
    Ok(())
}

/// Builds ours; gives its path.
pub fn ours() -> Result<PathBuf, Error> {
    let root = crate::root();
    command::run(
        command::cargo()
            .args(["build", "--profile", "failpoints", "--package", "quorate"])
            .args(["--features", "failpoints"])
            .current_dir(&root),
    )?;
    Ok(super::binaries::cargo_target().join("failpoints/quorate"))
}
