//! Between the HTTP/2 library and the socket: writes are gathered until the connection's round is
//! over, pings are counted on the way in.
//!
//! Invariants:
//! - Nothing reaches the socket before [`Link::send`], unless more than [`GATHER_BYTES`] wait.
//! - Whatever the library says is flushed is whole frames, so a frame of ours may follow.
//! - In one round no more than [`READ_ROUND_BYTES`] are read, so that what was read is handed over
//!   before more comes.

use super::keepalive::{PingPolicy, Verdict};
use bytes::BytesMut;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Bytes that are gathered before a write is tried in the middle of a round.
const GATHER_BYTES: usize = 64 << 10;

/// A payload of this size is not copied if it can be written at once.
const DIRECT_BYTES: usize = 16 << 10;

/// Bytes that are read in one round.
const READ_ROUND_BYTES: usize = 256 << 10;

/// What every HTTP/2 connection begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A transport: a socket, or what TLS makes of one.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + 'static> Duplex for T {}

/// The socket and its buffers, shared by the library's end ([`Io`]) and the connection's.
pub(super) struct Link<T> {
    socket: T,
    /// What was read before it was known that this is HTTP/2.
    early: BytesMut,
    /// What waits to be written, from `written` on. Empty, and the worker's, between rounds.
    gathered: Vec<u8>,
    written: usize,
    /// Whether the library has handed over whole frames only.
    at_boundary: bool,
    /// Whether the last write did not go through.
    blocked: bool,
    read_this_round: usize,
    frames: FrameScanner,
    pings: PingPolicy,
    /// When something was last read.
    pub last_read: Instant,
    /// Streams that are open, as the ping policy wants to know.
    pub active_streams: usize,
    pub too_many_pings: bool,
}

thread_local! {
    /// A write buffer that no connection of this worker is using: they need one only while they
    /// run, or while their peers do not read.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn take_buffer() -> Vec<u8> {
    SPARE.take()
}

fn give_back(mut buffer: Vec<u8>) {
    if (1..=4 * GATHER_BYTES).contains(&buffer.capacity()) {
        buffer.clear();
        SPARE.set(buffer);
    }
}

/// The library's end.
pub(super) struct Io<T>(pub Rc<RefCell<Link<T>>>);

impl<T: Duplex> Link<T> {
    pub fn new(socket: T, early: BytesMut, pings: PingPolicy) -> Rc<RefCell<Link<T>>> {
        Rc::new(RefCell::new(Link {
            socket,
            early,
            gathered: Vec::new(),
            written: 0,
            at_boundary: true,
            blocked: false,
            read_this_round: 0,
            frames: FrameScanner::default(),
            pings,
            last_read: Instant::now(),
            active_streams: 0,
            too_many_pings: false,
        }))
    }

    /// A round begins.
    pub fn begin_round(&mut self) {
        self.read_this_round = 0;
    }

    /// An answer is on its way: pings are answered with good will again.
    pub fn answered(&mut self) {
        self.pings.answered();
    }

