//! The list of etcd's tests that must pass: conformance/passing/SUITE.txt.
//!
//! One name a line, subtests included, sorted. It only grows: an update adds, and nothing here
//! takes a line away.

use super::pattern::{Pattern, Selected, of_tests};
use super::results::{Outcome, Results};
use crate::error::Error;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The list of one suite.
pub struct Passing {
    path: PathBuf,
    names: BTreeSet<String>,
}

impl Passing {
    /// Reads it; one that is not there is empty.
    pub fn read(suite: &str) -> Result<Passing, Error> {
        let path = crate::root()
            .join("conformance/passing")
            .join(format!("{suite}.txt"));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::File { path, error }),
        };
        let names = text.lines().map(str::to_owned).collect();
        Ok(Passing { path, names })
    }

    /// A pattern that selects the listed tests and no others.
    pub fn pattern(&self) -> String {
        let has_listed_ancestor = |name: &str| {
            name.match_indices('/')
                .any(|(at, _)| self.names.contains(&name[..at]))
        };
        of_tests(
            self.names
                .iter()
                .map(String::as_str)
                .filter(|name| !has_listed_ancestor(name)),
        )
    }

    /// Listed tests that `pattern` selects and that did not pass, each with what became of it.
    pub fn broken(&self, pattern: Option<&Pattern>, results: &Results) -> Vec<String> {
        let selected =
            |name: &&String| pattern.is_none_or(|pattern| pattern.selects(name) == Selected::Whole);
        let broken = |name: &String| match results.outcome(name) {
            Some(Outcome::Passed) => None,
            Some(outcome) => Some(format!("{name}: {outcome}")),
            None => Some(format!("{name}: did not run")),
        };
        self.names
            .iter()
            .filter(selected)
            .filter_map(broken)
            .collect()
    }

    /// Adds the tests that passed as a whole and are not in the list `known` already, and writes
    /// the list where it grew. Gives how many are new.
    pub fn grow(
        &mut self,
        pattern: Option<&Pattern>,
        results: &Results,
        known: Option<&Passing>,
    ) -> Result<usize, Error> {
        let before = self.names.len();
        for (name, outcome) in results.all() {
            let whole = pattern.is_none_or(|pattern| pattern.selects(name) == Selected::Whole);
            let new = known.is_none_or(|known| !known.names.contains(name));
            if outcome == Outcome::Passed && whole && new {
                self.names.insert(name.to_owned());
            }
        }
        let new = self.names.len() - before;
        if new > 0 {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder).map_err(Error::file(folder))?;
            }
            let text: String = self.names.iter().map(|name| format!("{name}\n")).collect();
            fs::write(&self.path, text).map_err(Error::file(&self.path))?;
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Passing {
        Passing {
            path: PathBuf::from("nowhere"),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn the_pattern_names_no_test_twice() {
        let list = list(&["TestA", "TestA/x", "TestB/NoTLS", "TestB/NoTLS/y", "TestBB"]);
        assert_eq!(list.pattern(), "^TestA$|^TestB$/^NoTLS$|^TestBB$");
    }

    #[test]
    fn a_listed_test_that_was_selected_must_pass() {
        let list = list(&["TestA", "TestB", "TestC", "TestD/x"]);
        let results = Results::of(&[
            ("TestA", Outcome::Passed),
            ("TestB", Outcome::Failed),
            ("TestD/x", Outcome::Skipped),
        ]);
        let broken = ["TestB: failed", "TestC: did not run", "TestD/x: skipped"];
        assert_eq!(list.broken(None, &results), broken);
        let pattern = Pattern::new("Test[AC]").expect("a pattern");
        assert_eq!(
            list.broken(Some(&pattern), &results),
            ["TestC: did not run"]
        );
    }
}
