//! Transactions that read first and write then, and are done over when others were in between.
//!
//! Reads go to the cluster as they are made, writes are kept back; [`Transaction::commit`] sends
//! them in one transaction under the condition that nothing read has changed. The isolation levels
//! and their conditions are those of etcd's client library:
//!
//! | level | reads | conditions |
//! |---|---|---|
//! | serializable snapshot | of one revision | what was read is unchanged, what is written was not written since the first read |
//! | serializable | of one revision | what was read is unchanged |
//! | repeatable reads | each key once | what was read is unchanged |
//! | read committed | each key once | none |

use crate::queue::{created_at, op};
use crate::{Client, Error, Result};
use bytes::Bytes;
use quorate_api::Error as Known;
use quorate_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::response_op::Response;
use quorate_api::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use quorate_api::mvccpb::KeyValue;
use std::collections::BTreeMap;

/// What a transaction sees of others; see the table above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The strongest.
    #[default]
    SerializableSnapshot,
    /// As the strongest, but what is only written may have been written by others.
    Serializable,
    /// What is read stays the same.
    RepeatableReads,
    /// Whatever is committed.
    ReadCommitted,
}

impl Client {
    /// A transaction of this level.
    ///
    /// ```no_run
    /// # async fn transfer(client: &quorate_client::Client) -> quorate_client::Result<()> {
    /// let mut transaction = client.transaction(Default::default());
    /// loop {
    ///     let from = transaction.get("from").await?;
    ///     transaction.put("to", from.map(|pair| pair.value).unwrap_or_default());
    ///     transaction.delete("from");
    ///     if transaction.commit().await?.is_some() {
    ///         return Ok(());
    ///     }
    /// }
    /// # }
    /// ```
    pub fn transaction(&self, isolation: Isolation) -> Transaction {
        Transaction {
            client: self.clone(),
            sets: Sets::new(isolation),
        }
    }
}

/// A transaction that is being made.
#[derive(Debug)]
pub struct Transaction {
    client: Client,
    sets: Sets,
}

impl Transaction {
    /// The pair of a key, with what this transaction has written (then without revisions).
    pub async fn get(&mut self, key: impl Into<Bytes>) -> Result<Option<KeyValue>> {
        let key = key.into();
        if let Some(known) = self.sets.find(&key) {
            return Ok(known);
        }
        let request = self.sets.read(&key);
        let answer = match self.client.range(request.clone()).await {
            // A member that is behind: all of the cluster is not.
            Err(Error::Known(Known::FutureRev)) if request.serializable => {
                self.client
                    .range(RangeRequest {
                        serializable: false,
                        ..request
                    })
                    .await?
            }
            answer => answer?,
        };
        Ok(self.sets.was_read(key, answer))
    }

