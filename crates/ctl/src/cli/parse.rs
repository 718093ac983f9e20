//! From arguments to a command with its flags; wrong ones are refused with cobra's texts.

use super::flags::Given;
use super::{find, help, tree};
use crate::exit;
use crate::go::quote::quote;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};
use std::error::Error;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

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
pub fn parse(program: &'static str, raw: &[OsString]) -> Parsed {
    let root = tree::root(program);
    let texts: Vec<String> = raw
        .iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let found = find::find(&root, &texts);
    if let (true, Some(word)) = (found.path.is_empty(), &found.word) {
        return Parsed::Wrong(unknown_command(&root, word), exit::ERROR);
    }
    // Flags may stand before their command.
    let rest = raw.iter().skip(1).enumerate();
    let rest = rest
        .filter(|(place, _)| !found.places.contains(place))
        .map(|(_, word)| word.clone());
    let names = [program]
        .into_iter()
        .chain(found.path.iter().map(String::as_str));
    let line: Vec<OsString> = names.map(OsString::from).chain(rest).collect();
    let matches = match root.clone().try_get_matches_from(line) {
        Ok(matches) => matches,
        Err(error) => {
            let text = explain(&root, &found.path, &error, &texts);
            return Parsed::Wrong(wrong(&root, &found.path, &text), exit::ERROR);
        }
    };
    let (path, matches) = leaf(matches);
    let given = Given(matches);
    let command = find::at(&root, &path).unwrap_or(&root);
    if given.flag("help") || tree::is_group(command) {
        return Parsed::Help(help::help(&root, &path));
    }
    if path == ["help"] {
        return topic(&root, &given);
    }
    if path == ["completion"]
        && let Err(text) = one_shell(program, &given.texts())
    {
        return Parsed::Wrong(wrong(&root, &path, &text), exit::ERROR);
    }
    Parsed::Run(Box::new(Invocation {
        program,
        path,
        given,
        raw: raw
            .iter()
            .map(|argument| argument.as_bytes().to_vec())
            .collect(),
    }))
}

/// Reads a line that stands for a command of its own (of a transaction, or a watch). The error is
/// cobra's text.
pub fn parse_line(command: &Command, arguments: &[Vec<u8>]) -> Result<Given, String> {
    use std::os::unix::ffi::OsStringExt;
    let name = OsString::from(command.get_name());
    let raw = [name]
        .into_iter()
        .chain(arguments.iter().cloned().map(OsString::from_vec));
    let texts: Vec<String> = arguments
        .iter()
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    command
        .clone()
        .try_get_matches_from(raw)
        .map(Given)
        .map_err(|error| explain(command, &[], &error, &texts))
}

/// The innermost command and its matches.
fn leaf(mut matches: ArgMatches) -> (Vec<String>, ArgMatches) {
    let mut path = Vec::new();
    while let Some((name, inner)) = matches.remove_subcommand() {
        path.push(name);
        matches = inner;
    }
    (path, matches)
}

/// The help of what `help` was asked about.
fn topic(root: &Command, given: &Given) -> Parsed {
    let words = given.texts();
    let found = find::find(root, &words);
    if let (true, Some(_)) = (found.path.is_empty(), &found.word) {
        let topics: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        let usage = help::usage(root, &[]);
        // No error, but nothing for standard output either.
        return Parsed::Wrong(
            format!("Unknown help topic [{}]\n{usage}\n", topics.join(" ")),
            0,
        );
    }
    Parsed::Help(help::help(root, &found.path))
}

/// Whether the completion command has its one argument.
fn one_shell(program: &str, arguments: &[String]) -> Result<(), String> {
    const SHELLS: [&str; 4] = ["bash", "zsh", "fish", "powershell"];
    match arguments {
        [shell] if SHELLS.contains(&shell.as_str()) => Ok(()),
        [other] => {
            let other = quote(other.as_bytes());
            Err(format!(
                "invalid argument {other} for \"{program} completion\""
            ))
        }
        several => Err(format!("accepts 1 arg(s), received {}", several.len())),
    }
}

fn unknown_command(root: &Command, word: &str) -> String {
    let program = root.get_name();
    let mut text = format!(
        "Error: unknown command {} for \"{program}\"\n",
        quote(word.as_bytes())
    );
    let names = find::suggestions(root, word);
    if !names.is_empty() {
        text.push_str("\nDid you mean this?\n");
        names
            .iter()
            .for_each(|name| text.push_str(&format!("\t{name}\n")));
        text.push('\n');
    }
    text + &format!("Run '{program} --help' for usage.\n")
}

fn wrong(root: &Command, path: &[String], text: &str) -> String {
    format!("Error: {text}\n{}\n", help::usage(root, path))
}

