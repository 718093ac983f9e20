//! Replays the golden traces of etcd's raft module on this crate.
//!
//! `cargo run -p quorate-raft --example golden -- MODULE_FOLDER`, where the folder is that of
//! go.etcd.io/raft/v3 at v3.7.0. Every command of every file runs, and what it prints (states,
//! messages, and the library's log lines too) must be what the file says, to the letter.
//!
//! Prints a line per file and, last, `N passed, N failed`. Fails, and never skips, if the folder or
//! a file is missing, or if fewer commands were executed than a file has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod changes;
mod datadriven;
mod interaction;
mod proto;
mod quorum;

use datadriven::Command;

/// Folders of traces with the number of files in each at v3.7.0.
const SUITES: &[(&str, usize)] = &[
    ("testdata", 28),
    ("quorum/testdata", 4),
    ("confchange/testdata", 9),
];

#[allow(clippy::print_stdout)]
fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(module), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: golden MODULE_FOLDER");
        return ExitCode::FAILURE;
    };
    let (mut passed, mut failed) = (0, 0);
    for (suite, count) in SUITES {
        let folder = Path::new(&module).join(suite);
        let files = match trace_files(&folder) {
            Ok(files) => files,
            Err(error) => {
                println!("FAIL {}: {error}", folder.display());
                failed += count;
                continue;
            }
        };
        for file in &files {
            let name = file.strip_prefix(&module).unwrap_or(file).display();
            match replay(suite, file) {
                Ok(commands) => {
                    println!("ok   {name}: {commands} commands");
                    passed += 1;
                }
                Err(error) => {
                    println!("FAIL {name}: {error}");
                    failed += 1;
                }
            }
        }
        if files.len() != *count {
            println!(
                "FAIL {}: {} files, not {count}",
                folder.display(),
                files.len()
            );
            failed += count.abs_diff(files.len());
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn trace_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// What executes a suite's commands and gives their output.
type Runner = Box<dyn FnMut(&Command) -> Result<String, String>>;

/// Runs a file; the number of commands executed, or the first difference.
fn replay(suite: &str, file: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let commands = datadriven::parse(&text)?;
    let mut run: Runner = match suite {
        "testdata" => {
            let mut group = interaction::Group::default();
            Box::new(move |command| group.run(command))
        }
        "quorum/testdata" => Box::new(quorum::run),
        _ => {
            let mut changer = changes::start();
            Box::new(move |command| changes::run(&mut changer, command))
        }
    };
    let mut executed = 0;
    for command in &commands {
        let at = format!("line {}: {}", command.line, command.name);
        let mut output = run(command).map_err(|error| format!("{at}: {error}"))?;
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        if output != command.expected {
            let shown = |text: &str| text.replace('\n', "\n    | ");
            return Err(format!(
                "{at}\n  expected\n    | {}\n  got\n    | {}",
                shown(&command.expected),
                shown(&output)
            ));
        }
        executed += 1;
    }
    // Counted apart from the parser, so that it cannot lose a command unseen.
    let written = text.lines().filter(|line| *line == "----").count();
    if executed != written {
        return Err(format!("{executed} commands executed of {written}"));
    }
    Ok(executed)
}
