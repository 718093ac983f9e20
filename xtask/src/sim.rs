//! `cargo xtask sim`: clusters in the simulator, seed by seed.
//!
//! The simulator is a program of its own, built with every assertion on (profile `sim`); this finds
//! the seeds and starts it. With `--ci` the seeds follow from the commit, so that a build that is
//! repeated does the same, and the next one does something new.

use crate::command;
use crate::error::Error;

/// Seeds that a commit is tried with.
const COMMIT_SEEDS: u64 = 150;

/// Runs the simulator with these options.
pub fn run(options: &[String]) -> Result<(), Error> {
    let [option] = options else {
        return simulate(options);
    };
    if option != "--ci" {
        return simulate(options);
    }
    let from = first_seed(&commit()?)?.to_string();
    let seeds = COMMIT_SEEDS.to_string();
    let strings = |options: &[&str]| options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>();
    simulate(&strings(&["--named"]))?;
    simulate(&strings(&["--seeds", &seeds, "--from", &from]))?;
    simulate(&strings(&["--planted"]))
}

fn simulate(options: &[String]) -> Result<(), Error> {
    let mut cargo = command::cargo();
    cargo
        .args(["run", "--quiet", "--profile", "sim"])
        .args(["--package", "quorate-sim", "--"])
        .args(options)
        .current_dir(crate::root());
    command::run(&mut cargo)
}

/// The hash of the commit that is checked out.
fn commit() -> Result<String, Error> {
    let mut git = std::process::Command::new("git");
    git.args(["rev-parse", "HEAD"]).current_dir(crate::root());
    command::output(&mut git)
}

/// Where a commit's seeds begin: its hash's first eight digits.
fn first_seed(hash: &str) -> Result<u64, Error> {
    let digits = hash.get(..8);
    digits
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| Error::Unexpected {
            what: "git rev-parse HEAD".to_owned(),
            text: hash.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_its_seeds() {
        let hash = "0000ffff98a3fd17cfa2bd0ef7e0e1e5a5b2ad1f";
        assert_eq!(first_seed(hash).expect("it is a hash"), 0xffff);
        assert!(first_seed("HEAD").is_err());
    }
}
