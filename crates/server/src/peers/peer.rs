//! Another member, as this one reaches it.
//!
//! A peer is in the cluster's membership: it has streams both ways, and requests for what finds no
//! stream. A remote is not (yet): it sent something, and gets answers as requests.

use super::address::PeerUrl;
use super::codec::StreamKind;
use super::dial::Task;
use super::host::SnapshotSource;
use super::identity::hex;
use super::local::Local;
use super::picker::Picker;
use super::pipeline::Pipeline;
use super::status::Status;
use super::stream_reader::StreamReader;
use super::stream_writer::StreamWriter;
use super::{probe, snapshot_sender};
use quorate_node::raft::{Message, MessageKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Time between two lines about dropped messages, which come by the thousand.
const DROPS_LOG_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Peer {
    status: Rc<Status>,
    picker: Rc<Picker>,
    msgapp: Rc<StreamWriter>,
    message: Rc<StreamWriter>,
    pipeline: Pipeline,
    _readers: [Task; 2],
    prober: RefCell<Task>,
    /// When a dropped message was last logged, and how many were dropped since.
    drops_logged: Cell<Option<Instant>>,
    drops: Cell<u64>,
    snapshot: RefCell<Option<JoinHandle<()>>>,
}

/// The URLs that can be used; what is wrong with the others is logged.
pub(super) fn usable(id: u64, urls: &[String]) -> Vec<PeerUrl> {
    let parse = |url: &String| match PeerUrl::parse(url) {
        Ok(url) => Some(url),
        Err(error) => {
            tracing::warn!(
                "remote-peer-id" = hex(id),
                "error" = error.to_string(),
                "a peer URL cannot be used"
            );
            None
        }
    };
    urls.iter().filter_map(parse).collect()
}

impl Peer {
    pub fn start(local: &Rc<Local>, id: u64, urls: &[String]) -> Peer {
        tracing::info!("remote-peer-id" = hex(id), "starting remote peer");
        let status = Status::new(local.clone(), id, true);
        let picker = Rc::new(Picker::new(usable(id, urls)));
        let reader = |kind| {
            let reader = StreamReader::new(kind, status.clone(), picker.clone());
            Task::spawn(reader.run())
        };
        let peer = Peer {
            pipeline: Pipeline::start(status.clone(), picker.clone()),
            msgapp: StreamWriter::start(StreamKind::MsgApp, status.clone()),
            message: StreamWriter::start(StreamKind::Message, status.clone()),
            _readers: StreamKind::ALL.map(reader),
            prober: RefCell::new(Task::spawn(probe::run(status.clone(), urls.to_vec()))),
            drops_logged: Cell::default(),
            drops: Cell::new(0),
            snapshot: RefCell::default(),
            status,
            picker,
        };
        tracing::info!("remote-peer-id" = hex(id), "started remote peer");
        peer
    }

    /// Reaches it at other URLs.
    pub fn update(&self, urls: &[String]) {
        self.picker.update(usable(self.status.id, urls));
        let prober = probe::run(self.status.clone(), urls.to_vec());
        *self.prober.borrow_mut() = Task::spawn(prober);
    }

    /// The stream of a kind that this member writes.
    pub fn writer(&self, kind: StreamKind) -> &Rc<StreamWriter> {
        match kind {
            StreamKind::MsgApp => &self.msgapp,
            StreamKind::Message => &self.message,
        }
    }

    /// Sends a message by the way for its kind.
    pub fn send(&self, message: Message) {
        let kind = message.kind;
        let (refused, way) = if kind == MessageKind::Snap {
            (self.pipeline.push(message), "pipeline")
        } else if kind == MessageKind::App && self.msgapp.is_working() {
            (self.msgapp.push(message), "streamMsgAppV2")
        } else if self.message.is_working() {
            (self.message.push(message), "streamMsg")
        } else {
            (self.pipeline.push(message), "pipeline")
        };
        if let Some(message) = refused {
            self.dropped(&message, way);
        }
    }

    fn dropped(&self, message: &Message, way: &str) {
        let status = &self.status;
        status.local.host.unreachable(message.to);
        if message.kind == MessageKind::Snap {
            status.local.host.snapshot_sent(message.to, false);
        }
        status.link.sent_failures.inc();
        self.drops.set(self.drops.get() + 1);
        let logged = self.drops_logged.get();
        if logged.is_some_and(|at| at.elapsed() < DROPS_LOG_INTERVAL) {
            return;
        }
        self.drops_logged.set(Some(Instant::now()));
        tracing::warn!(
            "message-type" = message.kind.name(),
            "local-member-id" = status.local.identity.member.as_str(),
            "from" = hex(message.from),
            "remote-peer-id" = hex(status.id),
            "remote-peer-name" = way,
            "remote-peer-active" = status.is_active(),
            "dropped-messages" = self.drops.take(),
            "dropped internal Raft message since sending buffer is full"
        );
    }

    /// Sends a snapshot, unless one is on its way.
    pub fn send_snapshot(&self, message: Message, source: Box<dyn SnapshotSource>) {
        let mut under_way = self.snapshot.borrow_mut();
        if under_way.as_ref().is_some_and(|task| !task.is_finished()) {
            drop(under_way);
            return self.dropped(&message, "sendMsgSnap");
        }
        let (status, picker) = (self.status.clone(), self.picker.clone());
        let sending = snapshot_sender::send(status, picker, message, source);
        *under_way = Some(tokio::task::spawn_local(sending));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let id = hex(self.status.id);
        tracing::info!("remote-peer-id" = id, "stopping remote peer");
        if let Some(snapshot) = self.snapshot.borrow_mut().take() {
            snapshot.abort();
        }
        self.msgapp.stop();
        self.message.stop();
        self.status.rest();
        tracing::info!("remote-peer-id" = id, "stopped remote peer");
    }
}

pub(super) struct Remote {
    status: Rc<Status>,
    pipeline: Pipeline,
}

impl Remote {
    pub fn start(local: &Rc<Local>, id: u64, urls: Vec<PeerUrl>) -> Remote {
        let status = Status::new(local.clone(), id, false);
        let pipeline = Pipeline::start(status.clone(), Rc::new(Picker::new(urls)));
        Remote { status, pipeline }
    }

    /// Sends a message.
    pub fn send(&self, message: Message) {
        let Some(message) = self.pipeline.push(message) else {
            return;
        };
        let status = &self.status;
        status.link.sent_failures.inc();
        tracing::warn!(
            "message-type" = message.kind.name(),
            "local-member-id" = status.local.identity.member.as_str(),
            "from" = hex(message.from),
            "remote-peer-id" = hex(status.id),
            "remote-peer-active" = status.is_active(),
            "dropped Raft message since sending buffer is full (overloaded network)"
        );
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.status.rest();
    }
}
