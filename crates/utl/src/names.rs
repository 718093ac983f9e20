//! Names for what is being made, which nobody else has.
//!
//! A process's id is not enough: in a container it is always the same, and what was killed left files
//! under it. A random name is likely to be free, and who makes something under it says that it must be.

use std::hash::{BuildHasher, RandomState};

/// The part of a name that differs each time.
pub fn random() -> u64 {
    // The system's randomness, as far as the standard library hands it out.
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_one_differs() {
        assert_ne!(super::random(), super::random());
    }
}
