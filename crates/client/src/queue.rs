//! Whose turn it is: keys under a prefix, in the order of their creation.
//!
//! A contender puts the key `PREFIX/LEASE` (the lease in hex) under its session's lease, once; the
//! oldest key has its turn, and a key's creation revision is its place. Locks and elections are
//! both this, with the key layout of etcd's own client library, so that programs of all languages
//! take turns.
//!
//! Invariants:
//! - A place that is not wanted any more (the future that waited for it was dropped, say) is given
//!   back.
//! - A lease has one place for a name, however many tasks of a client want it: they share it, and it
//!   is given back with the last of them.
//! - Taking it and giving it back exclude each other, and each is done to its end by a task once it
//!   has begun, whoever stops waiting for it: no deletion overtakes its put, or hits one who has
//!   come meanwhile. Where the put's answer is lost, the deletion is repeated after a time that no
//!   member holds a put for, with election timeouts of up to two seconds.

use crate::kv::one_by_creation;
use crate::session::Session;
use crate::{Client, Error, Result};
use bytes::Bytes;
use quorate_api::Method;
use quorate_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_api::etcdserverpb::range_request::SortOrder;
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::response_op::Response;
use quorate_api::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, ResponseOp, TxnRequest,
    WatchCreateRequest,
};
use quorate_api::mvccpb::KeyValue;
use quorate_api::mvccpb::event::EventType;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

const DELETE_ATTEMPTS_MAX: u32 = 6;
/// After the first failure; doubled after each.
const DELETE_WAIT: Duration = Duration::from_millis(100);
const DELETE_JITTER: f64 = 0.2;
/// Longer than members hold a write that they have taken: five seconds and two election timeouts.
const LATE_PUT: Duration = Duration::from_secs(10);

/// The prefix of all contenders' keys.
pub(crate) fn prefix(name: &[u8]) -> Bytes {
    [name, b"/"].concat().into()
}

/// A contender's key.
fn key(prefix: &[u8], lease: i64) -> Bytes {
    // With its sign, as Go prints numbers.
    let sign = if lease < 0 { "-" } else { "" };
    let name = format!("{sign}{:x}", lease.unsigned_abs());
    [prefix, name.as_bytes()].concat().into()
}

/// The places of a client's sessions, by key as the cluster has it. The key has the lease in it: a
/// session that goes on with the lease of one before it has its places.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<Bytes, Arc<Sharers>>>);

/// Those of one session that share a place.
#[derive(Debug, Default)]
struct Sharers {
    count: AtomicUsize,
    /// Held while the key is put or deleted.
    change: Arc<tokio::sync::Mutex<()>>,
}

impl Places {
    /// One more for this key.
    fn join(&self, key: &Bytes) -> Arc<Sharers> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sharers = places.entry(key.clone()).or_default();
        sharers.count.fetch_add(1, Ordering::AcqRel);
        sharers.clone()
    }

    /// Forgets keys that nobody wants.
    fn tidy(&self) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever joins does so under this lock, and whoever has joined holds a reference.
        places.retain(|_, sharers| Arc::strong_count(sharers) > 1);
    }
}

/// A place in the queue.
#[derive(Debug)]
pub(crate) struct Place {
    share: Option<Share>,
    pub(crate) key: Bytes,
    /// The revision at which the key was created; 0 until it is known.
    pub(crate) revision: i64,
}

/// What is needed to give a place back.
#[derive(Debug)]
struct Share {
    client: Client,
    sharers: Arc<Sharers>,
    /// Of the one who took it; a drop may happen outside of all.
    runtime: Option<Handle>,
}

/// What came of asking for a place.
pub(crate) struct Entered {
    pub(crate) place: Place,
    /// The key as it was there before, if it was.
    pub(crate) before: Option<KeyValue>,
    /// The oldest key.
    pub(crate) first: Option<KeyValue>,
}

