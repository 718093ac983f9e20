//! `member …`: who is in the cluster.

use super::get::is_serializable;
use crate::print::{Answer, Format};
use crate::session::Session;
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::flags::{switch, text};
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb as pb;
use quorate_go::number;
use quorate_go::quote::quote;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "member",
        "member <subcommand>",
        "Show and change the members of a cluster (the list: member --help)",
    )
    .long_about("Show and change the members of a cluster")
    .subcommands([
        flags::command("add", "add <memberName> [options]", "Let a new member in").args([
            text(
                "peer-urls",
                "",
                "where the new member listens for others, with commas between",
            ),
            switch("learner", "a member that does not vote yet"),
        ]),
        flags::command("list", "list", "Show the members")
            .long_about(
                "Show the members. In the simple form a line has, with commas between: ID, status,
name, peer addresses, client addresses, whether it is a learner.",
            )
            .arg(text(
                "consistency",
                "l",
                "l: linearizable, s: serializable (from one member, perhaps old)",
            )),
        flags::command("promote", "promote <memberID>", "Give a learner its vote"),
        flags::command("remove", "remove <memberID>", "Take a member out"),
        flags::command(
            "update",
            "update <memberID> [options]",
            "Change where a member listens for the others",
        )
        .arg(text(
            "peer-urls",
            "",
            "where the member listens for others, with commas between",
        )),
    ])
}

/// Runs one of them.
pub async fn run(name: &str, invocation: &Invocation) -> Result<(), Exit> {
    match name {
        "add" => add(invocation).await,
        "list" => {
            let consistency = invocation.given.text("consistency");
            // What is named is the value of another command's flag, which is always this.
            let serializable = is_serializable(&consistency, "l")?;
            let session = Session::open(invocation).await?;
            let request = pb::MemberListRequest {
                linearizable: !serializable,
            };
            let response = session.call(Method::ClusterMemberList, request).await;
            session.print(&Answer::MemberList(response.map_err(Exit::error)?))
        }
        "promote" => {
            let id = id(invocation)?;
            let session = Session::open(invocation).await?;
            let request = pb::MemberPromoteRequest { id };
            let response = session.call(Method::ClusterMemberPromote, request).await;
            session.print(&Answer::MemberPromote(id, response.map_err(Exit::error)?))
        }
        "remove" => {
            let id = id(invocation)?;
            let session = Session::open(invocation).await?;
            let request = pb::MemberRemoveRequest { id };
            let response = session.call(Method::ClusterMemberRemove, request).await;
            session.print(&Answer::MemberRemove(id, response.map_err(Exit::error)?))
        }
        _ => update(invocation).await,
    }
}

async fn add(invocation: &Invocation) -> Result<(), Exit> {
    let arguments = invocation.given.texts();
    let name = match &arguments[..] {
        [] => return Err(Exit::bad_arguments("member name not provided")),
        [name] => name.clone(),
        several => {
            let meant: String = several
                .iter()
                .filter(|argument| argument.to_lowercase().starts_with("http"))
                .map(|url| format!(", did you mean --peer-urls={url}"))
                .collect();
            return Err(Exit::bad_arguments(format_args!(
                "too many arguments{meant}"
            )));
        }
    };
    let urls = invocation.given.text("peer-urls");
    let peer_ur_ls = peer_urls(&urls)?;
    let session = Session::open(invocation).await?;
    check_urls(&peer_ur_ls)?;
    let request = pb::MemberAddRequest {
        peer_ur_ls,
        is_learner: invocation.given.flag("learner"),
    };
    let response = session.call(Method::ClusterMemberAdd, request).await;
    let response: pb::MemberAddResponse = response.map_err(Exit::error)?;
    session.print(&Answer::MemberAdd(response.clone()))?;
    match session.printer.format {
        Format::Simple => write_out(environment(&name, &urls, &response).as_bytes()),
        _ => Ok(()),
    }
}

async fn update(invocation: &Invocation) -> Result<(), Exit> {
    let id = id(invocation)?;
    let peer_ur_ls = peer_urls(&invocation.given.text("peer-urls"))?;
    let session = Session::open(invocation).await?;
    check_urls(&peer_ur_ls)?;
    let request = pb::MemberUpdateRequest { id, peer_ur_ls };
    let response = session.call(Method::ClusterMemberUpdate, request).await;
    session.print(&Answer::MemberUpdate(id, response.map_err(Exit::error)?))
}

/// What the new member is to be started with.
fn environment(name: &str, urls: &str, response: &pb::MemberAddResponse) -> String {
    let new = response.member.as_ref().map(|member| member.id);
    let cluster: Vec<String> = response
        .members
        .iter()
        .flat_map(|member| {
            let name = match Some(member.id) == new {
                true => name,
                false => &member.name,
            };
            member
                .peer_ur_ls
                .iter()
                .map(move |url| format!("{name}={url}"))
        })
        .collect();
    format!(
        "\nETCD_NAME={}\nETCD_INITIAL_CLUSTER={}\nETCD_INITIAL_ADVERTISE_PEER_URLS={}\nETCD_INITIAL_CLUSTER_STATE=\"existing\"\n",
        quote(name.as_bytes()),
        quote(cluster.join(",").as_bytes()),
        quote(urls.as_bytes())
    )
}

fn peer_urls(urls: &str) -> Result<Vec<String>, Exit> {
    match urls {
        "" => Err(Exit::bad_arguments("member peer urls not provided")),
        urls => Ok(urls.split(',').map(str::to_owned).collect()),
    }
}

/// Refuses what no member can listen at, before anybody is asked.
fn check_urls(urls: &[String]) -> Result<(), Exit> {
    for url in urls.iter().map(|url| url.trim()) {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let refusal = match scheme {
            "unix" | "unixs" => continue,
            "http" | "https" if !host.contains(':') => {
                r#"URL address does not have the form "host:port""#
            }
            "http" | "https" if host.len() + path.len() < rest.len() => {
                "URL must not contain a path"
            }
            "http" | "https" => continue,
            _ => "URL scheme must be http, https, unix, or unixs",
        };
        return Err(Exit::error(format_args!("{refusal}: {url}")));
    }
    Ok(())
}

fn id(invocation: &Invocation) -> Result<u64, Exit> {
    let [id] = &invocation.given.texts()[..] else {
        return Err(Exit::bad_arguments("member ID is not provided"));
    };
    number::parse_u64(id, 16).map_err(|error| {
        Exit::bad_arguments(format_args!(
            "bad member ID arg ({error}), expecting ID in Hex"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_member_is_told_all_it_needs() {
        let member = |id, name: &str, url: &str| pb::Member {
            id,
            name: name.to_owned(),
            peer_ur_ls: vec![url.to_owned()],
            ..pb::Member::default()
        };
        let new = member(2, "", "http://b:2380");
        let response = pb::MemberAddResponse {
            member: Some(new.clone()),
            members: vec![member(1, "a", "http://a:2380"), new],
            ..pb::MemberAddResponse::default()
        };
        assert_eq!(
            environment("b", "http://b:2380", &response),
            r#"
ETCD_NAME="b"
ETCD_INITIAL_CLUSTER="a=http://a:2380,b=http://b:2380"
ETCD_INITIAL_ADVERTISE_PEER_URLS="http://b:2380"
ETCD_INITIAL_CLUSTER_STATE="existing"
"#
        );
    }

    #[test]
    fn urls_are_checked() {
        let check = |url: &str| check_urls(&[url.to_owned()]).map_err(|exit| exit.message);
        assert_eq!(check("http://a:1"), Ok(()));
        for bad in ["foo", "ftp://a:1", "http://a", "http://a:1/x"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
