//! Randomness that a seed decides (splitmix64).
//!
//! Invariant: what is drawn follows from the seed and the order of the calls alone, so each part of a
//! run that must not disturb another has a source of its own ([`Random::fork`]).

/// A source of randomness.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The source of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Sixty-four random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Another source, which this one decides and no longer shares anything with.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
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
