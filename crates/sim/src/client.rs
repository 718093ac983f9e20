//! Clients that read and write, one operation at a time, each at whatever member it likes.
//!
//! A client that hears nothing gives up and goes on; so does one whose connection breaks. What it has
//! asked may happen later all the same.

use crate::cluster::{Cluster, Event};
use crate::history::{Asked, OpId, Outcome, one};
use crate::machine::{Input, Token, Work};
use crate::model::{Answer, Compare, Key, Keys, Kv, Op, OpAnswer, Request};
use crate::network::Slot;
use crate::random::Random;
use crate::wire;
use quorate_node::store::range::{Inline, Kvs, range};
use quorate_node::{Proposal, ProposalKind};
use std::collections::BTreeMap;

/// Time after which a client gives up, in microseconds.
const PATIENCE_US: u64 = 2_500_000;
/// Mean time between a client and a member, in microseconds.
const LATENCY_US: u64 = 300;
/// A range of at most this is answered at once.
const INLINE: Inline = Inline {
    keys: 4,
    bytes: 512,
};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A client.
    Client(usize),
    /// A keeper of leases.
    Keeper(usize),
    /// The end of a run.
    Probe,
}

/// A client.
pub struct Client {
    random: Random,
    /// What it waits for.
    pub(crate) current: Option<OpId>,
    /// The newest revision that it has seen.
    seen: i64,
    /// The last change of each key, as far as it has seen.
    modified: BTreeMap<Key, i64>,
    values: u64,
}

impl Client {
    /// One that has seen nothing.
    pub fn new(random: Random) -> Client {
        Client {
            random,
            current: None,
            seen: 1,
            modified: BTreeMap::new(),
            values: 0,
        }
    }

    fn key(&mut self, keys: u64) -> Key {
        key_of(self.random.below(keys))
    }

    fn value(&mut self, me: usize) -> Vec<u8> {
        self.values += 1;
        let padding = self.random.below(60) as usize;
        format!("{me}.{}.{}", self.values, "x".repeat(padding)).into_bytes()
    }

    fn range(&mut self, keys: u64) -> Keys {
        let (a, b) = (self.random.below(keys + 1), self.random.below(keys + 1));
        Keys {
            start: key_of(a.min(b)),
            end: Some(key_of(a.max(b) + 1)),
        }
    }

    fn keys(&mut self, keys: u64) -> Keys {
        match self.random.chance(700) {
            true => one(self.key(keys)),
            false => self.range(keys),
        }
    }

    /// What it does next.
    fn draw(&mut self, me: usize, keys: u64, leases: &[i64], request: u64) -> Asked {
        let write = |request_of| Asked::Write(request, request_of);
        let read = |keys, at, linearizable| Asked::Read {
            keys,
            at,
            linearizable,
        };
        match self.random.below(100) {
            0..=34 => {
                let lease = match leases {
                    [] => 0,
                    some if self.random.chance(400) => *self.random.pick(some),
                    _ => 0,
                };
                let (key, value) = (self.key(keys), self.value(me));
                write(Request::One(Op::Put { key, value, lease }))
            }
            35..=41 => write(Request::One(Op::Delete(one(self.key(keys))))),
            42..=44 => write(Request::One(Op::Delete(self.range(keys)))),
            45..=61 => write(self.txn(me, keys)),
            62..=80 => read(self.keys(keys), 0, true),
            81..=86 => {
                let at = (self.seen - self.random.below(20) as i64).max(1);
                read(self.keys(keys), at, self.random.chance(500))
            }
            87..=95 => read(self.keys(keys), 0, false),
            _ => write(Request::Compact(
                (self.seen - self.random.below(30) as i64).max(1),
            )),
        }
    }

    /// A compare-and-swap, with more in it at times.
    fn txn(&mut self, me: usize, keys: u64) -> Request {
        let key = self.key(keys);
        let seen = self.modified.get(&key).copied().unwrap_or(0);
        let mut compare = vec![Compare::Modified(key.clone(), seen)];
        if self.random.chance(100) {
            compare.push(Compare::Value(self.key(keys), self.value(me)));
        }
        let put = |key: Key, value| Op::Put {
            key,
            value,
            lease: 0,
        };
        let mut then = vec![put(key.clone(), self.value(me))];
        if self.random.chance(400) {
            then.push(Op::Get(one(key.clone())));
        }
        let other = self.key(keys);
        if other != key && self.random.chance(500) {
            then.push(match self.random.chance(500) {
                true => put(other, self.value(me)),
                false => Op::Delete(one(other)),
            });
        }
        let otherwise = match self.random.chance(800) {
            true => vec![Op::Get(one(key))],
            false => vec![Op::Delete(one(key.clone())), Op::Get(one(key))],
        };
        Request::Txn {
            compare,
            then,
            otherwise,
        }
    }

    /// Takes in what it was told.
    fn learn(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Written(answer) => {
                self.seen = self.seen.max(answer.revision().unwrap_or(0));
                let answers = match answer {
                    Answer::Txn(_, _, answers) => &answers[..],
                    Answer::One(_, answer) => std::slice::from_ref(answer),
                    _ => &[],
                };
                for answer in answers {
                    if let OpAnswer::Got(kvs) = answer {
                        self.see(kvs);
                    }
                }
            }
            Outcome::Read { revision, kvs } => {
                self.seen = self.seen.max(*revision);
                self.see(kvs);
            }
            _ => {}
        }
    }

    fn see(&mut self, kvs: &[Kv]) {
        for kv in kvs {
            self.modified.insert(kv.key.clone(), kv.modified);
        }
    }
}

