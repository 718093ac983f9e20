//! Consensus, pure.

pub mod types;

pub use types::*;
