use super::*;
use crate::Group;
use crate::flags::{command, duration, help_command, int, switch, text, texts};

fn get() -> Command {
    command("get", "get <key>", "Get a key").after_help("PROGRAM get foo")
}

fn lease() -> Command {
    command("lease", "lease", "Work with leases")
        .arg(switch("all", "of all members").global(true))
        .subcommands([
            command("list", "list", "List leases").arg(int("limit", "0", "how many")),
            command("keep", "keep", "").hide(true),
        ])
}

const GROUPS: &[Group] = &[
    Group {
        title: "Keys",
        commands: &[get],
    },
    Group {
        title: "Others",
        commands: &[lease, help_command],
    },
];

fn program(groups: &'static [Group]) -> Program {
    let root = command("tool", "tool", "A tool")
        .args([
            texts("at", "a:1", "where").global(true),
            text("form", "simple", "how").short('w').global(true),
            duration("limit", "5s", "how long").global(true),
        ])
        .subcommands([get(), help_command(), lease()]);
    Program::new("tool", root, groups)
}

fn of(groups: &'static [Group], path: &[&str]) -> String {
    let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
    help(&program(groups), &path)
}

#[test]
fn a_program_without_groups_shows_all_flags() {
    assert_eq!(
        of(&[], &[]),
        "\
Usage:
  tool [command]

Available Commands:
  get         Get a key
  help        Show what a command does and takes
  lease       Work with leases

Flags:
      --at strings       where (default [a:1])
  -w, --form string      how (default \"simple\")
  -h, --help             help for tool
      --limit duration   how long (default 5s)

Use \"tool [command] --help\" for more information about a command.
"
    );
    let list = of(&[], &["lease", "list"]);
    assert!(list.contains("  tool lease list [flags]\n\nFlags:\n  -h, --help        help for list\n      --limit int   how many\n\nGlobal Flags:\n      --all "), "{list}");
    assert!(list.contains("      --at strings "));
}

#[test]
fn a_program_with_groups_lists_them_and_leaves_flags_to_options() {
    assert_eq!(
        of(GROUPS, &[]),
        "\
A tool

Usage:
  tool [command]

Keys
  get         Get a key

Others
  help        Show what a command does and takes
  lease       Work with leases

Use \"tool [command] --help\" for more information about a command.
Use \"tool options\" for a list of global command-line options (applies to all commands).
"
    );
    assert_eq!(
        of(GROUPS, &["lease", "list"]),
        "\
List leases

Usage:
  tool lease list [flags]

Flags:
  -h, --help        help for list
      --limit int   how many

Global Flags:
      --all   of all members
Use \"tool options\" for a list of global command-line options (applies to all commands).
"
    );
}

#[test]
fn examples_have_the_programs_name() {
    let text = of(GROUPS, &["get"]);
    assert!(text.contains("  tool get <key> [flags]\n\nExamples:\ntool get foo\n\nFlags:\n"));
}
