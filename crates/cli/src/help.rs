//! Help and usage in cobra's layout, from clap's definitions.

use crate::find;
use crate::flags::HELP;
use crate::program::{Program, is_group};
use clap::{Arg, Command};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The help of the command at this path.
pub fn help(program: &Program, path: &[String]) -> String {
    let usage = usage(program, path);
    if program.groups.is_empty() {
        return usage;
    }
    let command = find::at(&program.root, path).unwrap_or(&program.root);
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    format!(
        "{}\n\n{usage}Use \"{} options\" for a list of global command-line options (applies to all commands).\n",
        about.trim_end(),
        program.name
    )
}

/// The part of the help that stands under an error as well.
pub fn usage(program: &Program, path: &[String]) -> String {
    usage_of(program, path, true)
}

/// The same where the flag for help is not known yet.
pub fn usage_without_help(program: &Program, path: &[String]) -> String {
    usage_of(program, path, false)
}

/// The names from the program to a command.
pub fn full_name(program: &Program, path: &[String]) -> String {
    [&[program.name.to_owned()], path].concat().join(" ")
}

fn usage_of(program: &Program, path: &[String], with_help: bool) -> String {
    let root = &program.root;
    let command = find::at(root, path).unwrap_or(root);
    let full_name = full_name(program, path);
    let group = is_group(command);
    let grouped = !program.groups.is_empty();
    let mut out = match group {
        true => format!("Usage:\n  {full_name} [command]\n"),
        false => {
            let parents = &full_name[..full_name.len() - command.get_name().len()];
            format!("Usage:\n  {parents}{}\n", usage_line(command))
        }
    };
    if let Some(examples) = command.get_after_help() {
        out.push_str(&format!("\nExamples:\n{examples}\n"));
    }
    let top = path.is_empty();
    if top && grouped {
        groups(program, &mut out);
    } else if group {
        out.push_str("\nAvailable Commands:\n");
        list(command.get_subcommands(), &mut out);
    }
    if !(top && grouped) {
        let local = command
            .get_arguments()
            .filter(|flag| with_help || flag.get_id() != HELP);
        out.push_str(&format!("\nFlags:\n{}", flag_usages(local)));
    }
    let inherited: Vec<&Arg> = (usize::from(grouped)..path.len())
        .filter_map(|depth| find::at(root, &path[..depth]))
        .flat_map(Command::get_arguments)
        .filter(|flag| flag.is_global_set())
        .collect();
    if !inherited.is_empty() {
        let usages = flag_usages(inherited.into_iter());
        out.push_str(&format!("\nGlobal Flags:\n{usages}"));
    }
    if group {
        out.push_str(&format!(
            "\nUse \"{full_name} [command] --help\" for more information about a command.\n"
        ));
    }
    out
}

/// The usage line of a command's definition.
fn usage_line(command: &Command) -> String {
    let line = command.clone().render_usage().to_string();
    line.trim_start_matches("Usage: ").trim().to_owned()
}

fn groups(program: &Program, out: &mut String) {
    for group in program.groups {
        out.push_str(&format!("\n{}\n", group.title));
        let names: Vec<String> = group
            .commands
            .iter()
            .map(|make| make().get_name().to_owned())
            .collect();
        let commands = names
            .iter()
            .filter_map(|name| program.root.find_subcommand(name));
        list(commands, out);
    }
}

/// Names and what they do, in the order of the names.
fn list<'a>(commands: impl Iterator<Item = &'a Command>, out: &mut String) {
    let commands: BTreeMap<&str, &Command> = commands
        .filter(|command| !command.is_hide_set())
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

/// A line for each flag of these, in the order of the names.
pub fn flag_usages<'a>(flags: impl Iterator<Item = &'a Arg>) -> String {
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
mod tests;
