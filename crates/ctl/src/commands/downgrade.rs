//! `downgrade …`: lets an older version take over the cluster.

use crate::print::Answer;
use crate::session::Session;
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::DowngradeRequest;
use quorate_client::api::etcdserverpb::downgrade_request::DowngradeAction;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "downgrade",
        "downgrade <TARGET_VERSION>",
        "Change a cluster to an earlier version (the list: downgrade --help)",
    )
    .long_about("Change a cluster to an earlier version")
    .subcommands([
        flags::command("cancel", "cancel", "Stop the change that was begun"),
        flags::command(
            "enable",
            "enable <TARGET_VERSION>",
            "Begin the change to a version",
        ),
        flags::command(
            "validate",
            "validate <TARGET_VERSION>",
            "Tell whether the change to a version could begin",
        ),
    ])
}

/// Runs one of them.
pub async fn run(name: &str, invocation: &Invocation) -> Result<(), Exit> {
    let (name, action, version) = match name {
        "cancel" => ("cancel", DowngradeAction::Cancel, String::new()),
        "enable" => ("enable", DowngradeAction::Enable, target(invocation)?),
        _ => ("validate", DowngradeAction::Validate, target(invocation)?),
    };
    let session = Session::open(invocation).await?;
    let request = DowngradeRequest {
        action: action.into(),
        version,
    };
    let response = session.call(Method::MaintenanceDowngrade, request).await;
    session.print(&Answer::Downgrade(name, response.map_err(Exit::error)?))
}

fn target(invocation: &Invocation) -> Result<String, Exit> {
    match &invocation.given.texts()[..] {
        [] => Err(Exit::bad_arguments("TARGET_VERSION not provided")),
        [version] if version.is_empty() => Err(Exit::bad_arguments("target version not provided")),
        [version] => Ok(version.clone()),
        _ => Err(Exit::bad_arguments("too many arguments")),
    }
}
