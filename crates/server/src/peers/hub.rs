//! What runs on the transport's thread: the peers, and what the handles ask for.

use super::client::fetch_for;
use super::host::{Fallback, Host, Settings, SnapshotSource};
use super::identity::hex;
use super::local::Local;
use super::peer::{Peer, Remote, usable};
use super::serve::{CONNECTIONS_MAX, listen};
use super::snapshot_receiver::Receiving;
use super::transport::{Command, Shared};
use crate::logging::list;
use crate::transport::Listener;
use quorate_node::raft::Message;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;

/// Members that send something and are not known to be in the cluster.
const REMOTES_MAX: usize = 64;

pub(super) struct Hub {
    pub local: Rc<Local>,
    pub fallback: Arc<dyn Fallback>,
    pub peers: RefCell<BTreeMap<u64, Peer>>,
    remotes: RefCell<BTreeMap<u64, Remote>>,
    pub receiving: Receiving,
    /// A permit for each connection that is served.
    pub connections: Arc<Semaphore>,
    /// Memory of requests that are still arriving.
    pub held_bytes: Cell<usize>,
}

impl Hub {
    pub fn new(
        settings: Settings,
        host: Arc<dyn Host>,
        fallback: Arc<dyn Fallback>,
        shared: Arc<Shared>,
    ) -> Rc<Hub> {
        Rc::new(Hub {
            local: Rc::new(Local::new(settings, host, shared)),
            fallback,
            peers: RefCell::default(),
            remotes: RefCell::default(),
            receiving: Receiving::default(),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            held_bytes: Cell::new(0),
        })
    }

    /// Works until it is told to stop.
    pub async fn run(self: Rc<Self>, listeners: Vec<Listener>) {
        for listener in listeners {
            spawn_local(listen(self.clone(), listener));
        }
        let shared = self.local.shared.clone();
        while let Some(taken) = shared.take().await {
            for id in taken.refused {
                self.local.host.unreachable(id);
            }
            for command in taken.commands {
                self.obey(command);
            }
        }
        self.peers.take();
        self.remotes.take();
    }

    fn obey(&self, command: Command) {
        match command {
            Command::Send(messages) => {
                for message in messages {
                    self.send(message);
                }
            }
            Command::Snapshot(message, source) => self.send_snapshot(*message, source),
            Command::SetPeer(id, urls) => self.set_peer(id, &urls),
            Command::RemovePeer(id) => self.remove_peer(id),
            Command::Ask(request, answer) => {
                let shared = self.local.shared.clone();
                spawn_local(async move {
                    fetch_for(request, answer).await;
                    shared.asked();
                });
            }
        }
    }

    fn member(&self) -> &str {
        &self.local.identity.member
    }

    fn send(&self, message: Message) {
        let to = message.to;
        if let Some(peer) = self.peers.borrow().get(&to) {
            peer.send(message);
        } else if let Some(remote) = self.remotes.borrow().get(&to) {
            remote.send(message);
        } else if to != 0 {
            tracing::debug!(
                "type" = message.kind.name(),
                "unknown-target-peer-id" = hex(to),
                "ignored message send request; unknown remote peer target"
            );
        }
    }

    fn send_snapshot(&self, message: Message, source: Box<dyn SnapshotSource>) {
        let to = message.to;
        match self.peers.borrow().get(&to) {
            Some(peer) => peer.send_snapshot(message, source),
            None => self.local.host.snapshot_sent(to, false),
        }
    }

    fn set_peer(&self, id: u64, urls: &[String]) {
        if let Some(peer) = self.peers.borrow().get(&id) {
            self.update_peer(id, peer, urls);
            return;
        }
        let peer = Peer::start(&self.local, id, urls);
        self.peers.borrow_mut().insert(id, peer);
        // What was a stranger is one no more.
        let _remote = self.remotes.borrow_mut().remove(&id);
        tracing::info!(
            "local-member-id" = self.member(),
            "remote-peer-id" = hex(id),
            "remote-peer-urls" = list(urls),
            "added remote peer"
        );
    }

    /// Makes somebody reachable who is no peer.
    pub fn add_remote(&self, id: u64, urls: &[String]) {
        let mut remotes = self.remotes.borrow_mut();
        let known = id == self.local.id()
            || self.peers.borrow().contains_key(&id)
            || remotes.contains_key(&id);
        if known || remotes.len() >= REMOTES_MAX || self.local.host.is_removed(id) {
            return;
        }
        let usable = usable(id, urls);
        if usable.is_empty() {
            return;
        }
        remotes.insert(id, Remote::start(&self.local, id, usable));
        tracing::info!(
            "local-member-id" = self.member(),
            "remote-peer-id" = hex(id),
            "remote-peer-urls" = list(urls),
            "added new remote peer"
        );
    }

    fn update_peer(&self, id: u64, peer: &Peer, urls: &[String]) {
        peer.update(urls);
        tracing::info!(
            "local-member-id" = self.member(),
            "updated-remote-peer-id" = hex(id),
            "updated-remote-peer-urls" = list(urls),
            "updated remote peer"
        );
    }

    fn remove_peer(&self, id: u64) {
        let peer = self.peers.borrow_mut().remove(&id);
        // One that never became a peer has no reason to be answered either.
        let _remote = self.remotes.borrow_mut().remove(&id);
        match peer {
            Some(peer) => {
                drop(peer);
                tracing::info!(
                    "local-member-id" = self.member(),
                    "removed-remote-peer-id" = hex(id),
                    "removed remote peer"
                );
            }
            None => tracing::warn!(
                "local-member-id" = self.member(),
                "removed-remote-peer-id" = hex(id),
                "skipped removing already removed peer"
            ),
        }
    }
}
