//! Golden bytes were written by etcd 3.7.3, which leaves fields out that were never set.

use super::super::msgapp::AppFormat;
use super::*;
use quorate_node::raft::{Entry, EntryKind};

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn entry(term: u64, index: u64, data: &'static str) -> Entry {
    Entry {
        term,
        index,
        kind: EntryKind::Normal,
        data: Bytes::from_static(data.as_bytes()),
    }
}

fn append(term: u64, log_term: u64, index: u64, commit: u64, entries: Vec<Entry>) -> Message {
    Message {
        kind: MessageKind::App,
        to: 1,
        from: 2,
        term,
        log_term,
        index,
        commit,
        entries,
        ..Message::default()
    }
}

/// What etcd was given, and what it wrote.
fn golden_appends() -> Vec<(Item, &'static str)> {
    vec![
        (
            Item::Message(append(
                3,
                2,
                9,
                8,
                vec![entry(3, 10, "a"), entry(3, 11, "")],
            )),
            "0200000000000000210803100118022003280230093a0908001003180a2201613a0608001003180b4008",
        ),
        (
            Item::Message(append(3, 3, 11, 10, vec![entry(3, 12, "bc")])),
            "010000000000000001000000000000000a08001003180c22026263000000000000000a",
        ),
        (Item::LinkHeartbeat, "00"),
        (
            Item::Message(append(3, 3, 12, 12, vec![])),
            "010000000000000000000000000000000c",
        ),
        (
            Item::Message(append(4, 3, 12, 12, vec![entry(4, 13, "d")])),
            "02000000000000001908031001180220042803300c3a0908001004180d220164400c",
        ),
        (
            Item::Message(append(
                4,
                4,
                13,
                13,
                vec![entry(4, 14, "e"), entry(4, 15, "f")],
            )),
            "010000000000000002000000000000000908001004180e220165000000000000000908001004180f220166\
             000000000000000d",
        ),
        (
            Item::Message(append(4, 4, 14, 15, vec![entry(4, 15, "f")])),
            "02000000000000001908031001180220042804300e3a0908001004180f220166400f",
        ),
    ]
}

fn golden_messages() -> Vec<(Item, &'static str)> {
    let heartbeat = Message {
        kind: MessageKind::Heartbeat,
        to: 1,
        from: 2,
        term: 3,
        commit: 9,
        context: Bytes::from_static(b"c"),
        ..Message::default()
    };
    vec![
        (Item::LinkHeartbeat, "00000000000000020808"),
        (
            Item::Message(heartbeat),
            "000000000000000d08081001180220034009620163",
        ),
    ]
}

fn decoder(kind: StreamKind) -> Decoder {
    Decoder::new(kind, 1, 2)
}

fn golden(kind: StreamKind) -> (Vec<Item>, Vec<u8>) {
    let golden = match kind {
        StreamKind::MsgApp => golden_appends(),
        StreamKind::Message => golden_messages(),
    };
    let stream = golden.iter().flat_map(|(_, hex)| bytes(hex)).collect();
    (golden.into_iter().map(|(item, _)| item).collect(), stream)
}

fn decode(kind: StreamKind, stream: &[u8], piece: usize) -> Result<Vec<Item>, CodecError> {
    let (mut decoder, mut items) = (decoder(kind), Vec::new());
    for piece in stream.chunks(piece) {
        decoder.feed(piece, |item| items.push(item))?;
    }
    Ok(items)
}

fn encode(kind: StreamKind, items: &[Item]) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::new(kind), Vec::new());
    for item in items {
        match item {
            Item::LinkHeartbeat => encoder.put_link_heartbeat(&mut out),
            Item::Message(message) => encoder.put(&mut out, message),
        }
    }
    out
}

#[test]
fn etcds_streams_are_read_in_pieces_of_any_size() {
    for kind in StreamKind::ALL {
        let (items, stream) = golden(kind);
        for piece in 1..=stream.len() {
            assert_eq!(decode(kind, &stream, piece).as_ref(), Ok(&items), "{piece}");
        }
    }
}

#[test]
fn entries_that_follow_are_written_as_etcd_writes_them() {
    let mut encoder = Encoder::new(StreamKind::MsgApp);
    for (item, hex) in golden_appends() {
        let mut out = Vec::new();
        match &item {
            Item::LinkHeartbeat => encoder.put_link_heartbeat(&mut out),
            Item::Message(message) => encoder.put(&mut out, message),
        }
        let golden = bytes(hex);
        assert_eq!(out[0], golden[0]);
        if golden[0] != 2 {
            assert_eq!(out, golden);
        }
    }
}

