//! `compaction`: gives up the history before a revision.

use crate::session::Session;
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::flags::switch;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::{CompactionRequest, CompactionResponse};
use quorate_go::number;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "compaction",
        "compaction [options] <revision>",
        "Drop the history before a revision",
    )
    .arg(switch(
        "physical",
        "wait until all old revisions are gone from the file",
    ))
}

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let [revision] = &invocation.given.texts()[..] else {
        return Err(Exit::bad_arguments("compaction command needs 1 argument"));
    };
    let request = CompactionRequest {
        revision: number::parse_i64(revision, 10).map_err(Exit::error)?,
        physical: invocation.given.flag("physical"),
    };
    let session = Session::open(invocation).await?;
    let _: CompactionResponse = session
        .call(Method::KVCompact, request)
        .await
        .map_err(Exit::error)?;
    write_out(format!("compacted revision {}\n", request.revision).as_bytes())
}
