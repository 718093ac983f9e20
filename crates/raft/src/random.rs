//! Randomness from a seed: SplitMix64 (Steele, Lea, Flood 2014).
//!
//! Election timeouts need spread, not secrecy. The seed comes with the configuration, so a run
//! repeats.

/// A sequence that a seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`, where `bound` is not 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "no number lies below 0");
        // The high half times the bound: a bias below 2^-32 * bound, which a timeout can bear.
        let high = self.next() >> 32;
        ((high * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_all_values_occur() {
        let (mut one, mut two) = (Random::new(1), Random::new(1));
        let mut seen = [false; 10];
        for _ in 0..1000 {
            let value = one.below(10);
            assert_eq!(value, two.below(10));
            seen[value as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
