//! The two stream formats: messages out of bytes as they arrive, and bytes out of messages.
//!
//! The message stream is, for each message, its length in eight bytes (big-endian, as all numbers
//! here) and its raftpb form. The append stream ([`super::msgapp`]) is shorter. Each begins anew with
//! each connection. A stream that has nothing to say carries link heartbeats, which are no messages
//! of raft's.
//!
//! Invariants:
//! - Memory is taken for bytes that have arrived, not for a length that was announced.
//! - A decoded message keeps no other bytes alive than its own.
//! - After an error a decoder is not used any more: where the next message begins is not known.
//!
//! Source: `msg_codec.go` and `stream.go` of etcd's rafthttp.

use super::msgapp::{AppEncoder, AppFormat};
use bytes::{Buf, Bytes, BytesMut};
use quorate_node::raft::{Message, MessageKind};
use quorate_node::wal::DecodeError;
use quorate_node::wal::raftpb::{decode_message, message_len, put_message};

/// The longest message that is taken: etcd's readBytesLimit.
pub(super) const MESSAGE_BYTES_MAX: usize = 512 << 20;

/// A message of this size is not copied out of the buffer it was put together in.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Buffer space that is kept for the next message.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// Bytes of a length.
pub(super) const LENGTH_BYTES: usize = 8;

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamKind {
    /// Appends only.
    MsgApp,
    /// Any message.
    Message,
}

impl StreamKind {
    pub const ALL: [StreamKind; 2] = [StreamKind::MsgApp, StreamKind::Message];

    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            StreamKind::MsgApp => "stream MsgApp v2",
            StreamKind::Message => "stream Message",
        }
    }

    /// Where it is asked for, without the id.
    pub fn path(self) -> &'static str {
        match self {
            StreamKind::MsgApp => "/raft/stream/msgapp",
            StreamKind::Message => "/raft/stream/message",
        }
    }
}

/// Bytes that are no stream of messages.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CodecError {
    #[error(transparent)]
    Message(#[from] DecodeError),
    #[error("rafthttp: error limit exceeded")]
    TooLong,
    #[error("failed to parse type {0} in msgappv2 stream")]
    Type(u8),
    #[error("an append's entries are not in sequence: {found} follows {before}")]
    Sequence { before: u64, found: u64 },
}

/// What stands in a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    LinkHeartbeat,
    Message(Message),
}

/// One of the two formats, for reading.
pub(super) trait Format {
    /// Length of the item that `input` begins with, if it is there as a whole. Called again with the
    /// same input grown, so it may remember how far it got.
    fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, CodecError>;

    /// The item that these bytes, of the length that [`Format::scan`] gave, are.
    fn decode(&mut self, bytes: Bytes) -> Result<Item, CodecError>;
}

/// Puts items together from pieces.
pub(super) struct Assembler<F> {
    format: F,
    partial: BytesMut,
}

impl<F: Format> Assembler<F> {
    pub fn new(format: F) -> Assembler<F> {
        Assembler {
            format,
            partial: BytesMut::new(),
        }
    }

