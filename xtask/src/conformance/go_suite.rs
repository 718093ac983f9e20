//! A suite that is a package of Go tests: etcd's own, or one of ours.
//!
//! The test program is built first, where the network is; then it runs in a network namespace
//! without one, in its package's folder, as `go test` would have it.

use super::arguments::{Arguments, Suite};
use super::binaries::Binaries;
use super::passing::Passing;
use super::pattern::{Pattern, Selected};
use super::results::{Outcome, Results};
use super::{go, work};
use crate::command;
use crate::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Brings up the loopback of a new network namespace and becomes the program. One address that is
/// not the loopback's own is there as well, and what a way out would have it for: etcd's tests of
/// addresses ask which one the machine has by way of a well-known host.
const IN_NAMESPACE: &str = "ip link set lo up \
    && ip address add 192.0.2.1/32 dev lo \
    && ip route add 8.8.8.8/32 dev lo src 192.0.2.1 \
    && exec \"$@\"";

/// How long a test program may run; etcd's e2e takes 24 minutes with the real binaries.
const TIMEOUT: &str = "90m";

/// A test program that is ready to run.
pub struct Program {
    package: String,
    folder: PathBuf,
    binary: PathBuf,
    test2json: String,
}

/// Runs it, prints what failed, checks the list of what must pass, and prints the counts last.
pub fn run(arguments: &Arguments, binaries: &Binaries) -> Result<(), Error> {
    let suite = arguments.suite;
    let mut passing = Passing::read(&arguments.list())?;
    let text = match &arguments.part {
        Some(part) => Some(Passing::read(part)?.pattern()),
        None if arguments.listed => Some(passing.pattern()),
        None => arguments.pattern.clone(),
    };
    let pattern = text.as_deref().map(Pattern::new).transpose()?;
    let program = Program::build(suite, None)?;
    let log = work().join(format!("{}.log", suite.name()));
    let mut command = program.command(arguments, binaries, text.as_deref());
    let (results, status) = stream(&mut command, &log)?;

    for (name, tail) in results.failures() {
        println!("\n--- {name}\n{tail}");
    }
    println!("everything it printed: {}", log.display());
    let verdict = if suite.has_list() {
        let broken = passing.broken(pattern.as_ref(), &results);
        for test in &broken {
            println!("must pass: {test}");
        }
        if arguments.update {
            let known = if arguments.list() == suite.name() {
                None
            } else {
                Some(Passing::read(suite.name())?)
            };
            println!(
                "{} new tests in the list",
                passing.grow(pattern.as_ref(), &results, known.as_ref())?
            );
        }
        broken.is_empty()
    } else {
        status.success()
    };
    let whole = |name: &str| {
        pattern
            .as_ref()
            .is_none_or(|pattern| pattern.selects(name) == Selected::Whole)
    };
    let counts = results.counts_of(whole);
    println!("{counts}");
    if counts.passed == 0 {
        return Err(Error::Failed("no test passed".to_owned()));
    }
    if !verdict {
        return Err(Error::Failed(format!(
            "{}: a test that must pass did not",
            suite.name()
        )));
    }
    Ok(())
}

fn package(suite: Suite) -> String {
    match suite {
        _ if suite.is_etcds() => format!("go.etcd.io/etcd/tests/v3/{}", suite.name()),
        _ => format!("./{}", suite.name()),
    }
}

impl Program {
    /// Builds it, from the modules of `mod_file` where that is given.
    pub fn build(suite: Suite, mod_file: Option<&Path>) -> Result<Program, Error> {
        let package = package(suite);
        let binary = work().join(format!("{}.test", suite.name()));
        let mod_file = mod_file.map(|file| format!("-modfile={}", file.display()));
        command::run(
            go().args(["test", "-c", "-tags", "e2e"])
                .args(&mod_file)
                .arg("-o")
                .arg(&binary)
                .arg(&package),
        )?;
        let folder = command::output(
            go().args(["list", "-tags", "e2e"])
                .args(&mod_file)
                .args(["-f", "{{.Dir}}", &package]),
        )?;
        // Builds it, where go does not ship it, and prints where it is.
        command::run(
            go().args(["tool", "test2json", "true"])
                .stdout(Stdio::null()),
        )?;
        let test2json = command::output(go().args(["tool", "-n", "test2json"]))?;
        Ok(Program {
            package,
            folder: folder.into(),
            binary,
            test2json,
        })
    }

