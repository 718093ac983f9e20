//! From arguments to a command with its flags; wrong ones are refused with cobra's texts.

use crate::exit;
use crate::find::{self, Found};
use crate::flags::{ARGUMENTS, HELP};
use crate::given::Given;
use crate::help;
use crate::program::{Program, is_group};
use crate::refusal;
use clap::{Arg, Command, value_parser};
use quorate_go::quote::quote;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A command and what it was given.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The program's name.
    pub program: &'static str,
    /// The commands' names.
    pub path: Vec<String>,
    /// The flags and arguments.
    pub given: Given,
    /// All arguments as they came, the program's name first.
    pub raw: Vec<Vec<u8>>,
}

/// What a line turned out to be.
#[derive(Clone, Debug)]
pub enum Parsed {
    /// A command to run.
    Run(Box<Invocation>),
    /// A question for help: to be written to standard output.
    Help(String),
    /// A wrong line: to be written to standard error, and the exit code.
    Wrong(String, u8),
}

/// Reads the arguments, the program's name first.
pub fn parse(program: &Program, raw: &[OsString]) -> Parsed {
    let root = &program.root;
    let texts: Vec<String> = raw
        .iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let found = find::find(root, &texts);
    if let (true, Some(word)) = (found.path.is_empty(), &found.word) {
        let text = refusal::unknown_command(program, word);
        return Parsed::Wrong(text, exit::ERROR);
    }
    let Found { path, places, .. } = found;
    let wrong = |text: String| {
        let usage = help::usage(program, &path);
        Parsed::Wrong(refusal::page(program, &text, &usage), exit::ERROR)
    };
    // Flags may stand before their command.
    let rest = raw.iter().skip(1).enumerate();
    let rest = rest
        .filter(|(place, _)| !places.contains(place))
        .map(|(_, argument)| argument.clone());
    let given = match read(&effective(root, &path), rest, &texts) {
        Ok(given) => given,
        Err(text) => return wrong(text),
    };
    let command = find::at(root, &path).unwrap_or(root);
    if given.flag(HELP) || is_group(command) {
        return Parsed::Help(help::help(program, &path));
    }
    if path == [HELP] {
        return topic(program, &given);
    }
    if let Err(text) = complete(program, &path, command, &given) {
        return wrong(text);
    }
    Parsed::Run(Box::new(Invocation {
        program: program.name,
        path,
        given,
        raw: raw
            .iter()
            .map(|argument| argument.as_bytes().to_vec())
            .collect(),
    }))
}

/// Reads a line that stands for a command of its own, without those around it. The error is
/// cobra's text.
pub fn parse_line(command: &Command, arguments: &[Vec<u8>]) -> Result<Given, String> {
    let texts: Vec<String> = arguments
        .iter()
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    let raw = arguments.iter().cloned().map(OsString::from_vec);
    read(&effective(command, &[]), raw, &texts)
}

fn read(
    command: &Command,
    arguments: impl Iterator<Item = OsString>,
    texts: &[String],
) -> Result<Given, String> {
    if let Some(text) = refusal::bad_syntax(texts) {
        return Err(text);
    }
    command
        .clone()
        .try_get_matches_from([OsString::from(LINE)].into_iter().chain(arguments))
        .map(Given)
        .map_err(|error| refusal::explain(command, &error, texts))
}

/// The command alone, with the flags that it has from those above it. What a definition demands
/// is not demanded yet: a question for help comes first.
fn effective(root: &Command, path: &[String]) -> Command {
    let leaf = find::at(root, path).unwrap_or(root);
    let inherited = (0..path.len())
        .filter_map(|depth| find::at(root, &path[..depth]))
        .flat_map(Command::get_arguments)
        .filter(|flag| {
            let is_own = leaf
                .get_arguments()
                .any(|own| own.get_id() == flag.get_id());
            flag.is_global_set() && !is_own
        });
    Command::new(LINE)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .args(leaf.get_arguments().chain(inherited).cloned().map(lenient))
}

/// What clap knows a line's command by; no text shows it.
const LINE: &str = "line";

fn lenient(argument: Arg) -> Arg {
    if argument.get_id() == ARGUMENTS {
        return argument.num_args(0..).value_parser(value_parser!(OsString));
    }
    let argument = argument.required(false);
    match argument.get_possible_values().is_empty() {
        true => argument,
        false => argument.value_parser(value_parser!(String)),
    }
}

/// Whether all that the command demands is there.
fn complete(
    program: &Program,
    path: &[String],
    command: &Command,
    given: &Given,
) -> Result<(), String> {
    let words = given.texts();
    if let Some(definition) = command.get_arguments().find(|a| a.get_id() == ARGUMENTS) {
        let count = definition
            .get_num_args()
            .filter(|range| range.min_values() == range.max_values());
        if let Some(count) = count.filter(|count| count.min_values() != words.len()) {
            return Err(format!(
                "accepts {} arg(s), received {}",
                count.min_values(),
                words.len()
            ));
        }
        let possible = definition.get_possible_values();
        let known = |word: &str| possible.iter().any(|value| value.get_name() == word);
        let odd = words.iter().find(|word| !known(word));
        if let Some(odd) = odd.filter(|_| !possible.is_empty()) {
            let name = help::full_name(program, path);
            return Err(format!(
                "invalid argument {} for \"{name}\"",
                quote(odd.as_bytes())
            ));
        }
    }
    let missing: Vec<String> = command
        .get_arguments()
        .filter(|flag| flag.is_required_set() && flag.get_id() != ARGUMENTS)
        .map(|flag| flag.get_id().as_str())
        .filter(|name| !given.is_set(name))
        .map(|name| format!("\"{name}\""))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("required flag(s) {} not set", missing.join(", "))),
    }
}

/// The help of what `help` was asked about.
fn topic(program: &Program, given: &Given) -> Parsed {
    let words = given.texts();
    let found = find::find(&program.root, &words);
    if let (true, Some(_)) = (found.path.is_empty(), &found.word) {
        let topics: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        let usage = help::usage_without_help(program, &[]);
        // No error, but nothing for standard output either.
        return Parsed::Wrong(
            format!("Unknown help topic [{}]\n{usage}", topics.join(" ")),
            0,
        );
    }
    Parsed::Help(help::help(program, &found.path))
}

#[cfg(test)]
mod tests;
