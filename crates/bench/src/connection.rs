//! An HTTP/2 connection of the load generator: gRPC over one socket, no tasks, no decoding.
//!
//! The generator shares the machine with the server it measures, so a request costs it a few
//! hundred nanoseconds: heads are six indexed bytes after the first of their kind (as a real
//! client's are: RFC 7541, 2.3.2), messages are copied from their encoded form, answers are
//! counted, and handed out only where the caller wants them.
//!
//! Invariants:
//! - Answer heads are not decoded: a unary call succeeded if, and only if, a message came before
//!   its stream ended. A server that refuses sends none.
//! - The peer's connection window is never exceeded; what does not fit waits in order. One
//!   stream's requests together must fit the initial stream window (checked).
//! - Frames of the peer are bounded by the default 16,384 bytes; a longer one is an error.

use quorate_api::Method;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

const FRAME_BYTES_MAX: usize = 16_384;
const FRAME_HEAD_BYTES: usize = 9;
/// What a stream, and the connection, may have in flight towards us.
const WINDOW_BYTES: u32 = 16 << 20;
const WINDOW_BYTES_DEFAULT: u32 = 65_535;
const INPUT_BYTES: usize = 256 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// As given to [`Connection::start`].
    pub tag: u64,
    /// How many messages came; none says that a unary call was refused.
    pub messages: u64,
    /// The bytes of those messages.
    pub bytes: u64,
}

/// What to do with the messages of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Count them.
    Count,
    /// Count them and hand each out, whole.
    Take,
}

struct Stream {
    id: u32,
    tag: u64,
    answer: Answer,
    /// Of the message that is coming: its five-byte prefix, then how much of it is missing.
    prefix: [u8; 5],
    prefix_bytes: usize,
    missing: usize,
    partial: Vec<u8>,
    messages: u64,
    bytes: u64,
    unacknowledged: u32,
    sent_bytes: usize,
}

/// One connection. All calls return at once.
pub struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    input_end: usize,
    output: Vec<u8>,
    output_start: usize,
    next_id: u32,
    streams: Vec<Stream>,
    /// Values in the peer's header table, in the order they went in.
    indexed: Vec<Vec<u8>>,
    authority: String,
    window: i64,
    stream_window: i64,
    blocked: VecDeque<(Vec<u8>, usize)>,
    unacknowledged: u32,
}

