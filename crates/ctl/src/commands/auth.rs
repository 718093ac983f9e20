//! `auth …`: whether the cluster asks who calls.

use crate::failure::Failure;
use crate::print::Answer;
use crate::session::Session;
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, flags};
use quorate_client::api::etcdserverpb as pb;
use quorate_client::api::{Error as Known, Method};

/// The definition.
pub fn command() -> Command {
    flags::command(
        "auth",
        "auth <enable or disable>",
        "Switch authentication on and off (the list: auth --help)",
    )
    .long_about("Switch authentication on and off")
    .subcommands([
        flags::command("enable", "enable", "Switch authentication on"),
        flags::command("disable", "disable", "Switch authentication off"),
        flags::command("status", "status", "Tell whether authentication is on"),
    ])
}

/// Runs one of them.
pub async fn run(name: &str, invocation: &Invocation) -> Result<(), Exit> {
    if !invocation.given.arguments().is_empty() {
        return Err(Exit::bad_arguments(format_args!(
            "auth {name} command does not accept any arguments"
        )));
    }
    let session = Session::open(invocation).await?;
    match name {
        "enable" => {
            enable(&session).await.map_err(Exit::error)?;
            write_out(b"Authentication Enabled\n")
        }
        "disable" => {
            let request = pb::AuthDisableRequest {};
            let response = session.call(Method::AuthAuthDisable, request).await;
            let _: pb::AuthDisableResponse = response.map_err(Exit::error)?;
            write_out(b"Authentication Disabled\n")
        }
        _ => {
            let request = pb::AuthStatusRequest {};
            let response = session.call(Method::AuthAuthStatus, request).await;
            session.print(&Answer::AuthStatus(response.map_err(Exit::error)?))
        }
    }
}

/// Enables authentication; the user root gets its role where it has none.
async fn enable(session: &Session) -> Result<(), Failure> {
    let enable = async || -> Result<pb::AuthEnableResponse, Failure> {
        session
            .call(Method::AuthAuthEnable, pb::AuthEnableRequest {})
            .await
    };
    match enable().await {
        Err(failure) if failure.is(Known::RootRoleNotExist) => {}
        result => return result.map(drop),
    }
    let root = || "root".to_owned();
    let add = pb::AuthRoleAddRequest { name: root() };
    let _: pb::AuthRoleAddResponse = session.call(Method::AuthRoleAdd, add).await?;
    let grant = pb::AuthUserGrantRoleRequest {
        user: root(),
        role: root(),
    };
    let _: pb::AuthUserGrantRoleResponse = session.call(Method::AuthUserGrantRole, grant).await?;
    enable().await.map(drop)
}
