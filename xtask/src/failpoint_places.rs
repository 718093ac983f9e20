//! Whether every failpoint that is listed has a place in the code: one that has none would make
//! whoever waits for its effect wait in vain. That a place names one that is listed is the
//! compiler's to check.

use std::fs;
use std::path::Path;

/// All Rust source below `folder`, in one text, but for the failpoints' own crate.
fn source(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            source(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("source is text"));
        }
    }
}

#[test]
fn every_listed_failpoint_has_a_place() {
    let crates = crate::root().join("crates");
    let listed = fs::read_to_string(crates.join("failpoints/src/names.rs")).expect("the list");
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("    \"")?.strip_suffix("\","))
        .collect();
    assert!(names.len() > 10, "only {names:?} were read");
    let mut text = String::new();
    for name in ["node", "server", "store", "wal"] {
        source(&crates.join(name).join("src"), &mut text);
    }
    for name in names {
        let place = format!("fail_point!(\"{name}\"");
        assert!(text.contains(&place), "{name} has no place");
        let told = format!("/// | `{name}` |");
        assert!(listed.contains(&told), "{name} is not in the table");
    }
}