    /// Writes what was gathered. Ready when nothing is left.
    pub fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.gathered.len() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.gathered[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.blocked = true;
                    return Poll::Pending;
                }
            }
        }
        self.blocked = false;
        self.written = 0;
        give_back(std::mem::take(&mut self.gathered));
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    /// Whether the peer does not read what it is sent.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Adds a frame of ours behind the library's, if that is possible.
    pub fn add_frame(&mut self, frame: &[u8]) {
        if self.at_boundary {
            self.put(frame);
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        if !self.early.is_empty() {
            let part = self.early.split_to(self.early.len().min(into.remaining()));
            into.put_slice(&part);
            if self.early.is_empty() {
                self.early = BytesMut::new();
            }
        } else {
            if self.read_this_round >= READ_ROUND_BYTES {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(Pin::new(&mut self.socket).poll_read(cx, into))?;
        }
        let fresh = &into.filled()[before..];
        if fresh.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.read_this_round += fresh.len();
        self.last_read = Instant::now();
        let (pings, now, streams) = (&mut self.pings, self.last_read, self.active_streams);
        let too_many = &mut self.too_many_pings;
        self.frames.scan(fresh, || {
            *too_many |= pings.ping(now, streams) == Verdict::TooMany
        });
        Poll::Ready(Ok(()))
    }

    fn gather(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.at_boundary = false;
        if self.gathered.len() - self.written >= GATHER_BYTES {
            ready!(self.send(cx))?;
        }
        if bytes.len() >= DIRECT_BYTES && self.send(cx).is_ready() {
            match Pin::new(&mut self.socket).poll_write(cx, bytes) {
                Poll::Ready(outcome) => return Poll::Ready(outcome),
                Poll::Pending => self.blocked = true,
            }
        }
        let room = bytes.len().min(GATHER_BYTES);
        self.put(&bytes[..room]);
        Poll::Ready(Ok(room))
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.gathered.capacity() == 0 {
            self.gathered = take_buffer();
        }
        if self.written >= GATHER_BYTES {
            // A peer that reads slowly never lets the buffer run empty.
            self.gathered.drain(..self.written);
            self.written = 0;
        }
        self.gathered.extend_from_slice(bytes);
    }
}

impl<T: Duplex> AsyncRead for Io<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().read(cx, into)
    }
}

impl<T: Duplex> AsyncWrite for Io<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().gather(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut link = self.0.borrow_mut();
        let mut written = 0;
        for part in bytes {
            match link.gather(cx, part) {
                Poll::Ready(Ok(count)) => {
                    written += count;
                    if count < part.len() {
                        break;
                    }
                }
                // What was taken before has to be said first.
                _ if written > 0 => break,
                other => return other,
            }
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().at_boundary = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut link = self.0.borrow_mut();
        ready!(link.send(cx))?;
        Pin::new(&mut link.socket).poll_shutdown(cx)
    }
}

impl<T: Duplex> Io<T> {
    /// Reads what nobody will look at.
    pub fn poll_scrap(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().read(cx, into)
    }
}

/// Finds the pings in what a client sends.
#[derive(Debug)]
struct FrameScanner {
    /// Bytes until the next frame's head.
    skip: usize,
    head: [u8; FRAME_HEAD_BYTES],
    /// Bytes of the head that are there.
    have: usize,
}

const FRAME_HEAD_BYTES: usize = 9;
const FRAME_PING: u8 = 6;
const FLAG_ACK: u8 = 1;

impl Default for FrameScanner {
    fn default() -> FrameScanner {
        FrameScanner {
            skip: PREFACE.len(),
            head: [0; FRAME_HEAD_BYTES],
            have: 0,
        }
    }
}

impl FrameScanner {
    fn scan(&mut self, mut bytes: &[u8], mut ping: impl FnMut()) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let taken = (FRAME_HEAD_BYTES - self.have).min(bytes.len());
            self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have < FRAME_HEAD_BYTES {
                return;
            }
            self.have = 0;
            let [a, b, c, kind, flags, ..] = self.head;
            self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if kind == FRAME_PING && flags & FLAG_ACK == 0 {
                ping();
            }
        }
    }
}

