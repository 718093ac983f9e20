//! The forms of text that Go's programs take from its standard library and those around it:
//! quoted strings, durations, times, numbers, sizes, JSON, gRPC's codes and the system's errors. Scripts parse
//! them, so they are part of the interface.

pub mod duration;
pub mod grpc;
pub mod json;
pub mod number;
pub mod quote;
pub mod size;
pub mod system;
pub mod time;
