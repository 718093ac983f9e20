//! Flags in the kinds that Go's pflag has, with its rules: a boolean takes a value only after `=`,
//! any other takes the next argument whatever it looks like, and the last of several wins.

use crate::go::{duration, number};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// The id of what is no flag.
pub const ARGUMENTS: &str = "arguments";

/// A command that takes flags and arguments. `usage` is its line of usage after the program's
/// and the parents' names.
pub fn command(name: &'static str, usage: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .override_usage(usage)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .infer_subcommands(true)
        .arg(help_flag(name))
        .arg(
            Arg::new(ARGUMENTS)
                .num_args(0..)
                .hide(true)
                .value_parser(value_parser!(OsString)),
        )
}

/// `-h`, which every command has.
fn help_flag(command: &'static str) -> Arg {
    switch("help", "")
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
    valued(name, "duration", default, help).value_parser(duration::parse)
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

/// The flags and arguments that were given. Every flag has a default, so a value is always there;
/// asking for a flag under another type than its own, or that the command has not, is a bug.
#[derive(Clone, Debug)]
pub struct Given(pub ArgMatches);

impl Given {
    fn one<T: Clone + Send + Sync + 'static>(&self, name: &str) -> T {
        self.0
            .get_one::<T>(name)
            .cloned()
            .unwrap_or_else(|| unreachable!("--{name} has a default"))
    }

    /// Whether a flag is on the line.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.value_source(name) == Some(ValueSource::CommandLine)
    }

    /// A boolean.
    pub fn flag(&self, name: &str) -> bool {
        self.one(name)
    }

    /// A text.
    pub fn text(&self, name: &str) -> String {
        self.one(name)
    }

    /// A text of bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.one::<OsString>(name).into_vec()
    }

    /// A number.
    pub fn int(&self, name: &str) -> i64 {
        self.one(name)
    }

    /// A number that is not negative.
    pub fn uint(&self, name: &str) -> u64 {
        self.one(name)
    }

    /// A duration.
    pub fn duration(&self, name: &str) -> Duration {
        self.one(name)
    }

    /// What is no flag, as bytes.
    pub fn arguments(&self) -> Vec<Vec<u8>> {
        self.0
            .get_many::<OsString>(ARGUMENTS)
            .map(|values| values.map(|value| value.clone().into_vec()).collect())
            .unwrap_or_default()
    }

    /// What is no flag, as text; bytes that are not UTF-8 are replaced.
    pub fn texts(&self) -> Vec<String> {
        self.arguments()
            .iter()
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect()
    }
}
