//! The transport over real sockets, with an HTTP/2 client that is not ours.

mod calls;
mod connections;
mod fake;
mod http;
mod streams;
