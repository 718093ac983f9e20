//! Elections: one leader of a name at a time, whose value all can see.

use crate::kv::{one_by_creation, prefix_range};
use crate::queue::{Place, op, prefix};
use crate::session::Session;
use crate::watcher::Watcher;
use crate::{Client, Error, Result};
use bytes::Bytes;
use quorate_api::etcdserverpb::range_request::SortOrder;
use quorate_api::etcdserverpb::request_op::Request;
use quorate_api::etcdserverpb::{
    Compare, PutRequest, RangeResponse, TxnRequest, WatchCreateRequest,
};
use quorate_api::mvccpb::KeyValue;
use quorate_api::mvccpb::event::EventType;
use std::collections::VecDeque;

/// An election's name, for a session: the keys under `NAME/`.
#[derive(Debug)]
pub struct Election<'a> {
    session: &'a Session,
    name: Bytes,
}

impl Session {
    /// The election of this name.
    pub fn election(&self, name: impl Into<Bytes>) -> Election<'_> {
        Election {
            session: self,
            name: name.into(),
        }
    }
}

impl Election<'_> {
    /// Waits to be the leader, with a value for all to see. If this is dropped before, it is no
    /// candidate any more.
    pub async fn campaign(&self, value: impl Into<Bytes>) -> Result<Leadership> {
        let value = value.into();
        let entered = Place::enter(self.session, &self.name, value.clone()).await?;
        let mut leadership = Leadership {
            client: self.session.client().clone(),
            lease: self.session.lease(),
            place: entered.place,
        };
        if entered.before.is_some_and(|before| before.value != value) {
            leadership.proclaim(value).await?;
        }
        leadership.place.turn(self.session, &self.name).await?;
        Ok(leadership)
    }

    /// Takes up a leadership of this session that another process has won.
    pub fn resume(&self, key: impl Into<Bytes>, revision: i64) -> Leadership {
        let client = self.session.client();
        Leadership {
            place: Place::held(self.session, key.into(), revision),
            client: client.clone(),
            lease: self.session.lease(),
        }
    }

    /// The leader's key and value.
    pub async fn leader(&self) -> Result<Option<KeyValue>> {
        let answer = look(self.session.client(), &self.name).await?;
        Ok(answer.kvs.into_iter().next())
    }

    /// Follows who leads.
    pub fn observe(&self) -> Observer {
        self.session.client().observe(self.name.clone())
    }
}

impl Client {
    /// Follows who leads in the election of this name.
    pub fn observe(&self, name: impl Into<Bytes>) -> Observer {
        Observer {
            client: self.clone(),
            name: name.into(),
            watching: Watching::Nothing,
            waiting: VecDeque::new(),
        }
    }
}

async fn look(client: &Client, name: &[u8]) -> Result<RangeResponse> {
    let oldest = one_by_creation(prefix(name), SortOrder::Ascend);
    client.range(oldest).await
}

/// An election that was won. It ends with [`Leadership::resign`], when this is dropped (by a task
/// of the runtime, some time after), or with the session.
#[derive(Debug)]
pub struct Leadership {
    client: Client,
    lease: i64,
    place: Place,
}

impl Leadership {
    /// The leader's key.
    pub fn key(&self) -> &Bytes {
        &self.place.key
    }

    /// The revision at which it was created, greater than that of every leader before.
    pub fn revision(&self) -> i64 {
        self.place.revision
    }

    /// The condition for transactions that only the leader may make.
    pub fn is_held(&self) -> Compare {
        self.place.is_held()
    }

    /// Another value for all to see; [`Error::NotElected`] if another one leads.
    pub async fn proclaim(&mut self, value: impl Into<Bytes>) -> Result<()> {
        let put = PutRequest {
            key: self.place.key.clone(),
            value: value.into(),
            lease: self.lease,
            ..PutRequest::default()
        };
        let txn = TxnRequest {
            compare: vec![self.place.is_held()],
            success: vec![op(Request::RequestPut(put))],
            failure: Vec::new(),
        };
        match self.client.txn(txn).await?.succeeded {
            true => Ok(()),
            false => Err(Error::NotElected),
        }
    }

    /// Makes room for another leader; after an `Ok` it is made.
    pub async fn resign(self) -> Result<()> {
        self.place.give_back().await
    }
}

/// Follows who leads: the newest value always comes, those in between mostly.
#[derive(Debug)]
pub struct Observer {
    client: Client,
    name: Bytes,
    watching: Watching,
    waiting: VecDeque<KeyValue>,
}

#[derive(Debug)]
enum Watching {
    Nothing,
    /// Nobody leads.
    Candidates(Watcher),
    /// The leader's key.
    Leader(Watcher),
}

impl Observer {
    /// The next leader or its next value. It may be dropped before it is ready.
    pub async fn next(&mut self) -> Result<KeyValue> {
        loop {
            if let Some(pair) = self.waiting.pop_front() {
                return Ok(pair);
            }
            match self.step().await {
                // The history is gone, and with it what was in between.
                Err(Error::Compacted { .. }) => self.watching = Watching::Nothing,
                done => done?,
            }
        }
    }

    async fn step(&mut self) -> Result<()> {
        match &mut self.watching {
            Watching::Nothing => {
                let answer = look(&self.client, &self.name).await?;
                let revision = answer.header.map_or(0, |header| header.revision);
                let after = revision.saturating_add(1);
                match answer.kvs.into_iter().next() {
                    Some(pair) => self.follow(pair, after)?,
                    None => {
                        let (key, range_end) = prefix_range(prefix(&self.name));
                        let watcher = self.client.watcher(WatchCreateRequest {
                            key,
                            range_end,
                            start_revision: after,
                            ..WatchCreateRequest::default()
                        })?;
                        self.watching = Watching::Candidates(watcher);
                    }
                }
            }
            Watching::Candidates(watcher) => {
                let answer = watcher.next().await?;
                let put = answer
                    .events
                    .into_iter()
                    .filter(|event| event.r#type() == EventType::Put)
                    .find_map(|event| event.kv);
                if let Some(pair) = put {
                    let after = pair.mod_revision.saturating_add(1);
                    self.follow(pair, after)?;
                }
            }
            Watching::Leader(watcher) => {
                for event in watcher.next().await?.events {
                    match (event.r#type(), event.kv) {
                        (EventType::Put, Some(pair)) => self.waiting.push_back(pair),
                        _ => {
                            self.watching = Watching::Nothing;
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn follow(&mut self, pair: KeyValue, after: i64) -> Result<()> {
        let watcher = self.client.watcher(WatchCreateRequest {
            key: pair.key.clone(),
            start_revision: after,
            ..WatchCreateRequest::default()
        })?;
        self.watching = Watching::Leader(watcher);
        self.waiting.push_back(pair);
        Ok(())
    }
}
