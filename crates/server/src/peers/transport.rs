//! The handle that other threads hold, and the thread behind it.
//!
//! Invariants:
//! - What one caller hands over is taken up in that order.
//! - Handing over never waits: messages beyond [`WAITING_MESSAGES_MAX`] are dropped, and the thread
//!   tells so once it runs.

use super::client::{Answer, Client, ClientError, Request};
use super::host::{Fallback, Host, Settings, SnapshotSource};
use super::hub::Hub;
use crate::transport::Listener;
use quorate_node::raft::Message;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::LocalSet;

/// Messages that may wait for the thread to take them up.
const WAITING_MESSAGES_MAX: usize = 64 << 10;

/// Requests of the client that may be under way.
const REQUESTS_MAX: usize = 256;

/// Threads for files and for names; more work than that waits.
const BLOCKING_THREADS: usize = 8;

/// What a file operation that is under way at the end may take.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// What the thread is told.
pub(super) enum Command {
    Send(Vec<Message>),
    Snapshot(Box<Message>, Box<dyn SnapshotSource>),
    SetPeer(u64, Vec<String>),
    RemovePeer(u64),
    Ask(Request, Answer),
}

#[derive(Default)]
struct Inbox {
    /// Bounded: messages and requests by number, snapshots by raft, which sends a peer one at a time,
    /// the rest by the entries that change the membership.
    commands: Vec<Command>,
    messages: usize,
    /// Whom messages were for that found no room.
    refused: BTreeSet<u64>,
    /// Nothing is taken any more.
    stopped: bool,
}

/// What the handles and the thread share.
pub(super) struct Shared {
    inbox: Mutex<Inbox>,
    arrived: Notify,
    requests: AtomicUsize,
}

/// What was handed over since the last time.
pub(super) struct Taken {
    pub commands: Vec<Command>,
    pub refused: BTreeSet<u64>,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a command over; false if the transport has ended, or will now.
    fn tell(&self, command: Command) -> bool {
        let mut inbox = self.inbox();
        if inbox.stopped {
            return false;
        }
        inbox.commands.push(command);
        drop(inbox);
        self.arrived.notify_one();
        true
    }

    fn stop(&self) {
        let mut inbox = self.inbox();
        inbox.stopped = true;
        inbox.commands = Vec::new();
        drop(inbox);
        self.arrived.notify_one();
    }

    /// Waits for something to do; `None` once it is to stop.
    pub async fn take(&self) -> Option<Taken> {
        self.arrived.notified().await;
        let mut inbox = self.inbox();
        if inbox.stopped {
            return None;
        }
        inbox.messages = 0;
        Some(Taken {
            commands: std::mem::take(&mut inbox.commands),
            refused: std::mem::take(&mut inbox.refused),
        })
    }

    pub fn ask(
        &self,
        request: Request,
    ) -> Result<oneshot::Receiver<Result<super::client::Response, ClientError>>, ClientError> {
        if self.requests.fetch_add(1, Ordering::AcqRel) >= REQUESTS_MAX {
            self.asked();
            return Err(ClientError::Busy);
        }
        let (sender, receiver) = oneshot::channel();
        if !self.tell(Command::Ask(request, sender)) {
            self.asked();
            return Err(ClientError::Stopped);
        }
        Ok(receiver)
    }

    /// A request has ended.
    pub fn asked(&self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The transport between this member and its peers. A handle, cheap to clone; the thread behind it
/// ends with [`Transport::stop`] or with the last handle.
#[derive(Clone)]
pub struct Transport {
    shared: Arc<Shared>,
    thread: Arc<Thread>,
}

struct Thread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Transport {
    /// Starts it, serving peers at `listeners`. It knows no peer yet.
    pub fn start(
        settings: Settings,
        host: Arc<dyn Host>,
        fallback: Arc<dyn Fallback>,
        listeners: Vec<Listener>,
    ) -> io::Result<Transport> {
        for listener in &listeners {
            match listener {
                Listener::Tcp(listener) => listener.set_nonblocking(true)?,
                Listener::Unix(listener) => listener.set_nonblocking(true)?,
            }
        }
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            arrived: Notify::new(),
            requests: AtomicUsize::new(0),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("peers-file")
            .build()?;
        let theirs = shared.clone();
        let handle = thread::Builder::new().name("peers".into()).spawn(move || {
            let work = async move {
                Hub::new(settings, host, fallback, theirs)
                    .run(listeners)
                    .await;
            };
            let tasks = LocalSet::new();
            tasks.block_on(&runtime, work);
            // Tasks that are cut off may have files to remove, on other threads.
            let context = runtime.enter();
            drop(tasks);
            drop(context);
            runtime.shutdown_timeout(END_TIMEOUT);
        })?;
        let thread = Thread {
            shared: shared.clone(),
            handle: Mutex::new(Some(handle)),
        };
        Ok(Transport {
            shared,
            thread: Arc::new(thread),
        })
    }

    /// Sends messages to the members they name. Never waits; what cannot be sent is dropped, and the
    /// host is told so.
    pub fn send(&self, messages: Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let mut inbox = self.shared.inbox();
        if inbox.stopped {
            return;
        }
        if inbox.messages + messages.len() > WAITING_MESSAGES_MAX {
            inbox
                .refused
                .extend(messages.iter().map(|message| message.to));
        } else {
            inbox.messages += messages.len();
            inbox.commands.push(Command::Send(messages));
        }
        drop(inbox);
        self.shared.arrived.notify_one();
    }

    /// Sends a snapshot message and its database. How it ends the host is told by
    /// [`Host::snapshot_sent`], once.
    pub fn send_snapshot(&self, message: Message, database: Box<dyn SnapshotSource>) {
        let command = Command::Snapshot(Box::new(message), database);
        let _unless_stopped = self.shared.tell(command);
    }

    /// Connects to a member, or reaches it at these URLs from now on if it is a peer already.
    pub fn set_peer(&self, id: u64, urls: Vec<String>) {
        let _unless_stopped = self.shared.tell(Command::SetPeer(id, urls));
    }

    /// Ends the connections with a peer.
    pub fn remove_peer(&self, id: u64) {
        let _unless_stopped = self.shared.tell(Command::RemovePeer(id));
    }

    /// The means to ask members other things.
    pub fn client(&self) -> Client {
        Client::new(self.shared.clone())
    }

    /// Ends all connections. Waits for the thread, unless called on it.
    pub fn stop(&self) {
        self.thread.stop();
    }
}

impl Thread {
    fn stop(&self) {
        self.shared.stop();
        let handle = self.handle.lock();
        let handle = handle.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle
            && handle.thread().id() != thread::current().id()
            && let Err(panic) = handle.join()
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}
