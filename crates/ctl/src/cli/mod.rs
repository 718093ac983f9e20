//! The command line: what there is, how it is read, and how its help looks.
//!
//! The definitions are clap's, so that parsing, completion scripts and manual pages come from one
//! source. What users of etcdctl see (the layout of help, the texts of errors, flags that are
//! found anywhere) is made to be theirs: see [`parse`] and [`help`].

pub mod environment;
pub mod find;
pub mod flags;
pub mod globals;
pub mod help;
pub mod parse;
pub mod tree;

pub use globals::Globals;
pub use parse::{Invocation, Parsed, parse};
