//! The client against servers that the tests play.

mod calls;
mod fake;
mod streams;
mod tls;
