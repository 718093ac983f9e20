//! How bytes get to an endpoint, where that is not by a socket of the system.

use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// What a connection runs on.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

/// Connects in place of the system's sockets: through a proxy, say, or within one process. TLS,
/// where an endpoint has it, is spoken over what this gives.
pub trait Connector: std::fmt::Debug + Send + Sync {
    /// Connects to an endpoint, named as it was given to the client.
    fn connect<'a>(&'a self, endpoint: &'a str) -> Connecting<'a>;
}
