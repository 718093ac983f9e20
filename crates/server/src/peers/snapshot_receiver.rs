//! A snapshot from a peer: the message behind its length, then the database to the request's end.
//!
//! Invariants:
//! - The member hears of a snapshot when its database is durable under its name, not before.
//! - At most one request writes the database of an index, and [`SNAPSHOTS_MAX`] write at all.
//! - What does not come whole leaves no file.
//!
//! Source: `http.go` of etcd's rafthttp and `db.go` of its snap package.

use super::codec::{LENGTH_BYTES, length};
use super::hub::Hub;
use super::identity::hex;
use super::metrics::{Link, NETWORK};
use super::serve::{
    BodyError, Refused, Reply, admit, empty, error, forbidden, next_piece, require,
};
use bytes::{Buf, Bytes, BytesMut};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use quorate_go::duration;
use quorate_go::size::human_bytes;
use quorate_node::disk::{Disk, File, Mode};
use quorate_node::raft::{Message, MessageKind};
use quorate_node::wal::raftpb::decode_message;
use quorate_node::wal::{WalError, snap};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::task::spawn_blocking;

/// The longest message before a database: etcd's snapshotLimitByte.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Snapshots that are received at a time. A member needs one.
const SNAPSHOTS_MAX: usize = 2;

/// Bytes that are gathered for one write to the disk.
const WRITE_BYTES: usize = 1 << 20;

/// The indexes whose databases are being received.
#[derive(Clone, Default)]
pub(super) struct Receiving(Arc<Mutex<BTreeSet<u64>>>);

/// The right to write the database of an index.
struct Turn {
    receiving: Receiving,
    index: u64,
}

