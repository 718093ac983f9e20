//! Single calls through the client library, from threads without a runtime.

use crate::process::Server;
use quorate_client::{Client, Options};
use std::io;

/// Connects, and does one thing.
pub fn ask<R>(
    server: &Server,
    what: impl AsyncFnOnce(Client) -> quorate_client::Result<R>,
) -> io::Result<R> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime
        .block_on(async {
            // A server that went down is an error here, and nothing to wait for.
            let options = Options {
                wait_for_ready: false,
                ..Options::default()
            };
            let client = Client::new(&[&server.address().to_string()], &options)?;
            what(client).await
        })
        .map_err(io::Error::other)
}
