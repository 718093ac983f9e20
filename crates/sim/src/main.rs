//! `quorate-sim`: runs seeds. `cargo xtask sim` is its usual caller.

#![allow(clippy::print_stdout, reason = "it is a command-line tool")]

use quorate_sim::cluster::Counts;
use quorate_sim::oracle::Violation;
use quorate_sim::run::{Outcome, run};
use quorate_sim::sabotage::Sabotage;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const USAGE: &str = "\
usage: quorate-sim [OPTIONS]

  --seeds N          how many seeds to run (default: 100)
  --from S           the first of them (default: 0)
  --seed X           this seed alone
  --named            the seeds of seeds.txt
  --sabotage NAME    with a planted bug: lost-vote, unconfirmed-read, stale-index
  --planted          see that each planted bug is found within 300 seeds
  --twice            run each seed twice, and want the same to happen
  --trace            print everything that happens
  --threads N        how many seeds run at a time (default: 2)
";

/// Seeds that found something once, each with its reason.
const NAMED: &str = include_str!("../seeds.txt");
/// Seeds within which a planted bug must be found.
const PLANTED_SEEDS: u64 = 300;

#[derive(Default)]
struct Options {
    seeds: Vec<u64>,
    sabotage: Option<Sabotage>,
    planted: bool,
    trace: bool,
    twice: bool,
    threads: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match parse(&arguments) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("{what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // A panic is reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let good = if options.planted {
        find_planted(&options)
    } else {
        let (passed, failed) = run_all(&options, |_| true);
        println!("{passed} passed, {failed} failed");
        failed == 0
    };
    match good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        threads: 2,
        ..Options::default()
    };
    let (mut count, mut from, mut one, mut named) = (100, 0, None, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || {
            let value = rest.next();
            value.ok_or_else(|| format!("{argument} needs a value"))
        };
        let number = |text: &String| {
            let number = text.parse::<u64>();
            number.map_err(|_| format!("{argument}: {text} is no number"))
        };
        match argument.as_str() {
            "--seeds" => count = number(value()?)?,
            "--from" => from = number(value()?)?,
            "--seed" => one = Some(number(value()?)?),
            "--threads" => options.threads = number(value()?)?.max(1) as usize,
            "--named" => named = true,
            "--planted" => options.planted = true,
            "--trace" => options.trace = true,
            "--twice" => options.twice = true,
            "--sabotage" => {
                let name = value()?;
                let sabotage = Sabotage::named(name);
                options.sabotage = Some(sabotage.ok_or_else(|| format!("no sabotage {name}"))?);
            }
            other => return Err(format!("unknown option {other}")),
        }
    }
    options.seeds = match (one, named) {
        (Some(seed), _) => vec![seed],
        (None, true) => named_seeds()?,
        (None, false) => (0..count).map(|n| from.wrapping_add(n)).collect(),
    };
    Ok(options)
}

fn named_seeds() -> Result<Vec<u64>, String> {
    let lines = NAMED.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let seed = |line: &str| {
        let (seed, reason) = line.split_once(' ').unwrap_or((line, ""));
        match seed.parse() {
            Ok(seed) if !reason.trim().is_empty() => Ok(seed),
            _ => Err(format!("seeds.txt: not a seed and its reason: {line}")),
        }
    };
    lines.map(seed).collect()
}

/// Runs the seeds, several at a time, and tells of the failures in the seeds' order; how many passed
/// and failed. Stops early where `go_on` says so of a failure.
fn run_all(options: &Options, go_on: impl Fn(&Outcome) -> bool + Sync) -> (usize, usize) {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<BTreeMap<usize, Outcome>> = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(seed) = options.seeds.get(at) else {
                return;
            };
            let mut outcome = run(*seed, options.sabotage, options.trace);
            if options.twice && run(*seed, options.sabotage, options.trace) != outcome {
                outcome.violation = Some(Violation {
                    oracle: "determinism",
                    what: "the seed took another way when it was run again".to_owned(),
                });
            }
            if outcome.violation.is_some() && !go_on(&outcome) {
                next.store(options.seeds.len(), Ordering::Relaxed);
            }
            let mut outcomes = outcomes.lock().expect("no holder panics");
            outcomes.insert(at, outcome);
        }
    };
    std::thread::scope(|scope| {
        (0..options.threads).for_each(|_| drop(scope.spawn(work)));
    });
    let outcomes = outcomes.into_inner().expect("no holder panics");
    let mut failed = 0;
    for outcome in outcomes.values() {
        if options.seeds.len() == 1 {
            println!("trace {:x}", outcome.trace_hash);
        }
        if let Some(violation) = &outcome.violation {
            failed += 1;
            println!("seed {}: {violation}", outcome.seed);
            println!("    {}", replay(outcome.seed, options.sabotage));
        }
    }
    let mut total = Counts::default();
    outcomes
        .values()
        .for_each(|outcome| total.add(&outcome.counts));
    println!("{total}");
    (outcomes.len() - failed, failed)
}

/// The command that does it again.
fn replay(seed: u64, sabotage: Option<Sabotage>) -> String {
    match sabotage {
        None => format!("cargo xtask sim --seed {seed}"),
        Some(sabotage) => format!(
            "cargo xtask sim --sabotage {} --seed {seed}",
            sabotage.name()
        ),
    }
}

/// Whether each planted bug is found.
fn find_planted(options: &Options) -> bool {
    let (mut found, mut missed) = (0, 0);
    for sabotage in Sabotage::ALL {
        let seeds = (0..PLANTED_SEEDS).map(|n| options.seeds[0].wrapping_add(n));
        let with = Options {
            seeds: seeds.collect(),
            sabotage: Some(sabotage),
            threads: options.threads,
            ..Options::default()
        };
        println!("{}:", sabotage.name());
        let (passed, failed) = run_all(&with, |_| false);
        if failed > 0 {
            found += 1;
            println!("    found within {} seeds", passed + failed);
        } else {
            missed += 1;
            println!("    not found within {passed} seeds");
        }
    }
    println!("{found} passed, {missed} failed");
    missed == 0
}
