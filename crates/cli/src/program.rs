//! What a program is made of: its name, its commands, and how its texts differ from cobra's own.

use clap::Command;
use clap::builder::StyledStr;

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name it was called by, which its texts use.
    pub name: &'static str,
    /// Its commands. Those that are hidden are found by their whole name alone.
    pub root: Command,
    /// Headings under which help lists the commands; none: all under one. With headings, help
    /// opens with what a command does and leaves the flags of all commands to `options`.
    pub groups: &'static [Group],
    /// Whether what is wrong with a line is said again below the usage.
    pub repeats_errors: bool,
}

impl Program {
    /// A program of this name. Where texts of `root` say PROGRAM, the name is put.
    pub fn new(name: &'static str, root: Command, groups: &'static [Group]) -> Program {
        Program {
            name,
            root: named(root, name),
            groups,
            repeats_errors: false,
        }
    }

    /// The same, what is wrong with a line being said twice.
    pub fn repeating_errors(self) -> Program {
        Program {
            repeats_errors: true,
            ..self
        }
    }
}

/// What texts have where the program's name belongs.
const NAME: &str = "PROGRAM";

fn named(command: Command, name: &str) -> Command {
    let put = |text: Option<&StyledStr>| text.map(|text| text.to_string().replace(NAME, name));
    let about = put(command.get_about());
    let long_about = put(command.get_long_about());
    let examples = put(command.get_after_help());
    let mut command = command.mut_subcommands(|child| named(child, name));
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(long_about) = long_about {
        command = command.long_about(long_about);
    }
    if let Some(examples) = examples {
        command = command.after_help(examples);
    }
    command
}

/// A heading and the commands under it.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// What makes the commands' definitions.
    pub commands: &'static [fn() -> Command],
}

/// Whether a command only holds others.
pub fn is_group(command: &Command) -> bool {
    command.has_subcommands()
}
