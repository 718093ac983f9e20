//! A snapshot on its way to a peer: the message behind its length, then the database.
//!
//! The database is read in pieces by another thread, one piece ahead of the connection, so that a
//! large one takes neither memory nor the time of other messages.
//!
//! Source: `snapshot_sender.go` of etcd's rafthttp.

use super::client::chain;
use super::codec::put_framed;
use super::dial::Connection;
use super::host::SnapshotSource;
use super::identity::hex;
use super::picker::Picker;
use super::post::{PostError, judge, request};
use super::status::Status;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use quorate_go::size::human_bytes;
use quorate_node::raft::Message;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// Bytes of the database that are read at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// How long the peer may take from the first byte on; it syncs the database before it answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);

/// Tells the host how it ended, even if the task is cut off.
struct Outcome {
    status: Rc<Status>,
    ok: bool,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        let host = &self.status.local.host;
        host.snapshot_sent(self.status.id, self.ok);
    }
}

/// Sends a snapshot to a peer. Whatever becomes of the future, the host is told.
pub(super) fn send(
    status: Rc<Status>,
    picker: Rc<Picker>,
    message: Message,
    source: Box<dyn SnapshotSource>,
) -> impl Future<Output = ()> {
    let outcome = Outcome { status, ok: false };
    send_and_tell(outcome, picker, message, source)
}

async fn send_and_tell(
    mut outcome: Outcome,
    picker: Rc<Picker>,
    message: Message,
    source: Box<dyn SnapshotSource>,
) {
    let began = Instant::now();
    let status = outcome.status.clone();
    let index = (message.snapshot.as_ref()).map_or(0, |snapshot| snapshot.metadata.index);
    let body = SnapshotBody::new(&message, source);
    let (remote, bytes) = (hex(status.id), body.total);
    let size = human_bytes(bytes);
    tracing::info!(
        "snapshot-index" = index,
        "remote-peer-id" = remote,
        "bytes" = bytes,
        "size" = size,
        "sending database snapshot"
    );
    let transfers = &status.link.snapshots_sent;
    let _under_way = transfers.begin();
    match post(&status, &picker, body).await {
        Ok(()) => {
            status.activate();
            outcome.ok = true;
            tracing::info!(
                "snapshot-index" = index,
                "remote-peer-id" = remote,
                "bytes" = bytes,
                "size" = size,
                "sent database snapshot"
            );
            status.link.sent_bytes.add(bytes);
            transfers.done.inc();
            transfers.took.observe(began.elapsed());
        }
        Err(error) => {
            tracing::warn!(
                "snapshot-index" = index,
                "remote-peer-id" = remote,
                "bytes" = bytes,
                "size" = size,
                "error" = error.to_string(),
                "failed to send database snapshot"
            );
            status.deactivate("sendMsgSnap", "post", &error.to_string());
            status.local.host.unreachable(status.id);
            status.link.sent_failures.inc();
            transfers.failed.inc();
        }
    }
}

async fn post(status: &Status, picker: &Picker, body: SnapshotBody) -> Result<(), PostError> {
    let url = picker.pick().ok_or(PostError::NoUrl)?;
    let local = &status.local;
    let posting = async {
        let content = "application/octet-stream";
        let request = request(local, &url, "/raft/snapshot", content, body)?;
        let mut connection = Connection::open(&url, local.settings.dial_timeout).await?;
        let sent = timeout(ANSWER_TIMEOUT, connection.send(request)).await;
        let response = sent
            .map_err(|_| PostError::Timeout)?
            .map_err(|error| PostError::Http(chain(&error)))?;
        judge(local, status.id, &url.url, response).await
    };
    let outcome = posting.await;
    if outcome.is_err() {
        picker.unreachable(&url);
    }
    outcome
}

/// A piece that was read, and the source for the next.
type Read = (Box<dyn SnapshotSource>, io::Result<Bytes>);

enum Reading {
    /// Not yet.
    Message(Bytes, Box<dyn SnapshotSource>),
    /// A piece that begins at `offset` is being read.
    Piece(JoinHandle<Read>),
    /// All was read, or nothing more can be.
    Done,
}

/// Message and database as the body of a request.
struct SnapshotBody {
    reading: Reading,
    /// Where the next piece begins.
    offset: u64,
    database: u64,
    /// Bytes of the whole body.
    total: u64,
    /// Bytes that were handed out.
    sent: u64,
}

impl SnapshotBody {
    fn new(message: &Message, source: Box<dyn SnapshotSource>) -> SnapshotBody {
        let mut head = Vec::new();
        put_framed(&mut head, message);
        let database = source.len();
        SnapshotBody {
            offset: 0,
            database,
            total: head.len() as u64 + database,
            sent: 0,
            reading: Reading::Message(head.into(), source),
        }
    }

    fn read_next(&mut self, mut source: Box<dyn SnapshotSource>) {
        let len = PIECE_BYTES.min(self.database - self.offset);
        if len == 0 {
            self.reading = Reading::Done;
            tracing::info!(
                "bytes" = self.database,
                "size" = human_bytes(self.database),
                "sent database snapshot to writer"
            );
            return;
        }
        let offset = self.offset;
        self.offset += len;
        self.reading = Reading::Piece(spawn_blocking(move || {
            let mut piece = vec![0; len as usize];
            let read = source.read_at(offset, &mut piece);
            (source, read.map(|()| Bytes::from(piece)))
        }));
    }
}

impl Body for SnapshotBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let piece = match &mut this.reading {
            Reading::Done => return Poll::Ready(None),
            Reading::Message(..) => {
                let Reading::Message(head, source) =
                    std::mem::replace(&mut this.reading, Reading::Done)
                else {
                    unreachable!("it was one a line ago");
                };
                this.read_next(source);
                head
            }
            Reading::Piece(read) => {
                let read = ready!(Pin::new(read).poll(cx)).map_err(io::Error::other);
                this.reading = Reading::Done;
                let (source, piece) = read?;
                let piece = piece?;
                this.read_next(source);
                piece
            }
        };
        this.sent += piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.reading, Reading::Done)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.total - self.sent)
    }
}
