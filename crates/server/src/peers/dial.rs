//! Connections that this member opens.
//!
//! Invariants:
//! - A connection ends with the value that stands for it, whatever it is doing.
//! - A write that gets nowhere for [`WRITE_TIMEOUT`] ends the connection, in both directions: a peer
//!   that does not read is as good as gone.

use super::address::{PeerAddress, PeerUrl};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use quorate_go::system;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// etcd's ConnWriteTimeout.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a TCP connection may be silent before it is probed, and between probes.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);

/// Of the threads for files and names.
const LOOKUPS_MAX: usize = 4;

/// A connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The system's answer.
    #[error("dial {at}: {}", system::text(source))]
    Connect { at: String, source: io::Error },
    /// It took too long.
    #[error("dial {at}: i/o timeout")]
    Timeout { at: String },
    /// Nothing could be said on it.
    #[error("dial {at}: {source}")]
    Http { at: String, source: hyper::Error },
}

/// A connected socket of either kind.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

thread_local! {
    /// Names that are looked up at a time: what answers late must not take all threads for files.
    static LOOKUPS: Arc<Semaphore> = Arc::new(Semaphore::new(LOOKUPS_MAX));
}

async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let turn = LOOKUPS.with(Arc::clone).acquire_owned().await;
    let host = host.to_owned();
    let looked_up = spawn_blocking(move || {
        let addresses = (host.as_str(), port).to_socket_addrs();
        // Not before: the thread is taken for as long as this takes, even if nobody waits any more.
        drop(turn);
        addresses.map(Iterator::collect)
    });
    looked_up.await.map_err(io::Error::other)?
}

impl Socket {
    async fn connect(address: &PeerAddress) -> io::Result<Socket> {
        match address {
            PeerAddress::Tcp(host, port) => {
                let addresses = resolve(host, *port).await?;
                let socket = TcpStream::connect(&addresses[..]).await?;
                prepare(&socket)?;
                Ok(Socket::Tcp(socket))
            }
            PeerAddress::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path).await?)),
        }
    }
}

/// Sets what all TCP connections between members have.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(socket, true)?;
    rustix::net::sockopt::set_tcp_keepidle(socket, TCP_KEEPALIVE)?;
    rustix::net::sockopt::set_tcp_keepintvl(socket, TCP_KEEPALIVE)?;
    Ok(())
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_read(cx, into),
            Socket::Unix(socket) => Pin::new(socket).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Socket::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Socket::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Sockets have no buffer of their own.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Socket::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

/// A transport whose writes must get on.
pub(super) struct WriteTimed<T> {
    inner: T,
    /// Runs while a write waits.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<T> WriteTimed<T> {
    pub fn new(inner: T) -> WriteTimed<T> {
        WriteTimed { inner, waits: None }
    }

    fn judge<R>(
        &mut self,
        outcome: Poll<io::Result<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.waits = None;
            return outcome;
        }
        let waits = self
            .waits
            .get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        match waits.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimed<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimed<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.judge(outcome, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_write_vectored(cx, slices);
        this.judge(outcome, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

/// A task that ends with this value.
pub(super) struct Task(JoinHandle<()>);

impl Task {
    /// Starts one on this thread.
    pub fn spawn(future: impl Future<Output = ()> + 'static) -> Task {
        Task(spawn_local(future))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An HTTP/1.1 connection to a peer, for one request at a time.
pub(super) struct Connection<B> {
    sender: http1::SendRequest<B>,
    /// When it was last known to be alive.
    pub used: Instant,
    _driver: Task,
}

impl<B> Connection<B>
where
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub async fn open(url: &PeerUrl, within: Duration) -> Result<Connection<B>, DialError> {
        let at = || match &url.address {
            PeerAddress::Tcp(..) => format!("tcp {}", url.authority),
            PeerAddress::Unix(path) => format!("unix {path}"),
        };
        let socket = match timeout(within, Socket::connect(&url.address)).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(source)) => return Err(DialError::Connect { at: at(), source }),
            Err(_) => return Err(DialError::Timeout { at: at() }),
        };
        let (sender, connection) = http1::Builder::new()
            .title_case_headers(true)
            .handshake(TokioIo::new(WriteTimed::new(socket)))
            .await
            .map_err(|source| DialError::Http { at: at(), source })?;
        // How it ends is told to whoever waits for a response.
        let driver = Task::spawn(async move { drop(connection.await) });
        Ok(Connection {
            sender,
            used: Instant::now(),
            _driver: driver,
        })
    }

    /// Sends a request, gives the response's head. The connection must live while its body is read.
    pub async fn send(
        &mut self,
        request: http::Request<B>,
    ) -> hyper::Result<http::Response<Incoming>> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        self.used = Instant::now();
        Ok(response)
    }
}
