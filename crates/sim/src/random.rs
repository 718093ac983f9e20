//! Randomness that a seed decides.
//!
//! Invariant: what is drawn follows from the seed and the order of the calls alone, so each part of a
//! run that must not disturb another has a source of its own ([`Random::fork`]).

use quorate_node::disk::faulty;

/// A source of randomness.
#[derive(Clone, Debug)]
pub struct Random(faulty::Random);

impl Random {
    /// The source of a seed.
    pub fn new(seed: u64) -> Random {
        Random(faulty::Random::new(seed))
    }

    /// Sixty-four random bits.
    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Another source, which this one decides and no longer shares anything with.
    pub fn fork(&mut self) -> Random {
        Random::new(self.next())
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `per_mille` of a thousand cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A number around `mean`, mostly small and sometimes much larger: how long things take.
    pub fn around(&mut self, mean: u64) -> u64 {
        let half = mean / 2 + 1;
        match self.below(16) {
            0 => mean * self.between(2, 6),
            _ => self.below(half) + self.below(half),
        }
    }

    /// One of `items`, of which there is at least one.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}