    /// What runs it.
    pub fn command(
        &self,
        arguments: &Arguments,
        binaries: &Binaries,
        pattern: Option<&str>,
    ) -> Command {
        let mut command = Command::new("unshare");
        // Without root's rights, in a user namespace that maps this user to root.
        if !is_root() {
            command.arg("--map-root-user");
        }
        // A server that a test leaves behind ends with the suite.
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["--net", "sh", "-c", IN_NAMESPACE, "sh"]);
        command
            .arg(&self.test2json)
            .args(["-t", "-p", &self.package])
            .arg(&self.binary);
        command.args(["-test.v=test2json", "-test.count=1"]);
        command.arg(format!("-test.timeout={TIMEOUT}"));
        if let Some(pattern) = pattern {
            command.arg(format!("-test.run={pattern}"));
        }
        if arguments.suite.is_etcds() {
            command.arg(format!("-bin-dir={}", binaries.folder.display()));
            if let Some(last) = &binaries.last {
                command.arg(format!("-bin-last-release={}", last.display()));
            }
        } else {
            for name in ["etcd", "etcdctl", "etcdutl"] {
                command.env(variable(name), binaries.folder.join(name));
            }
            for name in ["etcd", "etcdctl", "etcdutl"] {
                let real = variable(&format!("real_{name}"));
                command.env(real, binaries.real.join(name));
            }
            command.env(variable("bbolt"), binaries.real.join("bbolt"));
            command.env(variable("last_etcd"), &binaries.before);
            if let Some(rounds) = arguments.rounds {
                command.env(variable("rounds"), rounds.to_string());
            }
            let seed = arguments
                .seed
                .unwrap_or_else(|| u64::from(std::process::id()));
            if arguments.suite.is_random() {
                println!("seed {seed}");
            }
            command.env(variable("seed"), seed.to_string());
        }
        command.current_dir(&self.folder);
        command
    }
}

/// The environment variable that tells our tests where a thing is.
fn variable(name: &str) -> String {
    format!("CONFORMANCE_{}", name.to_uppercase())
}

fn is_root() -> bool {
    let me = Command::new("id").arg("-u").output();
    me.is_ok_and(|me| me.stdout.trim_ascii() == b"0")
}

/// Runs it to its end, with all that it prints in the log, and a line here for each test.
pub fn stream(
    command: &mut Command,
    log: &Path,
) -> Result<(Results, std::process::ExitStatus), Error> {
    let mut file = BufWriter::new(File::create(log).map_err(Error::file(log))?);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(command::start(command))?;
    let stdout = child.stdout.take().expect("it was asked for");
    let mut results = Results::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(Error::file(log))?;
        let text = results.take(&String::from_utf8_lossy(&line));
        file.write_all(text.as_bytes()).map_err(Error::file(log))?;
        if let Some(ended) = text
            .strip_prefix("--- ")
            .filter(|ended| !ended.contains('/'))
        {
            print!("{ended}");
        }
    }
    file.flush().map_err(Error::file(log))?;
    let status = child.wait().map_err(command::start(command))?;
    // The tests' own verdicts count; a program that failed in another way must not pass for one
    // that did not.
    let failed = results.all().any(|(_, outcome)| outcome == Outcome::Failed);
    if !status.success() && !failed {
        return Err(Error::Program {
            command: command::line(command),
            status,
        });
    }
    Ok((results, status))
}