/// A parse error in cobra's words.
fn explain(root: &Command, path: &[String], error: &clap::Error, arguments: &[String]) -> String {
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
                with_short(root, path, name)
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
    let cluster = arguments
        .iter()
        .filter(|argument| argument.starts_with('-') && !argument.starts_with("--"))
        .find_map(|argument| argument[1..].find(short).map(|at| &argument[at + 1..]));
    let cluster = cluster.map_or_else(|| short.to_string(), str::to_owned);
    format!("unknown shorthand flag: '{short}' in -{cluster}")
}

/// A flag with its shorthand before it, where it has one.
fn with_short(root: &Command, path: &[String], name: &str) -> String {
    let long = name.trim_start_matches('-');
    let short = (0..=path.len())
        .filter_map(|depth| find::at(root, &path[..depth]))
        .flat_map(Command::get_arguments)
        .filter(|flag| flag.get_long() == Some(long))
        .find_map(clap::Arg::get_short);
    match short {
        Some(short) => format!("-{short}, {name}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Parsed {
        let raw: Vec<OsString> = ["etcdctl"].iter().chain(line).map(OsString::from).collect();
        parse("etcdctl", &raw)
    }

    fn run(line: &[&str]) -> Invocation {
        match parsed(line) {
            Parsed::Run(invocation) => *invocation,
            other => panic!("{line:?} became {other:?}"),
        }
    }

    fn refusal(line: &[&str]) -> String {
        match parsed(line) {
            Parsed::Wrong(text, 1) => text.lines().next().unwrap_or_default().to_owned(),
            other => panic!("{line:?} became {other:?}"),
        }
    }

    #[test]
    fn flags_are_found_anywhere_and_the_last_wins() {
        let invocation = run(&[
            "--hex",
            "get",
            "k",
            "-w",
            "json",
            "--limit=3",
            "e",
            "-w=table",
        ]);
        assert_eq!(invocation.path, ["get"]);
        assert_eq!(invocation.given.texts(), ["k", "e"]);
        assert_eq!(invocation.given.text("write-out"), "table");
        assert_eq!(invocation.given.int("limit"), 3);
        assert!(invocation.given.flag("hex"));
        assert!(!run(&["get", "k", "--hex=false"]).given.flag("hex"));
        let before = run(&[
            "--consistency",
            "s",
            "--endpoints",
            "x",
            "get",
            "a",
            "lease",
        ]);
        assert_eq!(before.given.text("consistency"), "s");
        assert_eq!(before.given.texts(), ["a", "lease"]);
    }

    #[test]
    fn a_value_may_look_like_a_flag() {
        let invocation = run(&["put", "--lease", "-1", "--", "-k", "--v"]);
        assert_eq!(invocation.given.text("lease"), "-1");
        assert_eq!(invocation.given.texts(), ["-k", "--v"]);
        assert_eq!(run(&["get", "-"]).given.texts(), ["-"]);
    }

    #[test]
    fn refusals_are_cobras() {
        for (line, text) in [
            (
                &["foo"][..],
                r#"Error: unknown command "foo" for "etcdctl""#,
            ),
            (&["get", "--foo"], "Error: unknown flag: --foo"),
            (&["get", "--foo=1", "x"], "Error: unknown flag: --foo"),
            (&["get", "-x"], "Error: unknown shorthand flag: 'x' in -x"),
            (
                &["put", "k", "-12"],
                "Error: unknown shorthand flag: '1' in -12",
            ),
            (
                &["get", "--limit"],
                "Error: flag needs an argument: --limit",
            ),
            (&["-w"], "Error: flag needs an argument: 'w' in -w"),
            (
                &["get", "--limit", "abc", "x"],
                r#"Error: invalid argument "abc" for "--limit" flag: strconv.ParseInt: parsing "abc": invalid syntax"#,
            ),
            (
                &["get", "--prefix=foo", "x"],
                r#"Error: invalid argument "foo" for "--prefix" flag: strconv.ParseBool: parsing "foo": invalid syntax"#,
            ),
            (
                &["--command-timeout=5", "get", "a"],
                r#"Error: invalid argument "5" for "--command-timeout" flag: time: missing unit in duration "5""#,
            ),
            (
                &["txn", "--interactive=no"],
                r#"Error: invalid argument "no" for "-i, --interactive" flag: strconv.ParseBool: parsing "no": invalid syntax"#,
            ),
            (
                &["user", "passwd", "--interactive=no"],
                r#"Error: invalid argument "no" for "--interactive" flag: strconv.ParseBool: parsing "no": invalid syntax"#,
            ),
            (&["completion"], "Error: accepts 1 arg(s), received 0"),
            (
                &["completion", "foo"],
                r#"Error: invalid argument "foo" for "etcdctl completion""#,
            ),
        ] {
            assert_eq!(refusal(line), text);
        }
    }

    #[test]
    fn groups_and_flags_ask_for_help() {
        for line in [
            &[][..],
            &["lease"],
            &["lease", "foo"],
            &["get", "-h"],
            &["help", "get"],
        ] {
            assert!(matches!(parsed(line), Parsed::Help(_)), "{line:?}");
        }
    }
}
