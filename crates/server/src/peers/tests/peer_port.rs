//! What the peer port answers.

use super::*;
use crate::peers::codec::{Decoder, Item, StreamKind, put_framed};
use quorate_node::wal::raftpb::put_message;

fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\n{headers}\r\n").into_bytes()
}

#[test]
fn strangers_are_told_why_they_are_refused() {
    let member = Member::start(0x11);
    member.transport.set_peer(0x12, vec![]);
    let ask = |request: &[u8]| exchange(member.address, request);
    let stream = |from: u64| format!("/raft/stream/msgapp/{from:x}");
    let to = |id: u64| format!("X-Raft-To: {id:x}\r\n");

    let probed = ask(&get("/raft/probing", "Host: h\r\n"));
    assert_eq!(probed.status, 200);
    assert!(probed.text().starts_with("{\"OK\":true,\"Now\":\"20"));

    for (request, status, text) in [
        (get("/raft", "Host: h\r\n"), 405, "Method Not Allowed\n"),
        (post(&stream(0x12), 0x12, b""), 405, "Method Not Allowed\n"),
        (
            get("/raft/nothing", "Host: h\r\n"),
            404,
            "404 page not found\n",
        ),
        (
            get("/raft/stream/other/12", &presented(0x12)),
            404,
            "invalid path\n",
        ),
        (
            get("/raft/stream/msgapp/xyz", &presented(0x12)),
            404,
            "invalid from\n",
        ),
        (
            get(&stream(REMOVED), &(presented(REMOVED) + &to(0x11))),
            410,
            "removed member\n",
        ),
        (
            get(&stream(0x13), &(presented(0x13) + &to(0x11))),
            404,
            "error sender not found\n",
        ),
        (
            get(&stream(0x12), &(presented(0x12) + &to(0x14))),
            412,
            "to field mismatch\n",
        ),
        (
            get(&stream(0x12), &presented(0x12).replace(": c1", ": c2")),
            412,
            "cluster ID mismatch\n",
        ),
        (
            get(&stream(0x12), &presented(0x12).replace("3.0.0", "3.8.0")),
            412,
            "incompatible version\n",
        ),
        (
            post("/raft", 0x12, b"\xff"),
            400,
            "error unmarshalling raft message\n",
        ),
        (
            post("/raft/snapshot", 0x12, b"short"),
            400,
            "failed to decode raft message (unexpected EOF)\n",
        ),
        (
            post("/raft/snapshot", 0x12, &[0xff; 8]),
            400,
            "failed to decode raft message (rafthttp: error limit exceeded)\n",
        ),
    ] {
        let seen = ask(&request);
        let head = String::from_utf8_lossy(&request);
        assert_eq!((seen.status, seen.text()), (status, text), "{head}");
        if text.starts_with("cluster") {
            assert_eq!(seen.header("x-etcd-cluster-id"), "c1");
        }
    }
    for (from, to, why) in [(REMOVED, 0x11, "removed"), (0x12, 0x14, "mismatch")] {
        let mut body = Vec::new();
        put_message(&mut body, &heartbeat(from, to));
        let seen = ask(&post("/raft", 0x12, &body));
        assert_eq!(seen.status, 403);
        assert!(seen.text().contains(why), "{}", seen.text());
    }
    let mut body = Vec::new();
    put_message(&mut body, &Message::new(MessageKind::Snap, 0x11));
    assert_eq!(ask(&post("/raft", 0x12, &body)).status, 500);
    let other = ask(&post("/members/promote/1", 0x12, b"x"));
    assert_eq!((other.status, other.text()), (200, "/members/promote/1x"));
}

#[test]
fn other_languages_are_not_understood() {
    let member = Member::start(0x21);
    for hello in [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x01\x02\x03\r\n\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ] {
        let mut socket = TcpStream::connect(member.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(hello).unwrap();
        // It is closed, with or without a word.
        let _reset = socket.read_to_end(&mut Vec::new());
    }
    let seen = exchange(member.address, &get("/raft/probing", "Host: h\r\n"));
    assert_eq!(seen.status, 200);
}

/// Reads chunks until they decode to so many messages.
fn read_stream(socket: &mut TcpStream, decoder: &mut Decoder, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let mut size = Vec::new();
        while !size.ends_with(b"\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            size.push(byte[0]);
        }
        let size = std::str::from_utf8(&size).unwrap().trim_end();
        let mut chunk = vec![0; usize::from_str_radix(size, 16).unwrap() + 2];
        socket.read_exact(&mut chunk).unwrap();
        chunk.truncate(chunk.len() - 2);
        let fed = decoder.feed(&chunk, |item| match item {
            Item::Message(message) => messages.push(message),
            Item::LinkHeartbeat => {}
        });
        fed.unwrap();
    }
    messages
}

