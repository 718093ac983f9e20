//! The stream that keeps leases alive.
//!
//! Where this member is the leases' primary, a renewal is a question to its loop, answered from
//! there. All else takes time (the primary is another member, an entry is still to be applied, a
//! revocation is on its way) and is done by a task of the stream, one renewal after the other;
//! while it runs, renewals that come queue up behind it, so answers keep the order of requests.
//!
//! Invariant: at most one task a stream, running whenever something is queued; the queue is bounded.

use super::kv::Reader;
use super::lease::lease_status;
use super::sink::Sink;
use super::{Services, body, decode};
use crate::driver::Waiter;
use crate::peer_api::Peers;
use crate::peer_api::leases::{LeaseError, Tried, is_behind, is_ticking, try_renew};
use crate::transport::{Status, StreamHandler, WakeBatch};
use bytes::Bytes;
use quorate_api::Error;
use quorate_api::etcdserverpb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse, ResponseHeader};
use quorate_failpoints::fail_point;
use quorate_node::{Member, Revocation};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Renewals that may wait for the task of a stream.
const QUEUE: usize = 64 * 1024;

impl Services {
    pub(super) fn open_keep_alive(&self, sink: Sink) -> Box<dyn StreamHandler> {
        Box::new(KeepAlive(Stream {
            reader: self.reader(),
            peers: self.peers.clone(),
            fast: self.limits.fast_keep_alive,
            sink,
            queue: Arc::default(),
        }))
    }
}

/// What waits for the stream's task.
#[derive(Default)]
struct Queue {
    renewals: VecDeque<Renewal>,
    running: bool,
    /// Nothing more comes: the stream ends once the queue is empty.
    closing: bool,
}

/// A lease, and the header of before its renewal: nobody sees a lease revoked at a revision and
/// kept alive at a later one.
struct Renewal {
    id: i64,
    header: ResponseHeader,
}

#[derive(Clone)]
struct Stream {
    reader: Reader,
    peers: Peers,
    fast: bool,
    sink: Sink,
    queue: Arc<Mutex<Queue>>,
}

struct KeepAlive(Stream);

impl StreamHandler for KeepAlive {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        let LeaseKeepAliveRequest { id } = decode(message)?;
        let stream = self.0.clone();
        // A client that asks and does not read its answers must not fill the memory.
        if stream.sink.writable() == 0 || stream.queue().renewals.len() >= QUEUE {
            return Err(Error::RequestTooManyRequests.into());
        }
        let handle = stream.reader.member.clone();
        let header = stream.reader.header(handle.view().revision);
        let renewal = Renewal { id, header };
        fail_point!("beforeCheckpointInLeaseRenew");
        let question = Box::new(move |member: &mut Member<Waiter>, batch: &mut WakeBatch| {
            stream.renew(renewal, member, batch);
        });
        Ok(handle.ask(question)?)
    }

    fn on_half_close(&mut self) {
        // Behind the renewals that were asked for before.
        let stream = self.0.clone();
        let close = Box::new(move |_: &mut _, batch: &mut _| {
            let mut queue = stream.queue();
            queue.closing = true;
            if !queue.running {
                stream.sink.close_in(Status::ok(), batch);
            }
        });
        if let Err(error) = self.0.reader.member.ask(close) {
            self.0.sink.close(error.into());
        }
    }

    fn on_cancel(&mut self) {
        self.0.queue().renewals.clear();
    }

    fn on_writable(&mut self) {}
}

impl Stream {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the member's loop.
    fn renew(self, renewal: Renewal, member: &mut Member<Waiter>, batch: &mut WakeBatch) {
        let at_once = !self.queue().running
            && member.lessor().is_primary()
            && is_ticking(&self.reader.member, member)
            && (self.fast || !is_behind(member));
        if !at_once {
            return self.enqueue(renewal);
        }
        match try_renew(member, renewal.id) {
            Tried::Renewed(ttl_s) => self.tell(&renewal, ttl_s, batch),
            Tried::NotFound => self.tell(&renewal, 0, batch),
            Tried::Behind | Tried::NotPrimary => self.enqueue(renewal),
            Tried::Expiring(told) => {
                // Nobody else has to wait for it.
                let runtime = self.peers.runtime.clone();
                runtime.spawn(async move {
                    match told.await {
                        Ok(Revocation::Gone) => self.tell(&renewal, 0, &mut WakeBatch::new()),
                        Ok(Revocation::Demoted) => self.enqueue(renewal),
                        Err(_) => self.sink.close(Error::Stopped.into()),
                    }
                });
            }
        }
    }

    fn tell(&self, renewal: &Renewal, ttl: i64, batch: &mut WakeBatch) {
        let response = LeaseKeepAliveResponse {
            header: Some(renewal.header),
            id: renewal.id,
            ttl,
        };
        self.sink.send_in(body(&response), batch);
    }

    /// Leaves a renewal to the task, which is started where it does not run.
    fn enqueue(self, renewal: Renewal) {
        let mut queue = self.queue();
        queue.renewals.push_back(renewal);
        if std::mem::replace(&mut queue.running, true) {
            return;
        }
        drop(queue);
        let runtime = self.peers.runtime.clone();
        runtime.spawn(self.work());
    }

    /// What the task is to do next. Where there is nothing, the task has ended.
    fn next(&self) -> Option<Renewal> {
        let mut queue = self.queue();
        if self.sink.is_closed() {
            queue.renewals.clear();
        }
        let next = queue.renewals.pop_front();
        if next.is_none() {
            queue.running = false;
            if queue.closing {
                self.sink.close(Status::ok());
            }
        }
        next
    }

    /// The task: renews what is queued until nothing is.
    async fn work(self) {
        while let Some(renewal) = self.next() {
            match self.peers.renew_lease(renewal.id, self.fast).await {
                Ok(ttl_s) => self.tell(&renewal, ttl_s, &mut WakeBatch::new()),
                Err(LeaseError::NotFound) => self.tell(&renewal, 0, &mut WakeBatch::new()),
                Err(error) => {
                    self.queue().renewals.clear();
                    self.sink.close(lease_status(error));
                }
            }
        }
    }
}
