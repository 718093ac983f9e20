//! Licences, banned crates and duplicate versions, checked by cargo-deny.
//!
//! The tool is installed into target/tools, at a pinned version, when it is not there yet.

use crate::command;
use crate::error::Error;

const VERSION: &str = "0.18.9";

/// Runs `cargo deny check` with deny.toml.
pub fn run() -> Result<(), Error> {
    let root = crate::root();
    let tools = root
        .join("target/tools")
        .join(format!("cargo-deny-{VERSION}"));
    let tool = tools.join("bin/cargo-deny");
    if !tool.is_file() {
        command::run(
            command::cargo()
                .args([
                    "install",
                    "--locked",
                    "--version",
                    VERSION,
                    "cargo-deny",
                    "--root",
                ])
                .arg(&tools)
                .env("CARGO_TARGET_DIR", root.join("target/tools/build"))
                .current_dir(&root),
        )?;
    }
    // Advisories need the network and change without a change here: they are not checked.
    command::run(
        std::process::Command::new(tool)
            .args(["check", "bans", "licenses", "sources"])
            .current_dir(&root),
    )
}
