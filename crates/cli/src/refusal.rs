//! What is said about a line that cannot be read, in the words of cobra and pflag.

use crate::find;
use crate::program::Program;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use quorate_go::quote::quote;
use std::error::Error;

/// About a word that is no command.
pub fn unknown_command(program: &Program, word: &str) -> String {
    let name = program.name;
    let mut text = format!("unknown command {} for \"{name}\"", quote(word.as_bytes()));
    let names = find::suggestions(&program.root, word);
    if !names.is_empty() {
        text.push_str("\n\nDid you mean this?\n");
        for name in &names {
            text.push_str(&format!("\t{name}\n"));
        }
    }
    page(program, &text, &format!("Run '{name} --help' for usage."))
}

/// An error with what stands below it.
pub fn page(program: &Program, text: &str, below: &str) -> String {
    let again = match program.repeats_errors {
        true => format!("Error: {text}\n"),
        false => String::new(),
    };
    format!("Error: {text}\n{below}\n{again}")
}

/// About flags that have no name, which no definition is asked about.
pub fn bad_syntax(arguments: &[String]) -> Option<String> {
    arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .find(|argument| argument.starts_with("--=") || argument.starts_with("---"))
        .map(|argument| format!("bad flag syntax: {argument}"))
}

/// About flags, from clap's error.
pub fn explain(command: &Command, error: &clap::Error, arguments: &[String]) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let flag = context(ContextKind::InvalidArg);
    let name = flag.split([' ', '=', '[']).next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if name.starts_with("--") => format!("unknown flag: {name}"),
        ErrorKind::UnknownArgument => unknown_shorthand(name, arguments),
        ErrorKind::ValueValidation => {
            let value = quote(context(ContextKind::InvalidValue).as_bytes());
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            format!(
                "invalid argument {value} for \"{}\" flag: {reason}",
                with_short(command, name)
            )
        }
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            match arguments.last() {
                Some(last) if last.starts_with('-') && !last.starts_with("--") => {
                    let short = last.chars().next_back().unwrap_or_default();
                    format!("flag needs an argument: '{short}' in -{short}")
                }
                _ => format!("flag needs an argument: {name}"),
            }
        }
        _ => error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .replace("error: ", ""),
    }
}

fn unknown_shorthand(name: &str, arguments: &[String]) -> String {
    let short = name.chars().nth(1).unwrap_or('-');
    let group = arguments
        .iter()
        .filter(|argument| argument.starts_with('-') && !argument.starts_with("--"))
        .find_map(|argument| argument[1..].find(short).map(|at| &argument[at + 1..]));
    let group = group.map_or_else(|| short.to_string(), str::to_owned);
    format!("unknown shorthand flag: '{short}' in -{group}")
}

/// A flag with its shorthand before it, where it has one.
fn with_short(command: &Command, name: &str) -> String {
    let long = name.trim_start_matches('-');
    let short = command
        .get_arguments()
        .filter(|flag| flag.get_long() == Some(long))
        .find_map(Arg::get_short);
    match short {
        Some(short) => format!("-{short}, {name}"),
        None => name.to_owned(),
    }
}
