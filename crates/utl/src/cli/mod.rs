//! The command line: what commands there are, how a line is read, what help says.
//!
//! Commands and flags are a table ([`command`]); everything else is made from it: reading a line in
//! the syntax of Go's pflag, usage texts, completions and manual pages. Source: cobra's and pflag's
//! behaviour as etcdutl 3.7.3 shows it.

pub mod command;
pub mod flags;
pub mod lookup;
pub mod pages;
pub mod usage;
pub mod value;

use crate::error::Failure;
use command::{Command, Positional};
use flags::Flags;
use lookup::Found;
use std::io::Write;

/// What a command is given.
pub struct Invocation {
    /// The program's name as it was called.
    pub program: String,
    /// The flags' values.
    pub flags: Flags,
    /// What is left of the line.
    pub args: Vec<String>,
}

/// Exit code of a line that cannot be read.
const EXIT_USAGE: u8 = 1;

/// Runs the line and gives the exit code.
pub fn run(root: &'static Command, program: &str, line: &[String]) -> u8 {
    match try_run(root, program, line) {
        Ok(()) => 0,
        Err(Stop::Usage(text)) => {
            complain(&text);
            EXIT_USAGE
        }
        Err(Stop::Failed(failure)) => {
            if let Some(text) = failure.text() {
                complain(&format!("Error: {text}\n"));
            }
            failure.exit_code()
        }
    }
}

enum Stop {
    /// What standard error is told.
    Usage(String),
    Failed(Failure),
}

fn complain(text: &str) {
    // There is nobody to tell that nobody listens.
    let _unheard = std::io::stderr().write_all(text.as_bytes());
}

/// Writes to standard output; a reader that went away is no failure of ours.
pub fn print(text: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _unheard = out.write_all(text).and_then(|()| out.flush());
}

fn try_run(root: &'static Command, program: &str, line: &[String]) -> Result<(), Stop> {
    let own = program != crate::ETCD_NAME;
    let Found { path, args } = lookup::find(root, own, line).map_err(|unknown| {
        let text = unknown.text(program);
        Stop::Usage(format!(
            "Error: {text}\nRun '{program} --help' for usage.\nError: {text}\n"
        ))
    })?;
    let command = *path.last().expect("a path begins with the root");
    let usage = || usage::text(&path, program, true);
    let misuse = |text: String| Stop::Usage(format!("Error: {text}\n{}\nError: {text}\n", usage()));

    let (flags, args) = flags::parse(&path, &args).map_err(misuse)?;
    if flags.is_true("help") {
        print(usage().as_bytes());
        return Ok(());
    }
    if command.name == "help" && path.len() == 2 {
        return help(root, program, &args);
    }
    let Some(run) = command.run else {
        print(usage().as_bytes());
        return Ok(());
    };
    check_args(command, &path, program, &args).map_err(misuse)?;
    let missing: Vec<String> = command
        .flags
        .iter()
        .filter(|flag| flag.required && !flags.is_given(flag.name))
        .map(|flag| format!("\"{}\"", flag.name))
        .collect();
    if !missing.is_empty() {
        return Err(misuse(format!(
            "required flag(s) {} not set",
            missing.join(", ")
        )));
    }
    run(&Invocation {
        program: program.to_owned(),
        flags,
        args,
    })
    .map_err(Stop::Failed)
}

fn check_args(
    command: &Command,
    path: &[&'static Command],
    program: &str,
    args: &[String],
) -> Result<(), String> {
    let expect = |count: usize| {
        if args.len() == count {
            Ok(())
        } else {
            Err(format!("accepts {count} arg(s), received {}", args.len()))
        }
    };
    match command.positional {
        Positional::Any => Ok(()),
        Positional::Exactly(count) => expect(count),
        Positional::OneOf(words) => {
            expect(1)?;
            if words.contains(&args[0].as_str()) {
                return Ok(());
            }
            let name = usage::path_name(path, program);
            Err(format!(
                "invalid argument {} for \"{name}\"",
                value::go_quote(&args[0])
            ))
        }
    }
}

fn help(root: &'static Command, program: &str, topic: &[String]) -> Result<(), Stop> {
    let own = program != crate::ETCD_NAME;
    match lookup::find(root, own, topic) {
        Ok(found) => {
            print(usage::text(&found.path, program, true).as_bytes());
            Ok(())
        }
        Err(_unknown) => {
            let words: Vec<String> = topic.iter().map(|word| format!("`{word}`")).collect();
            complain(&format!(
                "Unknown help topic [{}]\n{}",
                words.join(" "),
                usage::text(&[root], program, false)
            ));
            Ok(())
        }
    }
}
