//! What must hold, whatever happens: one checker a file, each named after its promise.
//!
//! The ones about consensus look at every step; those about clients judge the whole history once the
//! run has ended. A checker knows nothing of the others, and none uses the code that it checks.

pub mod acknowledged;
pub mod agreement;
pub mod committed;
pub mod durable_log;
pub mod election;
pub mod lease;
pub mod linearizable;
pub mod log_matching;
pub mod watch;
#[cfg(test)]
mod wing_gong;

use std::fmt;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that noticed.
    pub oracle: &'static str,
    /// What it saw.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.what)
    }
}

/// Fails with a violation unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $oracle:expr, $($what:tt)+) => {
        if !$holds {
            return Err($crate::oracle::Violation {
                oracle: $oracle,
                what: format!($($what)+),
            });
        }
    };
}
pub(crate) use ensure;
