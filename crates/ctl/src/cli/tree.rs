//! All commands, in the groups in which the help lists them.

use super::globals;
use crate::commands;
use quorate_cli::flags::{self, help_command};
use quorate_cli::pages::completion_command;
use quorate_cli::{Group, Program};

/// The groups in their order.
pub const GROUPS: &[Group] = &[
    Group {
        title: "Key-value commands",
        commands: &[
            commands::compaction::command,
            commands::del::command,
            commands::get::command,
            commands::lease::command,
            commands::put::command,
            commands::txn::command,
            commands::watch::command,
        ],
    },
    Group {
        title: "Cluster maintenance commands",
        commands: &[
            commands::alarm::command,
            commands::defrag::command,
            commands::downgrade::command,
            commands::endpoint::command,
            commands::member::command,
            commands::move_leader::command,
            commands::snapshot::command,
        ],
    },
    Group {
        title: "Concurrency commands",
        commands: &[commands::elect::command, commands::lock::command],
    },
    Group {
        title: "Authentication commands",
        commands: &[
            commands::auth::command,
            commands::role::command,
            commands::user::command,
        ],
    },
    Group {
        title: "Utility commands",
        commands: &[
            commands::check::command,
            completion_command,
            help_command,
            commands::make_mirror::command,
            commands::about::options_command,
            commands::about::version_command,
        ],
    },
];

/// The program, under this name.
pub fn program(name: &'static str) -> Program {
    let all = GROUPS.iter().flat_map(|group| group.commands);
    let root = flags::command(name, name, "A command-line client of etcd and quorate")
        .args(globals::flags())
        .subcommands(all.map(|make| make()))
        .subcommand(commands::manual::command());
    Program::new(name, root, GROUPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_cli::help;

    #[test]
    fn the_definition_is_sound() {
        program("etcdctl").root.debug_assert();
    }

    fn help(path: &[&str]) -> String {
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        help::help(&program("etcdctl"), &path)
    }

    #[test]
    fn the_program_lists_its_groups() {
        let text = help(&[]);
        let titles: Vec<usize> = GROUPS
            .iter()
            .map(|group| text.find(group.title).expect("the group's title"))
            .collect();
        assert!(titles.is_sorted());
        assert!(!text.contains("__man") && !text.contains("Flags:"));
    }

    #[test]
    fn flags_of_a_group_are_those_of_its_commands() {
        assert!(help(&["endpoint", "status"]).contains("\n\nGlobal Flags:\n      --cluster   "));
        assert!(
            help(&["completion"]).contains("  etcdctl completion [bash|zsh|fish|powershell]\n")
        );
    }

    #[test]
    fn defaults_are_shown_in_their_kind() {
        let text = help::flag_usages(globals::flags().iter());
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
