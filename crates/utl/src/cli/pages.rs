//! Completions and manual pages, made from the table.

use super::command::{Command, Flag, Hint, Kind, Positional};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ValueHint};
use clap_complete::{Shell, generate};
use std::io;
use std::path::Path;

/// The table in the shape that the generators want.
fn tree(command: &Command, name: &'static str, own: bool) -> clap::Command {
    let about = command.short.replace("etcdutl", name);
    let mut tree = clap::Command::new(name)
        .about(about)
        .disable_help_subcommand(true)
        .args(command.flags.iter().map(arg));
    if !command.long.is_empty() {
        tree = tree.long_about(command.long);
    }
    tree = match command.positional {
        Positional::OneOf(words) => {
            tree.arg(Arg::new("word").value_parser(PossibleValuesParser::new(words)))
        }
        Positional::Any if command.arguments.is_empty() || command.run.is_none() => tree,
        Positional::Any | Positional::Exactly(_) => tree.arg(
            Arg::new("argument")
                .num_args(0..)
                .value_hint(ValueHint::AnyPath),
        ),
    };
    let inner = command.commands.iter().filter(|inner| own || !inner.own);
    tree.subcommands(inner.map(|inner| self::tree(inner, inner.name, own)))
}

fn root_tree(root: &Command, program: &str) -> clap::Command {
    if program == crate::ETCD_NAME {
        tree(root, crate::ETCD_NAME, false)
    } else {
        tree(root, crate::OWN_NAME, true)
    }
}

fn arg(flag: &Flag) -> Arg {
    let mut arg = Arg::new(flag.name)
        .long(flag.name)
        .help(flag.help)
        .required(flag.required);
    if let Some(letter) = flag.short {
        arg = arg.short(letter).global(true);
    }
    if flag.name == "timeout" {
        arg = arg.global(true);
    }
    if flag.kind == Kind::Bool {
        return arg.action(ArgAction::SetTrue);
    }
    if !flag.default.is_empty() && !flag.required {
        arg = arg.default_value(flag.default);
    }
    match flag.hint {
        Hint::Nothing => arg,
        Hint::Directory => arg.value_hint(ValueHint::DirPath),
        Hint::Words(words) => arg.value_parser(PossibleValuesParser::new(words)),
    }
}

/// The completion script of a shell; `None` for one that is not known.
pub fn completion(root: &Command, program: &str, shell: &str) -> Option<Vec<u8>> {
    let shell = match shell {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        "powershell" => Shell::PowerShell,
        _ => return None,
    };
    let mut tree = root_tree(root, program);
    let mut script = Vec::new();
    generate(shell, &mut tree, program, &mut script);
    Some(script)
}

/// Writes a page for each command into a directory that is there.
pub fn manual(root: &Command, program: &str, dir: &Path) -> io::Result<()> {
    clap_mangen::generate_to(root_tree(root, program), dir)
}

#[cfg(test)]
mod tests {
    use super::super::command::ROOT;
    use super::*;

    #[test]
    fn the_table_has_the_shape_that_generators_want() {
        tree(&ROOT, "quorateutl", true).debug_assert();
        for shell in ["bash", "zsh", "fish", "powershell"] {
            let script = completion(&ROOT, "quorateutl", shell).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(
                script.contains("hashkv") && script.contains("check"),
                "{shell}"
            );
            let script = completion(&ROOT, "etcdutl", shell).unwrap();
            assert!(
                !String::from_utf8(script).unwrap().contains("repair"),
                "{shell}"
            );
        }
        assert!(completion(&ROOT, "quorateutl", "tcsh").is_none());
    }
}