    /// Takes a piece, gives the items it completes to `each`.
    fn feed(&mut self, piece: &[u8], mut each: impl FnMut(Item)) -> Result<(), CodecError> {
        let mut rest = piece;
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(rest);
            rest = &[];
            while let Some(len) = self.format.scan(&self.partial)? {
                let bytes = if len > COPY_BYTES_MAX {
                    self.partial.split_to(len).freeze()
                } else {
                    let copy = Bytes::copy_from_slice(&self.partial[..len]);
                    self.partial.advance(len);
                    copy
                };
                each(self.format.decode(bytes)?);
                if self.partial.is_empty() {
                    break;
                }
            }
            if self.partial.is_empty() && self.partial.capacity() > SPARE_BYTES_MAX {
                self.partial = BytesMut::new();
            }
        }
        while !rest.is_empty() {
            match self.format.scan(rest)? {
                Some(len) => {
                    let bytes = Bytes::copy_from_slice(&rest[..len]);
                    rest = &rest[len..];
                    each(self.format.decode(bytes)?);
                }
                None => {
                    self.partial.extend_from_slice(rest);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Reads the message stream.
pub(super) struct MessageFormat;

/// A length, if it has arrived and is at most `limit`.
pub(super) fn length(input: &[u8], limit: usize) -> Result<Option<usize>, CodecError> {
    let Some(bytes) = input.first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    match usize::try_from(u64::from_be_bytes(*bytes)) {
        Ok(length) if length <= limit => Ok(Some(length)),
        _ => Err(CodecError::TooLong),
    }
}

impl Format for MessageFormat {
    fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, CodecError> {
        let length = length(input, MESSAGE_BYTES_MAX)?;
        let whole = length.map(|length| LENGTH_BYTES + length);
        Ok(whole.filter(|&whole| whole <= input.len()))
    }

    fn decode(&mut self, mut bytes: Bytes) -> Result<Item, CodecError> {
        bytes.advance(LENGTH_BYTES);
        let message = decode_message(&bytes)?;
        let heartbeat = message.kind == MessageKind::Heartbeat;
        if heartbeat && message.from == 0 && message.to == 0 {
            return Ok(Item::LinkHeartbeat);
        }
        check_sequence(&message)?;
        Ok(Item::Message(message))
    }
}

/// Holds an append to what raft's log asserts of it.
pub(super) fn check_sequence(message: &Message) -> Result<(), CodecError> {
    if message.kind != MessageKind::App {
        return Ok(());
    }
    let mut before = message.index;
    for entry in &message.entries {
        if before.checked_add(1) != Some(entry.index) {
            return Err(CodecError::Sequence {
                before,
                found: entry.index,
            });
        }
        before = entry.index;
    }
    Ok(())
}

/// Reads a stream of either kind.
pub(super) enum Decoder {
    MsgApp(Assembler<AppFormat>),
    Message(Assembler<MessageFormat>),
}

impl Decoder {
    /// For a stream that `remote` writes and `local` reads.
    pub fn new(kind: StreamKind, local: u64, remote: u64) -> Decoder {
        match kind {
            StreamKind::MsgApp => Decoder::MsgApp(Assembler::new(AppFormat::new(local, remote))),
            StreamKind::Message => Decoder::Message(Assembler::new(MessageFormat)),
        }
    }

    /// Takes what arrived, gives the items it completes to `each`.
    pub fn feed(&mut self, piece: &[u8], each: impl FnMut(Item)) -> Result<(), CodecError> {
        match self {
            Decoder::MsgApp(assembler) => assembler.feed(piece, each),
            Decoder::Message(assembler) => assembler.feed(piece, each),
        }
    }
}

/// Writes a stream of either kind.
pub(super) enum Encoder {
    MsgApp(AppEncoder),
    Message,
}

impl Encoder {
    pub fn new(kind: StreamKind) -> Encoder {
        match kind {
            StreamKind::MsgApp => Encoder::MsgApp(AppEncoder::default()),
            StreamKind::Message => Encoder::Message,
        }
    }

    /// Appends a message.
    pub fn put(&mut self, out: &mut Vec<u8>, message: &Message) {
        match self {
            Encoder::MsgApp(encoder) => encoder.put(out, message),
            Encoder::Message => put_framed(out, message),
        }
    }

    /// Appends a link heartbeat.
    pub fn put_link_heartbeat(&mut self, out: &mut Vec<u8>) {
        match self {
            Encoder::MsgApp(_) => out.push(super::msgapp::LINK_HEARTBEAT),
            Encoder::Message => put_framed(out, &Message::new(MessageKind::Heartbeat, 0)),
        }
    }
}

/// Appends a number as these formats have it.
pub(super) fn put_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(&length.to_be_bytes());
}

/// Appends a message behind its length.
pub(super) fn put_framed(out: &mut Vec<u8>, message: &Message) {
    let length = message_len(message);
    out.reserve(LENGTH_BYTES + length);
    put_length(out, length as u64);
    put_message(out, message);
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
