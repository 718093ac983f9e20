//! `del`: deletes a key or a range.

use super::get;
use crate::print::Answer;
use crate::session::Session;
use clap::Command;
use quorate_cli::Given;
use quorate_cli::exit::Exit;
use quorate_cli::flags::switch;
use quorate_cli::progress::Progress;
use quorate_cli::streams::write_err;
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::DeleteRangeRequest;
use quorate_go::quote::quote;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "del",
        "del [options] <key> [range_end]",
        "Delete a key, or those of a range (its end excluded)",
    )
    .args([
        switch("prefix", "all keys that begin with <key>"),
        switch("prev-kv", "return what was there before"),
        switch("from-key", "all keys from <key> on, by bytes"),
        switch(
            "range",
            "a range is meant: do not wait before it is deleted",
        ),
    ])
}

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let request = request(&invocation.given).await?;
    let session = Session::open(invocation).await?;
    let response = patiently(session.call(Method::KVDeleteRange, request)).await;
    session.print(&Answer::Delete(response.map_err(Exit::error)?))
}

/// The request that the flags and arguments say. A range waits, so that it can be thought over.
pub async fn request(given: &Given) -> Result<DeleteRangeRequest, Exit> {
    let arguments = given.arguments();
    let (key, end) = match &arguments[..] {
        [key] => (key, None),
        [key, end] => (key, Some(end)),
        _ => {
            return Err(Exit::bad_arguments(
                "del command needs one argument as key and an optional argument as range_end",
            ));
        }
    };
    let (prefix, from_key) = (given.flag("prefix"), given.flag("from-key"));
    if prefix && from_key {
        return Err(get::both("--prefix", "--from-key"));
    }
    let (first, range_end) = get::range(key.clone(), end, prefix, from_key)?;
    if let Some(end) = end
        && !given.flag("range")
    {
        let text = format!(
            "Warning: Keys between {} and {} will be deleted. Please interrupt the command within next 2 seconds to cancel. You can provide `--range` flag to avoid the delay.\n",
            quote(key),
            quote(end)
        );
        write_err(text.as_bytes());
        tokio::time::sleep(THINKING_TIME).await;
    }
    Ok(DeleteRangeRequest {
        key: first.into(),
        range_end: range_end.into(),
        prev_kv: given.flag("prev-kv"),
    })
}

const THINKING_TIME: Duration = Duration::from_secs(2);

/// Shows that a deletion goes on, where it takes long.
async fn patiently<T>(deletion: impl Future<Output = T>) -> T {
    let mut deletion = pin!(deletion);
    if let Ok(done) = timeout(LONG, &mut deletion).await {
        return done;
    }
    let _shown = Progress::waiting("deleting");
    deletion.await
}

const LONG: Duration = Duration::from_secs(1);
