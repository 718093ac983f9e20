//! Which crate of the workspace may depend on which.
//!
//! The architecture is a graph: a crate may use those named here and no others, in its tests and
//! build scripts too. The disk is apart: any crate's tests may use it, for its faulty
//! implementation. Source: ARCHITECTURE.md.

use crate::command;
use crate::error::Error;
use serde_json::Value;
use std::collections::BTreeSet;

/// A package and those it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("quorate-raft", &[]),
    ("quorate-disk", &[]),
    ("quorate-failpoints", &[]),
    ("quorate-api", &[]),
    ("quorate-bolt", &["quorate-disk"]),
    (
        "quorate-wal",
        &["quorate-raft", "quorate-disk", "quorate-failpoints"],
    ),
    (
        "quorate-store",
        &[
            "quorate-api",
            "quorate-bolt",
            "quorate-disk",
            "quorate-failpoints",
        ],
    ),
    (
        "quorate-node",
        &[
            "quorate-raft",
            "quorate-wal",
            "quorate-store",
            "quorate-bolt",
            "quorate-api",
            "quorate-disk",
            "quorate-failpoints",
        ],
    ),
    (
        "quorate",
        &[
            "quorate-node",
            "quorate-api",
            "quorate-failpoints",
            "quorate-go",
        ],
    ),
    ("quorate-client", &["quorate-api"]),
    ("quorate-go", &[]),
    ("quorate-cli", &["quorate-go"]),
    (
        "quoratectl",
        &["quorate-cli", "quorate-client", "quorate-go"],
    ),
    ("quorate-bench", &["quorate-client", "quorate-api"]),
    (
        "quorateutl",
        &[
            "quorate-cli",
            "quorate-go",
            "quorate-wal",
            "quorate-bolt",
            "quorate-store",
            "quorate-api",
            "quorate-disk",
        ],
    ),
    ("quorate-sim", &["quorate-node"]),
    ("xtask", &[]),
];

/// The crate whose faulty implementation any test may use.
const TEST_DISK: &str = "quorate-disk";

/// Checks the workspace.
pub fn run() -> Result<(), Error> {
    let (crates, wrong) = check(&metadata()?)?;
    for arrow in &wrong {
        println!("{arrow}");
    }
    println!("{} crates, {} wrong arrows", crates, wrong.len());
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Error::Failed(
            "a crate depends on one that it must not know".to_owned(),
        ))
    }
}

fn metadata() -> Result<Value, Error> {
    let text = command::output(
        command::cargo()
            .args([
                "metadata",
                "--format-version",
                "1",
                "--no-deps",
                "--offline",
            ])
            .current_dir(crate::root()),
    )?;
    serde_json::from_str(&text).map_err(|error| Error::Unexpected {
        what: "cargo metadata".to_owned(),
        text: error.to_string(),
    })
}

/// The number of crates in `metadata`, and what is wrong with their dependencies.
fn check(metadata: &Value) -> Result<(usize, Vec<String>), Error> {
    let unexpected = |text: &str| Error::Unexpected {
        what: "cargo metadata".to_owned(),
        text: format!("no {text}"),
    };
    let packages = metadata["packages"]
        .as_array()
        .ok_or_else(|| unexpected("packages"))?;
    let name_of = |value: &Value| value["name"].as_str().map(str::to_owned);
    let members: BTreeSet<String> = packages.iter().filter_map(name_of).collect();
    if members.len() != packages.len() {
        return Err(unexpected("name of a package"));
    }
    let mut wrong = Vec::new();
    for package in packages {
        let name = name_of(package).ok_or_else(|| unexpected("name"))?;
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            wrong.push(format!("{name}: not in the table of arrows"));
            continue;
        };
        let dependencies = package["dependencies"]
            .as_array()
            .ok_or_else(|| unexpected("dependencies"))?;
        for dependency in dependencies {
            let to = name_of(dependency).ok_or_else(|| unexpected("name of a dependency"))?;
            let in_tests = dependency["kind"] == "dev";
            let for_tests = in_tests && to == TEST_DISK;
            // A crate may take itself as a dependency of its tests, for a feature of its own.
            let itself = in_tests && to == name;
            if members.contains(&to) && !allowed.contains(&to.as_str()) && !for_tests && !itself {
                let kind = dependency["kind"].as_str().unwrap_or("normal");
                wrong.push(format!("{name} -> {to} ({kind})"));
            }
        }
    }
    Ok((members.len(), wrong))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_workspace_keeps_its_arrows() {
        let (crates, wrong) = check(&metadata().expect("cargo metadata")).expect("its form");
        assert!(crates >= 9, "only {crates} crates were seen");
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn a_wrong_arrow_is_named() {
        let metadata = json!({"packages": [
            {"name": "quorate-raft", "dependencies": [
                {"name": "bytes", "kind": null},
                {"name": "quorate-disk", "kind": "dev"},
                {"name": "quorate-wal", "kind": null},
            ]},
            {"name": "quorate-wal", "dependencies": [{"name": "quorate-raft", "kind": null}]},
            {"name": "quorate-disk", "dependencies": [{"name": "quorate-wal", "kind": "build"}]},
            {"name": "quorate-new", "dependencies": []},
        ]});
        let (crates, wrong) = check(&metadata).expect("its form");
        assert_eq!(crates, 4);
        assert_eq!(
            wrong,
            [
                "quorate-raft -> quorate-wal (normal)",
                "quorate-disk -> quorate-wal (build)",
                "quorate-new: not in the table of arrows",
            ]
        );
    }

    #[test]
    fn the_table_has_no_circle() {
        // Each crate stands below those it uses: peel off crates that use none of the rest.
        let mut left: Vec<_> = ARROWS.to_vec();
        while !left.is_empty() {
            let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
            let before = left.len();
            left.retain(|(_, uses)| uses.iter().any(|used| names.contains(used)));
            assert!(left.len() < before, "a circle among {names:?}");
        }
    }
}
