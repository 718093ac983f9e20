//! A watch that outlives its streams.
//!
//! Invariants:
//! - Every event from the start revision on is handed out once, in order, over any number of broken
//!   connections; see [`crate::resumption`].
//! - A stream is opened only when [`Watcher::next`] is waited for, and holds back the server while
//!   nobody does.

use crate::resumption::{Resumption, Step};
use crate::token::Token;
use crate::watch::Watch;
use crate::{Client, Error, Result};
use quorate_api::Error as Known;
use quorate_api::error::Code;
use quorate_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use std::pin::Pin;
use std::time::Duration;

const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(1);
const WAIT_JITTER: f64 = 0.2;

impl Client {
    /// A watch as the request says, which goes on where it was when its stream breaks. Keys are
    /// those of the client's namespace. Nothing is sent before [`Watcher::next`].
    pub fn watcher(&self, mut request: WatchCreateRequest) -> Result<Watcher> {
        self.namespace
            .enter(&mut request.key, &mut request.range_end)?;
        Ok(Watcher {
            client: self.clone(),
            resumption: Resumption::new(request, self.options().answer_bytes_max),
            stream: Stream::None,
            is_created: false,
            early: None,
            wait: Duration::ZERO,
            token: None,
            has_new_token: false,
            progress: Progress::default(),
        })
    }
}

/// A watch; dropping it ends it.
#[derive(Debug)]
pub struct Watcher {
    client: Client,
    resumption: Resumption,
    stream: Stream,
    /// Whether the server has said so, on this stream or one before.
    is_created: bool,
    /// What came while something else was waited for; it is that of one answer at most.
    early: Option<WatchResponse>,
    /// Before the next stream is opened.
    wait: Duration,
    /// What the newest stream was opened with.
    token: Option<Token>,
    /// A token was refused, and the one that is in use since has not been accepted yet.
    has_new_token: bool,
    progress: Progress,
}

/// Questions about the server's progress.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Still to be asked on this stream.
    wanted: u32,
    /// Asked on this stream, and not answered.
    asked: u32,
}

/// Where the watch is served.
enum Stream {
    None,
    /// Kept here so that a caller who waits a little at a time gets there as well.
    Opening(Opening),
    Open(Box<Watch>),
}

/// What is opened, and the token that it was tried with.
type Opening = Pin<Box<dyn Future<Output = Result<(Token, Result<Watch>)>> + Send>>;

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stream::None => "None",
            Stream::Opening(_) => "Opening",
            Stream::Open(_) => "Open",
        })
    }
}

impl Watcher {
    /// The next answer: events of whole revisions, or none where the server reports how far it is.
    ///
    /// A broken stream is replaced, after a wait if that happens repeatedly. An error is one that
    /// another stream would not change: the revision is compacted, permission is missing, there is
    /// no leader where one is required. Calling again tries again. It may be dropped before it is
    /// ready, and nothing is lost.
    pub async fn next(&mut self) -> Result<WatchResponse> {
        loop {
            if let Some(answer) = self.early.take() {
                return Ok(answer);
            }
            self.early = self.step().await?;
        }
    }

    /// Returns once the server has the watch: from then on no write is missed, also by a watch
    /// that begins at no particular revision.
    pub async fn created(&mut self) -> Result<()> {
        while !self.is_created && self.early.is_none() {
            self.early = self.step().await?;
        }
        Ok(())
    }

    /// Asks how far the server is; the answer comes through [`Watcher::next`], without events, over
    /// any number of broken streams. Each question has an answer of its own.
    pub fn progress(&mut self) {
        self.progress.wanted = self.progress.wanted.saturating_add(1);
    }

    /// The first revision that is still to come; 0 where that is not known yet.
    pub fn next_revision(&self) -> i64 {
        self.resumption.next_revision()
    }

