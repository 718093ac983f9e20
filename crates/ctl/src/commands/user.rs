//! `user …`: users, their passwords and roles.

use crate::failure::Failure;
use crate::print::Answer;
use crate::session::Session;
use crate::terminal;
use clap::Command;
use prost::Message;
use quorate_cli::exit::Exit;
use quorate_cli::flags::{boolean, switch, text};
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::authpb::UserAddOptions;
use quorate_client::api::etcdserverpb as pb;

/// The definition.
pub fn command() -> Command {
    let interactive = || {
        boolean(
            "interactive",
            "true",
            "ask for the password twice; if false, read it from standard input",
        )
    };
    flags::command(
        "user",
        "user <subcommand>",
        "Show and change users (the list: user --help)",
    )
    .long_about("Show and change users")
    .subcommands([
        flags::command(
            "add",
            "add <user name or user:password> [options]",
            "Make a user",
        )
        .args([
            interactive(),
            text("new-user-password", "", "the password"),
            switch(
                "no-password",
                "a user without a password, known by its certificate's name",
            ),
        ]),
        flags::command("delete", "delete <user name>", "Delete a user"),
        flags::command(
            "get",
            "get <user name> [options]",
            "Show the roles of a user",
        )
        .arg(switch("detail", "with what its roles permit")),
        flags::command("list", "list", "Show the names of the users"),
        flags::command(
            "passwd",
            "passwd <user name> [options]",
            "Give a user another password",
        )
        .arg(interactive()),
        flags::command(
            "grant-role",
            "grant-role <user name> <role name>",
            "Give a user a role",
        ),
        flags::command(
            "revoke-role",
            "revoke-role <user name> <role name>",
            "Take a role from a user",
        ),
    ])
}

/// Runs one of them.
pub async fn run(name: &str, invocation: &Invocation) -> Result<(), Exit> {
    match name {
        "add" => add(invocation).await,
        "delete" => {
            let user = one(
                invocation,
                "user delete command requires user name as its argument",
            )?;
            let session = Session::open(invocation).await?;
            let request = pb::AuthUserDeleteRequest { name: user.clone() };
            let response = call(&session, Method::AuthUserDelete, request).await?;
            session.print(&Answer::UserDelete(user, response))
        }
        "get" => get(invocation).await,
        "list" => {
            if !invocation.given.arguments().is_empty() {
                return Err(Exit::bad_arguments(
                    "user list command requires no arguments",
                ));
            }
            let session = Session::open(invocation).await?;
            let response = call(&session, Method::AuthUserList, pb::AuthUserListRequest {}).await?;
            session.print(&Answer::UserList(response))
        }
        "passwd" => passwd(invocation).await,
        "grant-role" => {
            let (user, role) = two(
                invocation,
                "user grant command requires user name and role name as its argument",
            )?;
            let session = Session::open(invocation).await?;
            let request = pb::AuthUserGrantRoleRequest {
                user: user.clone(),
                role: role.clone(),
            };
            let response = call(&session, Method::AuthUserGrantRole, request).await?;
            session.print(&Answer::UserGrantRole(user, role, response))
        }
        _ => {
            let (user, role) = two(
                invocation,
                "user revoke-role requires user name and role name as its argument",
            )?;
            let session = Session::open(invocation).await?;
            let request = pb::AuthUserRevokeRoleRequest {
                name: user.clone(),
                role: role.clone(),
            };
            let response = call(&session, Method::AuthUserRevokeRole, request).await?;
            session.print(&Answer::UserRevokeRole(user, role, response))
        }
    }
}

/// A call about users or roles: not within the command's time, since somebody was asked before it
/// and would have to type all again.
pub async fn call<Q, A>(session: &Session, method: Method, request: Q) -> Result<A, Exit>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let response = session.client.call(method, request).await;
    response.map_err(|error| Exit::error(Failure::from(error)))
}

async fn add(invocation: &Invocation) -> Result<(), Exit> {
    let given = &invocation.given;
    let argument = one(
        invocation,
        "user add command requires user name as its argument",
    )?;
    let no_password = given.flag("no-password");
    let from_flag = given.text("new-user-password");
    let (user, password) = if no_password {
        (argument, String::new())
    } else if !from_flag.is_empty() {
        (argument, from_flag)
    } else if let Some((user, password)) = argument.split_once(':') {
        if user.is_empty() {
            return Err(Exit::bad_arguments("empty user name is not allowed"));
        }
        (user.to_owned(), password.to_owned())
    } else {
        let password = ask(&argument, given.flag("interactive"))?;
        (argument, password)
    };
    let session = Session::open(invocation).await?;
    let request = pb::AuthUserAddRequest {
        name: user.clone(),
        password,
        options: Some(UserAddOptions { no_password }),
        ..pb::AuthUserAddRequest::default()
    };
    let response = call(&session, Method::AuthUserAdd, request).await?;
    session.print(&Answer::UserAdd(user, response))
}

async fn get(invocation: &Invocation) -> Result<(), Exit> {
    let name = one(
        invocation,
        "user get command requires user name as its argument",
    )?;
    let session = Session::open(invocation).await?;
    let request = pb::AuthUserGetRequest { name: name.clone() };
    let user: pb::AuthUserGetResponse = call(&session, Method::AuthUserGet, request).await?;
    if !invocation.given.flag("detail") {
        return session.print(&Answer::UserGet(name, user));
    }
    write_out(format!("User: {name}\n").as_bytes())?;
    for role in user.roles {
        write_out(b"\n")?;
        let request = pb::AuthRoleGetRequest { role: role.clone() };
        let response = call(&session, Method::AuthRoleGet, request).await?;
        session.print(&Answer::RoleGet(role, response))?;
    }
    Ok(())
}

async fn passwd(invocation: &Invocation) -> Result<(), Exit> {
    let name = one(
        invocation,
        "user passwd command requires user name as its argument",
    )?;
    let password = ask(&name, invocation.given.flag("interactive"))?;
    let session = Session::open(invocation).await?;
    let request = pb::AuthUserChangePasswordRequest {
        name,
        password,
        ..pb::AuthUserChangePasswordRequest::default()
    };
    let response = call(&session, Method::AuthUserChangePassword, request).await?;
    session.print(&Answer::UserChangePassword(response))
}

/// A new password: asked for twice, or the first word of standard input.
fn ask(user: &str, interactive: bool) -> Result<String, Exit> {
    if !interactive {
        let line = terminal::read_line().unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        return Ok(line
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned());
    }
    let ask = |prompt: String| {
        terminal::ask_password(&prompt)
            .map_err(|error| Exit::bad_arguments(format_args!("failed to ask password: {error}")))
    };
    let password = ask(format!("Password of {user}: "))?;
    if password.is_empty() {
        return Err(Exit::bad_arguments("empty password"));
    }
    if ask(format!("Type password of {user} again for confirmation: "))? != password {
        return Err(Exit::bad_arguments("given passwords are different"));
    }
    Ok(password)
}

fn one(invocation: &Invocation, otherwise: &str) -> Result<String, Exit> {
    match &invocation.given.texts()[..] {
        [only] => Ok(only.clone()),
        _ => Err(Exit::bad_arguments(otherwise)),
    }
}

fn two(invocation: &Invocation, otherwise: &str) -> Result<(String, String), Exit> {
    match &invocation.given.texts()[..] {
        [first, second] => Ok((first.clone(), second.clone())),
        _ => Err(Exit::bad_arguments(otherwise)),
    }
}
