//! Flags in the kinds that Go's pflag has, with its rules: a boolean takes a value only after `=`,
//! any other takes the next argument whatever it looks like, and the last of several wins.

use clap::builder::{PossibleValuesParser, Resettable};
use clap::{Arg, ArgAction, Command, ValueHint, value_parser};
use quorate_go::{duration, number};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The id of what is no flag.
pub const ARGUMENTS: &str = "arguments";

/// The command, and the flag, that ask for help.
pub const HELP: &str = "help";

/// A command that takes flags and arguments. `usage` is what follows the program's and the parents'
/// names in its line of usage, its own name first; flags are added to it.
pub fn command(name: &'static str, usage: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .override_usage(format!("{usage} [flags]"))
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .arg(help_flag(name))
        .arg(
            Arg::new(ARGUMENTS)
                .num_args(0..)
                .hide(true)
                .value_parser(value_parser!(OsString)),
        )
}

/// The command that shows the help of others. It is answered while the line is read.
pub fn help_command() -> Command {
    command(HELP, "help [command]", "Show what a command does and takes")
        .long_about("Shows the help of the command whose name follows.")
}

/// A command that takes so many arguments.
pub fn exactly(command: Command, count: usize) -> Command {
    command.mut_arg(ARGUMENTS, |arguments| arguments.num_args(count))
}

/// A command whose arguments are files.
pub fn files(command: Command) -> Command {
    command.mut_arg(ARGUMENTS, |arguments| {
        arguments.hide(false).value_hint(ValueHint::AnyPath)
    })
}

/// A command that takes one of these words.
pub fn one_of(command: Command, words: &'static [&'static str]) -> Command {
    command.mut_arg(ARGUMENTS, |arguments| {
        arguments
            .num_args(1)
            .hide(false)
            .value_parser(PossibleValuesParser::new(words))
    })
}

/// A flag without which its command does nothing.
pub fn required(flag: Arg) -> Arg {
    flag.required(true).default_value(Resettable::Reset)
}

/// A text that is one of these words; that it is, the command has to see to.
pub fn word(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    help: &'static str,
) -> Arg {
    valued(name, "string", default, help).value_parser(PossibleValuesParser::new(words))
}

/// A text that names a directory.
pub fn directory(name: &'static str, help: &'static str) -> Arg {
    text(name, "", help).value_hint(ValueHint::DirPath)
}

/// `-h`, which every command has.
fn help_flag(command: &'static str) -> Arg {
    switch(HELP, "")
        .short('h')
        .help(format!("help for {command}"))
}

/// A boolean that is false unless given.
pub fn switch(name: &'static str, help: &'static str) -> Arg {
    boolean(name, "false", help)
}

/// A boolean with a default.
pub fn boolean(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("bool")
        .help(help)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value(default)
        .hide_default_value(default == "false")
        .value_parser(number::parse_bool)
}

/// A text.
pub fn text(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    valued(name, "string", default, help).value_parser(value_parser!(String))
}

/// A text of bytes: a key or a part of one.
pub fn bytes(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    valued(name, "string", default, help).value_parser(value_parser!(OsString))
}

/// A number of 64 bits.
pub fn int(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    valued(name, "int", default, help).value_parser(|text: &str| number::parse_i64(text, 0))
}

/// A number that is not negative.
pub fn uint(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    valued(name, "uint", default, help).value_parser(|text: &str| number::parse_u64(text, 0))
}

/// A duration.
pub fn duration(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    valued(name, "duration", default, help).value_parser(duration::parse_nanos)
}

/// Texts with commas between them; several flags add up.
pub fn texts(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    valued(name, "strings", default, help)
        .action(ArgAction::Append)
        .value_parser(value_parser!(String))
}

fn valued(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    help: &'static str,
) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(kind)
        .help(help)
        .allow_hyphen_values(true)
        .default_value(default)
        .hide_default_value(matches!(default, "" | "0"))
}

/// Bytes as a text of the operating system.
pub fn bytes_of(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}
