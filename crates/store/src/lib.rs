//! The replicated state machine.

pub mod error;
pub mod index;
#[cfg(test)]
mod random;
pub mod revision;

pub use error::Error;