    /// Writes a key.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.put_with(PutRequest {
            key: key.into(),
            value: value.into(),
            ..PutRequest::default()
        });
    }

    /// Writes a key as the request says (its lease, mainly).
    pub fn put_with(&mut self, request: PutRequest) {
        let key = request.key.clone();
        self.sets.writes.insert(key, Write::Put(request));
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: impl Into<Bytes>) {
        self.sets.writes.insert(key.into(), Write::Delete);
    }

    /// Sends it. `None` says that others were in between and nothing has happened: the
    /// transaction is empty again, to be made anew.
    pub async fn commit(&mut self) -> Result<Option<TxnResponse>> {
        let (request, again) = self.sets.commit();
        let answer = self.client.txn(request).await?;
        match answer.succeeded {
            true => {
                self.sets = Sets::new(self.sets.isolation);
                Ok(Some(answer))
            }
            false => {
                self.sets.failed(again, answer);
                Ok(None)
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Write {
    Put(PutRequest),
    Delete,
}

/// What was read.
#[derive(Clone, Debug)]
struct Read {
    /// Of the store, at that time.
    revision: i64,
    pair: Option<KeyValue>,
}

/// What was read and is to be written: the transaction without its client.
#[derive(Debug)]
struct Sets {
    isolation: Isolation,
    reads: BTreeMap<Bytes, Read>,
    writes: BTreeMap<Bytes, Write>,
    /// What was found when the attempt before failed, all of one revision.
    prefetched: BTreeMap<Bytes, Read>,
    /// That of the first read, where all are of one.
    revision: Option<i64>,
}

impl Sets {
    fn new(isolation: Isolation) -> Sets {
        Sets {
            isolation,
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            prefetched: BTreeMap::new(),
            revision: None,
        }
    }

    fn has_one_revision(&self) -> bool {
        matches!(
            self.isolation,
            Isolation::SerializableSnapshot | Isolation::Serializable
        )
    }

    /// What is known of a key without asking.
    fn find(&mut self, key: &Bytes) -> Option<Option<KeyValue>> {
        match self.writes.get(key) {
            Some(Write::Put(put)) => {
                return Some(Some(KeyValue {
                    key: put.key.clone(),
                    value: put.value.clone(),
                    lease: put.lease,
                    ..KeyValue::default()
                }));
            }
            Some(Write::Delete) => return Some(None),
            None => {}
        }
        if let Some(read) = self.prefetched.remove(key)
            && self
                .revision
                .is_none_or(|revision| revision == read.revision)
        {
            self.revision = Some(read.revision);
            self.reads.insert(key.clone(), read);
        }
        self.reads.get(key).map(|read| read.pair.clone())
    }

    /// How to read a key: the first one as it is now, and then, where all are of one revision,
    /// those of the first.
    fn read(&self, key: &Bytes) -> RangeRequest {
        let (revision, serializable) = match (self.has_one_revision(), self.revision) {
            (true, Some(revision)) => (revision, true),
            (true, None) => (0, false),
            (false, _) => (0, true),
        };
        RangeRequest {
            key: key.clone(),
            revision,
            serializable,
            ..RangeRequest::default()
        }
    }

    fn was_read(&mut self, key: Bytes, answer: RangeResponse) -> Option<KeyValue> {
        let store = answer.header.map_or(0, |header| header.revision);
        let revision = match self.has_one_revision() {
            true => *self.revision.get_or_insert(store),
            false => store,
        };
        let pair = answer.kvs.into_iter().next();
        let read = Read {
            revision,
            pair: pair.clone(),
        };
        self.reads.insert(key, read);
        pair
    }

    /// The transaction, and the keys that it reads if its conditions fail.
    fn commit(&self) -> (TxnRequest, Vec<Bytes>) {
        let again: Vec<Bytes> = match self.has_one_revision() {
            true => self.reads.keys().cloned().collect(),
            false => Vec::new(),
        };
        let read = |key: &Bytes| RangeRequest {
            key: key.clone(),
            ..RangeRequest::default()
        };
        let write = |(key, write): (&Bytes, &Write)| match write {
            Write::Put(put) => op(Request::RequestPut(put.clone())),
            Write::Delete => op(Request::RequestDeleteRange(DeleteRangeRequest {
                key: key.clone(),
                ..DeleteRangeRequest::default()
            })),
        };
        let request = TxnRequest {
            compare: self.conditions(),
            success: self.writes.iter().map(write).collect(),
            failure: again
                .iter()
                .map(|key| op(Request::RequestRange(read(key))))
                .collect(),
        };
        (request, again)
    }

    fn conditions(&self) -> Vec<Compare> {
        if self.isolation == Isolation::ReadCommitted {
            return Vec::new();
        }
        let unchanged = self.reads.iter().map(|(key, read)| match &read.pair {
            Some(pair) => modified(key, CompareResult::Equal, pair.mod_revision),
            None => created_at(key, 0),
        });
        let mut all: Vec<Compare> = unchanged.collect();
        if self.isolation == Isolation::SerializableSnapshot {
            let first = self.reads.values().map(|read| read.revision).min();
            // Without a read there is no revision that it began at.
            if let Some(first) = first {
                let written = self.writes.keys();
                all.extend(
                    written.map(|key| modified(key, CompareResult::Less, first.saturating_add(1))),
                );
            }
        }
        all
    }

    /// Begins anew, with what the failed attempt found.
    fn failed(&mut self, again: Vec<Bytes>, answer: TxnResponse) {
        let revision = answer.header.map_or(0, |header| header.revision);
        *self = Sets::new(self.isolation);
        for (key, found) in again.into_iter().zip(answer.responses) {
            if let Some(Response::ResponseRange(range)) = found.response {
                let pair = range.kvs.into_iter().next();
                self.prefetched.insert(key, Read { revision, pair });
            }
        }
    }
}

fn modified(key: &Bytes, result: CompareResult, revision: i64) -> Compare {
    Compare {
        result: result as i32,
        target: CompareTarget::Mod as i32,
        key: key.clone(),
        range_end: Bytes::new(),
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}
