//! Help and usage in cobra's layout, from clap's definitions.

use super::{find, flags, globals, tree};
use clap::{Arg, Command};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The help of the command at this path.
pub fn help(root: &Command, path: &[String]) -> String {
    let command = find::at(root, path).unwrap_or(root);
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let mut out = format!("{}\n\n{}", about.trim_end(), usage(root, path));
    writeln!(
        out,
        "Use \"{} options\" for a list of global command-line options (applies to all commands).",
        root.get_name()
    )
    .expect("writing to a String cannot fail");
    out
}

/// The part of the help that stands under an error as well.
pub fn usage(root: &Command, path: &[String]) -> String {
    let command = find::at(root, path).unwrap_or(root);
    let full_name = [&[root.get_name().to_owned()], path].concat().join(" ");
    let group = tree::is_group(command);
    let mut out = String::from("Usage:\n  ");
    if group {
        writeln!(out, "{full_name} [command]")
    } else {
        let parents = &full_name[..full_name.len() - command.get_name().len()];
        let line = usage_line(command);
        // The one command whose usage says all of it.
        let rest = if line.contains("[bash|") {
            ""
        } else {
            " [flags]"
        };
        writeln!(out, "{parents}{line}{rest}")
    }
    .expect("writing to a String cannot fail");
    if let Some(examples) = command.get_after_help() {
        write!(
            out,
            "\nExamples:\n{}\n",
            examples.to_string().replace("PROGRAM", root.get_name())
        )
        .expect("writing to a String cannot fail");
    }
    let top = path.is_empty();
    if top {
        groups(&mut out);
    } else if group {
        out.push_str("\nAvailable Commands:\n");
        list(command.get_subcommands(), &mut out);
    }
    let persistent = |command: &Command| -> Vec<Arg> {
        command
            .get_arguments()
            .filter(|arg| arg.is_global_set())
            .cloned()
            .collect()
    };
    if !top {
        let local = command
            .get_arguments()
            .filter(|arg| arg.get_id() != flags::ARGUMENTS);
        write!(out, "\nFlags:\n{}", flag_usages(local)).expect("writing to a String cannot fail");
    }
    let inherited: Vec<Arg> = (1..path.len())
        .filter_map(|depth| find::at(root, &path[..depth]))
        .flat_map(persistent)
        .collect();
    if !inherited.is_empty() {
        write!(out, "\nGlobal Flags:\n{}", flag_usages(inherited.iter()))
            .expect("writing to a String cannot fail");
    }
    if group {
        writeln!(
            out,
            "\nUse \"{full_name} [command] --help\" for more information about a command."
        )
        .expect("writing to a String cannot fail");
    }
    out
}

/// The usage line of a command's definition.
fn usage_line(command: &Command) -> String {
    let line = command.clone().render_usage().to_string();
    line.trim_start_matches("Usage: ").trim().to_owned()
}

fn groups(out: &mut String) {
    for group in tree::GROUPS {
        writeln!(out, "\n{}", group.title).expect("writing to a String cannot fail");
        let commands: Vec<Command> = group.commands.iter().map(|make| make()).collect();
        list(commands.iter(), out);
    }
}

/// Names and what they do, in the order of the names.
fn list<'a>(commands: impl Iterator<Item = &'a Command>, out: &mut String) {
    let commands: BTreeMap<&str, &Command> = commands
        .map(|command| (command.get_name(), command))
        .collect();
    let width = commands
        .keys()
        .map(|name| name.len())
        .chain([11])
        .max()
        .unwrap_or(11);
    for (name, command) in commands {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        writeln!(out, "  {name:width$} {about}").expect("writing to a String cannot fail");
    }
}

/// The flags of every command, for the command that lists them.
pub fn global_usages() -> String {
    flag_usages(globals::flags().iter())
}

/// A line for each flag, in the order of the names.
fn flag_usages<'a>(flags: impl Iterator<Item = &'a Arg>) -> String {
    let lines: BTreeMap<&str, (String, String)> = flags
        .filter_map(|flag| Some((flag.get_long()?, flag_line(flag))))
        .collect();
    let width = lines
        .values()
        .map(|(head, _)| head.len())
        .max()
        .unwrap_or_default();
    let mut out = String::new();
    for (head, tail) in lines.values() {
        writeln!(out, "{head:width$}   {tail}").expect("writing to a String cannot fail");
    }
    out
}

/// The flag with its kind, and what it does with its default.
fn flag_line(flag: &Arg) -> (String, String) {
    let name = flag.get_long().unwrap_or_default();
    let mut head = match flag.get_short() {
        Some(short) => format!("  -{short}, --{name}"),
        None => format!("      --{name}"),
    };
    let kind = flag
        .get_value_names()
        .and_then(|names| names.first())
        .map_or("", |name| name);
    if kind != "bool" {
        head.push(' ');
        head.push_str(kind);
    }
    let default = flag
        .get_default_values()
        .first()
        .map(|value| value.to_string_lossy().into_owned())
        .unwrap_or_default();
    let shown = match (kind, default.as_str()) {
        (_, "" | "false") | ("int" | "uint", "0") | ("duration", "0s") => String::new(),
        ("string", text) => format!(" (default \"{text}\")"),
        ("strings", text) => format!(" (default [{text}])"),
        (_, text) => format!(" (default {text})"),
    };
    let about = flag.get_help().map(ToString::to_string).unwrap_or_default();
    (head, about + &shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &[&str]) -> String {
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        help(&tree::root("etcdctl"), &path)
    }

    #[test]
    fn a_command_is_laid_out_as_by_cobra() {
        assert_eq!(
            of(&["lease", "timetolive"]),
            "\
Get lease information

Usage:
  etcdctl lease timetolive <leaseID> [options] [flags]

Flags:
  -h, --help   help for timetolive
      --keys   with the keys that go with the lease
Use \"etcdctl options\" for a list of global command-line options (applies to all commands).
"
        );
    }

    #[test]
    fn a_group_lists_its_commands() {
        let text = of(&["role"]);
        assert!(text.contains("\nAvailable Commands:\n  add               Adds a new role\n"));
        assert!(text.contains("\n\nUse \"etcdctl role [command] --help\" for more"));
        assert!(of(&["endpoint", "status"]).contains("\n\nGlobal Flags:\n      --cluster   "));
        assert!(of(&["completion"]).contains("  etcdctl completion [bash|zsh|fish|powershell]\n"));
    }

    #[test]
    fn the_program_lists_its_groups() {
        let text = of(&[]);
        let titles: Vec<usize> = tree::GROUPS
            .iter()
            .map(|group| text.find(group.title).expect("the group's title"))
            .collect();
        assert!(titles.is_sorted());
        assert!(!text.contains("__man") && !text.contains("Flags:"));
    }

    #[test]
    fn defaults_are_shown_in_their_kind() {
        let text = global_usages();
        for line in [
            "      --command-timeout duration     how",
            "(default 5s)\n",
            "(default [127.0.0.1:2379])\n",
            "  -w, --write-out string",
            "(default \"simple\")\n",
            "      --insecure-transport           talk",
            "(default true)\n",
        ] {
            assert!(text.contains(line), "{line}");
        }
    }
}
