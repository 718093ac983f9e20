//! etcd's robustness suite without TLS between the members.
//!
//! The suite wants TLS there since one of its faults drops bytes of a connection, which only TLS
//! notices for sure. Without that fault the others can be had on plain connections.

use super::changed_module::{ChangedModule, fresh};
use crate::error::Error;
use std::path::{Path, PathBuf};

/// The module of etcd's suites.
const TESTS: &str = "go.etcd.io/etcd/tests/v3";

/// A copy of the suites' module with plain peers, below `work`; gives what `-modfile` takes.
pub fn prepare(pinning: &Path, work: &Path) -> Result<PathBuf, Error> {
    let work = work.join("plain-peers");
    fresh(&work)?;
    let tests = ChangedModule::copy(pinning, TESTS, &work)?;
    tests.edit(
        "framework/e2e/cluster.go",
        "\t\tif !cfg.IsPeerTLS {\n",
        "\t\tif false {\n",
        1,
    )?;
    tests.edit(
        "robustness/scenarios/scenarios.go",
        "e2e.WithIsPeerTLS(true)",
        "e2e.WithIsPeerTLS(false)",
        3,
    )?;
    tests.edit(
        "robustness/failpoint/failpoint.go",
        "\tDropPeerNetwork,\n",
        "",
        1,
    )?;
    Ok(tests.mod_file)
}