impl Place {
    /// Takes a place for a session, or finds the one that it has.
    pub(crate) async fn enter(session: &Session, name: &[u8], value: Bytes) -> Result<Entered> {
        let client = session.client();
        let prefix = prefix(name);
        let lease = session.lease();
        let key = key(&prefix, lease);
        let put = PutRequest {
            key: key.clone(),
            value,
            lease,
            ..PutRequest::default()
        };
        let first = one_by_creation(prefix, SortOrder::Ascend);
        let mut place = Place::held(session, key.clone(), 0);
        let txn = TxnRequest {
            compare: vec![created_at(&key, 0)],
            success: vec![
                op(Request::RequestPut(put)),
                op(Request::RequestRange(first.clone())),
            ],
            failure: vec![
                op(Request::RequestRange(RangeRequest {
                    key,
                    ..RangeRequest::default()
                })),
                op(Request::RequestRange(first)),
            ],
        };
        let put = client.clone();
        // The place is the task's until the put has ended: if nobody waits for it any more, or the
        // answer is lost, it is given back behind the put.
        finished(tokio::spawn(async move {
            let change = place.change();
            let _change = change.lock().await;
            let answer = put.txn(txn).await?;
            let revision = answer.header.as_ref().map_or(0, |header| header.revision);
            let before = match answer.succeeded {
                true => None,
                false => Some(first_pair(answer.responses.first()).ok_or_else(|| lacks("a key"))?),
            };
            place.revision = before
                .as_ref()
                .map_or(revision, |pair| pair.create_revision);
            Ok(Entered {
                place,
                before,
                first: first_pair(answer.responses.get(1)),
            })
        }))
        .await
    }

    fn change(&self) -> Arc<tokio::sync::Mutex<()>> {
        match &self.share {
            Some(share) => share.sharers.change.clone(),
            None => Arc::default(),
        }
    }

    /// A place that is known to be held.
    pub(crate) fn held(session: &Session, key: Bytes, revision: i64) -> Place {
        let client = session.client();
        let name = client.namespace.join(&key);
        Place {
            share: Some(Share {
                client: client.clone(),
                sharers: client.places().join(&name),
                runtime: Handle::try_current().ok(),
            }),
            key,
            revision,
        }
    }

    /// Whether it is still held, as the condition of a transaction.
    pub(crate) fn is_held(&self) -> Compare {
        created_at(&self.key, self.revision)
    }

    /// Returns when all places before this one are free, or with an error if the session ends.
    pub(crate) async fn turn(&self, session: &Session, name: &[u8]) -> Result<()> {
        tokio::select! {
            _ = session.keeper().lost() => return Err(Error::SessionEnded),
            free = self.predecessors_gone(session.client(), prefix(name)) => free?,
        }
        // The lease may have ended meanwhile, and the key with it, before its keeper knew.
        let found = session.client().get(self.key.clone()).await?;
        match found.kvs.first() {
            Some(pair) if pair.create_revision == self.revision => Ok(()),
            _ => Err(Error::SessionEnded),
        }
    }

