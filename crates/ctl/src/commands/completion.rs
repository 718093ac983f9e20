//! `completion`: scripts for shells, from the definitions.

use crate::cli::{Invocation, flags, tree};
use crate::exit::Exit;
use crate::print::write_out;
use clap::Command;
use clap_complete::Shell;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "completion",
        "completion [bash|zsh|fish|powershell]",
        "Generate completion script",
    )
    .long_about(
        "Writes a script that completes commands and flags.

bash, now and in every new shell:
  $ source <(etcdctl completion bash)
  $ etcdctl completion bash > /etc/bash_completion.d/etcdctl

zsh, in every new shell (compinit must be loaded):
  $ etcdctl completion zsh > \"${fpath[1]}/_etcdctl\"

fish, now and in every new shell:
  $ etcdctl completion fish | source
  $ etcdctl completion fish > ~/.config/fish/completions/etcdctl.fish

PowerShell, now:
  PS> etcdctl completion powershell | Out-String | Invoke-Expression",
    )
}

/// Runs it; the line was read with one of the four.
pub fn run(invocation: &Invocation) -> Result<(), Exit> {
    let shell = match invocation.given.texts().first().map(String::as_str) {
        Some("bash") => Shell::Bash,
        Some("zsh") => Shell::Zsh,
        Some("fish") => Shell::Fish,
        _ => Shell::PowerShell,
    };
    let mut script = Vec::new();
    let mut root = tree::root(invocation.program);
    clap_complete::generate(shell, &mut root, invocation.program, &mut script);
    write_out(&script)
}
