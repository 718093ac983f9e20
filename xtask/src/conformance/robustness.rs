//! etcd's robustness suite: clusters under load, a random fault in each, and the recorded history
//! checked against a model.
//!
//! Each round is a run of the test program, which draws its clusters and faults anew. What a round
//! leaves behind is kept where it failed: its log, and what the suite makes of the history.

use super::arguments::Arguments;
use super::binaries::Binaries;
use super::changed_module::fresh;
use super::go_suite::{Program, stream};
use super::pattern::{Pattern, Selected};
use super::results::Counts;
use super::{module, plain_peers, work};
use crate::error::Error;
use std::fs;
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
        for (name, outcome) in results.leaves() {
            println!("round {round}: {name} {outcome}");
        }
        for (name, tail) in results.failures() {
            println!("\n--- {name}\n{tail}");
        }
        let counts = results.counts_of(|name| pattern.selects(name) == Selected::Whole);
        sums.add(counts);
        if counts.failed > 0 || !status.success() {
            println!("round {round} left {}", folder.display());
        } else {
            fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
        }
    }
    println!("{sums}");
    if sums.failed > 0 || sums.passed == 0 {
        return Err(Error::Failed(format!("robustness: {sums}")));
    }
    Ok(())
}
