//! The binaries that a suite runs: the real ones, built from the pinned modules, and ours.
//!
//! The real ones are built once for each content of go.mod and go.sum: into a folder beside,
//! renamed into place when all of them are there.

use super::arguments::{Arguments, NAMES, Release};
use super::{failpoints, module, work};
use crate::command;
use crate::error::Error;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where everything is.
pub struct Binaries {
    /// The folder with `etcd`, `etcdctl` and `etcdutl` as the suite is to see them.
    pub folder: PathBuf,
    /// The real etcd, etcdctl, etcdutl and bbolt.
    pub real: PathBuf,
    /// The real etcd of the release before.
    pub before: PathBuf,
    /// What the suite takes for the last release.
    pub last: Option<PathBuf>,
}

impl Binaries {
    /// Builds what is not there, and links what the suite runs.
    pub fn prepare(arguments: &Arguments) -> Result<Binaries, Error> {
        let names = ["etcd", "etcdctl", "etcdutl", "bbolt", "gofail"];
        let real = build_real(&module(), &names)?;
        let before = build_real(&module().join("last"), &["etcd", "gofail"])?;
        let real_server = |release| match (release, arguments.failpoints) {
            (Release::Same, false) => Ok(real.join("etcd")),
            (Release::Same, true) => failpoints::real(&module(), &real),
            (Release::Before, false) => Ok(before.join("etcd")),
            (Release::Before, true) => failpoints::real(&module().join("last"), &before),
        };
        let folder = work().join("bin").join(arguments.suite.name());
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        for name in NAMES {
            let is_real = arguments.real.iter().any(|real| real == name);
            let target = match (name, is_real) {
                ("etcd", true) => real_server(Release::Same)?,
                (_, true) => real.join(name),
                (_, false) => ours(name, arguments)?,
            };
            if !target.is_file() {
                return Err(Error::Failed(format!("{} is not there", target.display())));
            }
            link(&target, &folder.join(name))?;
        }
        Ok(Binaries {
            folder,
            last: arguments.last.map(real_server).transpose()?,
            before: before.join("etcd"),
            real,
        })
    }
}

/// Our binary for one of etcd's names, built where needed.
fn ours(name: &str, arguments: &Arguments) -> Result<PathBuf, Error> {
    let package = match name {
        "etcd" => "quorate",
        "etcdctl" => "quoratectl",
        _ => "quorateutl",
    };
    if let Some(folder) = &arguments.binaries {
        return Ok(folder.join(package));
    }
    if name == "etcd" && arguments.failpoints {
        return failpoints::ours();
    }
    command::run(
        command::cargo()
            .args(["build", "--release", "--package", package])
            .current_dir(crate::root()),
    )?;
    Ok(cargo_target().join("release").join(package))
}

/// Where cargo puts what it builds.
pub fn cargo_target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    crate::root().join(target)
}

/// Builds a module's tools; gives the folder that has them.
fn build_real(module: &Path, names: &[&str]) -> Result<PathBuf, Error> {
    let work = work();
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        let path = module.join(file);
        hash.update(fs::read(&path).map_err(Error::file(&path))?);
    }
    let mut key = String::new();
    for byte in &hash.finalize()[..8] {
        write!(key, "{byte:02x}").expect("a string takes everything");
    }
    let folder = work.join("real").join(&key);
    if folder.is_dir() {
        return Ok(folder);
    }
    eprintln!("building the real binaries of {} ...", module.display());
    let fresh = work
        .join("real")
        .join(format!("{key}.{}", std::process::id()));
    fs::create_dir_all(&fresh).map_err(Error::file(&fresh))?;
    command::run(
        Command::new("go")
            .args(["install", "tool"])
            .env("GOBIN", &fresh)
            .env("CGO_ENABLED", "0")
            .current_dir(module),
    )?;
    // The package's folder, and so its binary, is called after its part in etcd's repository.
    let server = fresh.join("server");
    fs::rename(&server, fresh.join("etcd")).map_err(Error::file(&server))?;
    for name in names {
        let binary = fresh.join(name);
        fs::metadata(&binary).map_err(Error::file(&binary))?;
    }
    fs::rename(&fresh, &folder).map_err(Error::file(&folder))?;
    Ok(folder)
}

/// Makes `name` a link to `target`, whatever it was.
fn link(target: &Path, name: &Path) -> Result<(), Error> {
    match fs::remove_file(name) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::File {
                path: name.to_owned(),
                error,
            });
        }
        _ => {}
    }
    std::os::unix::fs::symlink(target, name).map_err(Error::file(name))
}
