//! etcd's robustness suite: clusters under load, a random fault in each, and the recorded history
//! checked against a model.
//!
//! Each round is a run of the test program, which draws its clusters and faults anew. What a round
//! leaves behind is kept where it failed: its log, and what the suite makes of the history.
//!
//! Where all that went wrong is that the suite's checker ran out of time, as it does with etcd too,
//! the history is given to it once more with better bounds (conformance/undecided). A test that even
//! that leaves undecided counts as skipped.

use super::arguments::Arguments;
use super::binaries::Binaries;
use super::changed_module::fresh;
use super::go_suite::{Program, stream};
use super::pattern::{Pattern, Selected};
use super::results::{Counts, Outcome};
use super::{go, module, plain_peers, work};
use crate::command;
use crate::error::Error;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is run where nothing is asked for: random clusters and random faults.
const EXPLORATORY: &str = "^TestRobustnessExploratory$";

/// Runs the rounds that were asked for; the sums come last.
pub fn run(arguments: &Arguments, binaries: &Binaries) -> Result<(), Error> {
    let mod_file = if arguments.plain_peers {
        Some(plain_peers::prepare(&module(), &work())?)
    } else {
        None
    };
    let program = Program::build(arguments.suite, mod_file.as_deref())?;
    let text = arguments.pattern.as_deref().unwrap_or(EXPLORATORY);
    let pattern = Pattern::new(text)?;
    let kept = work().join("robustness");
    fresh(&kept)?;

    let end = arguments
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(60 * u64::from(minutes)));
    let rounds = arguments.count.unwrap_or(match end {
        Some(_) => u32::MAX,
        None => 1,
    });
    let mut sums = Counts::default();
    for round in 1..=rounds {
        if round > 1 && end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let folder = kept.join(format!("round-{round}"));
        fs::create_dir(&folder).map_err(Error::file(&folder))?;
        let mut command = program.command(arguments, binaries, Some(text));
        command.env("RESULTS_DIR", &folder);
        let (results, status) = stream(&mut command, &folder.join("log"))?;
        let mut counts = results.counts_of(|name| pattern.selects(name) == Selected::Whole);
        let mut second = BTreeMap::new();
        for (name, tail) in results.failures() {
            if is_undecided(&tail) {
                let outcome = judge(&folder.join(name.replace('/', "_")))?;
                counts.failed -= 1;
                match outcome {
                    Outcome::Passed => counts.passed += 1,
                    Outcome::Failed => counts.failed += 1,
                    Outcome::Skipped => counts.skipped += 1,
                }
                second.insert(name, outcome);
            }
            if second.get(name) != Some(&Outcome::Passed) {
                println!("\n--- {name}\n{tail}");
            }
        }
        for (name, outcome) in results.leaves() {
            match second.get(name) {
                None => println!("round {round}: {name} {outcome}"),
                Some(outcome) => println!("round {round}: {name} {outcome}, with better bounds"),
            }
        }
        let left = second.values().any(|outcome| *outcome != Outcome::Passed);
        let all_second = second.len() == results.failures().len();
        sums.add(counts);
        if status.success() || (all_second && !left) {
            fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
        } else {
            println!("round {round} left {}", folder.display());
        }
    }
    println!("{sums}");
    if sums.failed > 0 || sums.passed == 0 {
        return Err(Error::Failed(format!("robustness: {sums}")));
    }
    Ok(())
}

/// Whether the only complaint in the output of a failed test is that its history could not be
/// judged in time.
fn is_undecided(output: &str) -> bool {
    let mut complaints = output
        .lines()
        .filter(|line| line.contains("main_test.go:"))
        .peekable();
    complaints.peek().is_some()
        && complaints.all(|complaint| complaint.ends_with("linearization: Timeout"))
}

/// Has the history be judged once more that a test has left in `folder`, in one below it for each
/// time that the test ran.
fn judge(folder: &Path) -> Result<Outcome, Error> {
    let mut left = fs::read_dir(folder).map_err(Error::file(folder))?;
    let history = left.next().ok_or_else(|| Error::Unexpected {
        what: folder.display().to_string(),
        text: "no history".to_owned(),
    })?;
    let history = history.map_err(Error::file(folder))?.path();
    let binary = work().join("undecided");
    command::run(
        go().args(["build", "-tags", "e2e", "-o"])
            .arg(&binary)
            .arg("./undecided"),
    )?;
    let mut judge = Command::new(&binary);
    let status = judge
        .arg(&history)
        .status()
        .map_err(command::start(&judge))?;
    match status.code() {
        Some(0) => Ok(Outcome::Passed),
        Some(2) => Ok(Outcome::Skipped),
        _ => Ok(Outcome::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_checkers_time_being_out_leaves_a_test_undecided() {
        let timeout = "    logger.go:146: ERROR\n    main_test.go:118: linearization: Timeout\n";
        assert!(is_undecided(timeout));
        assert!(!is_undecided(""));
        assert!(!is_undecided(
            "    main_test.go:118: linearization: Illegal\n"
        ));
        let more = format!("{timeout}    main_test.go:163: HashKV differs\n");
        assert!(!is_undecided(&more));
    }
}