    async fn predecessors_gone(&self, client: &Client, prefix: Bytes) -> Result<()> {
        loop {
            let mut last = one_by_creation(prefix.clone(), SortOrder::Descend);
            last.max_create_revision = self.revision.saturating_sub(1);
            let answer = client.range(last).await?;
            let Some(pair) = answer.kvs.into_iter().next() else {
                return Ok(());
            };
            let revision = answer.header.map_or(0, |header| header.revision);
            match deleted(client, pair.key, revision.saturating_add(1)).await {
                // It waited longer than the history is kept: look again.
                Ok(()) | Err(Error::Compacted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the place back; returns when it is free, or when others of the session have it.
    pub(crate) async fn give_back(mut self) -> Result<()> {
        match self.share.take() {
            Some(share) => {
                let (key, revision) = (self.key.clone(), self.revision);
                finished(tokio::spawn(share.give_back(key, revision))).await
            }
            None => Ok(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(share) = self.share.take() else {
            return;
        };
        let Some(runtime) = share.runtime.clone() else {
            // Nobody is there to delete the key: the session's end does, or one of the session who
            // takes the place again.
            share.sharers.count.fetch_sub(1, Ordering::AcqRel);
            return;
        };
        let (key, revision) = (self.key.clone(), self.revision);
        runtime.spawn(async move {
            // As above if it fails.
            let _ = share.give_back(key, revision).await;
        });
    }
}

impl Share {
    async fn give_back(self, key: Bytes, revision: i64) -> Result<()> {
        let change = self.sharers.change.lock().await;
        let freed = match self.sharers.count.fetch_sub(1, Ordering::AcqRel) {
            1 => delete(&self.client, key.clone(), revision).await,
            _ => Ok(()),
        };
        drop(change);
        if revision == 0 {
            // The put may still be on its way from a member to the leader.
            tokio::time::sleep(LATE_PUT).await;
            let _change = self.sharers.change.lock().await;
            if self.sharers.count.load(Ordering::Acquire) == 0 {
                // If it fails, the lease's end does it.
                let _ = delete(&self.client, key, revision).await;
            }
        }
        let Share {
            client, sharers, ..
        } = self;
        drop(sharers);
        client.places().tidy();
        freed
    }
}

/// What a task gives, with its panic.
async fn finished<R>(task: JoinHandle<Result<R>>) -> Result<R> {
    match task.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime goes down, and the session with it.
            Err(_) => Err(Error::SessionEnded),
        },
    }
}

/// Deletes the key if it is the one that was created at `revision` (at any, if that is 0). That may
/// happen twice, so it is tried again where a write in general is not.
async fn delete(client: &Client, key: Bytes, revision: i64) -> Result<()> {
    let compare = match revision {
        0 => Vec::new(),
        _ => vec![created_at(&key, revision)],
    };
    let delete = DeleteRangeRequest {
        key,
        ..DeleteRangeRequest::default()
    };
    let txn = TxnRequest {
        compare,
        success: vec![op(Request::RequestDeleteRange(delete))],
        failure: Vec::new(),
    };
    let mut wait = DELETE_WAIT;
    for _ in 1..DELETE_ATTEMPTS_MAX {
        match client.txn(txn.clone()).await {
            Err(error) if error.is_transient() => {}
            done => return done.map(drop),
        }
        tokio::time::sleep(client.jitter().spread(wait, DELETE_JITTER)).await;
        wait *= 2;
    }
    client.txn(txn).await.map(drop)
}

/// Returns when a key that was there before `revision` is deleted.
async fn deleted(client: &Client, key: Bytes, revision: i64) -> Result<()> {
    let mut watcher = client.watcher(WatchCreateRequest {
        key,
        start_revision: revision,
        ..WatchCreateRequest::default()
    })?;
    loop {
        let answer = watcher.next().await?;
        let is_delete = |event: &quorate_api::mvccpb::Event| event.r#type() == EventType::Delete;
        if answer.events.iter().any(is_delete) {
            return Ok(());
        }
    }
}

/// Whether a key was created at a revision; at 0, whether there is none.
pub(crate) fn created_at(key: &Bytes, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Create as i32,
        key: key.clone(),
        range_end: Bytes::new(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
    }
}

pub(crate) fn op(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// The first pair that a read within a transaction found.
fn first_pair(answer: Option<&ResponseOp>) -> Option<KeyValue> {
    match answer?.response.as_ref()? {
        Response::ResponseRange(range) => range.kvs.first().cloned(),
        _ => None,
    }
}

fn lacks(what: &'static str) -> Error {
    Error::Malformed {
        method: Method::KVTxn.path(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_lease_in_hex_with_its_sign() {
        for (lease, expected) in [
            (0x1f, "m/1f"),
            (i64::MAX, "m/7fffffffffffffff"),
            (-0x1f, "m/-1f"),
            (i64::MIN, "m/-8000000000000000"),
        ] {
            assert_eq!(key(&prefix(b"m"), lease), expected);
        }
    }
}
