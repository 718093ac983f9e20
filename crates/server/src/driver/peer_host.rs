//! The member as the transport between members sees it, and the databases that go out through it.

use super::member_loop::Input;
use super::{Pace, Shared};
use crate::peers::{Failure, Host, Refusal, SnapshotSource};
use quorate_node::boot::Directories;
use quorate_node::disk::Disk;
use quorate_node::raft::Message;
use quorate_node::store::View;
use quorate_node::{Error, Received, store};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// What the member is to the transport; see [`Host`].
pub(super) struct PeerHost {
    pub(super) shared: Arc<Shared>,
    pub(super) mailbox: SyncSender<Input>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directories: Directories,
    pub(super) store: store::Config,
    /// One database is opened at a time.
    pub(super) opening: Arc<Mutex<()>>,
}

impl PeerHost {
    /// Tells the loop; what finds it full or gone is said again by whatever causes it, or is no
    /// longer of interest.
    fn tell(&self, input: Input) {
        let _full_or_gone = self.mailbox.try_send(input);
    }
}

impl Host for PeerHost {
    fn receive(&self, messages: Vec<Message>) -> Vec<Message> {
        match self.mailbox.try_send(Input::Messages(messages)) {
            Err(TrySendError::Full(Input::Messages(messages))) => messages,
            _ => Vec::new(),
        }
    }

    fn received_snapshot(&self, message: Message, database: PathBuf) -> Result<(), Refusal> {
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(Refusal::Stopping);
        }
        let index = message.snapshot.as_ref().map_or(0, |s| s.metadata.index);
        let (disk, directories, config) = (self.disk.clone(), self.directories.clone(), self.store);
        let (mailbox, opening) = (self.mailbox.clone(), self.opening.clone());
        // Opening reads every page, which takes its time.
        let opened = std::thread::Builder::new()
            .name("received".into())
            .spawn(move || {
                let _alone = opening.lock().unwrap_or_else(PoisonError::into_inner);
                match Received::open(&disk, &directories, index, config) {
                    Ok(received) => {
                        let input = Input::Snapshot(Box::new((message, received)));
                        let _stopped = mailbox.send(input);
                    }
                    // It came twice: the one that came first is on its way into the member.
                    Err(error) if error.is_locked() => {
                        tracing::info!(
                            "path" = %database.display(),
                            "the received database is in use already"
                        );
                    }
                    Err(error) => {
                        tracing::error!(
                            "path" = %database.display(),
                            "error" = %error,
                            "a received database is not used"
                        );
                        if let Err(error) = disk.remove(&database) {
                            tracing::warn!("error" = %error, "it could not be removed");
                        }
                    }
                }
            });
        opened.map(|_| ()).map_err(|_| Refusal::Overloaded)
    }

    fn is_removed(&self, id: u64) -> bool {
        self.shared.view.load().members.is_removed(id)
    }

    fn unreachable(&self, id: u64) {
        self.tell(Input::Unreachable(id));
    }

    fn snapshot_sent(&self, id: u64, ok: bool) {
        // Raft sends nothing else to it until it is told.
        let _gone = self.mailbox.send(Input::SnapshotSent(id, ok));
    }

    fn active(&self, id: u64, active: bool) {
        let _gone = self.mailbox.send(Input::PeerActive(id, active));
    }

    fn is_kin(&self, id: u64, kin: bool) {
        self.shared.kin.rcu(|known| {
            let mut known = BTreeSet::clone(known);
            if kin {
                known.insert(id);
            } else {
                known.remove(&id);
            }
            known
        });
    }

    fn failed(&self, failure: Failure) {
        match failure {
            Failure::Removed => self.tell(Input::Fatal(Error::Removed)),
        }
    }
}

/// Pieces of a database that wait to be sent.
const PIECES: usize = 2;

/// A view's database, read by a thread of its own from the first byte on.
pub(super) struct Database {
    view: Arc<View>,
    shared: Arc<Shared>,
    pieces: Option<Receiver<io::Result<Vec<u8>>>>,
    piece: Vec<u8>,
    /// How much of the piece is sent.
    used: usize,
    offset: u64,
}

impl Database {
    pub(super) fn new(view: Arc<View>, shared: Arc<Shared>) -> Database {
        Database {
            view,
            shared,
            pieces: None,
            piece: Vec::new(),
            used: 0,
            offset: 0,
        }
    }

    fn begin(&self) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
        let (sender, pieces) = sync_channel(PIECES);
        let file = self.view.file.clone();
        let mut pace = Pace::new(self.shared.clone());
        std::thread::Builder::new()
            .name("database".into())
            .spawn(move || {
                let copied = file.write_to(&mut |piece| {
                    pace.sent(piece.len() as u64);
                    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
                    sender.send(Ok(piece.to_vec())).map_err(gone)
                });
                if let Err(error) = copied {
                    let _gone = sender.send(Err(io::Error::other(error.to_string())));
                }
            })?;
        Ok(pieces)
    }
}

impl SnapshotSource for Database {
    fn len(&self) -> u64 {
        self.view.file.size()
    }

    fn read_at(&mut self, offset: u64, mut into: &mut [u8]) -> io::Result<()> {
        if offset != self.offset {
            return Err(io::Error::other("a database is read in order"));
        }
        if self.pieces.is_none() {
            self.pieces = Some(self.begin()?);
        }
        while !into.is_empty() {
            if self.used == self.piece.len() {
                let next = self.pieces.as_ref().and_then(|pieces| pieces.recv().ok());
                self.piece = next.ok_or(io::ErrorKind::UnexpectedEof)??;
                self.used = 0;
            }
            let count = into.len().min(self.piece.len() - self.used);
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&self.piece[self.used..self.used + count]);
            self.used += count;
            self.offset += count as u64;
            into = later;
        }
        Ok(())
    }
}
