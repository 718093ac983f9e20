//! The patterns of `go test -run`, as go reads them.
//!
//! A pattern is a sequence of regular expressions, one a level of subtests, separated by slashes;
//! several such sequences may be separated by bars. Slashes and bars within brackets or behind a
//! backslash separate nothing. An expression need not match the whole of a level. Source: the
//! documentation of go's testing flags.

use crate::error::Error;
use regex::Regex;

/// How much of a test a pattern selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selected {
    /// It does not run.
    No,
    /// It runs, but only for the sake of subtests that may match.
    Partly,
    /// It and all of its subtests run.
    Whole,
}

/// A parsed pattern.
pub struct Pattern {
    sequences: Vec<Vec<Regex>>,
}

impl Pattern {
    /// Parses one.
    pub fn new(text: &str) -> Result<Pattern, Error> {
        let mut sequences = Vec::new();
        for sequence in split(text) {
            let levels: Result<Vec<Regex>, _> =
                sequence.iter().map(|level| Regex::new(level)).collect();
            sequences.push(levels?);
        }
        Ok(Pattern { sequences })
    }

    /// How much of `test` it selects; `test` is a name with slashes between its levels.
    pub fn selects(&self, test: &str) -> Selected {
        let names: Vec<&str> = test.split('/').collect();
        let selects = |levels: &Vec<Regex>| {
            if !levels
                .iter()
                .zip(&names)
                .all(|(level, name)| level.is_match(name))
            {
                Selected::No
            } else if names.len() < levels.len() {
                Selected::Partly
            } else {
                Selected::Whole
            }
        };
        self.sequences
            .iter()
            .map(selects)
            .max()
            .unwrap_or(Selected::No)
    }
}

/// A pattern that selects just these tests, with all of their subtests.
pub fn of_tests<'a>(tests: impl IntoIterator<Item = &'a str>) -> String {
    let sequence = |test: &str| {
        let levels: Vec<String> = test
            .split('/')
            .map(|level| format!("^{}$", regex::escape(level)))
            .collect();
        levels.join("/")
    };
    let sequences: Vec<String> = tests.into_iter().map(sequence).collect();
    sequences.join("|")
}

/// The sequences of a pattern, each with its levels.
fn split(text: &str) -> Vec<Vec<String>> {
    let mut sequences = vec![vec![String::new()]];
    let (mut square, mut round, mut escaped) = (0_i32, 0_i32, false);
    for character in text.chars() {
        let outside = square <= 0 && round == 0 && !escaped;
        let sequence = sequences.last_mut().expect("never empty");
        match character {
            '/' if outside => sequence.push(String::new()),
            '|' if outside => sequences.push(vec![String::new()]),
            _ => {
                match character {
                    _ if escaped => {}
                    '[' => square += 1,
                    ']' => square = (square - 1).max(0),
                    '(' if square == 0 => round += 1,
                    ')' if square == 0 => round -= 1,
                    _ => {}
                }
                sequence.last_mut().expect("never empty").push(character);
            }
        }
        escaped = character == '\\' && !escaped;
    }
    sequences
}

#[cfg(test)]
mod tests {
    use super::*;
    use Selected::{No, Partly, Whole};

    fn selects(pattern: &str, test: &str) -> Selected {
        Pattern::new(pattern).expect("a pattern").selects(test)
    }

    #[test]
    fn levels_are_matched_one_by_one() {
        assert_eq!(selects("TestKV.*/NoTLS", "TestKVGet/NoTLS/a_key"), Whole);
        assert_eq!(selects("TestKV.*/NoTLS", "TestKVGet/PeerTLS"), No);
        assert_eq!(selects("TestKV.*/NoTLS", "TestKVGet"), Partly);
        assert_eq!(selects("TestKV.*/NoTLS", "TestWatch"), No);
        assert_eq!(selects("KV", "TestKVGet"), Whole);
        assert_eq!(selects("", "TestKVGet/x"), Whole);
    }

    #[test]
    fn bars_separate_sequences_outside_of_brackets() {
        let pattern = "^Test(A|B)$/x|^TestC$";
        assert_eq!(selects(pattern, "TestB/x"), Whole);
        assert_eq!(selects(pattern, "TestC/y"), Whole);
        assert_eq!(selects(pattern, "TestC"), Whole);
        assert_eq!(selects(pattern, "TestA"), Partly);
        assert_eq!(selects(pattern, "TestD"), No);
        assert_eq!(selects("Test[|/]", "Test|"), Whole);
        assert_eq!(selects(r"Test\|x", "Test|x"), Whole);
    }

    #[test]
    fn a_pattern_of_tests_selects_those_alone() {
        let tests = ["TestKVGet/NoTLS/Get_[a,_c)", "TestKVPut", "TestX/a|b(c"];
        let pattern = Pattern::new(&of_tests(tests)).expect("a pattern");
        for test in tests {
            assert_eq!(pattern.selects(test), Whole, "{test}");
        }
        assert_eq!(pattern.selects("TestKVPut/deeper"), Whole);
        assert_eq!(pattern.selects("TestKVPutMore"), No);
        assert_eq!(pattern.selects("TestKVGet/NoTLS/Get_[a,_cc)"), No);
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        assert!(matches!(Pattern::new("Test(/"), Err(Error::Pattern(_))));
    }
}
