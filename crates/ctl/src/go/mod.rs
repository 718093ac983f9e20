//! The forms of text that etcdctl's output takes from Go's standard library: quoted strings,
//! durations, numbers and JSON. Scripts parse them, so they are part of the interface.

pub mod duration;
pub mod json;
pub mod number;
pub mod quote;