impl Connection {
    /// Connects and sends the preface. The socket does not block from then on.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let socket = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut output = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame_head(&mut output, 12, SETTINGS, 0, 0);
        output.extend([0, 2, 0, 0, 0, 0]); // no push
        output.extend([0, 4]);
        output.extend(WINDOW_BYTES.to_be_bytes());
        window_update(&mut output, 0, WINDOW_BYTES - WINDOW_BYTES_DEFAULT);
        let mut connection = Connection {
            socket,
            input: vec![0; INPUT_BYTES],
            input_end: 0,
            output,
            output_start: 0,
            next_id: 1,
            streams: Vec::new(),
            indexed: Vec::new(),
            authority: address.to_string(),
            window: i64::from(WINDOW_BYTES_DEFAULT),
            stream_window: i64::from(WINDOW_BYTES_DEFAULT),
            blocked: VecDeque::new(),
            unacknowledged: 0,
        };
        connection.flush()?;
        Ok(connection)
    }

    /// For poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether bytes wait for the socket.
    pub fn wants_write(&self) -> bool {
        self.output_start < self.output.len()
    }

    /// How many calls have not ended.
    pub fn open_calls(&self) -> usize {
        self.streams.len()
    }

    /// Begins a call with its first message; with `last` it is the only one. Goes out with the
    /// next [`Connection::flush`]. Gives the stream's number.
    pub fn start(
        &mut self,
        method: Method,
        message: &[u8],
        last: bool,
        answer: Answer,
        tag: u64,
    ) -> u32 {
        let id = self.next_id;
        assert!(id < 1 << 31, "a connection's stream numbers are used up");
        self.next_id += 2;
        self.head(id, method);
        self.streams.push(Stream::new(id, tag, answer));
        self.send(id, message, last);
        id
    }

    /// Sends another message on a stream.
    pub fn send(&mut self, id: u32, message: &[u8], last: bool) {
        let stream = self
            .streams
            .iter_mut()
            .find(|stream| stream.id == id)
            .expect("a message is sent only on a stream that is open");
        let bytes = message.len() + 5;
        stream.sent_bytes += bytes;
        assert!(
            stream.sent_bytes as i64 <= self.stream_window,
            "the requests of a stream exceed its window"
        );
        if self.blocked.is_empty() && bytes as i64 <= self.window {
            self.window -= bytes as i64;
            data_frames(&mut self.output, id, message, last);
        } else {
            let mut frames = Vec::with_capacity(bytes + FRAME_HEAD_BYTES);
            data_frames(&mut frames, id, message, last);
            self.blocked.push_back((frames, bytes));
        }
    }

    /// Writes what the socket takes.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.wants_write() {
            match self.socket.write(&self.output[self.output_start..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.output_start += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.output_start = 0;
        Ok(())
    }

    /// Reads once what is there. Calls that ended are added to `finished`; messages of
    /// [`Answer::Take`] calls are handed to `take` with the call's tag.
    pub fn read(
        &mut self,
        finished: &mut Vec<Finished>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        let count = match self.socket.read(&mut self.input[self.input_end..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.input_end += count;
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        let mut outcome = Ok(());
        while self.input_end - at >= FRAME_HEAD_BYTES {
            let head = &input[at..at + FRAME_HEAD_BYTES];
            let bytes =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            if bytes > FRAME_BYTES_MAX {
                outcome = Err(malformed("a frame longer than 16,384 bytes"));
                break;
            }
            if self.input_end - at - FRAME_HEAD_BYTES < bytes {
                break;
            }
            let id = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            let payload = &input[at + FRAME_HEAD_BYTES..at + FRAME_HEAD_BYTES + bytes];
            outcome = self.frame(head[3], head[4], id, payload, finished, take);
            if outcome.is_err() {
                break;
            }
            at += FRAME_HEAD_BYTES + bytes;
        }
        self.input = input;
        self.input.copy_within(at..self.input_end, 0);
        self.input_end -= at;
        outcome
    }

    fn frame(
        &mut self,
        kind: u8,
        flags: u8,
        id: u32,
        payload: &[u8],
        finished: &mut Vec<Finished>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        match kind {
            DATA => {
                if flags & PADDED != 0 {
                    return Err(malformed("padded data"));
                }
                self.acknowledge(payload.len() as u32);
                let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) else {
                    return Err(malformed("data of a stream that is not open"));
                };
                stream.unacknowledged += payload.len() as u32;
                if stream.unacknowledged > WINDOW_BYTES / 4 {
                    window_update(&mut self.output, id, stream.unacknowledged);
                    stream.unacknowledged = 0;
                }
                stream.data(payload, take);
                if flags & END_STREAM != 0 {
                    self.end(id, finished)?;
                }
            }
            HEADERS if flags & END_STREAM != 0 => self.end(id, finished)?,
            // grpc-go resets a stream that it has ended where it had not yet seen our end of it.
            RST_STREAM if self.streams.iter().any(|stream| stream.id == id) => {
                self.end(id, finished)?;
            }
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    let value =
                        u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                    match u16::from_be_bytes([setting[0], setting[1]]) {
                        1 if value < 4096 => return Err(malformed("a smaller header table")),
                        4 => self.stream_window = i64::from(value),
                        _ => {}
                    }
                }
                frame_head(&mut self.output, 0, SETTINGS, ACK, 0);
            }
            PING if flags & ACK == 0 => {
                frame_head(&mut self.output, payload.len(), PING, ACK, 0);
                self.output.extend_from_slice(payload);
            }
            WINDOW_UPDATE if id == 0 => {
                let Ok(bytes) = <[u8; 4]>::try_from(payload) else {
                    return Err(malformed("a window update without its four bytes"));
                };
                self.window += i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff);
                while let Some((frames, bytes)) = self.blocked.front()
                    && *bytes as i64 <= self.window
                {
                    self.window -= *bytes as i64;
                    self.output.extend_from_slice(frames);
                    self.blocked.pop_front();
                }
            }
            GOAWAY => {
                let code = payload.get(4..8).unwrap_or_default();
                let text = String::from_utf8_lossy(payload.get(8..).unwrap_or_default());
                return Err(io::Error::other(format!(
                    "the server goes away: {code:?} {text}"
                )));
            }
            _ => {}
        }
        Ok(())
    }

    fn acknowledge(&mut self, bytes: u32) {
        self.unacknowledged += bytes;
        if self.unacknowledged > WINDOW_BYTES / 4 {
            window_update(&mut self.output, 0, self.unacknowledged);
            self.unacknowledged = 0;
        }
    }

    fn end(&mut self, id: u32, finished: &mut Vec<Finished>) -> io::Result<()> {
        let Some(place) = self.streams.iter().position(|stream| stream.id == id) else {
            return Err(malformed("the end of a stream that is not open"));
        };
        let stream = self.streams.swap_remove(place);
        finished.push(Finished {
            tag: stream.tag,
            messages: stream.messages,
            bytes: stream.bytes,
        });
        Ok(())
    }

    /// A request's head: literals that the peer indexes the first time, one byte each later.
    /// Pseudo-headers come first (RFC 9113, 8.3).
    fn head(&mut self, id: u32, method: Method) {
        let mut block = Vec::with_capacity(160);
        block.extend([0x83, 0x86]); // :method POST, :scheme http
        let authority = self.authority.clone();
        self.field(&mut block, 4, b"", method.path().as_bytes());
        self.field(&mut block, 1, b"", authority.as_bytes());
        self.field(&mut block, 31, b"", b"application/grpc");
        self.field(&mut block, 0, b"te", b"trailers");
        self.field(&mut block, 58, b"", b"grpc-bench/1");
        frame_head(&mut self.output, block.len(), HEADERS, END_HEADERS, id);
        self.output.extend_from_slice(&block);
    }

    /// A field whose name is `static_name` of the static table, or `name` where that is 0. No two
    /// fields have one value.
    fn field(&mut self, block: &mut Vec<u8>, static_name: u8, name: &[u8], value: &[u8]) {
        /// The newest entry of the dynamic table.
        const NEWEST: usize = 62;
        if let Some(place) = self.indexed.iter().position(|known| known == value) {
            let index = NEWEST + self.indexed.len() - 1 - place;
            assert!(index < 127, "more fields than one byte can index");
            block.push(0x80 | index as u8);
            return;
        }
        assert!(static_name < 63 && name.len() < 127 && value.len() < 127);
        block.push(0x40 | static_name);
        if static_name == 0 {
            block.push(name.len() as u8);
            block.extend_from_slice(name);
        }
        block.push(value.len() as u8);
        block.extend_from_slice(value);
        self.indexed.push(value.to_vec());
    }
}

