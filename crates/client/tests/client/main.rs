//! The client against servers that the tests play.

mod administration;
mod calls;
mod fake;
mod model;
mod pages;
mod streams;
mod tls;
mod tokens;
mod transactions;
mod turns;
