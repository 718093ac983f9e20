//! The outcomes of tests, read from what test2json makes of a test program's output.
//!
//! A test that began and did not end (the program was killed, or panicked) has failed. A test that
//! runs only for the sake of its subtests counts no more than they do.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

/// Lines kept of a test's output, to be shown when it fails.
const TAIL_LINES: usize = 60;

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Passed,
    /// Badly, or not at all.
    Failed,
    /// It did not want to run.
    Skipped,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
        })
    }
}

#[derive(Default)]
struct Test {
    outcome: Option<Outcome>,
    tail: Vec<String>,
}

/// What happened to each test of a run.
#[derive(Default)]
pub struct Results {
    tests: BTreeMap<String, Test>,
}

impl Results {
    /// Takes a line of test2json's output. Gives what the test program printed, where it is that,
    /// or the line itself, where it is nothing of test2json's.
    pub fn take(&mut self, line: &str) -> String {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return format!("{line}\n");
        };
        let text = event["Output"].as_str().unwrap_or_default();
        let Some(name) = event["Test"].as_str() else {
            return text.to_owned();
        };
        let test = self.tests.entry(name.to_owned()).or_default();
        match event["Action"].as_str() {
            Some("pass") => test.outcome = Some(Outcome::Passed),
            Some("fail") => test.outcome = Some(Outcome::Failed),
            Some("skip") => test.outcome = Some(Outcome::Skipped),
            Some("output") => {
                if test.tail.len() == TAIL_LINES {
                    test.tail.remove(0);
                }
                test.tail.push(text.to_owned());
            }
            _ => {}
        }
        text.to_owned()
    }

    /// The outcome of a test; `None` where it did not run. A test whose subtests all skipped has
    /// not passed, whatever go says: etcd's suites skip, after one that failed, what would follow.
    pub fn outcome(&self, name: &str) -> Option<Outcome> {
        let outcome = self.tests.get(name)?.outcome();
        let mut below = self.below(name).peekable();
        let vacuous = outcome == Outcome::Passed
            && below.peek().is_some()
            && below.all(|(_, test)| test.outcome() != Outcome::Passed);
        Some(if vacuous { Outcome::Skipped } else { outcome })
    }

    /// All tests.
    pub fn all(&self) -> impl Iterator<Item = (&str, Outcome)> {
        let outcome = |name: &String| self.outcome(name).expect("it is one of these");
        self.tests
            .keys()
            .map(move |name| (name.as_str(), outcome(name)))
    }

    /// The subtests of a test, at any depth.
    fn below(&self, name: &str) -> impl Iterator<Item = (&String, &Test)> {
        let prefix = format!("{name}/");
        let first = (Bound::Included(prefix.clone()), Bound::Unbounded);
        self.tests
            .range(first)
            .take_while(move |(name, _)| name.starts_with(&prefix))
    }

    /// The counted tests that failed, each with the end of its output.
    pub fn failures(&self) -> Vec<(&str, String)> {
        let failed = |(_, test): &(&str, &Test)| test.outcome() == Outcome::Failed;
        let failures = self.counted().into_iter().filter(failed);
        failures
            .map(|(name, test)| (name, test.tail.concat()))
            .collect()
    }

    /// The counted tests, each with its outcome.
    pub fn leaves(&self) -> impl Iterator<Item = (&str, Outcome)> {
        let counted = self.counted().into_iter();
        counted.map(|(name, test)| (name, test.outcome()))
    }

    /// The number of tests with each outcome, of those that `selected` takes.
    pub fn counts_of(&self, selected: impl Fn(&str) -> bool) -> Counts {
        let mut counts = Counts::default();
        for (name, test) in self.counted() {
            if !selected(name) {
                continue;
            }
            match test.outcome() {
                Outcome::Passed => counts.passed += 1,
                Outcome::Failed => counts.failed += 1,
                Outcome::Skipped => counts.skipped += 1,
            }
        }
        counts
    }

    /// The tests that count: those without subtests, and those that failed by themselves, with
    /// no subtest that did.
    fn counted(&self) -> Vec<(&str, &Test)> {
        let mut counted = Vec::new();
        for (name, test) in &self.tests {
            let mut subtests = self.below(name).peekable();
            let alone = subtests.peek().is_none();
            let mut by_itself = || {
                test.outcome() == Outcome::Failed
                    && subtests.all(|(_, test)| test.outcome() != Outcome::Failed)
            };
            if alone || by_itself() {
                counted.push((name.as_str(), test));
            }
        }
        counted
    }

    #[cfg(test)]
    pub fn of(outcomes: &[(&str, Outcome)]) -> Results {
        let test = |outcome| Test {
            outcome: Some(outcome),
            tail: Vec::new(),
        };
        let tests = outcomes
            .iter()
            .map(|(name, outcome)| ((*name).to_owned(), test(*outcome)));
        Results {
            tests: tests.collect(),
        }
    }
}