impl Stream {
    /// A stream whose call is about to be sent: nothing has come for it yet.
    fn new(id: u32, tag: u64, answer: Answer) -> Stream {
        Stream {
            id,
            tag,
            answer,
            prefix: [0; 5],
            prefix_bytes: 0,
            missing: 0,
            partial: Vec::new(),
            messages: 0,
            bytes: 0,
            unacknowledged: 0,
            sent_bytes: 0,
        }
    }

    fn data(&mut self, mut payload: &[u8], take: &mut dyn FnMut(u64, &[u8])) {
        while !payload.is_empty() {
            if self.prefix_bytes < self.prefix.len() {
                let count = payload.len().min(self.prefix.len() - self.prefix_bytes);
                self.prefix[self.prefix_bytes..self.prefix_bytes + count]
                    .copy_from_slice(&payload[..count]);
                self.prefix_bytes += count;
                payload = &payload[count..];
                if self.prefix_bytes < self.prefix.len() {
                    return;
                }
                let [_, a, b, c, d] = self.prefix;
                self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
            }
            let count = payload.len().min(self.missing);
            let (part, rest) = payload.split_at(count);
            payload = rest;
            self.missing -= count;
            self.bytes += count as u64;
            match (self.answer, self.missing) {
                (Answer::Count, _) => {}
                (Answer::Take, 0) if self.partial.is_empty() => take(self.tag, part),
                (Answer::Take, missing) => {
                    self.partial.extend_from_slice(part);
                    if missing == 0 {
                        take(self.tag, &self.partial);
                        self.partial.clear();
                    }
                }
            }
            if self.missing == 0 {
                self.messages += 1;
                self.prefix_bytes = 0;
            }
        }
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the server sent {what}"))
}

fn frame_head(output: &mut Vec<u8>, bytes: usize, kind: u8, flags: u8, id: u32) {
    output.extend_from_slice(&(bytes as u32).to_be_bytes()[1..]);
    output.extend([kind, flags]);
    output.extend(id.to_be_bytes());
}

fn window_update(output: &mut Vec<u8>, id: u32, bytes: u32) {
    frame_head(output, 4, WINDOW_UPDATE, 0, id);
    output.extend(bytes.to_be_bytes());
}

/// A message with its prefix, in as many frames as it needs.
fn data_frames(output: &mut Vec<u8>, id: u32, message: &[u8], last: bool) {
    let first = message.len().min(FRAME_BYTES_MAX - 5);
    let (head, mut rest) = message.split_at(first);
    let flags = |rest: &[u8]| {
        if last && rest.is_empty() {
            END_STREAM
        } else {
            0
        }
    };
    frame_head(output, first + 5, DATA, flags(rest), id);
    output.push(0);
    output.extend((message.len() as u32).to_be_bytes());
    output.extend_from_slice(head);
    while !rest.is_empty() {
        let (part, later) = rest.split_at(rest.len().min(FRAME_BYTES_MAX));
        rest = later;
        frame_head(output, part.len(), DATA, flags(rest), id);
        output.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(answer: Answer) -> Stream {
        Stream::new(1, 7, answer)
    }

    #[test]
    fn messages_are_whole_however_they_are_cut() {
        let mut bytes = Vec::new();
        let messages: [&[u8]; 4] = [b"first", b"", b"x", &[9; 1000]];
        for message in messages {
            bytes.push(0);
            bytes.extend((message.len() as u32).to_be_bytes());
            bytes.extend_from_slice(message);
        }
        for piece in [1, 2, 3, 7, 64, bytes.len()] {
            let mut stream = stream(Answer::Take);
            let mut taken = Vec::new();
            for part in bytes.chunks(piece) {
                stream.data(part, &mut |tag, message| {
                    assert_eq!(tag, 7);
                    taken.push(message.to_vec());
                });
            }
            assert_eq!(taken.len() as u64, stream.messages, "pieces of {piece}");
            assert_eq!(stream.bytes, 1006);
            assert!(taken.iter().zip(messages).all(|(a, b)| a == b));
        }
    }

    #[test]
    fn a_reset_after_the_end_is_no_second_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut connection = Connection::open(address).expect("it is listened to");
        let id = connection.start(Method::KVPut, b"", true, Answer::Count, 7);
        let mut finished = Vec::new();
        let mut frame = |kind, flags, payload: &[u8]| {
            connection.frame(kind, flags, id, payload, &mut finished, &mut |_, _| {})
        };
        frame(HEADERS, END_STREAM, b"").expect("an answer");
        frame(RST_STREAM, 0, &[0; 4]).expect("a late reset");
        assert!(frame(HEADERS, END_STREAM, b"").is_err());
        assert_eq!(finished.len(), 1);
    }

    #[test]
    fn a_long_message_fills_frames_and_ends_with_the_last() {
        let mut output = Vec::new();
        data_frames(&mut output, 3, &vec![1; 40_000], true);
        let mut at = 0;
        let mut total = 0;
        let mut ends = Vec::new();
        while at < output.len() {
            let bytes = usize::from(output[at + 1]) << 8 | usize::from(output[at + 2]);
            assert!(bytes <= FRAME_BYTES_MAX);
            ends.push(output[at + 4] & END_STREAM);
            total += bytes;
            at += FRAME_HEAD_BYTES + bytes;
        }
        assert_eq!(total, 40_005);
        assert_eq!(ends, [0, 0, 1]);
    }
}
