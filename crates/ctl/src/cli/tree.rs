//! All commands, in the groups in which the help lists them.

use super::{flags, globals};
use crate::commands;
use clap::Command;

/// A heading and the commands under it.
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// What makes the commands' definitions.
    pub commands: &'static [fn() -> Command],
}

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
            commands::completion::command,
            commands::about::help_command,
            commands::make_mirror::command,
            commands::about::options_command,
            commands::about::version_command,
        ],
    },
];

/// The definition of everything, under this program name.
pub fn root(program: &'static str) -> Command {
    let all = GROUPS.iter().flat_map(|group| group.commands);
    flags::command(
        program,
        "[command]",
        "A command-line client of etcd and quorate",
    )
    .args(globals::flags())
    .subcommands(all.map(|make| make()))
    .subcommand(commands::manual::command())
}

/// Whether a command only holds others.
pub fn is_group(command: &Command) -> bool {
    command.has_subcommands()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        root("etcdctl").debug_assert();
    }
}