impl Test {
    fn outcome(&self) -> Outcome {
        self.outcome.unwrap_or(Outcome::Failed)
    }
}

/// How many tests had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ended well.
    pub passed: usize,
    /// Ended badly, or not at all.
    pub failed: usize,
    /// Did not want to run.
    pub skipped: usize,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            passed,
            failed,
            skipped,
        } = self;
        write!(
            formatter,
            "{passed} passed, {failed} failed, {skipped} skipped"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(lines: &[&str]) -> Results {
        let mut results = Results::default();
        for line in lines {
            results.take(line);
        }
        results
    }

    #[test]
    fn a_test_that_did_not_end_has_failed() {
        let results = results(&[
            r#"{"Action":"run","Test":"TestA"}"#,
            r#"{"Action":"output","Test":"TestA","Output":"about to crash\n"}"#,
            r#"{"Action":"run","Test":"TestB"}"#,
            r#"{"Action":"pass","Test":"TestB"}"#,
            r#"{"Action":"fail"}"#,
        ]);
        assert_eq!(results.outcome("TestA"), Some(Outcome::Failed));
        assert_eq!(
            results.counts_of(|_| true),
            Counts {
                passed: 1,
                failed: 1,
                skipped: 0
            }
        );
        assert_eq!(
            results.failures(),
            [("TestA", "about to crash\n".to_owned())]
        );
    }

    #[test]
    fn parents_are_counted_by_their_subtests() {
        let all = results(&[
            r#"{"Action":"pass","Test":"TestA/x"}"#,
            r#"{"Action":"fail","Test":"TestA/y"}"#,
            r#"{"Action":"skip","Test":"TestA/z"}"#,
            r#"{"Action":"fail","Test":"TestA"}"#,
        ]);
        assert_eq!(
            all.counts_of(|_| true),
            Counts {
                passed: 1,
                failed: 1,
                skipped: 1
            }
        );
        assert_eq!(
            all.counts_of(|_| true).to_string(),
            "1 passed, 1 failed, 1 skipped"
        );
    }

    #[test]
    fn a_parent_whose_subtests_all_skipped_has_not_passed() {
        let all = results(&[
            r#"{"Action":"skip","Test":"TestA/x"}"#,
            r#"{"Action":"pass","Test":"TestA"}"#,
            r#"{"Action":"pass","Test":"TestAB"}"#,
            r#"{"Action":"skip","Test":"TestB/x"}"#,
            r#"{"Action":"pass","Test":"TestB/y/z"}"#,
            r#"{"Action":"pass","Test":"TestB/y"}"#,
            r#"{"Action":"pass","Test":"TestB"}"#,
        ]);
        let outcomes = ["TestA", "TestAB", "TestB", "TestB/y"].map(|name| all.outcome(name));
        let (passed, skipped) = (Some(Outcome::Passed), Some(Outcome::Skipped));
        assert_eq!(outcomes, [skipped, passed, passed, passed]);
        assert_eq!(
            all.counts_of(|_| true),
            Counts {
                passed: 2,
                failed: 0,
                skipped: 2
            }
        );
    }

    #[test]
    fn a_parent_that_fails_by_itself_is_counted() {
        let alone = results(&[
            r#"{"Action":"pass","Test":"TestA/x"}"#,
            r#"{"Action":"fail","Test":"TestA"}"#,
        ]);
        assert_eq!(
            alone.counts_of(|_| true),
            Counts {
                passed: 1,
                failed: 1,
                skipped: 0
            }
        );
    }

    #[test]
    fn what_is_no_event_is_passed_on() {
        let mut results = Results::default();
        assert_eq!(results.take("plain"), "plain\n");
        assert_eq!(
            results.take(r#"{"Action":"output","Output":"PASS\n"}"#),
            "PASS\n"
        );
        assert_eq!(results.counts_of(|_| true), Counts::default());
    }
}
