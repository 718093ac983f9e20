//! `cargo xtask`: what the project does besides building and testing itself with Rust alone.
//!
//! Each command ends with a line of counts, and fails when anything it was asked for did not
//! happen: a missing tool or folder is a failure, never a skip.

#![allow(clippy::print_stdout, reason = "it is a command-line tool")]

use error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod arrows;
mod command;
mod conformance;
mod deny;
mod error;
#[cfg(test)]
mod failpoint_places;
mod sim;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  conformance SUITE [OPTIONS]   run a suite against the server
    suites:   common, e2e       etcd's own, from its tests module
              raft              the golden traces of etcd's raft module
              cases             behaviours that etcd is asked about, and their neighbours
              roundtrip         one data directory, back and forth between etcd and quorate
              kills             kill -9 at random moments, and what must be there afterwards
              robustness        etcd's random faults under load, with the history checked
              failpoints        each failpoint, and what reaches it
              rolling           members of etcd become members of quorate one by one, and back
              tools             quoratectl and quorateutl beside etcdctl and etcdutl
              check             what quorateutl finds in files of both servers, damaged and whole
    options:  --run REGEX       only the tests that match, as go test -run takes it
              --listed          common, e2e: only the tests that must pass
              --part NAME       common, e2e: only the tests of conformance/passing/NAME.txt
              --update          common, e2e: add tests that pass to those that must
              --real NAMES      binaries to leave real (default: etcdctl,etcdutl; tools: etcd)
              --binaries DIR    the folder that has ours, instead of building them
              --last 3.6|3.7    common, e2e, robustness: the last release that clusters are mixed
                                with, upgraded from and downgraded to; common has none by itself
              --failpoints      common, e2e: servers with failpoints; robustness always has them
              --count N         robustness: rounds; each draws clusters and faults anew
              --minutes N       robustness: as many rounds as begin within that time
              --plain-peers     robustness: no TLS between the members
              --rounds N        kills: restarts; roundtrip, rolling: changes of hands; check: damages
              --seed N          kills, roundtrip, rolling, check: where the randomness begins
  sim [OPTIONS]                 run clusters in the simulator
    options:  --seeds N         how many seeds (default: 100)
              --from S          the first of them
              --seed X          this one alone
              --named           the seeds of crates/sim/seeds.txt
              --planted         see that planted bugs are found
              --sabotage NAME   with a planted bug
              --twice           each seed twice, which must do the same
              --trace           print everything that happens
              --ci              named seeds, those of this commit, and planted bugs
  arrows                        check which crates depend on which
  deny                          check licences, bans and duplicates with cargo-deny
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Usage(what)) => {
            eprintln!("{what}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Error> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(Error::Usage("no command".to_owned()));
    };
    match command.as_str() {
        "conformance" => conformance::run(rest),
        "sim" => sim::run(rest),
        "arrows" => arrows::run(),
        "deny" => deny::run(),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => Err(Error::Usage(format!("unknown command {other}"))),
    }
}

/// The workspace's folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("xtask is a folder of the workspace")
        .to_owned()
}