impl Receiving {
    fn set(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, index: u64) -> Result<Turn, SaveError> {
        let mut set = self.set();
        if set.len() >= SNAPSHOTS_MAX || !set.insert(index) {
            return Err(SaveError::Busy);
        }
        Ok(Turn {
            receiving: self.clone(),
            index,
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.receiving.set().remove(&self.index);
    }
}

/// Why a database could not be saved.
#[derive(Debug, thiserror::Error)]
enum SaveError {
    #[error("this or another snapshot is being received")]
    Busy,
    #[error("the database is empty")]
    Empty,
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("{action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Publish(#[from] WalError),
    #[error("the transport stops")]
    Stopping,
}

pub(super) async fn answer(hub: &Rc<Hub>, mut request: Request<Incoming>) -> Reply {
    let began = Instant::now();
    if let Err(refused) = require(request.method(), "POST").and_then(|()| admit(hub, &request)) {
        NETWORK.unknown_snapshots.inc();
        return *refused;
    }
    let body = request.body_mut();
    let (message, size, rest) = match read_message(body).await {
        Ok(read) => read,
        Err(why) => {
            tracing::warn!(
                "local-member-id" = hub.local.identity.member.as_str(),
                "error" = why,
                "failed to decode Raft message"
            );
            NETWORK.unknown_failures.inc();
            NETWORK.unknown_snapshots.inc();
            let line = format!("failed to decode raft message ({why})");
            return error(StatusCode::BAD_REQUEST, &line);
        }
    };
    let link = hub.local.link(message.from);
    link.received_bytes.add(size as u64);
    let transfers = &link.snapshots_received;
    match receive(hub, &link, message, size, body, rest, began).await {
        Ok(()) => {
            transfers.done.inc();
            transfers.took.observe(began.elapsed());
            // The sender takes it for the end of its work.
            empty(StatusCode::NO_CONTENT)
        }
        Err(refused) => {
            transfers.failed.inc();
            *refused
        }
    }
}

/// The message, its length and what was read behind it.
async fn read_message(body: &mut Incoming) -> Result<(Message, usize, BytesMut), String> {
    let mut read = BytesMut::new();
    let length = loop {
        let length = length(&read, MESSAGE_BYTES_MAX).map_err(|error| error.to_string())?;
        match length {
            Some(length) if LENGTH_BYTES + length <= read.len() => break length,
            _ => {}
        }
        match next_piece(body).await {
            Ok(Some(piece)) => read.extend_from_slice(&piece),
            Ok(None) => return Err("unexpected EOF".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    };
    read.advance(LENGTH_BYTES);
    let bytes = Bytes::copy_from_slice(&read[..length]);
    read.advance(length);
    let message = decode_message(&bytes).map_err(|error| error.to_string())?;
    Ok((message, length, read))
}

async fn receive(
    hub: &Rc<Hub>,
    link: &Link,
    message: Message,
    size: usize,
    body: &mut Incoming,
    rest: BytesMut,
    began: Instant,
) -> Result<(), Refused> {
    let (local, from) = (hub.local.identity.member.as_str(), hex(message.from));
    let snapshot = message.snapshot.as_ref();
    let index = snapshot.map_or(0, |snapshot| snapshot.metadata.index);
    if message.kind != MessageKind::Snap || index == 0 {
        tracing::warn!(
            "local-member-id" = local,
            "remote-snapshot-sender-id" = from,
            "message-type" = message.kind.name(),
            "unexpected Raft message type"
        );
        return Err(error(StatusCode::BAD_REQUEST, "wrong raft message type").into());
    }
    let vetted = hub.local.vet(&message);
    vetted.map_err(|why| Box::new(forbidden(&why.to_string())))?;
    let _under_way = link.snapshots_received.begin();
    tracing::info!(
        "local-member-id" = local,
        "remote-snapshot-sender-id" = from,
        "incoming-snapshot-index" = index,
        "incoming-snapshot-message-size-bytes" = size,
        "incoming-snapshot-message-size" = human_bytes(size as u64),
        "receiving database snapshot"
    );
    let (database, bytes) = match save(hub, index, body, rest).await {
        Ok(saved) => saved,
        Err(why) => {
            tracing::warn!(
                "local-member-id" = local,
                "remote-snapshot-sender-id" = from,
                "incoming-snapshot-index" = index,
                "error" = why.to_string(),
                "failed to save incoming database snapshot"
            );
            let line = format!("failed to save KV snapshot ({why})");
            return Err(error(StatusCode::INTERNAL_SERVER_ERROR, &line).into());
        }
    };
    link.received_bytes.add(bytes);
    tracing::info!(
        "local-member-id" = local,
        "remote-snapshot-sender-id" = from,
        "incoming-snapshot-index" = index,
        "incoming-snapshot-size-bytes" = bytes,
        "incoming-snapshot-size" = human_bytes(bytes),
        "download-took" = duration::format(began.elapsed()),
        "received and saved database snapshot"
    );
    let taken = hub.local.host.received_snapshot(message, database);
    taken.map_err(|why| {
        tracing::warn!(
            "local-member-id" = local,
            "remote-snapshot-sender-id" = from,
            "error" = why.to_string(),
            "failed to process Raft message"
        );
        let line = format!("failed to process raft message ({why})");
        error(StatusCode::INTERNAL_SERVER_ERROR, &line).into()
    })
}

/// A database that is being written. Dropped before it is published, it leaves nothing.
struct Draft {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    turn: Option<Turn>,
}

impl Drop for Draft {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else {
            return;
        };
        let (disk, path) = (self.disk.clone(), std::mem::take(&mut self.path));
        spawn_blocking(move || {
            if let Err(error) = disk.remove(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(
                    "path" = path.display().to_string(),
                    "error" = error.to_string(),
                    "failed to remove a part of a database snapshot"
                );
            }
            // The next one may come now.
            drop(turn);
        });
    }
}

/// Runs a step of file work on another thread.
async fn elsewhere<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, SaveError> + Send + 'static,
) -> Result<T, SaveError> {
    spawn_blocking(step)
        .await
        .unwrap_or(Err(SaveError::Stopping))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SaveError {
    move |source| SaveError::Io {
        action,
        path: path.to_path_buf(),
        source,
    }
}

async fn save(
    hub: &Hub,
    index: u64,
    body: &mut Incoming,
    rest: BytesMut,
) -> Result<(PathBuf, u64), SaveError> {
    let began = Instant::now();
    let settings = &hub.local.settings;
    let (disk, dir) = (settings.disk.clone(), settings.snapshot_dir.clone());
    let mut draft = Draft {
        turn: Some(hub.receiving.begin(index)?),
        path: snap::database_tmp_path(&dir, index),
        disk: disk.clone(),
    };
    let path = draft.path.clone();
    let file = elsewhere(move || {
        let file = disk
            .open(&path, Mode::Create)
            .map_err(failed("make", &path))?;
        file.set_len(0).map_err(failed("cut", &path))?;
        Ok(file)
    })
    .await?;
    let bytes = write(&file, &draft.path, body, rest).await?;
    if bytes == 0 {
        return Err(SaveError::Empty);
    }
    let (disk, path) = (draft.disk.clone(), draft.path.clone());
    let published = elsewhere(move || {
        let fsync_began = Instant::now();
        file.sync_all().map_err(failed("sync", &path))?;
        NETWORK.database_fsync.observe(fsync_began.elapsed());
        // One that is there already is as good, and may be in use.
        match snap::find_database(&*disk, &dir, index) {
            Ok(there) => {
                disk.remove(&path).map_err(failed("remove", &path))?;
                disk.sync_dir(&dir).map_err(failed("sync", &dir))?;
                Ok((there, false))
            }
            Err(WalError::NoDatabase { .. }) => {
                Ok((snap::publish_database(&*disk, &dir, index)?, true))
            }
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    draft.turn = None;
    let (path, fresh) = published;
    if fresh {
        tracing::info!(
            "path" = path.display().to_string(),
            "bytes" = bytes,
            "size" = human_bytes(bytes),
            "saved database snapshot to disk"
        );
        NETWORK.database_save.observe(began.elapsed());
    }
    Ok((path, bytes))
}

/// Writes the rest of the request to a file; gives its length.
async fn write(
    file: &Arc<dyn File>,
    path: &Path,
    body: &mut Incoming,
    rest: BytesMut,
) -> Result<u64, SaveError> {
    let (mut gathered, mut offset) = (rest, 0);
    loop {
        let piece = next_piece(body).await?;
        let ended = piece.is_none();
        if let Some(piece) = piece {
            gathered.extend_from_slice(&piece);
        }
        if gathered.len() >= WRITE_BYTES || (ended && !gathered.is_empty()) {
            let (file, path) = (file.clone(), path.to_path_buf());
            let at = offset;
            offset += gathered.len() as u64;
            gathered = elsewhere(move || {
                let written = file.write_all_at(&gathered, at);
                written.map_err(failed("write", &path))?;
                gathered.clear();
                Ok(gathered)
            })
            .await?;
        }
        if ended {
            return Ok(offset);
        }
    }
}
