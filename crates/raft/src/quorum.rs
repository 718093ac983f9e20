//! Who decides: sets of voters by majority, and two of them jointly.
//!
//! Invariants: an [`IdSet`] is sorted and free of repetition. The empty set agrees to everything
//! (it votes "won" and commits any index), so that a configuration with an empty outgoing half
//! decides as its incoming half alone (Raft thesis, section 4.3).

use std::fmt;

/// A sorted set of member ids; as voters it decides by majority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdSet {
    ids: Vec<u64>,
}

/// How an election stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteResult {
    /// Both outcomes are still possible.
    Pending,
    /// A quorum cannot be reached any more.
    Lost,
    /// A quorum said yes.
    Won,
}

impl fmt::Display for VoteResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VoteResult::Pending => "VotePending",
            VoteResult::Lost => "VoteLost",
            VoteResult::Won => "VoteWon",
        })
    }
}

/// Sets up to this size are counted without an allocation.
const ON_STACK: usize = 9;

impl IdSet {
    /// The empty set.
    pub fn new() -> IdSet {
        IdSet::default()
    }

    /// The ids, ascending.
    pub fn as_slice(&self) -> &[u64] {
        &self.ids
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ids.iter().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether `id` is one of them.
    pub fn contains(&self, id: u64) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Adds an id; nothing changes if it is there.
    pub fn insert(&mut self, id: u64) {
        if let Err(position) = self.ids.binary_search(&id) {
            self.ids.insert(position, id);
        }
    }

    /// Takes an id out; nothing changes if it is not there.
    pub fn remove(&mut self, id: u64) {
        if let Ok(position) = self.ids.binary_search(&id) {
            self.ids.remove(position);
        }
    }

    /// The largest index that a majority acknowledged; `u64::MAX` for the empty set.
    /// A voter for whom `acked` has nothing counts as 0.
    pub fn committed_index(&self, acked: impl Fn(u64) -> Option<u64>) -> u64 {
        let count = self.ids.len();
        if count == 0 {
            return u64::MAX;
        }
        let mut stack = [0u64; ON_STACK];
        let mut heap;
        let indexes: &mut [u64] = if count <= ON_STACK {
            &mut stack[..count]
        } else {
            heap = vec![0u64; count];
            &mut heap
        };
        for (slot, id) in indexes.iter_mut().zip(&self.ids) {
            *slot = acked(*id).unwrap_or(0);
        }
        indexes.sort_unstable();
        // A majority, count/2 + 1 of them, stands at this position or right of it.
        indexes[count - (count / 2 + 1)]
    }

    /// How the votes given so far decide.
    pub fn vote_result(&self, vote: impl Fn(u64) -> Option<bool>) -> VoteResult {
        if self.ids.is_empty() {
            return VoteResult::Won;
        }
        let (mut yes, mut missing) = (0, 0);
        for id in &self.ids {
            match vote(*id) {
                Some(true) => yes += 1,
                Some(false) => {}
                None => missing += 1,
            }
        }
        let quorum = self.ids.len() / 2 + 1;
        if yes >= quorum {
            VoteResult::Won
        } else if yes + missing >= quorum {
            VoteResult::Pending
        } else {
            VoteResult::Lost
        }
    }

    /// A picture of what each voter acknowledged, one line each, the bar's length its rank.
    pub fn describe(&self, acked: impl Fn(u64) -> Option<u64>) -> String {
        use fmt::Write;

        if self.ids.is_empty() {
            return "<empty majority quorum>".to_owned();
        }
        let count = self.ids.len();
        let mut text = format!("{:count$}    idx\n", "");
        for id in &self.ids {
            let index = acked(*id);
            // Voters with equal indexes share a bar: the number of those strictly below.
            let own = index.unwrap_or(0);
            let below = self.ids.iter().filter(|id| acked(**id).unwrap_or(0) < own);
            let bar = below.count();
            let picture = match index {
                Some(_) => format!("{}>{:rest$}", "x".repeat(bar), "", rest = count - bar),
                None => format!("?{:count$}", ""),
            };
            writeln!(text, "{picture} {own:5}    (id={id:x})").expect("a String takes all");
        }
        text
    }
}

impl FromIterator<u64> for IdSet {
    fn from_iter<I: IntoIterator<Item = u64>>(ids: I) -> IdSet {
        let mut ids: Vec<u64> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        IdSet { ids }
    }
}

impl fmt::Display for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (position, id) in self.ids.iter().enumerate() {
            let space = if position > 0 { " " } else { "" };
            write!(f, "{space}{id:x}")?;
        }
        f.write_str(")")
    }
}

