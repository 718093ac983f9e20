//! gRPC and HTTP on a socket, for services that know neither tasks nor an HTTP library.
//!
//! One port speaks HTTP/2 by prior knowledge (gRPC, and plain requests where that is allowed),
//! HTTP/1, and whatever a [`Secure`] makes of the socket first. Services implement [`Service`]; they
//! are called on the worker thread of a connection, and answer at once or, through a [`Responder`],
//! from any thread.
//!
//! Why a transport of our own above the h2 library: what a small request costs is mostly wake-ups
//! and system calls. Here a connection is one task; whatever becomes ready together leaves in one
//! write; answers from other threads cost one wake-up per worker and batch.
//!
//! Invariants, for one connection:
//! - Memory is bounded whatever the client does: incomplete messages are counted and refused above a
//!   limit; while more answers wait than the client takes, no new calls are made.
//! - Limits, codes and texts are those of grpc-go as etcd configures it.
//!
//! Not known here: what a message means, any path, authentication, TLS.

mod body;
mod connection;
mod context;
mod header_log;
mod http1;
mod inbox;
mod io;
mod keepalive;
mod limits;
mod message;
mod plain;
mod service;
mod sink;
mod status;
mod stream;
mod wakers;
mod worker;

#[cfg(test)]
pub(crate) mod tests;

pub use body::{Body, BodySource};
pub use context::{CallContext, Cancellation, Peer, PeerAddress, TlsIdentity};
pub use header_log::asked_for as headers_asked_for;
pub use inbox::{ConnectionInbox, Responder, WakeBatch};
pub use io::Duplex;
pub use keepalive::Keepalive;
pub use limits::{Limits, STREAMS_MAX};
pub use service::{
    Ended, HttpBodyError, HttpReply, HttpRequest, HttpResponse, Lookup, MethodId, MethodKind,
    Reply, Service, StreamHandler,
};
pub use sink::{SINK_LIMIT_BYTES, StreamSink};
pub use status::{Code, Status};
pub use worker::{
    BoxableDuplex, BoxedDuplex, Endpoint, Listener, Secure, Secured, Socket, Transport,
};
