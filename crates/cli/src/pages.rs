//! Completion scripts and manual pages, from the definitions.

use crate::flags;
use crate::program::Program;
use clap::Command;
use clap_complete::Shell;
use std::path::Path;

/// The shells that there are scripts for.
pub const SHELLS: [&str; 4] = ["bash", "zsh", "fish", "powershell"];

/// The command that asks for a script.
pub fn completion_command() -> Command {
    let command = flags::command(
        "completion",
        "completion",
        "Print a script that completes commands in a shell",
    )
    // As cobra has it where a command turns its flags' mention off.
    .override_usage("completion [bash|zsh|fish|powershell]")
    .long_about(
        "Writes a script that completes commands and flags.

bash, now and in every new shell:
  $ source <(PROGRAM completion bash)
  $ PROGRAM completion bash > /etc/bash_completion.d/PROGRAM

zsh, in every new shell (compinit must be loaded):
  $ PROGRAM completion zsh > \"${fpath[1]}/_PROGRAM\"

fish, now and in every new shell:
  $ PROGRAM completion fish | source
  $ PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish

PowerShell, now:
  PS> PROGRAM completion powershell | Out-String | Invoke-Expression",
    );
    flags::one_of(command, &SHELLS)
}

/// The completion script of a shell; `None` for one that is not known.
pub fn completion(program: &Program, shell: &str) -> Option<Vec<u8>> {
    let shell = match shell {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        "powershell" => Shell::PowerShell,
        _ => return None,
    };
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut visible(&program.root),
        program.name,
        &mut script,
    );
    Some(script)
}

/// The definition without commands that are hidden, which scripts would offer.
fn visible(command: &Command) -> Command {
    let inner = command
        .get_subcommands()
        .filter(|child| !child.is_hide_set())
        .map(visible);
    let shown = Command::new(command.get_name().to_owned())
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .args(command.get_arguments().cloned())
        .subcommands(inner);
    match command.get_about() {
        Some(about) => shown.about(about.clone()),
        None => shown,
    }
}

/// Writes a page for each command that is not hidden into a directory that is there.
pub fn manual(program: &Program, directory: &Path) -> std::io::Result<()> {
    let mut root = program.root.clone();
    root.build();
    page(&root, "", directory)
}

/// The page of a command whose parents have these names, and those of its own commands.
fn page(command: &Command, parents: &str, directory: &Path) -> std::io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let usage = format!("{parents}{}", usage.trim_start_matches("Usage: "));
    let man = clap_mangen::Man::new(command.clone().override_usage(usage));
    let parents = format!("{parents}{} ", command.get_name());
    let mut text = Vec::new();
    man.render(&mut text)?;
    std::fs::write(directory.join(man.get_filename()), text)?;
    command
        .get_subcommands()
        .filter(|child| !child.is_hide_set())
        .try_for_each(|child| page(child, &parents, directory))
}
