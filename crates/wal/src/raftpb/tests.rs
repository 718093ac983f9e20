//! Golden bytes were made with the Go code of etcd 3.7.3 and of 3.6.13, which agree.

use super::*;
use crate::proto::Fault;
use crate::walpb;
use quorate_raft::{
    ConfChange, ConfChangeKind, ConfChangeSingle, ConfChangeTransition, ConfChangeV2,
};
use quorate_raft::{Message, MessageKind};

const BIG: u64 = 0xfedc_ba98_7654_3210;

fn bytes(hex: &str) -> Bytes {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len())
        .step_by(2)
        .map(digit)
        .collect::<Vec<_>>()
        .into()
}

/// Encodes to the golden bytes, announces their length, and decodes from them.
#[track_caller]
fn check<T: PartialEq + std::fmt::Debug>(
    value: &T,
    golden: &str,
    put: fn(&mut Vec<u8>, &T),
    len: fn(&T) -> usize,
    decode: fn(&Bytes) -> Result<T, DecodeError>,
) {
    let golden = bytes(golden);
    let mut out = vec![0xee];
    put(&mut out, value);
    assert_eq!(&out[1..], golden);
    assert_eq!(len(value), golden.len());
    assert_eq!(decode(&golden).as_ref(), Ok(value));
}

fn entry() -> Entry {
    Entry {
        term: 3,
        index: 300,
        kind: EntryKind::Normal,
        data: Bytes::from_static(b"hello"),
    }
}

fn conf_state() -> ConfState {
    ConfState {
        voters: vec![1],
        ..ConfState::default()
    }
}

fn snapshot() -> Snapshot {
    let metadata = SnapshotMetadata {
        conf_state: conf_state(),
        index: 7,
        term: 2,
    };
    Snapshot {
        data: Bytes::from_static(b"state"),
        metadata,
    }
}

fn full_message() -> Message {
    Message {
        kind: MessageKind::AppResp,
        to: 1,
        from: 2,
        term: 3,
        log_term: 4,
        index: 5,
        entries: vec![entry()],
        commit: 6,
        vote: 7,
        snapshot: Some(Box::new(snapshot())),
        reject: true,
        reject_hint: 8,
        context: Bytes::from_static(b"c"),
        responses: vec![Message {
            kind: MessageKind::App,
            to: 1,
            ..Message::default()
        }],
    }
}

#[test]
fn golden_entries() {
    let check = |entry: &Entry, golden| check(entry, golden, put_entry, entry_len, decode_entry);
    check(&entry(), "0800100318ac02220568656c6c6f");
    check(
        &Entry {
            term: 1,
            index: 2,
            ..Entry::default()
        },
        "080010011802",
    );
    let change = Entry {
        term: 1,
        index: BIG,
        kind: EntryKind::ConfChangeV2,
        data: Bytes::from_static(&[0]),
    };
    check(&change, "080210011890e4d0b287d3aeeefe01220100");
}

#[test]
fn golden_hard_state() {
    let state = HardState {
        term: 5,
        vote: BIG,
        commit: 0,
    };
    check(
        &state,
        "08051090e4d0b287d3aeeefe011800",
        put_hard_state,
        hard_state_len,
        decode_hard_state,
    );
}

#[test]
fn golden_configurations() {
    let check = |state: &ConfState, golden| {
        check(
            state,
            golden,
            put_conf_state,
            conf_state_len,
            decode_conf_state,
        )
    };
    check(&conf_state(), "08012800");
    let joint = ConfState {
        voters: vec![1, 300],
        learners: vec![2],
        voters_outgoing: vec![3],
        learners_next: vec![0],
        auto_leave: true,
    };
    check(&joint, "080108ac021002180320002801");
}

#[test]
fn golden_snapshots() {
    let golden = "0a057374617465120a0a040801280010071802";
    check(
        &snapshot(),
        golden,
        put_snapshot,
        snapshot_len,
        decode_snapshot,
    );
    let file = bytes(&format!("08ba87c3c3021213{golden}"));
    assert_eq!(crate::snap::encode_file(&snapshot()), file);
    assert_eq!(crate::snap::decode_file(&file), Ok(snapshot()));
}

#[test]
fn golden_log_records() {
    let record = |kind, crc, data: &[u8]| {
        let mut out = Vec::new();
        walpb::put_record_head(&mut out, kind, crc, data.len());
        out.extend_from_slice(data);
        assert_eq!(out.len(), walpb::record_len(crc, data.len()));
        out
    };
    assert_eq!(
        record(walpb::RecordType::Entry, 0x1234, b"x"),
        bytes("080210b4241a0178")
    );
    assert_eq!(
        record(walpb::RecordType::Crc, 0x1234, b""),
        bytes("080410b424")
    );
    let decoded = walpb::decode_record(&bytes("080210b4241a0178")).unwrap();
    assert_eq!(
        decoded,
        walpb::Record {
            number: 2,
            crc: 0x1234,
            data: Bytes::from_static(b"x")
        }
    );

    let first = walpb::Snapshot::default();
    let later = walpb::Snapshot {
        index: 7,
        term: 2,
        conf_state: Some(conf_state()),
    };
    for (snapshot, golden) in [(first, "08001000"), (later, "080710021a0408012800")] {
        assert_eq!(walpb::encode_snapshot(&snapshot), bytes(golden));
        assert_eq!(walpb::decode_snapshot(&bytes(golden)), Ok(snapshot));
    }
}

