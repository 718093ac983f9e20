//! Running seeds.

use crate::cluster::{Cluster, Counts};
use crate::oracle::Violation;
use crate::sabotage::Sabotage;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// What it went through.
    pub counts: Counts,
    /// What was broken.
    pub violation: Option<Violation>,
}

/// Runs a seed. A panic is a violation like any other.
pub fn run(seed: u64, sabotage: Option<Sabotage>, print: bool) -> Outcome {
    let mut cluster = Cluster::new(seed, sabotage, print);
    let result = catch_unwind(AssertUnwindSafe(|| cluster.run()));
    let violation = match result {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(violation),
        Err(payload) => Some(Violation {
            oracle: "assertion",
            what: message_of(&*payload),
        }),
    };
    Outcome {
        seed,
        trace_hash: cluster.trace_hash(),
        counts: cluster.counts(),
        violation,
    }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}
