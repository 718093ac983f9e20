//! `put`: writes a key.

use crate::print::Answer;
use crate::session::Session;
use clap::Command;
use quorate_cli::Given;
use quorate_cli::exit::Exit;
use quorate_cli::flags::{switch, text};
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::PutRequest;
use quorate_go::number;
use std::io::{self, Read};

/// The definition.
pub fn command() -> Command {
    flags::command(
        "put",
        "put [options] <key> <value> (<value> can also be given from stdin)",
        "Write a key",
    )
    .long_about(
        "Write a key.

A <value> that begins with '-' would be taken for a flag; after '--' nothing is:

  PROGRAM put balance -- -7

Without <value> and '--ignore-value', the value is what comes from standard input:

  PROGRAM put logo < logo.png",
    )
    .args([
        text(
            "lease",
            "0",
            "lease (its ID in hexadecimal) that the key is to go with",
        ),
        switch("prev-kv", "return what was there before"),
        switch("ignore-value", "keep the value, change the rest"),
        switch("ignore-lease", "keep the lease, change the rest"),
    ])
}

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let request = request(&invocation.given, standard_input)?;
    let session = Session::open(invocation).await?;
    let response = session.call(Method::KVPut, request).await;
    session.print(&Answer::Put(response.map_err(Exit::error)?))
}

/// The request that the flags and arguments say. A value that is no argument comes from `input`.
pub fn request(given: &Given, input: impl FnOnce() -> Option<Vec<u8>>) -> Result<PutRequest, Exit> {
    let number_of_arguments =
        || Exit::bad_arguments("put command needs 1 argument and input from stdin or 2 arguments");
    let mut arguments = given.arguments().into_iter();
    let key = arguments.next().ok_or_else(number_of_arguments)?;
    let ignore_value = given.flag("ignore-value");
    let value = match (ignore_value, arguments.next()) {
        (true, Some(_)) => {
            return Err(Exit::bad_arguments(
                "put command needs only 1 argument when 'ignore-value' is set",
            ));
        }
        (true, None) => Vec::new(),
        (false, Some(value)) => value,
        (false, None) => input().ok_or_else(number_of_arguments)?,
    };
    let lease = number::parse_i64(&given.text("lease"), 16).map_err(|error| {
        Exit::bad_arguments(format_args!("bad lease ID ({error}), expecting ID in Hex"))
    })?;
    Ok(PutRequest {
        key: key.into(),
        value: value.into(),
        lease,
        prev_kv: given.flag("prev-kv"),
        ignore_value,
        ignore_lease: given.flag("ignore-lease"),
    })
}

/// All of standard input, where there is some.
fn standard_input() -> Option<Vec<u8>> {
    let mut value = Vec::new();
    io::stdin().lock().read_to_end(&mut value).ok()?;
    (!value.is_empty()).then_some(value)
}
