//! The key-value store as its users are promised it: the reference that members are held against.
//!
//! It is written for clarity alone: all of history is kept, nothing is compacted away, and every
//! answer is computed from the state before. It shares no code with the store.
//!
//! Invariants: `events` ascend by revision; `keys` holds the same history, by key.

use std::collections::{BTreeMap, BTreeSet};

/// A key.
pub type Key = Vec<u8>;

/// A key with its value, at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kv {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Vec<u8>,
    /// Revision in which it came to be.
    pub create: i64,
    /// Revision of its last change.
    pub modified: i64,
    /// Changes since it came to be, that one included.
    pub version: i64,
    /// The lease it is on; 0 for none.
    pub lease: i64,
}

/// Keys: one, or from one up to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The first.
    pub start: Key,
    /// The first one beyond; `None`: `start` alone.
    pub end: Option<Key>,
}

impl Keys {
    /// Whether `key` is among them.
    pub fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            None => key == self.start,
            Some(end) => *self.start <= *key && *key < **end,
        }
    }
}

/// What a request, or a part of a transaction, does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a key, on a lease or on none (0).
    Put {
        /// The key.
        key: Key,
        /// Its value.
        value: Vec<u8>,
        /// The lease.
        lease: i64,
    },
    /// Deletes keys.
    Delete(Keys),
    /// Reads keys.
    Get(Keys),
}

/// What a transaction asks first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key's last change is of this revision; 0: it is not there.
    Modified(Key, i64),
    /// The key has this value.
    Value(Key, Vec<u8>),
}

/// A request that goes through the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// One operation.
    One(Op),
    /// A transaction.
    Txn {
        /// All of these must hold
        compare: Vec<Compare>,
        /// for these to be done,
        then: Vec<Op>,
        /// otherwise these.
        otherwise: Vec<Op>,
    },
    /// Forgets history before a revision.
    Compact(i64),
    /// Makes a lease.
    Grant {
        /// Its id.
        id: i64,
        /// Its time to live in seconds.
        ttl_s: i64,
    },
    /// Ends a lease and deletes its keys.
    Revoke(i64),
}

/// What an operation answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpAnswer {
    /// Put; what was there before.
    Put(Option<Kv>),
    /// Deleted; what was there before.
    Deleted(Vec<Kv>),
    /// What is there.
    Got(Vec<Kv>),
}

/// What a request answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One operation's answer, and the revision afterwards.
    One(i64, OpAnswer),
    /// A transaction's: the revision afterwards, whether the compares held, each operation's.
    Txn(i64, bool, Vec<OpAnswer>),
    /// The revision.
    Compacted(i64),
    /// The lease's time to live in seconds.
    Granted(i64),
    /// The revision afterwards.
    Revoked(i64),
    /// Refused, with etcd's text.
    Failed(String),
}

impl Answer {
    /// The revision that it tells, where it tells one.
    pub fn revision(&self) -> Option<i64> {
        match self {
            Answer::One(revision, _)
            | Answer::Txn(revision, ..)
            | Answer::Compacted(revision)
            | Answer::Revoked(revision) => Some(*revision),
            Answer::Granted(_) | Answer::Failed(_) => None,
        }
    }
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision.
    pub revision: i64,
    /// The key.
    pub key: Key,
    /// What it is now; `None`: deleted.
    pub now: Option<Kv>,
    /// What it was.
    pub before: Option<Kv>,
}

#[derive(Clone, Debug)]
struct Version {
    main: i64,
    kv: Option<Kv>,
}

#[derive(Clone, Debug)]
struct Lease {
    keys: BTreeSet<Key>,
}

/// Shortest lease that is granted, in seconds.
pub const MIN_TTL_S: i64 = 1;

/// The store.
#[derive(Clone, Debug)]
pub struct Model {
    revision: i64,
    compacted: i64,
    keys: BTreeMap<Key, Vec<Version>>,
    events: Vec<Event>,
    leases: BTreeMap<i64, Lease>,
}

