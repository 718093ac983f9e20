//! Whole-database tests; see the parts.

mod basics;
mod model;