/// The key of a number.
pub fn key_of(number: u64) -> Key {
    format!("k{number:02}").into_bytes()
}

impl Cluster {
    /// A client asks for the next thing.
    pub(crate) fn client_goes_on(&mut self, me: usize) {
        if self.calm {
            return;
        }
        self.next_request += 1;
        let request = self.next_request;
        let client = &mut self.clients[me];
        let asked = client.draw(me, self.scenario.keys, &self.known_leases, request);
        let slot = client.random.below(self.machines.len() as u64) as Slot;
        let operation = self.ask(Asker::Client(me), slot, asked);
        self.clients[me].current = Some(operation);
    }

    /// Someone asks a member for something.
    pub(crate) fn ask(&mut self, asker: Asker, slot: Slot, asked: Asked) -> OpId {
        let now_us = self.now_us();
        let operation = self.history.call(asked, now_us);
        assert_eq!(self.askers.len(), operation, "each operation has an asker");
        self.askers.push((asker, slot));
        let there_us = self.random.around(LATENCY_US);
        self.schedule
            .after(there_us, Event::Arrive { operation, slot });
        let outcome = Outcome::Unknown;
        self.schedule
            .after(PATIENCE_US, Event::Hear { operation, outcome });
        operation
    }

    /// A request arrives at a machine.
    pub(crate) fn arrive(&mut self, operation: OpId, slot: Slot) {
        if self.machines[slot].process.is_some() {
            self.later(slot, 0, Work::Serve(operation));
        } else {
            self.answer(operation, Outcome::Refused);
        }
    }

    /// A process takes a request.
    pub(crate) fn serve(&mut self, slot: Slot, operation: OpId) {
        let token = Token::Operation(operation);
        match self.history.operations()[operation].asked.clone() {
            Asked::Write(id, request) => {
                let kind = match request {
                    Request::Compact(_) if id % 3 == 0 => ProposalKind::PhysicalCompaction,
                    Request::Revoke(_) => ProposalKind::Revocation,
                    _ => ProposalKind::Ordinary,
                };
                let proposal = Proposal {
                    id,
                    data: wire::encode(id, &request),
                    token: Some(token),
                    kind,
                };
                self.take_input(slot, Input::Propose(proposal));
            }
            Asked::Read {
                linearizable: true, ..
            } => self.take_input(slot, Input::Read(token)),
            Asked::Read { .. } => {
                let outcome = self.read(slot, operation);
                self.answer(operation, outcome);
            }
        }
    }

    /// Reads from a member's newest view.
    pub(crate) fn read(&mut self, slot: Slot, operation: OpId) -> Outcome {
        let Asked::Read { keys, at, .. } = &self.history.operations()[operation].asked else {
            unreachable!("only reads are answered with readiness");
        };
        let request = wire::range_of(keys, *at);
        let view = self.machines[slot].running().member.view().clone();
        // Short answers and long ones are made in different ways.
        let answer = match range(&view, &request, None, Some(INLINE)) {
            Ok(None) => range(&view, &request, None, None),
            other => other,
        };
        match answer {
            Ok(answer) => {
                let answer = answer.expect("without a limit there is an answer");
                let encoded = match answer.kvs {
                    Kvs::Ready(bytes) => bytes,
                    Kvs::Spliced(mut splice) => {
                        let mut bytes = Vec::new();
                        while let Some(chunk) = splice.next_chunk(256) {
                            bytes.extend_from_slice(&chunk);
                        }
                        bytes
                    }
                };
                let kvs = wire::kvs_from_range(&encoded);
                assert_eq!(answer.count, kvs.len() as i64, "a range counts what it has");
                Outcome::Read {
                    revision: answer.revision,
                    kvs,
                }
            }
            Err(error) => Outcome::NotRead(error.to_string()),
        }
    }

    /// A member's answer is on its way.
    pub(crate) fn answer(&mut self, operation: OpId, outcome: Outcome) {
        let back_us = self.random.around(LATENCY_US);
        self.schedule
            .after(back_us, Event::Hear { operation, outcome });
    }

    /// Whoever asked hears what became of it.
    pub(crate) fn hear(&mut self, operation: OpId, outcome: Outcome) {
        if self.history.has_returned(operation) {
            return;
        }
        let now_us = self.now_us();
        self.trace
            .event(now_us, format_args!("operation {operation} {outcome:?}"));
        self.history.returns(operation, outcome.clone());
        match self.askers[operation].0 {
            Asker::Client(me) => {
                let client = &mut self.clients[me];
                client.current = None;
                client.learn(&outcome);
                let pause_us = client.random.around(self.scenario.think_us);
                self.schedule.after(pause_us, Event::Client(me));
            }
            Asker::Keeper(me) => self.keeper_hears(me, &outcome),
            Asker::Probe => {}
        }
    }

    /// A process has died: whoever waits for it will not hear from it.
    pub(crate) fn connections_break(&mut self, slot: Slot) {
        let clients = self.clients.iter().map(|client| client.current);
        let keepers = self.keepers.iter().map(|keeper| keeper.current);
        let waiting: Vec<OpId> = clients.chain(keepers).flatten().collect();
        for operation in waiting {
            if self.askers[operation].1 == slot {
                self.answer(operation, Outcome::Unknown);
            }
        }
    }
}