/// Two sets of voters that must both agree; one alone while `outgoing` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JointConfig {
    /// The voters to be, or the only ones.
    pub incoming: IdSet,
    /// The voters that were, while the change between the two is under way.
    pub outgoing: IdSet,
}

impl JointConfig {
    /// Whether both halves decide.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// All voters, of both halves.
    pub fn ids(&self) -> IdSet {
        self.incoming.iter().chain(self.outgoing.iter()).collect()
    }

    /// Whether `id` votes in either half.
    pub fn contains(&self, id: u64) -> bool {
        self.incoming.contains(id) || self.outgoing.contains(id)
    }

    /// The largest index that both majorities acknowledged.
    pub fn committed_index(&self, acked: impl Fn(u64) -> Option<u64>) -> u64 {
        let incoming = self.incoming.committed_index(&acked);
        incoming.min(self.outgoing.committed_index(&acked))
    }

    /// How the votes given so far decide: won by both, or lost by either.
    pub fn vote_result(&self, vote: impl Fn(u64) -> Option<bool>) -> VoteResult {
        match (
            self.incoming.vote_result(&vote),
            self.outgoing.vote_result(&vote),
        ) {
            (VoteResult::Lost, _) | (_, VoteResult::Lost) => VoteResult::Lost,
            (VoteResult::Won, VoteResult::Won) => VoteResult::Won,
            _ => VoteResult::Pending,
        }
    }

    /// As [`IdSet::describe`], over all voters.
    pub fn describe(&self, acked: impl Fn(u64) -> Option<u64>) -> String {
        self.ids().describe(acked)
    }
}

impl fmt::Display for JointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.incoming)?;
        if self.is_joint() {
            write!(f, "&&{}", self.outgoing)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::random::Random;

    /// Tries every acknowledged index and counts who has reached it.
    fn naive_committed(set: &IdSet, acked: &BTreeMap<u64, u64>) -> u64 {
        let quorum = set.len() / 2 + 1;
        let reached = |index: u64| {
            set.iter()
                .filter(|id| acked.get(id).copied().unwrap_or(0) >= index)
                .count()
                >= quorum
        };
        acked
            .values()
            .copied()
            .chain([0])
            .filter(|index| reached(*index))
            .max()
            .unwrap_or(0)
    }

    fn some_set(random: &mut Random) -> IdSet {
        (0..random.below(12))
            .map(|_| u64::from(random.below(15)) + 1)
            .collect()
    }

    #[test]
    fn committed_index_is_what_a_count_by_hand_finds() {
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let incoming = some_set(&mut random);
            let outgoing = some_set(&mut random);
            let joint = JointConfig { incoming, outgoing };
            let mut acked = BTreeMap::new();
            for id in joint.ids().iter() {
                if random.below(4) > 0 {
                    acked.insert(id, u64::from(random.below(6)));
                }
            }
            let lookup = |id: u64| acked.get(&id).copied();
            let mut expected = u64::MAX;
            for half in [&joint.incoming, &joint.outgoing] {
                if half.is_empty() {
                    assert_eq!(half.committed_index(lookup), u64::MAX);
                } else {
                    let naive = naive_committed(half, &acked);
                    assert_eq!(half.committed_index(lookup), naive, "{half} {acked:?}");
                    expected = expected.min(naive);
                }
            }
            assert_eq!(joint.committed_index(lookup), expected);
        }
    }

    #[test]
    fn a_vote_is_decided_when_no_missing_vote_can_change_it() {
        let mut random = Random::new(8);
        for _ in 0..5_000 {
            let set = some_set(&mut random);
            let votes: BTreeMap<u64, Option<bool>> = set
                .iter()
                .map(|id| {
                    (
                        id,
                        [None, Some(true), Some(false)][random.below(3) as usize],
                    )
                })
                .collect();
            let lookup = |id: u64| votes.get(&id).copied().flatten();
            let finally = |missing: bool| {
                let yes = set
                    .iter()
                    .filter(|id| lookup(*id).unwrap_or(missing))
                    .count();
                set.is_empty() || yes > set.len() / 2
            };
            let expected = match (finally(false), finally(true)) {
                (true, _) => VoteResult::Won,
                (false, true) => VoteResult::Pending,
                (false, false) => VoteResult::Lost,
            };
            assert_eq!(set.vote_result(lookup), expected, "{set} {votes:?}");
        }
    }

    #[test]
    fn a_set_stays_sorted_and_prints_in_hex() {
        let mut set: IdSet = [17, 2, 2, 300].into_iter().collect();
        set.insert(1);
        set.insert(17);
        set.remove(2);
        set.remove(9);
        assert_eq!(set.as_slice(), [1, 17, 300]);
        assert_eq!(set.to_string(), "(1 11 12c)");
    }
}
