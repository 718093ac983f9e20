//! The command line that the tools share: how it is read, how its help looks, and how tables and
//! progress do.
//!
//! The definitions are clap's, so that parsing, help, completion scripts and manual pages come
//! from one source. What users of Go's tools see (flags found anywhere, the layout of help, the
//! texts of errors) is made to be theirs.
//!
//! Invariants:
//! - What is a program's own (its commands, what they do, what it is compatible with) is not known
//!   here; it comes as a [`Program`].
//! - No arguments make it panic.
//!
//! Source: cobra 1.10, pflag 1.0 and Go's standard library, as their programs behave.

pub mod colour;
pub mod exit;
pub mod find;
pub mod flags;
pub mod format;
mod given;
pub mod help;
pub mod pages;
pub mod parse;
mod program;
pub mod progress;
mod refusal;
pub mod streams;
pub mod table;

pub use exit::Exit;
pub use given::Given;
pub use parse::{Invocation, Parsed, parse};
pub use program::{Group, Program};