impl Default for Model {
    fn default() -> Model {
        Model::new()
    }
}

impl Model {
    /// An empty store.
    pub fn new() -> Model {
        Model {
            revision: 1,
            compacted: -1,
            keys: BTreeMap::new(),
            events: Vec::new(),
            leases: BTreeMap::new(),
        }
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The newest compaction's revision; -1 before the first.
    pub fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Every change, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The leases there are.
    pub fn leases(&self) -> Vec<i64> {
        self.leases.keys().copied().collect()
    }

    /// Keys as of a revision, ascending.
    pub fn get(&self, keys: &Keys, at: i64) -> Vec<Kv> {
        let found = self.keys.iter().filter(|(key, _)| keys.contains(key));
        found
            .filter_map(|(_, versions)| live(versions, at).cloned())
            .collect()
    }

    /// Every key as of a revision.
    pub fn all(&self, at: i64) -> Vec<Kv> {
        let versions = self.keys.values();
        versions
            .filter_map(|versions| live(versions, at).cloned())
            .collect()
    }

    /// Applies a request.
    pub fn apply(&mut self, request: &Request) -> Answer {
        match request {
            Request::One(op) => {
                if let Some(refusal) = self.refuses(op) {
                    return refusal;
                }
                let answers = self.write(std::slice::from_ref(op));
                let [answer] = <[OpAnswer; 1]>::try_from(answers).expect("one for each operation");
                Answer::One(self.revision, answer)
            }
            Request::Txn {
                compare,
                then,
                otherwise,
            } => {
                let holds = compare.iter().all(|compare| self.holds(compare));
                let ops = if holds { then } else { otherwise };
                if let Some(refusal) = ops.iter().find_map(|op| self.refuses(op)) {
                    return refusal;
                }
                let answers = self.write(ops);
                Answer::Txn(self.revision, holds, answers)
            }
            Request::Compact(at) if *at <= self.compacted => {
                Answer::Failed("etcdserver: mvcc: required revision has been compacted".to_owned())
            }
            Request::Compact(at) if *at > self.revision => Answer::Failed(
                "etcdserver: mvcc: required revision is a future revision".to_owned(),
            ),
            Request::Compact(at) => {
                self.compacted = *at;
                Answer::Compacted(self.revision)
            }
            Request::Grant { id, .. } if self.leases.contains_key(id) => {
                Answer::Failed("etcdserver: lease already exists".to_owned())
            }
            Request::Grant { id, ttl_s } => {
                let lease = Lease {
                    keys: BTreeSet::new(),
                };
                self.leases.insert(*id, lease);
                Answer::Granted(*(ttl_s).max(&MIN_TTL_S))
            }
            Request::Revoke(id) => {
                let Some(lease) = self.leases.get(id) else {
                    return Answer::Failed("etcdserver: requested lease not found".to_owned());
                };
                let one = |key: &Key| Keys {
                    start: key.clone(),
                    end: None,
                };
                let ops: Vec<Op> = lease.keys.iter().map(|key| Op::Delete(one(key))).collect();
                self.leases.remove(id);
                self.write(&ops);
                Answer::Revoked(self.revision)
            }
        }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let now = |key: &Key| {
            let versions = self.keys.get(key)?;
            live(versions, self.revision)
        };
        match compare {
            Compare::Modified(key, at) => now(key).map_or(0, |kv| kv.modified) == *at,
            Compare::Value(key, value) => now(key).is_some_and(|kv| kv.value == *value),
        }
    }

    fn refuses(&self, op: &Op) -> Option<Answer> {
        match op {
            Op::Put { lease, .. } if *lease != 0 && !self.leases.contains_key(lease) => Some(
                Answer::Failed("etcdserver: requested lease not found".to_owned()),
            ),
            _ => None,
        }
    }

    /// Does operations in one revision, if they change anything.
    fn write(&mut self, ops: &[Op]) -> Vec<OpAnswer> {
        let main = self.revision + 1;
        let told = self.events.len();
        let answers = ops.iter().map(|op| self.one(op, main)).collect();
        if self.events.len() > told {
            self.revision = main;
        }
        answers
    }

    fn one(&mut self, op: &Op, main: i64) -> OpAnswer {
        match op {
            Op::Get(keys) => OpAnswer::Got(self.get(keys, main)),
            Op::Put { key, value, lease } => {
                let versions = self.keys.get(key);
                let before = versions.and_then(|versions| live(versions, main)).cloned();
                let now = Kv {
                    key: key.clone(),
                    value: value.clone(),
                    create: before.as_ref().map_or(main, |before| before.create),
                    modified: main,
                    version: before.as_ref().map_or(1, |before| before.version + 1),
                    lease: *lease,
                };
                self.change(main, key.clone(), Some(now), before.clone());
                OpAnswer::Put(before)
            }
            Op::Delete(keys) => {
                let doomed = self.get(keys, main);
                for kv in &doomed {
                    self.change(main, kv.key.clone(), None, Some(kv.clone()));
                }
                OpAnswer::Deleted(doomed)
            }
        }
    }

    fn change(&mut self, main: i64, key: Key, now: Option<Kv>, before: Option<Kv>) {
        for lease in self.leases.values_mut() {
            lease.keys.remove(&key);
        }
        if let Some(lease) = now.as_ref().and_then(|kv| self.leases.get_mut(&kv.lease)) {
            lease.keys.insert(key.clone());
        }
        let kv = now.clone();
        let versions = self.keys.entry(key.clone()).or_default();
        versions.push(Version { main, kv });
        self.events.push(Event {
            revision: main,
            key,
            now,
            before,
        });
    }
}

fn live(versions: &[Version], at: i64) -> Option<&Kv> {
    let beyond = versions.partition_point(|version| version.main <= at);
    versions[..beyond].last()?.kv.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str, lease: i64) -> Op {
        Op::Put {
            key: key.into(),
            value: value.into(),
            lease,
        }
    }

