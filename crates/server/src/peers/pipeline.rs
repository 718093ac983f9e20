//! Messages that find no stream: each is a request of its own, a few at a time.
//!
//! Source: `pipeline.go` of etcd's rafthttp.

use super::address::PeerUrl;
use super::client::chain;
use super::dial::{Connection, Task};
use super::identity::hex;
use super::picker::Picker;
use super::post::{PostError, judge, request};
use super::queue::Queue;
use super::status::Status;
use bytes::Bytes;
use http_body_util::Full;
use quorate_node::raft::{Message, MessageKind};
use quorate_node::wal::raftpb::put_message;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Requests at a time: etcd's connPerPipeline.
const CONNECTIONS: usize = 4;

/// Messages that may wait: etcd's pipelineBufSize.
const MESSAGES_MAX: usize = 64;

/// How long an answer may take. A proposal may wait for an election.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// A connection that was idle for longer is not used again: the other end waits for five seconds.
const IDLE_MAX: Duration = Duration::from_secs(3);

/// The way to one peer.
pub(super) struct Pipeline {
    ways: Rc<Ways>,
    _workers: Vec<Task>,
}

struct Ways {
    status: Rc<Status>,
    picker: Rc<Picker>,
    queue: RefCell<Queue>,
    arrived: Notify,
}

/// A connection, and whom it leads to.
type Idle = Option<(Rc<PeerUrl>, Connection<Full<Bytes>>)>;

impl Pipeline {
    pub fn start(status: Rc<Status>, picker: Rc<Picker>) -> Pipeline {
        tracing::info!(
            "local-member-id" = status.local.identity.member.as_str(),
            "remote-peer-id" = hex(status.id),
            "started HTTP pipelining with remote peer"
        );
        let ways = Rc::new(Ways {
            status,
            picker,
            queue: RefCell::new(Queue::new(MESSAGES_MAX)),
            arrived: Notify::new(),
        });
        let workers = (0..CONNECTIONS)
            .map(|_| Task::spawn(ways.clone().work()))
            .collect();
        Pipeline {
            ways,
            _workers: workers,
        }
    }

    /// Sends a message, or gives it back.
    #[must_use]
    pub fn push(&self, message: Message) -> Option<Message> {
        let refused = self.ways.queue.borrow_mut().push(message);
        self.ways.arrived.notify_one();
        refused
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        tracing::info!(
            "local-member-id" = self.ways.status.local.identity.member.as_str(),
            "remote-peer-id" = hex(self.ways.status.id),
            "stopped HTTP pipelining with remote peer"
        );
    }
}

impl Ways {
    async fn work(self: Rc<Self>) {
        let mut idle = None;
        loop {
            let next = self.queue.borrow_mut().pop();
            match next {
                Some((message, len)) => self.send(message, len, &mut idle).await,
                None => self.arrived.notified().await,
            }
        }
    }

    async fn send(&self, message: Message, len: usize, idle: &mut Idle) {
        let (to, snapshot) = (message.to, message.kind == MessageKind::Snap);
        let mut body = Vec::with_capacity(len);
        put_message(&mut body, &message);
        drop(message);
        let status = &self.status;
        match self.post(body.into(), idle).await {
            Ok(()) => {
                status.activate();
                status.link.sent_bytes.add(len as u64);
                if snapshot {
                    status.local.host.snapshot_sent(to, true);
                }
            }
            Err(error) => {
                status.deactivate("pipeline", "write", &error.to_string());
                status.link.sent_failures.inc();
                status.local.host.unreachable(to);
                if snapshot {
                    status.local.host.snapshot_sent(to, false);
                }
            }
        }
    }

    async fn post(&self, body: Bytes, idle: &mut Idle) -> Result<(), PostError> {
        let url = self.picker.pick().ok_or(PostError::NoUrl)?;
        let posted = timeout(ANSWER_TIMEOUT, self.post_to(&url, body, idle));
        let outcome = posted.await.unwrap_or(Err(PostError::Timeout));
        if outcome.is_err() {
            *idle = None;
            self.picker.unreachable(&url);
        }
        outcome
    }

    async fn post_to(
        &self,
        url: &Rc<PeerUrl>,
        body: Bytes,
        idle: &mut Idle,
    ) -> Result<(), PostError> {
        let local = &self.status.local;
        let request = || {
            let body = Full::new(body.clone());
            request(local, url, "/raft", "application/protobuf", body)
        };
        let fresh = |(to, connection): &(Rc<PeerUrl>, Connection<_>)| {
            to == url && connection.used.elapsed() < IDLE_MAX
        };
        if let Some((_, mut connection)) = idle.take().filter(fresh) {
            // The other end may have closed it meanwhile; a message that comes twice does no harm.
            if let Ok(response) = connection.send(request()?).await {
                judge(local, self.status.id, &url.url, response).await?;
                *idle = Some((url.clone(), connection));
                return Ok(());
            }
        }
        let mut connection = Connection::open(url, local.settings.dial_timeout).await?;
        let sent = connection.send(request()?).await;
        let response = sent.map_err(|error| PostError::Http(chain(&error)))?;
        judge(local, self.status.id, &url.url, response).await?;
        *idle = Some((url.clone(), connection));
        Ok(())
    }
}