/// Reads until it is certain whether the peer speaks HTTP/2 by prior knowledge. Gives what was read.
pub(super) async fn read_preface<T: Duplex>(socket: &mut T) -> io::Result<(bool, BytesMut)> {
    let mut early = BytesMut::with_capacity(1024);
    loop {
        let known = early.len().min(PREFACE.len());
        if early[..known] != PREFACE[..known] {
            return Ok((false, early));
        }
        if known == PREFACE.len() {
            return Ok((true, early));
        }
        if socket.read_buf(&mut early).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A socket that gives what was read from it before once more.
pub(super) struct Rewound<T> {
    early: BytesMut,
    socket: T,
}

impl<T> Rewound<T> {
    pub fn new(early: BytesMut, socket: T) -> Rewound<T> {
        Rewound { early, socket }
    }
}

impl<T: Duplex> AsyncRead for Rewound<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.socket).poll_read(cx, into);
        }
        let count = self.early.len().min(into.remaining());
        into.put_slice(&self.early.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl<T: Duplex> AsyncWrite for Rewound<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Sends what is left and closes the sending side.
pub(super) async fn finish<T: Duplex>(link: &Rc<RefCell<Link<T>>>) -> io::Result<()> {
    poll_fn(|cx| link.borrow_mut().send(cx)).await?;
    poll_fn(|cx| Pin::new(&mut link.borrow_mut().socket).poll_shutdown(cx)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::task::{unconstrained, yield_now};

    #[tokio::test]
    async fn writes_wait_for_the_rounds_end_and_are_bounded() {
        let (near, mut far) = tokio::io::duplex(1000);
        let link = Link::new(near, BytesMut::new(), PingPolicy::new(Duration::ZERO));
        let mut io = Io(link.clone());
        let cx = &mut Context::from_waker(Waker::noop());
        io.write_all(b"first").await.unwrap();
        io.flush().await.unwrap();
        let mut seen = vec![0; 2000];
        assert!(
            Pin::new(&mut far)
                .poll_read(cx, &mut ReadBuf::new(&mut seen))
                .is_pending()
        );
        assert!(link.borrow_mut().send(cx).is_ready());
        assert_eq!(far.read(&mut seen).await.unwrap(), 5);

        // A peer that always reads less than there is does not let the buffer grow.
        let (mut sent, mut received) = (0_usize, 0_usize);
        for _ in 0..2000 {
            let chunk: Vec<u8> = (sent..sent + 3000).map(|at| (at % 251) as u8).collect();
            if let Poll::Ready(count) = Pin::new(&mut io).poll_write(cx, &chunk) {
                sent += count.unwrap();
            }
            let _full = link.borrow_mut().send(cx);
            // Outside of the runtime's budget, whose end would look like a full socket.
            let count = unconstrained(far.read(&mut seen)).await.unwrap();
            yield_now().await;
            assert!(
                seen[..count]
                    .iter()
                    .zip(received..)
                    .all(|(byte, at)| *byte == (at % 251) as u8)
            );
            received += count;
            assert!(link.borrow().gathered.capacity() <= 4 * GATHER_BYTES);
        }
        assert!(received > 1_000_000 && link.borrow().is_blocked());
    }

    fn frame(kind: u8, flags: u8, len: usize) -> Vec<u8> {
        let mut out = vec![0, (len >> 8) as u8, len as u8, kind, flags, 0, 0, 0, 1];
        out.resize(9 + len, 0);
        out
    }

    #[test]
    fn pings_are_found_however_the_bytes_are_cut() {
        let stream = [
            PREFACE.to_vec(),
            frame(4, 0, 12),
            frame(FRAME_PING, 0, 8),
            frame(0, 0, 700),
            frame(FRAME_PING, FLAG_ACK, 8),
            frame(FRAME_PING, 0, 8),
            frame(0, 1, 0),
        ]
        .concat();
        for step in 1..stream.len() {
            let mut scanner = FrameScanner::default();
            let mut pings = 0;
            for part in stream.chunks(step) {
                scanner.scan(part, || pings += 1);
            }
            assert_eq!(
                (pings, scanner.have, scanner.skip),
                (2, 0, 0),
                "step {step}"
            );
        }
    }

    #[tokio::test]
    async fn the_preface_tells_http_2_from_the_rest() {
        for (sent, is_http2) in [
            (PREFACE, true),
            (b"GET / HTTP/1.1\r\n", false),
            (b"PRI / HTTP/1.1\r\n", false),
        ] {
            let (mut near, mut far) = tokio::io::duplex(4096);
            for byte in sent {
                far.write_all(&[*byte]).await.unwrap();
            }
            let (found, early) = read_preface(&mut near).await.unwrap();
            assert_eq!(found, is_http2);
            assert!(sent.starts_with(&early));
        }
        let (mut near, far) = tokio::io::duplex(4096);
        drop(far);
        assert!(read_preface(&mut near).await.is_err());
    }
}
