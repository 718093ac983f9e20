//! Whether the other side has said anything yet.
//!
//! A kernel takes connections for a process that is stopped or stuck. An HTTP/2 server speaks first
//! (its SETTINGS, RFC 9113, 3.4), so a connection is up once a byte has come.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// A stream that tells when its first byte has come.
pub(crate) struct Greeted<T> {
    stream: T,
    heard: Option<Arc<Notify>>,
}

impl<T> Greeted<T> {
    /// The stream, and who is told.
    pub(crate) fn new(stream: T) -> (Greeted<T>, Arc<Notify>) {
        let heard = Arc::new(Notify::new());
        let greeted = Greeted {
            stream,
            heard: Some(heard.clone()),
        };
        (greeted, heard)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Greeted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before
            && let Some(heard) = self.heard.take()
        {
            heard.notify_one();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Greeted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
