//! `role …`: roles and what they permit.

use super::user::call;
use crate::print::Answer;
use crate::ranges::{self, OPEN_END};
use crate::session::Session;
use clap::Command;
use quorate_cli::Given;
use quorate_cli::exit::Exit;
use quorate_cli::flags::switch;
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::authpb::{Permission, permission};
use quorate_client::api::etcdserverpb as pb;

/// The definition.
pub fn command() -> Command {
    let ranges = |verb: &'static str| {
        [
            switch(
                "prefix",
                match verb {
                    "grant" => "grant all keys that begin with <key>",
                    _ => "revoke all keys that begin with <key>",
                },
            ),
            switch(
                "from-key",
                match verb {
                    "grant" => "grant all keys from <key> on, by bytes",
                    _ => "revoke all keys from <key> on, by bytes",
                },
            ),
        ]
    };
    flags::command(
        "role",
        "role <subcommand>",
        "Show and change roles (the list: role --help)",
    )
    .long_about("Show and change roles")
    .subcommands([
        flags::command("add", "add <role name>", "Make a role"),
        flags::command("delete", "delete <role name>", "Delete a role"),
        flags::command("get", "get <role name>", "Show what a role permits"),
        flags::command("list", "list", "Show the names of the roles"),
        flags::command(
            "grant-permission",
            "grant-permission [options] <role name> <permission type> <key> [endkey]",
            "Permit a role to read or write keys",
        )
        .args(ranges("grant")),
        flags::command(
            "revoke-permission",
            "revoke-permission <role name> <key> [endkey]",
            "Take a permission for keys from a role",
        )
        .args(ranges("revoke")),
    ])
}

/// Runs one of them.
pub async fn run(name: &str, invocation: &Invocation) -> Result<(), Exit> {
    match name {
        "add" => {
            let role = one(invocation, name)?;
            let session = Session::open(invocation).await?;
            let request = pb::AuthRoleAddRequest { name: role.clone() };
            let response = call(&session, Method::AuthRoleAdd, request).await?;
            session.print(&Answer::RoleAdd(role, response))
        }
        "delete" => {
            let role = one(invocation, name)?;
            let session = Session::open(invocation).await?;
            let request = pb::AuthRoleDeleteRequest { role: role.clone() };
            let response = call(&session, Method::AuthRoleDelete, request).await?;
            session.print(&Answer::RoleDelete(role, response))
        }
        "get" => {
            let role = one(invocation, name)?;
            let session = Session::open(invocation).await?;
            let request = pb::AuthRoleGetRequest { role: role.clone() };
            let response = call(&session, Method::AuthRoleGet, request).await?;
            session.print(&Answer::RoleGet(role, response))
        }
        "list" => {
            if !invocation.given.arguments().is_empty() {
                return Err(Exit::bad_arguments(
                    "role list command requires no arguments",
                ));
            }
            let session = Session::open(invocation).await?;
            let response = call(&session, Method::AuthRoleList, pb::AuthRoleListRequest {}).await?;
            session.print(&Answer::RoleList(response))
        }
        "grant-permission" => grant(invocation).await,
        _ => revoke(invocation).await,
    }
}

async fn grant(invocation: &Invocation) -> Result<(), Exit> {
    let arguments = invocation.given.arguments();
    let [role, kind, range @ ..] = &arguments[..] else {
        return Err(grant_arguments());
    };
    if range.is_empty() {
        return Err(grant_arguments());
    }
    let kind = text(kind);
    let perm_type = permission::Type::from_str_name(&kind.to_uppercase())
        .ok_or_else(|| Exit::bad_arguments(format_args!("invalid permission type: {kind}")))?;
    let (key, range_end) = permitted(&invocation.given, range)?;
    let role = text(role);
    let session = Session::open(invocation).await?;
    let request = pb::AuthRoleGrantPermissionRequest {
        name: role.clone(),
        perm: Some(Permission {
            perm_type: perm_type.into(),
            key: key.into(),
            range_end: range_end.into(),
        }),
    };
    let response = call(&session, Method::AuthRoleGrantPermission, request).await?;
    session.print(&Answer::RoleGrantPermission(role, response))
}

fn grant_arguments() -> Exit {
    Exit::bad_arguments(
        "role grant command requires role name, permission type, and key [endkey] as its argument",
    )
}

async fn revoke(invocation: &Invocation) -> Result<(), Exit> {
    let arguments = invocation.given.arguments();
    let [role, range @ ..] = &arguments[..] else {
        return Err(revoke_arguments());
    };
    let Some(named) = range.first().cloned() else {
        return Err(revoke_arguments());
    };
    let (key, range_end) = permitted(&invocation.given, range)?;
    let role = text(role);
    let session = Session::open(invocation).await?;
    let request = pb::AuthRoleRevokePermissionRequest {
        role: role.clone(),
        key: key.into(),
        range_end: range_end.clone().into(),
    };
    let response = call(&session, Method::AuthRoleRevokePermission, request).await?;
    session.print(&Answer::RoleRevokePermission(
        role, named, range_end, response,
    ))
}

fn revoke_arguments() -> Exit {
    Exit::bad_arguments(
        "role revoke-permission command requires role name and key [endkey] as its argument",
    )
}

/// The keys that a permission is about. An empty key stands for the smallest one, and with
/// `--prefix` or `--from-key` for all.
fn permitted(given: &Given, arguments: &[Vec<u8>]) -> Result<(Vec<u8>, Vec<u8>), Exit> {
    let (prefix, from_key) = (given.flag("prefix"), given.flag("from-key"));
    let refused = |text: &str| Err(Exit::bad_arguments(text));
    let exclusive = "--from-key and --prefix flags are mutually exclusive";
    match arguments {
        [key, ..] if key.is_empty() => match (prefix, from_key) {
            (true, true) => refused(exclusive),
            (false, false) => Ok((vec![0], Vec::new())),
            _ => Ok((vec![0], OPEN_END.to_vec())),
        },
        [key] => match (prefix, from_key) {
            (true, true) => refused(exclusive),
            (true, false) => Ok((key.clone(), ranges::prefix_end(key))),
            (false, true) => Ok((key.clone(), OPEN_END.to_vec())),
            (false, false) => Ok((key.clone(), Vec::new())),
        },
        _ if prefix => refused("unexpected endkey argument with --prefix flag"),
        _ if from_key => refused("unexpected endkey argument with --from-key flag"),
        [key, end, ..] => Ok((key.clone(), end.clone())),
        [] => refused("a key is missing"),
    }
}

fn one(invocation: &Invocation, name: &str) -> Result<String, Exit> {
    match &invocation.given.texts()[..] {
        [only] => Ok(only.clone()),
        _ => Err(Exit::bad_arguments(format_args!(
            "role {name} command requires role name as its argument"
        ))),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
