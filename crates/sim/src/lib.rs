//! The simulator: a cluster of members with its network, disks, clocks and clients in one thread, under
//! a seed.
//!
//! The members are the product's own ([`quorate_node::Member`] and its stages); everything around them
//! is made here, so that a seed decides what happens in which order, and replays exactly. Things go
//! wrong on purpose ([`scenario::Trouble`]), and named checkers look on ([`oracle`]).

mod client;
mod clock;
pub mod cluster;
mod counts;
mod history;
mod keeper;
mod life;
mod machine;
mod model;
mod network;
pub mod oracle;
mod peers;
mod random;
pub mod run;
pub mod sabotage;
mod scenario;
mod schedule;
mod settle;
mod stages;
mod trace;
mod troubles;
mod watcher;
mod wire;
