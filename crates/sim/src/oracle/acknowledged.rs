//! No acknowledged write is lost: whatever a client was told has happened is among the committed
//! entries, once; and what was refused before it reached the log is not.

use super::{Violation, ensure};
use crate::history::{Asked, History, Outcome};
use crate::model::Request;
use std::collections::BTreeSet;

/// The checker's name.
pub const NAME: &str = "acknowledged writes";

/// Checks a history against the committed requests.
pub fn check(history: &History, committed: &[(u64, Request)]) -> Result<(), Violation> {
    let mut there = BTreeSet::new();
    for (id, request) in committed {
        ensure!(
            there.insert(*id),
            NAME,
            "request {id:x} was committed twice: {request:?}"
        );
    }
    for operation in history.operations() {
        let Asked::Write(id, request) = &operation.asked else {
            continue;
        };
        match &operation.outcome {
            Outcome::Written(_) => ensure!(
                there.contains(id),
                NAME,
                "{request:?} of {} us was acknowledged and is lost",
                operation.called_us
            ),
            Outcome::Refused => ensure!(
                !there.contains(id),
                NAME,
                "{request:?} of {} us was refused and was committed",
                operation.called_us
            ),
            Outcome::Unknown | Outcome::Read { .. } | Outcome::NotRead(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Answer;

    #[test]
    fn acknowledged_is_committed_and_refused_is_not() {
        let request = Request::Compact(1);
        let mut history = History::new();
        let done = history.call(Asked::Write(1, request.clone()), 0);
        let refused = history.call(Asked::Write(2, request.clone()), 0);
        history.call(Asked::Write(3, request.clone()), 0);
        history.returns(done, Outcome::Written(Answer::Compacted(1)));
        history.returns(refused, Outcome::Refused);
        let committed = |ids: &[u64]| -> Vec<(u64, Request)> {
            ids.iter().map(|id| (*id, request.clone())).collect()
        };
        assert_eq!(check(&history, &committed(&[1])), Ok(()));
        assert_eq!(check(&history, &committed(&[3, 1])), Ok(()));
        assert!(check(&history, &committed(&[])).is_err());
        assert!(check(&history, &committed(&[1, 2])).is_err());
        assert!(check(&history, &committed(&[1, 1])).is_err());
    }
}
