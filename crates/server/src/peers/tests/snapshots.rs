//! Snapshots between members, whole and not.

use super::*;
use crate::peers::SnapshotSource;
use crate::peers::codec::put_framed;
use quorate_node::disk::Mode;
use quorate_node::raft::{Snapshot, SnapshotMetadata};
use quorate_node::wal::snap::database_path;
use std::io;
use std::net::Shutdown;

pub(super) fn snapshot(index: u64) -> Snapshot {
    Snapshot {
        data: Bytes::from_static(b"{}"),
        metadata: SnapshotMetadata {
            index,
            term: 3,
            ..SnapshotMetadata::default()
        },
    }
}

fn message(from: u64, to: u64, index: u64) -> Message {
    Message {
        from,
        term: 3,
        snapshot: Some(Box::new(snapshot(index))),
        ..Message::new(MessageKind::Snap, to)
    }
}

/// A database of a length that cannot be read from some offset on.
struct Source {
    len: u64,
    readable: u64,
}

fn byte_at(offset: u64) -> u8 {
    (offset % 251) as u8
}

impl SnapshotSource for Source {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        assert!(offset + into.len() as u64 <= self.len);
        if offset + into.len() as u64 > self.readable {
            return Err(io::Error::other("a bad sector"));
        }
        for (at, byte) in (offset..).zip(into) {
            *byte = byte_at(at);
        }
        Ok(())
    }
}

fn files(member: &Member) -> Vec<String> {
    member.disk.list(Path::new(DIR)).unwrap()
}

#[test]
fn a_snapshot_arrives_whole_and_durable() {
    let one = Member::start(0xe1);
    let two = Member::start(0xe2);
    one.transport.set_peer(two.id, vec![two.url()]);
    let len = (3 << 20) + 17;
    let source = || Box::new(Source { len, readable: len });
    let sent = message(one.id, two.id, 7);
    one.transport.send_snapshot(sent.clone(), source());
    let (received, path) = two.wait(|told| match told {
        Told::Snapshot(message, path) => Some((message, path)),
        _ => None,
    });
    assert_eq!(received, sent);
    assert_eq!(path, database_path(Path::new(DIR), 7));
    // What a crash would leave.
    let survived = two.disk.crash(3);
    let file = survived.open(&path, Mode::Read).unwrap();
    assert_eq!(file.len().unwrap(), len);
    let mut content = vec![0; len as usize];
    file.read_exact_at(&mut content, 0).unwrap();
    assert!((0..).zip(&content).all(|(at, byte)| *byte == byte_at(at)));
    one.wait_for(Told::SnapshotSent(two.id, true));

    // The same again is told again, and the file stays.
    one.transport.send_snapshot(sent, source());
    one.wait_for(Told::SnapshotSent(two.id, true));
    assert_eq!(files(&two), ["0000000000000007.snap.db"]);

    // Nobody is there to take it.
    one.transport
        .send_snapshot(message(one.id, 0xe3, 7), source());
    one.wait_for(Told::SnapshotSent(0xe3, false));
}

#[test]
fn half_a_snapshot_leaves_nothing() {
    let one = Member::start(0xf1);
    let two = Member::start(0xf2);
    one.transport.set_peer(two.id, vec![two.url()]);
    let source = Box::new(Source {
        len: 4 << 20,
        readable: 2 << 20,
    });
    one.transport
        .send_snapshot(message(one.id, two.id, 7), source);
    one.wait_for(Told::SnapshotSent(two.id, false));
    let empty = Box::new(Source {
        len: 0,
        readable: 0,
    });
    one.transport
        .send_snapshot(message(one.id, two.id, 8), empty);
    one.wait_for(Told::SnapshotSent(two.id, false));

    // A chunked one without its end, as a sender leaves it that died.
    let mut body = Vec::new();
    put_framed(&mut body, &message(one.id, two.id, 9));
    body.extend_from_slice(&[5; 5000]);
    let mut socket = TcpStream::connect(two.address).unwrap();
    let head = format!(
        "POST /raft/snapshot HTTP/1.1\r\n{}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n",
        presented(one.id),
        body.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket.write_all(&body).unwrap();
    socket.write_all(b"\r\n").unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    socket.read_to_end(&mut Vec::new()).unwrap();

    // Once the turn of an index is over its part is gone: the next one finds a clean place.
    let whole = || {
        Box::new(Source {
            len: 9,
            readable: 9,
        })
    };
    for index in [7, 8, 9] {
        loop {
            one.transport
                .send_snapshot(message(one.id, two.id, index), whole());
            let sent = one.wait(|told| match told {
                Told::SnapshotSent(_, ok) => Some(ok),
                _ => None,
            });
            if sent {
                break;
            }
        }
    }
    let names: Vec<String> = (7..=9).map(|n| format!("{n:016x}.snap.db")).collect();
    assert_eq!(files(&two), names);
}

#[test]
fn the_end_comes_in_the_middle_of_a_snapshot() {
    let member = Member::start(0xfb1);
    let mut body = Vec::new();
    put_framed(&mut body, &message(0xfb2, member.id, 9));
    body.extend_from_slice(&[5; 5000]);
    let mut request = post("/raft/snapshot", 0xfb2, &body);
    request.truncate(request.len() - 1);
    let mut socket = TcpStream::connect(member.address).unwrap();
    socket.write_all(&request).unwrap();
    while files(&member).is_empty() {
        thread::yield_now();
    }
    member.transport.stop();
    assert!(!files(&member).contains(&"0000000000000009.snap.db".to_owned()));
}

#[test]
fn a_disk_that_fails_is_told_to_the_sender() {
    let one = Member::start(0xfa1);
    let two = Member::start(0xfa2);
    one.transport.set_peer(two.id, vec![two.url()]);
    let source = || {
        Box::new(Source {
            len: 2 << 20,
            readable: 2 << 20,
        })
    };
    two.disk.set_space(Some(1 << 20));
    one.transport
        .send_snapshot(message(one.id, two.id, 7), source());
    one.wait_for(Told::SnapshotSent(two.id, false));
    two.disk.set_space(None);
    two.disk.fail_sync(1);
    loop {
        one.transport
            .send_snapshot(message(one.id, two.id, 7), source());
        let sent = one.wait(|told| match told {
            Told::SnapshotSent(_, ok) => Some(ok),
            _ => None,
        });
        if sent {
            break;
        }
    }
    assert_eq!(files(&two), ["0000000000000007.snap.db"]);
}
