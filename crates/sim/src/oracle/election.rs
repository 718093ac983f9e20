//! Election safety: a term has one leader at most.

use super::{Violation, ensure};
use crate::network::Slot;
use std::collections::BTreeMap;

/// The checker's name.
pub const NAME: &str = "election safety";

/// Who has led which term.
#[derive(Debug, Default)]
pub struct Election {
    leaders: BTreeMap<u64, Slot>,
}

impl Election {
    /// A member says that it leads a term; whether that is news.
    pub fn leads(&mut self, slot: Slot, term: u64) -> Result<bool, Violation> {
        let known = self.leaders.insert(term, slot);
        ensure!(
            known.is_none_or(|known| known == slot),
            NAME,
            "term {term} is led by members {known:?} and {slot}"
        );
        Ok(known.is_none())
    }

    /// Terms that had a leader.
    pub fn terms(&self) -> usize {
        self.leaders.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_leaders_of_a_term_are_one_too_many() {
        let mut election = Election::default();
        assert_eq!(election.leads(0, 2), Ok(true));
        assert_eq!(election.leads(0, 2), Ok(false));
        assert_eq!(election.leads(1, 3), Ok(true));
        assert!(election.leads(1, 2).is_err());
    }
}
