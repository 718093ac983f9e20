//! What the command line has: the commands, the flags of all of them, and the environment. How it
//! is read and how its help looks is [`quorate_cli`]'s.

pub mod environment;
pub mod globals;
pub mod tree;

pub use globals::Globals;