#[test]
fn golden_membership_changes() {
    let change = ConfChange {
        id: 9,
        kind: ConfChangeKind::AddLearnerNode,
        node_id: 4,
        context: Bytes::from_static(b"ctx"),
    };
    check(
        &change,
        "0809100318042203637478",
        put_conf_change,
        conf_change_len,
        decode_conf_change,
    );
    let change = ConfChangeV2 {
        transition: ConfChangeTransition::JointExplicit,
        changes: vec![
            ConfChangeSingle {
                kind: ConfChangeKind::AddNode,
                node_id: 1,
            },
            ConfChangeSingle {
                kind: ConfChangeKind::RemoveNode,
                node_id: 300,
            },
        ],
        context: Bytes::from_static(b"c"),
    };
    let golden = "08021204080010011205080110ac021a0163";
    check(
        &change,
        golden,
        put_conf_change_v2,
        conf_change_v2_len,
        decode_conf_change_v2,
    );
    assert_eq!(
        decode_conf_change_v2(&Bytes::new()),
        Ok(ConfChangeV2::default())
    );
}

#[test]
fn golden_messages() {
    let check = |message: &Message, golden| {
        check(message, golden, put_message, message_len, decode_message)
    };
    check(
        &full_message(),
        "0804100118022003280430053a0e0800100318ac02220568656c6c6f40064a130a057374617465120a0a0408\
         0128001007180250015808620163680772140803100118002000280030004000500058006800",
    );
    let heartbeat = Message {
        kind: MessageKind::Heartbeat,
        to: 1,
        from: 2,
        term: 3,
        commit: 9,
        ..Message::default()
    };
    check(&heartbeat, "0808100118022003280030004009500058006800");
}

#[test]
fn what_3_7_leaves_out_is_zero() {
    let entry = Entry {
        term: 1,
        index: 2,
        ..Entry::default()
    };
    assert_eq!(decode_entry(&bytes("10011802")), Ok(entry));
    let heartbeat = Message {
        kind: MessageKind::Heartbeat,
        to: 1,
        from: 2,
        term: 3,
        commit: 9,
        ..Message::default()
    };
    assert_eq!(
        decode_message(&bytes("08081001180220034009")),
        Ok(heartbeat)
    );
}

#[test]
fn packed_numbers_are_read_too() {
    let state = ConfState {
        voters: vec![1, 300],
        ..ConfState::default()
    };
    assert_eq!(decode_conf_state(&bytes("0a0301ac022800")), Ok(state));
    assert!(decode_conf_state(&bytes("0a0201ac2800")).is_err());
}

#[test]
fn unknown_kinds_and_fields_of_entries_are_refused() {
    let fault = |hex| decode_entry(&bytes(hex)).unwrap_err().fault;
    assert_eq!(fault("080310011802"), Fault::UnknownValue(1, 3));
    assert_eq!(fault("0800100118022801"), Fault::UnknownField(5));
    assert_eq!(fault("0a00"), Fault::WireType(2, 1));
    let message = decode_message(&bytes("08033a0408031001")).unwrap_err();
    assert_eq!(
        (message.message, message.fault),
        ("raftpb.Entry", Fault::UnknownValue(1, 3))
    );
    assert_eq!(
        decode_hard_state(&bytes("2001")).unwrap_err().fault,
        Fault::UnknownField(4)
    );
    assert_eq!(
        decode_conf_change(&bytes("1004")).unwrap_err().fault,
        Fault::UnknownValue(2, 4)
    );
    assert_eq!(
        decode_conf_change_v2(&bytes("0803")).unwrap_err().fault,
        Fault::UnknownValue(1, 3)
    );
}

#[test]
fn messages_may_have_unknown_fields_but_no_unknown_kind() {
    assert!(decode_message(&bytes("08037a0101")).is_ok());
    assert_eq!(
        decode_message(&bytes("0818")).unwrap_err().fault,
        Fault::UnknownValue(1, 24)
    );
}

#[test]
fn messages_nest_once() {
    // Response within response within message.
    assert_eq!(
        decode_message(&bytes("0803720208037200")).map(|message| message.responses.len()),
        Ok(2)
    );
    assert_eq!(
        decode_message(&bytes("0803720472020803"))
            .unwrap_err()
            .fault,
        Fault::Depth
    );
}

#[test]
fn data_shares_the_input() {
    let input = bytes("0800100318ac02220568656c6c6f");
    let entry = decode_entry(&input).unwrap();
    assert_eq!(entry.data.as_ptr(), input[9..].as_ptr());
}

#[test]
fn any_cut_of_a_message_is_refused_or_shorter_and_never_panics() {
    let mut out = Vec::new();
    put_message(&mut out, &full_message());
    let whole = Bytes::from(out);
    for cut in 0..whole.len() {
        assert_ne!(
            decode_message(&whole.slice(..cut)).as_ref(),
            Ok(&full_message())
        );
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.to_vec();
            flipped[at] ^= 1 << bit;
            // The outcome depends on the bit; that there is one is what counts.
            let _outcome = decode_message(&Bytes::from(flipped));
        }
    }
}
