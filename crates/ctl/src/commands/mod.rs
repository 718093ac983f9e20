//! The commands: one file each, with its definition and what it does.

pub mod about;
pub mod alarm;
pub mod auth;
pub mod check;
pub mod compaction;
pub mod completion;
pub mod defrag;
pub mod del;
pub mod downgrade;
pub mod elect;
pub mod endpoint;
pub mod get;
pub mod lease;
pub mod lock;
pub mod make_mirror;
pub mod manual;
pub mod member;
pub mod move_leader;
pub mod put;
pub mod role;
pub mod snapshot;
pub mod txn;
pub mod user;
pub mod watch;

use quorate_cli::Invocation;
use quorate_cli::exit::Exit;

/// Runs a command.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let names: Vec<&str> = invocation.path.iter().map(String::as_str).collect();
    match names[..] {
        ["get"] => get::run(invocation).await,
        ["put"] => put::run(invocation).await,
        ["del"] => del::run(invocation).await,
        ["txn"] => txn::run(invocation).await,
        ["compaction"] => compaction::run(invocation).await,
        ["watch"] => watch::run(invocation).await,
        ["lease", name] => lease::run(name, invocation).await,
        ["alarm", name] => alarm::run(name, invocation).await,
        ["defrag"] => defrag::run(invocation).await,
        ["downgrade", name] => downgrade::run(name, invocation).await,
        ["endpoint", name] => endpoint::run(name, invocation).await,
        ["member", name] => member::run(name, invocation).await,
        ["move-leader"] => move_leader::run(invocation).await,
        ["snapshot", "save"] => snapshot::run(invocation).await,
        ["elect"] => elect::run(invocation).await,
        ["lock"] => lock::run(invocation).await,
        ["auth", name] => auth::run(name, invocation).await,
        ["role", name] => role::run(name, invocation).await,
        ["user", name] => user::run(name, invocation).await,
        ["check", "perf"] => check::perf(invocation).await,
        ["check", "datascale"] => check::datascale(invocation).await,
        ["make-mirror"] => make_mirror::run(invocation).await,
        ["completion"] => completion::run(invocation),
        ["options"] => about::options(),
        ["version"] => about::version(invocation),
        [manual::NAME] => manual::run(invocation),
        _ => unreachable!("{names:?} is in the tree and is no group"),
    }
}
