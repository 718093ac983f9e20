//! `elect`: stands for an election, or follows who leads.

use super::lock::close;
use crate::failure::Failure;
use crate::print::Answer;
use crate::session::Session;
use crate::signals;
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::flags::switch;
use quorate_cli::{Invocation, flags};
use quorate_client::Session as LeaseSession;
use quorate_client::api::etcdserverpb::RangeResponse;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "elect",
        "elect <election-name> [proposal]",
        "Stand for an election, or watch who leads",
    )
    .arg(switch("listen", "follow who leads").short('l'))
}

/// After this time another one can be elected when this program is gone.
const TTL: Duration = Duration::from_secs(60);

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let arguments = invocation.given.arguments();
    let listen = invocation.given.flag("listen");
    let (name, proposal) = match &arguments[..] {
        [name] => (name, None),
        [name, proposal] => (name, Some(proposal)),
        _ => {
            return Err(Exit::bad_arguments(
                "elect takes one election name argument and an optional proposal argument",
            ));
        }
    };
    let session = Session::open(invocation).await?;
    match proposal {
        Some(_) if listen => Err(Exit::bad_arguments("proposal given but -l is set")),
        Some(proposal) => campaign(&session, name, proposal).await,
        None if listen => observe(&session, name).await,
        None => Err(Exit::bad_arguments("no proposal argument but -l not set")),
    }
}

/// Leads once it is elected, until a signal comes.
async fn campaign(session: &Session, name: &[u8], proposal: &[u8]) -> Result<(), Exit> {
    let leased = LeaseSession::new(&session.client, TTL.as_secs().cast_signed())
        .await
        .map_err(failed)?;
    // Not before: while nothing is held, a signal ends the program by itself.
    let mut end = pin!(signals::termination());
    let election = leased.election(name.to_vec());
    let leadership = tokio::select! {
        leadership = election.campaign(proposal.to_vec()) => leadership.map_err(failed)?,
        () = &mut end => {
            close(leased).await;
            return Err(Exit::error("context canceled"));
        }
    };
    let shown = tokio::select! {
        shown = session.client.get(leadership.key().clone()) => shown.map_err(failed)?,
        () = &mut end => {
            close(leased).await;
            return Err(Exit::error("context canceled"));
        }
    };
    session.print(&Answer::Get(shown))?;
    tokio::select! {
        () = end => match timeout(TTL, leadership.resign()).await {
            Ok(resigned) => resigned.map_err(failed),
            // It has ended with the lease.
            Err(_) => Err(Exit::error(Failure::Deadline)),
        },
        _ = leased.keeper().lost() => Err(Exit::error("elect: session expired")),
    }
}

/// Prints every leader's key and value, until a signal comes.
async fn observe(session: &Session, name: &[u8]) -> Result<(), Exit> {
    let mut observer = session.client.observe(name.to_vec());
    let mut end = pin!(signals::termination());
    loop {
        let leader = tokio::select! {
            leader = observer.next() => leader,
            () = &mut end => return Ok(()),
        };
        let pair = leader.map_err(|_| Exit::error("elect: observer lost"))?;
        // For the header, which what is observed has not.
        let now = tokio::select! {
            now = session.client.get(pair.key.clone()) => now.map_err(failed)?,
            () = &mut end => return Ok(()),
        };
        session.print(&Answer::Get(RangeResponse {
            header: now.header,
            kvs: vec![pair],
            ..RangeResponse::default()
        }))?;
    }
}

fn failed(error: quorate_client::Error) -> Exit {
    Exit::error(Failure::from(error))
}
