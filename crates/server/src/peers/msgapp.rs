//! The append stream: etcd's msgappv2.
//!
//! An item is a byte of type, and then
//! - 0, a link heartbeat: nothing;
//! - 1, entries that follow on those of the item before, in its term: their number, each one's length
//!   and raftpb form, the commit index;
//! - 2, any append: length and raftpb form of the message.
//!
//! What type 1 leaves out (term, index, sender, receiver) both ends know: the term of the last item
//! of type 2, and the index behind which the last item left off.
//!
//! Source: `msgappv2_codec.go` of etcd's rafthttp.

use super::codec::{
    CodecError, Format, Item, LENGTH_BYTES, MESSAGE_BYTES_MAX, check_sequence, length, put_framed,
    put_length,
};
use bytes::{Buf, Bytes};
use quorate_node::raft::{Message, MessageKind};
use quorate_node::wal::raftpb::{decode_entry, decode_message, entry_len, put_entry};

pub(super) const LINK_HEARTBEAT: u8 = 0;
const ENTRIES: u8 = 1;
const APP: u8 = 2;

/// Most entries of one item: empty ones take eight bytes to send and many more to keep.
const ENTRIES_MAX: usize = 1 << 20;

/// What both ends know before the next item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    term: u64,
    index: u64,
}

impl Position {
    /// Behind a message that was sent as a whole.
    fn behind(message: &Message) -> Position {
        Position {
            term: message.term,
            index: message
                .entries
                .last()
                .map_or(message.index, |entry| entry.index),
        }
    }
}

/// Writes the stream.
#[derive(Debug, Default)]
pub(super) struct AppEncoder {
    at: Position,
}

impl AppEncoder {
    pub fn put(&mut self, out: &mut Vec<u8>, message: &Message) {
        debug_assert_eq!(message.kind, MessageKind::App);
        let follows = self.at.index == message.index
            && self.at.term == message.log_term
            && message.log_term == message.term;
        if !follows {
            out.push(APP);
            put_framed(out, message);
            self.at = Position::behind(message);
            return;
        }
        out.push(ENTRIES);
        put_length(out, message.entries.len() as u64);
        for entry in &message.entries {
            put_length(out, entry_len(entry) as u64);
            put_entry(out, entry);
        }
        put_length(out, message.commit);
        self.at.index += message.entries.len() as u64;
    }
}

/// How far the item that arrives was looked at.
#[derive(Clone, Copy, Debug)]
enum Scan {
    /// Not at all.
    Start,
    /// Entries: so many are left from this offset on.
    Entries { at: usize, left: usize },
}

/// Reads the stream.
#[derive(Debug)]
pub(super) struct AppFormat {
    local: u64,
    remote: u64,
    at: Position,
    scan: Scan,
}

impl AppFormat {
    pub fn new(local: u64, remote: u64) -> AppFormat {
        AppFormat {
            local,
            remote,
            at: Position::default(),
            scan: Scan::Start,
        }
    }

    fn decode_entries(&mut self, mut bytes: Bytes) -> Result<Message, CodecError> {
        let count = bytes.get_u64();
        // The scan held it to its limit.
        let mut entries = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for _ in 0..count {
            let length = usize::try_from(bytes.get_u64()).unwrap_or(usize::MAX);
            entries.push(decode_entry(&bytes.split_to(length))?);
        }
        let message = Message {
            kind: MessageKind::App,
            from: self.remote,
            to: self.local,
            term: self.at.term,
            log_term: self.at.term,
            index: self.at.index,
            entries,
            commit: bytes.get_u64(),
            ..Message::default()
        };
        check_sequence(&message)?;
        self.at = Position::behind(&message);
        Ok(message)
    }
}

impl Format for AppFormat {
    fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, CodecError> {
        let Some((&kind, rest)) = input.split_first() else {
            return Ok(None);
        };
        let (mut at, mut left) = match (kind, self.scan) {
            (LINK_HEARTBEAT, _) => return Ok(Some(1)),
            (APP, _) => {
                let length = length(rest, MESSAGE_BYTES_MAX)?;
                let whole = length.map(|length| 1 + LENGTH_BYTES + length);
                return Ok(whole.filter(|&whole| whole <= input.len()));
            }
            (ENTRIES, Scan::Entries { at, left }) => (at, left),
            (ENTRIES, Scan::Start) => match length(rest, ENTRIES_MAX)? {
                Some(count) => (1 + LENGTH_BYTES, count),
                None => return Ok(None),
            },
            (other, _) => return Err(CodecError::Type(other)),
        };
        while left > 0 {
            // An entry's content need not be there for the next one's place to be known.
            let Some(length) =
                (input.get(at..)).map_or(Ok(None), |rest| length(rest, MESSAGE_BYTES_MAX - at))?
            else {
                self.scan = Scan::Entries { at, left };
                return Ok(None);
            };
            at += LENGTH_BYTES + length;
            left -= 1;
            if at > MESSAGE_BYTES_MAX {
                return Err(CodecError::TooLong);
            }
        }
        let whole = at + LENGTH_BYTES;
        if whole > input.len() {
            self.scan = Scan::Entries { at, left };
            return Ok(None);
        }
        self.scan = Scan::Start;
        Ok(Some(whole))
    }

    fn decode(&mut self, mut bytes: Bytes) -> Result<Item, CodecError> {
        match bytes.get_u8() {
            LINK_HEARTBEAT => Ok(Item::LinkHeartbeat),
            ENTRIES => self.decode_entries(bytes).map(Item::Message),
            APP => {
                bytes.advance(LENGTH_BYTES);
                let message = decode_message(&bytes)?;
                check_sequence(&message)?;
                self.at = Position::behind(&message);
                Ok(Item::Message(message))
            }
            other => Err(CodecError::Type(other)),
        }
    }
}
