//! Leader completeness, and that nothing committed is lost: once any member has an entry for
//! committed, every member that commits this index commits this entry, and every leader of a later
//! term has it.

use super::log_matching::{Logged, MemberLog};
use super::{Violation, ensure};
use crate::network::Slot;
use quorate_node::raft::Entry;

/// The checker's name.
pub const NAME: &str = "leader completeness";

struct Committed {
    logged: Logged,
    entry: Entry,
    /// The lowest term in which a member had it for committed.
    in_term: u64,
}

/// The entries that any member has for committed, from index 1 on.
#[derive(Default)]
pub struct Ledger {
    entries: Vec<Committed>,
    /// By member: up to where its commits were looked at.
    seen: std::collections::BTreeMap<Slot, u64>,
}

impl Ledger {
    /// The last index.
    pub fn last(&self) -> u64 {
        self.entries.len() as u64
    }

    /// An entry; it is committed.
    pub fn entry(&self, index: u64) -> &Entry {
        &self.entries[index as usize - 1].entry
    }

    /// A member starts, and may have for committed less than before.
    pub fn starts(&mut self, slot: Slot) {
        self.seen.insert(slot, 0);
    }

    /// A member in `term`, with this log, has everything up to an index for committed.
    pub fn commits(
        &mut self,
        slot: Slot,
        up_to: u64,
        term: u64,
        log: &MemberLog,
    ) -> Result<(), Violation> {
        let seen = self.seen.entry(slot).or_default();
        let from = (*seen).max(log.base.0);
        *seen = up_to.max(*seen);
        for index in from + 1..=up_to {
            let Some((logged, entry)) = log.entries.get(&index) else {
                return Err(Violation {
                    oracle: NAME,
                    what: format!("member {slot} has {index} for committed and not in its log"),
                });
            };
            match self.entries.get_mut(index as usize - 1) {
                Some(known) => {
                    ensure!(
                        known.logged == *logged,
                        NAME,
                        "index {index} was committed with an entry of term {}, and at member {slot} \
                         with one of term {}",
                        known.logged.term,
                        logged.term
                    );
                    known.in_term = known.in_term.min(term);
                }
                None => {
                    ensure!(
                        index == self.entries.len() as u64 + 1,
                        NAME,
                        "member {slot} commits {index}, and nobody knows what is before it"
                    );
                    self.entries.push(Committed {
                        logged: logged.clone(),
                        entry: entry.clone(),
                        in_term: term,
                    });
                }
            }
        }
        Ok(())
    }

    /// A member has come to lead a term, with this log.
    pub fn leads(&self, slot: Slot, term: u64, log: &MemberLog) -> Result<(), Violation> {
        for (at, known) in self.entries.iter().enumerate().skip(log.base.0 as usize) {
            let index = at as u64 + 1;
            if known.in_term < term {
                let own = log.entries.get(&index).map(|(logged, _)| logged);
                ensure!(
                    own == Some(&known.logged),
                    NAME,
                    "member {slot} leads term {term} without entry {index} of term {}, which was \
                     committed in term {}",
                    known.logged.term,
                    known.in_term
                );
            }
        }
        Ok(())
    }
}
