//! Whole-database tests; see the parts.

mod basics;
mod crash;
mod damage;
mod locking;
mod model;
mod torn_meta;
mod vacuuming;
