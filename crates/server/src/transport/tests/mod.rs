//! The transport over real sockets, with an HTTP/2 client that is not ours.

mod calls;
mod connections;
pub(crate) mod fake;
mod http;
mod streams;