    async fn step(&mut self) -> Result<Option<WatchResponse>> {
        let answer = match &mut self.stream {
            Stream::None => {
                self.stream = Stream::Opening(self.open());
                return Ok(None);
            }
            Stream::Opening(opening) => {
                let opened = match opening.await {
                    Ok((token, opened)) => {
                        self.token = Some(token);
                        opened
                    }
                    Err(error) => Err(error),
                };
                match opened {
                    Ok(stream) => self.stream = Stream::Open(Box::new(stream)),
                    Err(error) => self.broken(error).await?,
                }
                return Ok(None);
            }
            // The server takes it behind the watch that the stream began with.
            Stream::Open(stream) if self.progress.wanted > 0 => {
                match stream.progress().await {
                    Ok(()) => {
                        self.progress.wanted -= 1;
                        self.progress.asked += 1;
                    }
                    // It has ended. What it told and nobody took, the next one tells.
                    Err(_) => self.stream = Stream::None,
                }
                return Ok(None);
            }
            Stream::Open(stream) => match stream.next().await {
                Ok(Some(answer)) => answer,
                Ok(None) => {
                    self.stream = Stream::None;
                    return Ok(None);
                }
                Err(error) => {
                    self.broken(error).await?;
                    return Ok(None);
                }
            },
        };
        match self.resumption.accept(answer) {
            Step::Nothing => Ok(None),
            Step::Created => {
                self.is_created = true;
                self.has_new_token = false;
                Ok(None)
            }
            Step::Deliver(mut answer) => {
                self.wait = Duration::ZERO;
                self.has_new_token = false;
                if answer.events.is_empty() {
                    self.progress.asked = self.progress.asked.saturating_sub(1);
                }
                self.client.namespace.leave_events(&mut answer.events);
                Ok(Some(answer))
            }
            Step::BadToken(known) => {
                self.broken(Error::Known(known)).await?;
                Ok(None)
            }
            Step::Ended(error) => {
                self.stream = Stream::None;
                Err(error)
            }
        }
    }

    fn open(&mut self) -> Opening {
        // What has no answer is asked again.
        let Progress { wanted, asked } = self.progress;
        self.progress = Progress {
            wanted: wanted.saturating_add(asked),
            asked: 0,
        };
        let wait = self.client.jitter().spread(self.wait, WAIT_JITTER);
        self.wait = (self.wait * 2).clamp(WAIT_MIN, WAIT_MAX);
        let (client, request) = (self.client.clone(), self.resumption.reopen());
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            let token = client.token(None).await?;
            let opened = client.watch_with(&token, request).await;
            Ok((token, opened))
        })
    }

    /// Judges what ended a stream: whether another one may fare better.
    async fn broken(&mut self, error: Error) -> Result<()> {
        self.stream = Stream::None;
        match &error {
            Error::Known(Known::InvalidAuthToken | Known::AuthOldRevision | Known::UserEmpty)
                if self.client.has_password() && !self.has_new_token =>
            {
                match self.client.token(self.token.as_ref()).await {
                    Ok(_) => self.has_new_token = true,
                    // The old one is refused again, and then another one is asked for.
                    Err(error) if error.is_transient() => {}
                    Err(error) => return Err(error),
                }
                Ok(())
            }
            // Who is known by a certificate: the users have changed, and that is all.
            Error::Known(Known::AuthOldRevision)
                if !self.client.has_password() && !self.client.has_fixed_token() =>
            {
                Ok(())
            }
            Error::Known(Known::NoLeader) => Err(error),
            Error::Known(known) if known.code() == Code::Unavailable => Ok(()),
            Error::Connection { unsent, .. } if !unsent || self.client.options().wait_for_ready => {
                Ok(())
            }
            Error::Ended { .. } => Ok(()),
            Error::Status { code, .. }
                if *code == Code::Unavailable as i32 || *code == Code::Internal as i32 =>
            {
                Ok(())
            }
            _ => Err(error),
        }
    }
}
