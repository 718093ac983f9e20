//! `lease …`: grants, revokes, looks at and renews leases.

use crate::failure::Failure;
use crate::print::{Answer, Format};
use crate::session::Session;
use clap::Command;
use quorate_cli::exit::{self, Exit};
use quorate_cli::flags::switch;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, flags};
use quorate_client::api::etcdserverpb as pb;
use quorate_client::api::{Error as Known, Method};
use quorate_go::number;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// The definition.
pub fn command() -> Command {
    flags::command(
        "lease",
        "lease <subcommand>",
        "Grant, renew and revoke leases (the list: lease --help)",
    )
    .long_about("Grant, renew and revoke leases")
    .subcommands([
        flags::command("grant", "grant <ttl>", "Grant a lease of so many seconds"),
        flags::command(
            "revoke",
            "revoke <leaseID>",
            "End a lease, and delete the keys that go with it",
        ),
        flags::command(
            "timetolive",
            "timetolive <leaseID> [options]",
            "Show how long a lease has left",
        )
        .arg(switch("keys", "with the keys that go with the lease")),
        flags::command("list", "list", "Show the leases there are"),
        flags::command(
            "keep-alive",
            "keep-alive [options] <leaseID>",
            "Renew a lease again and again",
        )
        .arg(switch("once", "renew it once and end")),
    ])
}

/// Runs one of them.
pub async fn run(name: &str, invocation: &Invocation) -> Result<(), Exit> {
    match name {
        "grant" => grant(invocation).await,
        "revoke" => revoke(invocation).await,
        "timetolive" => time_to_live(invocation).await,
        "list" => list(invocation).await,
        _ => keep_alive(invocation).await,
    }
}

async fn grant(invocation: &Invocation) -> Result<(), Exit> {
    let ttl = one(invocation, "lease grant command needs TTL argument")?;
    let ttl = number::parse_i64(&ttl, 10)
        .map_err(|error| Exit::bad_arguments(format_args!("bad TTL ({error})")))?;
    let session = Session::open(invocation).await?;
    let request = pb::LeaseGrantRequest { ttl, id: 0 };
    let response = session.call(Method::LeaseLeaseGrant, request).await;
    let response = response
        .map_err(|failure| Exit::error(format_args!("failed to grant lease ({failure})")))?;
    session.print(&Answer::Grant(response))
}

async fn revoke(invocation: &Invocation) -> Result<(), Exit> {
    let id = lease_id(&one(invocation, "lease revoke command needs 1 argument")?)?;
    let session = Session::open(invocation).await?;
    let request = pb::LeaseRevokeRequest { id };
    let response = session.call(Method::LeaseLeaseRevoke, request).await;
    let response = response
        .map_err(|failure| Exit::error(format_args!("failed to revoke lease ({failure})")))?;
    session.print(&Answer::Revoke(id, response))
}

async fn time_to_live(invocation: &Invocation) -> Result<(), Exit> {
    let id = one(
        invocation,
        "lease timetolive command needs lease ID as argument",
    )?;
    let keys = invocation.given.flag("keys");
    let session = Session::open(invocation).await?;
    let id = lease_id(&id)?;
    let request = pb::LeaseTimeToLiveRequest { id, keys };
    // Not within the command's time: this waits for a leader as long as it takes.
    let response = session
        .client
        .call(Method::LeaseLeaseTimeToLive, request)
        .await;
    session.print(&Answer::TimeToLive(response.map_err(connection)?, keys))
}

async fn list(invocation: &Invocation) -> Result<(), Exit> {
    let session = Session::open(invocation).await?;
    let request = pb::LeaseLeasesRequest {};
    let response = session.client.call(Method::LeaseLeaseLeases, request).await;
    session.print(&Answer::Leases(response.map_err(connection)?))
}

async fn keep_alive(invocation: &Invocation) -> Result<(), Exit> {
    let id = lease_id(&one(
        invocation,
        "lease keep-alive command needs lease ID as argument",
    )?)?;
    let session = Session::open(invocation).await?;
    if invocation.given.flag("once") {
        return once(&session, id).await;
    }
    let first = Instant::now() + session.globals.dial_timeout + Duration::from_secs(1);
    renew(&session, id, first).await?;
    match session.printer.format {
        Format::Simple => write_out(format!("lease {id:016x} expired or revoked.\n").as_bytes()),
        _ => Ok(()),
    }
}

/// Renews a lease once, over a new connection if one breaks.
async fn once(session: &Session, id: i64) -> Result<(), Exit> {
    let response = loop {
        match session
            .client
            .lease_keep_alive(id)
            .await
            .map_err(Failure::from)
        {
            Ok((_, response)) => break response,
            Err(failure) if failure.is_transient() => sleep(RETRY_WAIT).await,
            Err(failure) => return Err(Exit::new(exit::BAD_CONNECTION, failure)),
        }
    };
    match response.ttl > 0 {
        true => session.print(&Answer::KeepAlive(response)),
        false => Err(Exit::new(exit::BAD_CONNECTION, Known::LeaseNotFound)),
    }
}

/// Renews a lease after each third of its time, until it is gone or nothing was heard for all of
/// it. Each renewal is printed, which a keeper of leases in the background cannot do.
async fn renew(session: &Session, id: i64, first: Instant) -> Result<(), Exit> {
    let client = session.client.require_leader();
    let mut deadline = first;
    loop {
        let Ok(opened) = timeout_at(deadline, client.lease_keep_alive(id)).await else {
            return Ok(());
        };
        let Ok((mut stream, mut response)) = opened else {
            if Instant::now() >= deadline {
                return Ok(());
            }
            sleep(RETRY_WAIT).await;
            continue;
        };
        loop {
            let Ok(ttl_seconds @ 1..) = u64::try_from(response.ttl) else {
                return Ok(());
            };
            session.print(&Answer::KeepAlive(response))?;
            let ttl = Duration::from_secs(ttl_seconds.min(TTL_SECONDS_MAX));
            deadline = Instant::now() + ttl;
            sleep_until(Instant::now() + ttl / 3).await;
            response = match timeout_at(deadline, stream.renew(id)).await {
                Ok(Ok(response)) => response,
                Ok(Err(_)) => break,
                Err(_) => return Ok(()),
            };
        }
    }
}

/// The longest TTL that a lease can have.
const TTL_SECONDS_MAX: u64 = 9_000_000_000;

const RETRY_WAIT: Duration = Duration::from_millis(500);

/// The only argument.
fn one(invocation: &Invocation, otherwise: &str) -> Result<String, Exit> {
    match &invocation.given.texts()[..] {
        [only] => Ok(only.clone()),
        _ => Err(Exit::bad_arguments(otherwise)),
    }
}

fn lease_id(text: &str) -> Result<i64, Exit> {
    number::parse_i64(text, 16).map_err(|error| {
        Exit::bad_arguments(format_args!(
            "bad lease ID arg ({error}), expecting ID in Hex"
        ))
    })
}

fn connection(error: quorate_client::Error) -> Exit {
    Exit::new(exit::BAD_CONNECTION, Failure::from(error))
}