    fn one(key: &str) -> Keys {
        Keys {
            start: key.into(),
            end: None,
        }
    }

    #[test]
    fn history_is_kept_and_a_lease_takes_its_keys_along() {
        let mut model = Model::new();
        let grant = Request::Grant { id: 7, ttl_s: 0 };
        assert_eq!(model.apply(&grant), Answer::Granted(MIN_TTL_S));
        let first = model.apply(&Request::One(put("a", "1", 7)));
        assert_eq!(first, Answer::One(2, OpAnswer::Put(None)));
        model.apply(&Request::One(put("a", "2", 0)));
        model.apply(&Request::One(put("b", "3", 7)));
        assert_eq!(model.apply(&Request::Revoke(7)), Answer::Revoked(5));
        assert_eq!(model.get(&one("a"), 2)[0].value, b"1");
        let now = model.all(5);
        assert_eq!((now.len(), now[0].version), (1, 2));
        assert!(model.get(&one("b"), 5).is_empty());
        assert_eq!(model.events().len(), 4);
    }

    #[test]
    fn a_transaction_is_one_revision() {
        let mut model = Model::new();
        let txn = Request::Txn {
            compare: vec![Compare::Modified("a".into(), 0)],
            then: vec![put("a", "1", 0), put("b", "1", 0), Op::Get(one("a"))],
            otherwise: vec![Op::Get(one("a"))],
        };
        let Answer::Txn(2, true, answers) = model.apply(&txn) else {
            panic!("nothing was there");
        };
        assert!(matches!(&answers[2], OpAnswer::Got(kvs) if kvs[0].modified == 2));
        assert!(matches!(model.apply(&txn), Answer::Txn(2, false, _)));
    }
}