/// A generator of test data; the constants are Knuth's.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn some_append(numbers: &mut Numbers, last: &mut (u64, u64)) -> Message {
    let (term, index) = *last;
    // Mostly what follows; sometimes a new term, or a step back.
    let (term, log_term, index) = match numbers.below(6) {
        0 => (term + 1, term, index),
        1 => (term, term, index.saturating_sub(numbers.below(3))),
        _ => (term, term, index),
    };
    let entries: Vec<Entry> = (1..=numbers.below(5))
        .map(|n| Entry {
            term,
            index: index + n,
            kind: EntryKind::Normal,
            data: match numbers.below(20) {
                // Beyond what is copied, and beyond etcd's buffer.
                0 => vec![7; 70 << 10].into(),
                1 => vec![8; (1 << 20) + 5].into(),
                length => vec![9; length as usize].into(),
            },
        })
        .collect();
    *last = (term, index + entries.len() as u64);
    append(term, log_term, index, numbers.below(100), entries)
}

#[test]
fn what_is_written_is_read() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        for kind in StreamKind::ALL {
            let mut last = (1, 5);
            let items: Vec<Item> = (0..40)
                .map(|_| match numbers.below(5) {
                    0 => Item::LinkHeartbeat,
                    _ => Item::Message(some_append(&mut numbers, &mut last)),
                })
                .collect();
            let stream = encode(kind, &items);
            for piece in [stream.len(), 8 << 10, 1 + numbers.below(1 << 20) as usize] {
                let read = decode(kind, &stream, piece).unwrap();
                assert!(read == items, "seed {seed}, {kind:?}, pieces of {piece}");
            }
        }
    }
}

#[test]
fn hostile_bytes_are_an_error_or_a_wait() {
    for kind in StreamKind::ALL {
        let (items, stream) = golden(kind);
        for cut in 0..stream.len() {
            let read = decode(kind, &stream[..cut], stream.len()).unwrap();
            assert!(read.len() <= items.len());
        }
        for at in 0..stream.len() {
            for bit in 0..8 {
                let mut flipped = stream.clone();
                flipped[at] ^= 1 << bit;
                // The outcome depends on the bit; that there is one is what counts.
                let _outcome = decode(kind, &flipped, 7);
            }
        }
        let mut numbers = Numbers(at_seed(kind));
        for _ in 0..2_000 {
            let noise: Vec<u8> = (0..numbers.below(60))
                .map(|_| match numbers.below(3) {
                    0 => numbers.below(256) as u8,
                    _ => numbers.below(3) as u8,
                })
                .collect();
            let _outcome = decode(kind, &noise, 5);
        }
    }
}

fn at_seed(kind: StreamKind) -> u64 {
    match kind {
        StreamKind::MsgApp => 1,
        StreamKind::Message => 2,
    }
}

#[test]
fn what_is_announced_takes_no_memory() {
    // Less than the limit by what stands before it.
    let most = (MESSAGE_BYTES_MAX as u64 - 64).to_be_bytes();
    let beyond = (MESSAGE_BYTES_MAX as u64 + 1).to_be_bytes();
    for (kind, head) in [
        (StreamKind::Message, &[][..]),
        (StreamKind::MsgApp, &[2]),
        (StreamKind::MsgApp, &[1, 0, 0, 0, 0, 0, 0, 0, 2]),
    ] {
        let announce = |length: &[u8]| [head, length].concat();
        assert_eq!(decode(kind, &announce(&most), 64), Ok(vec![]));
        assert_eq!(
            decode(kind, &announce(&beyond), 64),
            Err(CodecError::TooLong)
        );
        assert_eq!(
            decode(kind, &announce(&[0xff; 8]), 64),
            Err(CodecError::TooLong)
        );
    }
    let many_entries = [&[1][..], &u64::MAX.to_be_bytes()].concat();
    assert_eq!(
        decode(StreamKind::MsgApp, &many_entries, 64),
        Err(CodecError::TooLong)
    );
    // Two entries that are too long together.
    let two = [&[1, 0, 0, 0, 0, 0, 0, 0, 2][..], &most].concat();
    let mut format = AppFormat::new(1, 2);
    assert_eq!(format.scan(&two), Ok(None));
    assert_eq!(
        decode(StreamKind::MsgApp, &[3], 64),
        Err(CodecError::Type(3))
    );
}

#[test]
fn entries_out_of_sequence_are_refused() {
    let gap = append(4, 3, 12, 12, vec![entry(4, 13, "d"), entry(4, 15, "f")]);
    let error = CodecError::Sequence {
        before: 13,
        found: 15,
    };
    for kind in StreamKind::ALL {
        let stream = encode(kind, &[Item::Message(gap.clone())]);
        assert_eq!(decode(kind, &stream, 64).as_ref(), Err(&error));
    }
    let end = append(4, 3, u64::MAX, 12, vec![entry(4, 0, "d")]);
    assert!(check_sequence(&end).is_err());
}
