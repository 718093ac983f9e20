//! What a server streams.

use crate::connection::Lane;
use crate::{Client, Error, Result};
use http::Uri;
use quorate_api::Method;
use tonic::Streaming;

/// The answers of a streaming call.
#[derive(Debug)]
pub struct Answers<A> {
    method: Method,
    stream: Streaming<A>,
    /// The connection lives as long as someone reads from it.
    lane: Lane,
    _client: Client,
}

impl<A> Answers<A> {
    pub(crate) fn new(
        method: Method,
        stream: Streaming<A>,
        lane: Lane,
        client: &Client,
    ) -> Answers<A> {
        Answers {
            method,
            stream,
            lane,
            _client: client.clone(),
        }
    }

    /// Which member they come from.
    pub(crate) fn origin(&self) -> Uri {
        self.lane.origin()
    }

    /// The next answer; `None` when the server has ended the stream well.
    pub async fn next(&mut self) -> Result<Option<A>> {
        self.stream
            .message()
            .await
            .map_err(|status| Error::from_status(self.method.path(), &status))
    }

    /// The next answer, where the protocol has one.
    pub(crate) async fn expect(&mut self) -> Result<A> {
        self.next().await?.ok_or(Error::Ended {
            method: self.method.path(),
        })
    }
}