/// Reads what is left of a stream, heartbeats at most, to the chunk that ends it.
fn read_to_the_end(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    while !rest.ends_with(b"\r\n0\r\n\r\n") && rest != b"0\r\n\r\n" {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        rest.push(byte[0]);
    }
}

fn open_stream(member: &Member, kind: StreamKind, from: u64) -> TcpStream {
    let mut socket = TcpStream::connect(member.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let headers = format!("{}X-Raft-To: {:x}\r\n", presented(from), member.id);
    let request = get(&format!("{}/{from:x}", kind.path()), &headers);
    socket.write_all(&request).unwrap();
    let (first, headers) = read_head(&mut socket).unwrap();
    assert_eq!(first, "HTTP/1.1 200 OK");
    assert_eq!(header(&headers, "x-server-version"), "3.7.3");
    assert_eq!(header(&headers, "x-etcd-cluster-id"), "c1");
    assert_eq!(header(&headers, "transfer-encoding"), "chunked");
    socket
}

#[test]
fn streams_carry_what_they_are_for_in_order() {
    let member = Member::start(0x31);
    member.transport.set_peer(0x32, vec![]);
    let mut appends = open_stream(&member, StreamKind::MsgApp, 0x32);
    member.wait_for(Told::Active(0x32, true));
    let mut others = open_stream(&member, StreamKind::Message, 0x32);

    let batch: Vec<Message> = (0..3000).map(|index| append(0x31, 0x32, index)).collect();
    let heartbeats = vec![heartbeat(0x31, 0x32); 3];
    member.transport.send(batch.clone());
    member.transport.send(heartbeats.clone());
    let mut decoder = Decoder::new(StreamKind::MsgApp, 0x32, 0x31);
    assert_eq!(read_stream(&mut appends, &mut decoder, 3000), batch);
    let mut decoder = Decoder::new(StreamKind::Message, 0x32, 0x31);
    assert_eq!(read_stream(&mut others, &mut decoder, 3), heartbeats);

    // One that dials again is served on the new connection, and the old one ends.
    let mut again = open_stream(&member, StreamKind::MsgApp, 0x32);
    read_to_the_end(&mut appends);
    let next = append(0x31, 0x32, 3000);
    member.transport.send(vec![next.clone()]);
    let mut decoder = Decoder::new(StreamKind::MsgApp, 0x32, 0x31);
    assert_eq!(read_stream(&mut again, &mut decoder, 1), [next]);

    // A broken connection is noticed without a message.
    drop(again);
    member.wait_for(Told::Active(0x32, false));
    member.transport.remove_peer(0x32);
    read_to_the_end(&mut others);
}

#[test]
fn a_stranger_of_the_cluster_is_answered_at_the_urls_it_names() {
    let member = Member::start(0x41);
    let raw = RawPeer::start(|_| Act::Answer(NO_CONTENT.to_vec()));
    let mut body = Vec::new();
    put_message(&mut body, &heartbeat(0x42, 0x41));
    let urls = format!("X-PeerURLs: {}\r\nContent-Length", raw.url());
    let request = String::from_utf8_lossy(&post("/raft", 0x42, b"")).into_owned();
    let request = request.replace("Content-Length", &urls);
    let request = request.replace(": 0\r\n", &format!(": {}\r\n", body.len()));
    let seen = exchange(member.address, &[request.as_bytes(), &body].concat());
    assert_eq!(seen.status, 204);
    assert_eq!(member.messages(1), [heartbeat(0x42, 0x41)]);

    member.transport.send(vec![heartbeat(0x41, 0x42)]);
    let heard = raw.wait(|heard| heard.path == "/raft");
    let mut expected = Vec::new();
    put_message(&mut expected, &heartbeat(0x41, 0x42));
    assert_eq!(heard.body, expected);
}

#[test]
fn a_member_without_room_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = Member::start_with(0x51, true, listener);
    let mut body = Vec::new();
    put_message(&mut body, &heartbeat(0x52, 0x51));
    let seen = exchange(member.address, &post("/raft", 0x52, &body));
    assert_eq!(
        (seen.status, seen.text()),
        (500, "error processing raft message\n")
    );
    let snapshot = Message {
        from: 0x52,
        snapshot: Some(Box::new(snapshots::snapshot(7))),
        ..Message::new(MessageKind::Snap, 0x51)
    };
    let mut body = Vec::new();
    put_framed(&mut body, &snapshot);
    body.extend_from_slice(b"database");
    let seen = exchange(member.address, &post("/raft/snapshot", 0x52, &body));
    assert_eq!(
        (seen.status, seen.text()),
        (
            500,
            "failed to process raft message (the member is overloaded)\n"
        )
    );
}
