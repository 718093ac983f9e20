//! Linearizability: there is one order of all operations that explains every answer and keeps to real
//! time.
//!
//! The order of the writes is known: that of the log's committed entries, so nothing has to be
//! searched. What is checked of it, exactly:
//! - replaying it on the model gives every answer that a client had;
//! - an acknowledged write is in it, once; a refused one is not; one without an answer may be;
//! - an operation that was called after another had returned stands behind it. A read stands
//!   somewhere among the writes of its revision.
//!
//! Reads that need not be linearizable must still show a state that there was, and not one of the
//! future. Source: the idea of etcd's robustness suite, to order by revision instead of searching
//! (Wing and Gong); the search is the checker's own test.

use super::{Violation, ensure};
use crate::history::{Asked, History, OpId, Outcome};
use crate::model::{Answer, Model, Request};
use std::collections::BTreeMap;

/// The checker's name.
pub const NAME: &str = "linearizability";

/// What the log says.
struct Replay {
    model: Model,
    /// By position: the answer, and the revision afterwards.
    answers: Vec<(Answer, i64)>,
    /// By request id.
    positions: BTreeMap<u64, usize>,
}

impl Replay {
    fn of(committed: &[(u64, Request)]) -> Result<Replay, Violation> {
        let mut model = Model::new();
        let mut answers = Vec::with_capacity(committed.len());
        let mut positions = BTreeMap::new();
        for (position, (id, request)) in committed.iter().enumerate() {
            let answer = model.apply(request);
            answers.push((answer, model.revision()));
            let known = positions.insert(*id, position);
            ensure!(
                known.is_none(),
                NAME,
                "request {id:x} is in the log twice: {request:?}"
            );
        }
        Ok(Replay {
            model,
            answers,
            positions,
        })
    }

    /// The positions after which the store stands at a revision: the first, and the last. Position 0
    /// is before everything.
    fn span(&self, revision: i64) -> Option<(usize, usize)> {
        if revision > self.model.revision() || revision < 1 {
            return None;
        }
        let low = self.answers.partition_point(|(_, at)| *at < revision);
        let high = self.answers.partition_point(|(_, at)| *at <= revision);
        Some((if revision == 1 { 0 } else { low + 1 }, high))
    }

    /// The revision after the first `position` entries.
    fn revision_at(&self, position: usize) -> i64 {
        match position.checked_sub(1) {
            Some(last) => self.answers[last].1,
            None => 1,
        }
    }
}

/// Checks a history against the committed requests, in their order; the model after all of them.
pub fn check(history: &History, committed: &[(u64, Request)]) -> Result<Model, Violation> {
    let replay = Replay::of(committed)?;
    // Calls and returns in the order in which they came.
    let mut moments: Vec<(u64, OpId, bool)> = Vec::new();
    for (id, operation) in history.operations().iter().enumerate() {
        moments.push((operation.called, id, false));
        moments.extend(operation.returned.map(|at| (at, id, true)));
    }
    moments.sort_unstable();
    // Positions count from 1; `behind` is that of the last operation known to be over.
    let mut behind = 0;
    let mut called_behind = vec![0; history.operations().len()];
    for (_, id, returned) in moments {
        if !returned {
            called_behind[id] = behind;
            continue;
        }
        if let Some(position) = judge(&replay, history, id, called_behind[id])? {
            behind = behind.max(position);
        }
    }
    for (id, operation) in history.operations().iter().enumerate() {
        if operation.returned.is_none() {
            judge(&replay, history, id, called_behind[id])?;
        }
    }
    Ok(replay.model)
}

/// Judges one operation, called when `behind` was known to be over; where it stands, if it is known.
fn judge(
    replay: &Replay,
    history: &History,
    id: OpId,
    behind: usize,
) -> Result<Option<usize>, Violation> {
    let operation = &history.operations()[id];
    let seen = || format!("{:?} at {} us", operation.asked, operation.called_us);
    match &operation.asked {
        Asked::Write(request, _) => {
            let position = replay.positions.get(request).map(|position| position + 1);
            ensure!(
                position.is_none_or(|position| position > behind),
                NAME,
                "{} is in the log before what was over when it was asked",
                seen()
            );
            match &operation.outcome {
                Outcome::Unknown => return Ok(None),
                Outcome::Refused => {
                    ensure!(
                        position.is_none(),
                        NAME,
                        "{} was refused and is in the log",
                        seen()
                    );
                    return Ok(None);
                }
                Outcome::Written(answer) => {
                    let Some(position) = position else {
                        return Err(Violation {
                            oracle: NAME,
                            what: format!("{} was acknowledged and is lost", seen()),
                        });
                    };
                    let (expected, _) = &replay.answers[position - 1];
                    ensure!(
                        expected == answer,
                        NAME,
                        "{} was answered {answer:?}, not {expected:?}",
                        seen()
                    );
                }
                Outcome::Read { .. } | Outcome::NotRead(_) => {
                    unreachable!("a write is not answered like a read")
                }
            }
            Ok(position)
        }
        Asked::Read {
            keys,
            at,
            linearizable,
        } => {
            let floor = replay.revision_at(behind);
            match &operation.outcome {
                Outcome::Read { revision, kvs } => {
                    let Some((low, high)) = replay.span(*revision) else {
                        return Err(Violation {
                            oracle: NAME,
                            what: format!("{} was answered at revision {revision}", seen()),
                        });
                    };
                    ensure!(
                        !linearizable || high >= behind,
                        NAME,
                        "{} was answered at revision {revision}, when {floor} had been told",
                        seen()
                    );
                    let at = if *at == 0 { *revision } else { *at };
                    let expected = replay.model.get(keys, at);
                    ensure!(
                        *kvs == expected,
                        NAME,
                        "{} was answered {kvs:?}, not {expected:?} at revision {revision}",
                        seen()
                    );
                    let position = if *linearizable { low.max(behind) } else { low };
                    Ok(Some(position))
                }
                Outcome::NotRead(text) => {
                    let compacted = text.contains("compacted") && replay.model.compacted() > *at;
                    let of_the_future = text.contains("future") && (!linearizable || *at > floor);
                    ensure!(
                        compacted || of_the_future,
                        NAME,
                        "{} was answered {text:?}",
                        seen()
                    );
                    Ok(None)
                }
                Outcome::Unknown | Outcome::Refused => Ok(None),
                Outcome::Written(_) => unreachable!("a read is not answered like a write"),
            }
        }
    }
}
