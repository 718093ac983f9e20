//! Watches: one stream, many watchers.

use crate::answers::Answers;
use crate::token::Token;
use crate::{Client, Error, Result};
use quorate_api::Method;
use quorate_api::etcdserverpb::watch_request::RequestUnion;
use quorate_api::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Requests that may wait for the connection at once.
const WAITING_MAX: usize = 64;

impl Client {
    /// Opens a stream with a first watcher. Its `created` answer is the first that
    /// [`Watch::next`] gives.
    pub async fn watch(&self, first: WatchCreateRequest) -> Result<Watch> {
        let token = self.token(None).await?;
        self.watch_with(&token, first).await
    }

    /// The same with this token.
    pub(crate) async fn watch_with(
        &self,
        token: &Token,
        first: WatchCreateRequest,
    ) -> Result<Watch> {
        let (requests, receiver) = mpsc::channel(WAITING_MAX);
        // Room for it is there: nothing has been sent.
        let sent = requests.try_send(request(RequestUnion::CreateRequest(first)));
        assert!(sent.is_ok());
        let answers = self
            .exchange_with(
                token,
                Method::WatchWatch,
                ReceiverStream::new(receiver),
                None,
            )
            .await?;
        Ok(Watch { requests, answers })
    }
}

/// A stream of watch answers; dropping it cancels its watchers.
#[derive(Debug)]
pub struct Watch {
    requests: mpsc::Sender<WatchRequest>,
    answers: Answers<WatchResponse>,
}

impl Watch {
    /// Adds a watcher; its `created` answer comes through [`Watch::next`].
    pub async fn create(&self, create: WatchCreateRequest) -> Result<()> {
        self.send(RequestUnion::CreateRequest(create)).await
    }

    /// Cancels a watcher; its `canceled` answer comes through [`Watch::next`].
    pub async fn cancel(&self, watch_id: i64) -> Result<()> {
        let cancel = WatchCancelRequest { watch_id };
        self.send(RequestUnion::CancelRequest(cancel)).await
    }

    /// Asks how far the watchers of this stream are; the answer comes through [`Watch::next`].
    pub async fn progress(&self) -> Result<()> {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {}))
            .await
    }

    /// The next answer; `None` when the server has ended the stream.
    pub async fn next(&mut self) -> Result<Option<WatchResponse>> {
        self.answers.next().await
    }

    async fn send(&self, union: RequestUnion) -> Result<()> {
        self.requests
            .send(request(union))
            .await
            .map_err(|_| Error::Ended {
                method: Method::WatchWatch.path(),
            })
    }
}

fn request(union: RequestUnion) -> WatchRequest {
    WatchRequest {
        request_union: Some(union),
    }
}
