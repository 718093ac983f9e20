//! The linearizability checker's own test: a search in the manner of Wing and Gong, on histories small
//! enough to be searched.
//!
//! The search knows no log: it looks for any order of the operations that explains every answer. The
//! checker accepts a history for a given order of the writes; so the search must succeed exactly where
//! there is an order that the checker accepts.

use super::linearizable::check;
use crate::history::{Asked, History, Operation, Outcome, one};
use crate::model::{Answer, Compare, Key, Keys, Model, Op, OpAnswer, Request};
use crate::random::Random;

/// Whether some order explains the history.
fn search(history: &History) -> bool {
    let operations = history.operations();
    let open: Vec<usize> = (0..operations.len()).collect();
    place_next(operations, &open, &Model::new())
}

/// Whether the operations that are left can follow what the model has seen.
fn place_next(operations: &[Operation], left: &[usize], model: &Model) -> bool {
    // Whoever was answered must be placed; the others may happen at any time, or never.
    let first_return = left
        .iter()
        .map(|at| &operations[*at])
        .filter(|operation| operation.outcome != Outcome::Unknown && !is_void(operation))
        .filter_map(|operation| operation.returned)
        .min();
    let Some(first_return) = first_return else {
        return true;
    };
    for (position, at) in left.iter().enumerate() {
        let operation = &operations[*at];
        if operation.called > first_return || is_void(operation) {
            continue;
        }
        let mut after = model.clone();
        if !explains(&mut after, operation) {
            continue;
        }
        let mut rest = left.to_vec();
        rest.remove(position);
        if place_next(operations, &rest, &after) {
            return true;
        }
    }
    false
}

/// Whether it is known to have had no effect.
fn is_void(operation: &Operation) -> bool {
    operation.outcome == Outcome::Refused
        || matches!(
            (&operation.asked, &operation.outcome),
            (Asked::Read { .. }, Outcome::Unknown)
        )
}

fn explains(model: &mut Model, operation: &Operation) -> bool {
    match (&operation.asked, &operation.outcome) {
        (Asked::Write(_, request), Outcome::Unknown) => {
            model.apply(request);
            true
        }
        (Asked::Write(_, request), Outcome::Written(answer)) => model.apply(request) == *answer,
        (Asked::Read { keys, .. }, Outcome::Read { revision, kvs }) => {
            *revision == model.revision() && *kvs == model.get(keys, *revision)
        }
        other => unreachable!("not made here: {other:?}"),
    }
}

/// Whether the checker accepts the history for some order of some of its writes.
fn some_order_passes(history: &History) -> bool {
    let writes: Vec<(u64, Request)> = history
        .operations()
        .iter()
        .filter_map(|operation| match &operation.asked {
            Asked::Write(id, request) => Some((*id, request.clone())),
            Asked::Read { .. } => None,
        })
        .collect();
    orders(&writes, &mut Vec::new(), &mut |order| {
        check(history, order).is_ok()
    })
}

/// Whether writes in this order explain the history.
type Passes<'a> = dyn FnMut(&[(u64, Request)]) -> bool + 'a;

/// Tries every sequence of distinct items; whether one passes.
fn orders(
    left: &[(u64, Request)],
    chosen: &mut Vec<(u64, Request)>,
    passes: &mut Passes<'_>,
) -> bool {
    if passes(chosen) {
        return true;
    }
    for at in 0..left.len() {
        let mut rest = left.to_vec();
        chosen.push(rest.remove(at));
        if orders(&rest, chosen, passes) {
            return true;
        }
        chosen.pop();
    }
    false
}

fn key(random: &mut Random) -> Key {
    vec![b'a' + random.below(2) as u8]
}

fn request(random: &mut Random, value: u64) -> Request {
    let put = |key| Op::Put {
        key,
        value: value.to_string().into_bytes(),
        lease: 0,
    };
    let key = key(random);
    match random.below(4) {
        0 | 1 => Request::One(put(key)),
        2 => Request::One(Op::Delete(one(key))),
        _ => Request::Txn {
            compare: vec![Compare::Modified(key.clone(), random.below(4) as i64)],
            then: vec![put(key.clone())],
            otherwise: vec![Op::Get(one(key))],
        },
    }
}

/// A history of a store that is linearizable, and that a liar may have told of.
fn draw(random: &mut Random) -> History {
    let mut history = History::new();
    let mut model = Model::new();
    let operations = random.between(2, 6);
    // Those that were called: done or not, with their outcome.
    let mut open: Vec<(usize, Option<Outcome>)> = Vec::new();
    let (mut called, mut writes) = (0, 0);
    while called < operations || open.iter().any(|(_, outcome)| outcome.is_some()) {
        match random.below(3) {
            0 if called < operations => {
                called += 1;
                let asked = if writes < 4 && random.chance(600) {
                    writes += 1;
                    Asked::Write(writes, request(random, writes))
                } else {
                    Asked::Read {
                        keys: Keys {
                            start: b"a".to_vec(),
                            end: Some(b"c".to_vec()),
                        },
                        at: 0,
                        linearizable: true,
                    }
                };
                open.push((history.call(asked, 0), None));
            }
            1 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                let (id, outcome) = &mut open[at];
                if outcome.is_none() {
                    *outcome = Some(match &history.operations()[*id].asked {
                        Asked::Write(..) if random.chance(150) => Outcome::Refused,
                        Asked::Write(_, request) => Outcome::Written(model.apply(request)),
                        Asked::Read { keys, .. } => Outcome::Read {
                            revision: model.revision(),
                            kvs: model.get(keys, model.revision()),
                        },
                    });
                }
            }
            _ if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                if open[at].1.is_some() || called == operations {
                    let (id, outcome) = open.remove(at);
                    if let Some(outcome) = outcome
                        && !random.chance(150)
                    {
                        history.returns(id, lie(random, outcome));
                    }
                }
            }
            _ => {}
        }
    }
    history
}

/// Changes some answers a little.
fn lie(random: &mut Random, mut outcome: Outcome) -> Outcome {
    if !random.chance(250) {
        return outcome;
    }
    match &mut outcome {
        Outcome::Read { revision, kvs } => match random.below(3) {
            0 => *revision = (*revision + random.below(3) as i64 - 1).max(1),
            1 => drop(kvs.pop()),
            _ => {
                if let Some(kv) = kvs.first_mut() {
                    kv.version += 1;
                }
            }
        },
        Outcome::Written(Answer::One(revision, answer)) => match (random.below(2), answer) {
            (0, OpAnswer::Put(before)) => *before = None,
            _ => *revision += 1,
        },
        Outcome::Written(Answer::Txn(_, holds, _)) => *holds = !*holds,
        other => *other = Outcome::Unknown,
    }
    outcome
}

#[test]
fn the_checker_and_a_search_agree() {
    let mut random = Random::new(1);
    let (mut good, mut bad) = (0, 0);
    for round in 0..6_000 {
        let history = draw(&mut random);
        let found = search(&history);
        assert_eq!(
            found,
            some_order_passes(&history),
            "round {round}: {}",
            history
                .operations()
                .iter()
                .map(|o| format!("{o:?}\n"))
                .collect::<String>()
        );
        *(if found { &mut good } else { &mut bad }) += 1;
    }
    assert!(good > 1_000 && bad > 1_000, "{good} good, {bad} bad");
}
