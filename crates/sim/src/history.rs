//! What clients asked and were told, and when.
//!
//! Invariant: moments are drawn one after the other, so they say for any two calls and returns which
//! came first. An operation that ended without an answer may or may not have happened, even later.

use crate::model::{Answer, Key, Keys, Kv, Request};
use std::collections::BTreeMap;

/// Names an operation.
pub type OpId = usize;

/// Orders calls and returns.
pub type Moment = u64;

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Something that goes through the log, under an id.
    Write(u64, Request),
    /// A read.
    Read {
        /// Of what.
        keys: Keys,
        /// At which revision; 0: the newest.
        at: i64,
        /// Whether it must see everything acknowledged before.
        linearizable: bool,
    },
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is known (yet).
    Unknown,
    /// It was refused before it could have an effect.
    Refused,
    /// A write was answered.
    Written(Answer),
    /// A read was answered.
    Read {
        /// Revision of the view that answered.
        revision: i64,
        /// What was there.
        kvs: Vec<Kv>,
    },
    /// A read was refused by the store, with etcd's text.
    NotRead(String),
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What was asked.
    pub asked: Asked,
    /// When.
    pub called: Moment,
    /// When the outcome was known.
    pub returned: Option<Moment>,
    /// What became of it.
    pub outcome: Outcome,
    /// The simulation's time of the call, for messages.
    pub called_us: u64,
}

/// All operations of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
    moments: Moment,
    by_request: BTreeMap<u64, OpId>,
}

impl History {
    /// Nothing yet.
    pub fn new() -> History {
        History::default()
    }

    /// The operations, in the order of their calls.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operation of a request in the log.
    pub fn of_request(&self, id: u64) -> Option<OpId> {
        self.by_request.get(&id).copied()
    }

    /// Someone asks.
    pub fn call(&mut self, asked: Asked, now_us: u64) -> OpId {
        self.moments += 1;
        let id = self.operations.len();
        if let Asked::Write(request, _) = &asked {
            let known = self.by_request.insert(*request, id);
            assert_eq!(known, None, "a request's id is drawn once");
        }
        self.operations.push(Operation {
            asked,
            called: self.moments,
            returned: None,
            outcome: Outcome::Unknown,
            called_us: now_us,
        });
        id
    }

    /// It is known what became of it.
    pub fn returns(&mut self, id: OpId, outcome: Outcome) {
        self.moments += 1;
        let operation = &mut self.operations[id];
        assert_eq!(operation.returned, None, "an operation returns once");
        operation.outcome = outcome;
        operation.returned = Some(self.moments);
    }

    /// Whether it has returned.
    pub fn has_returned(&self, id: OpId) -> bool {
        self.operations[id].returned.is_some()
    }
}

/// One key.
pub fn one(key: Key) -> Keys {
    Keys {
        start: key,
        end: None,
    }
}
