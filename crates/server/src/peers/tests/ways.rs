//! How this member reaches a peer that the test plays.

use super::*;
use crate::peers::client::{Client, ClientError, Request, request_blocking};
use crate::peers::codec::{Encoder, StreamKind};
use http::StatusCode;
use quorate_node::wal::raftpb::put_message;

fn stream_response(chunk: &[u8]) -> Vec<u8> {
    let mut response = b"HTTP/1.1 200 OK\r\nX-Server-Version: 3.7.3\r\n\
        Transfer-Encoding: chunked\r\n\r\n"
        .to_vec();
    response.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
    response.extend_from_slice(chunk);
    response.extend_from_slice(b"\r\n");
    response
}

#[test]
fn streams_are_dialled_and_read() {
    let member = Member::start(0x61);
    let raw = RawPeer::start(|heard| {
        let kind = StreamKind::ALL
            .into_iter()
            .find(|kind| heard.path == format!("{}/61", kind.path()));
        let Some(kind) = kind else {
            return Act::Answer(NOT_FOUND.to_vec());
        };
        let (mut encoder, mut chunk) = (Encoder::new(kind), Vec::new());
        encoder.put_link_heartbeat(&mut chunk);
        for index in 0..10 {
            let message = match kind {
                StreamKind::MsgApp => append(0x62, 0x61, index),
                StreamKind::Message => heartbeat(0x62, 0x61),
            };
            encoder.put(&mut chunk, &message);
        }
        // To somebody else, and of a kind that is nobody's to send.
        let local = Message {
            from: 0x62,
            ..Message::new(MessageKind::Hup, 0x61)
        };
        if kind == StreamKind::Message {
            encoder.put(&mut chunk, &heartbeat(0x62, 0x63));
            encoder.put(&mut chunk, &local);
        }
        Act::Stay(stream_response(&chunk))
    });
    member.transport.set_peer(0x62, vec![raw.url()]);
    let (mut appends, mut others) = (Vec::new(), Vec::new());
    while appends.len() < 10 || others.len() < 10 {
        for message in member.messages(1) {
            match message.kind {
                MessageKind::App => appends.push(message),
                _ => others.push(message),
            }
        }
    }
    let expected: Vec<Message> = (0..10).map(|index| append(0x62, 0x61, index)).collect();
    assert_eq!(appends, expected);
    assert_eq!(others, vec![heartbeat(0x62, 0x61); 10]);

    let dialled = raw.wait(|heard| heard.path.starts_with("/raft/stream/"));
    assert_eq!(dialled.method, "GET");
    for (name, value) in [
        ("x-server-from", "61"),
        ("x-server-version", "3.7.3"),
        ("x-min-cluster-version", "3.0.0"),
        ("x-etcd-cluster-id", "c1"),
        ("x-raft-to", "62"),
        ("x-peerurls", &member.url()),
        ("host", &raw.address.to_string()),
    ] {
        assert_eq!(dialled.header(name), value, "{name}");
    }
}

#[test]
fn what_finds_no_stream_is_posted() {
    let member = Member::start(0x71);
    let raw = RawPeer::start(|heard| {
        Act::Answer(match heard.method.as_str() {
            "POST" => NO_CONTENT.to_vec(),
            _ => NOT_FOUND.to_vec(),
        })
    });
    member.transport.set_peer(0x72, vec![raw.url()]);
    for _ in 0..3 {
        member.transport.send(vec![heartbeat(0x71, 0x72)]);
        let heard = raw.wait(|heard| heard.method == "POST");
        assert_eq!(heard.path, "/raft");
        assert_eq!(heard.header("content-type"), "application/protobuf");
        assert_eq!(heard.header("x-server-from"), "71");
        let mut body = Vec::new();
        put_message(&mut body, &heartbeat(0x71, 0x72));
        assert_eq!(heard.body, body);
    }
}

#[test]
fn a_lost_message_is_told_and_another_url_is_tried() {
    let member = Member::start(0x81);
    let gone = RawPeer::start(|_| Act::Close);
    member.transport.set_peer(0x82, vec![gone.url()]);
    member.transport.send(vec![heartbeat(0x81, 0x82)]);
    member.wait_for(Told::Unreachable(0x82));

    let raw = RawPeer::start(|_| Act::Answer(NOT_FOUND.to_vec()));
    let urls = vec!["https://h:1".to_owned(), gone.url(), raw.url()];
    member.transport.set_peer(0x82, urls);
    raw.wait(|heard| heard.path.starts_with("/raft/stream/"));
}

#[test]
fn a_member_learns_that_it_was_removed() {
    let member = Member::start(0x91);
    let raw = RawPeer::start(|heard| {
        Act::Answer(match heard.method.as_str() {
            "POST" => b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec(),
            _ => NOT_FOUND.to_vec(),
        })
    });
    member.transport.set_peer(0x92, vec![raw.url()]);
    member.transport.send(vec![heartbeat(0x91, 0x92)]);
    member.wait_for(Told::Failed(Failure::Removed));

    let member = Member::start(0x93);
    let raw = RawPeer::start(|_| {
        let gone = "HTTP/1.1 410 Gone\r\nX-Server-Version: 3.7.3\r\nContent-Length: 0\r\n\r\n";
        Act::Answer(gone.into())
    });
    member.transport.set_peer(0x94, vec![raw.url()]);
    member.wait_for(Told::Failed(Failure::Removed));
}

fn get(urls: Vec<String>, path: &str) -> Request {
    Request::get(urls, path, PATIENCE)
}

fn asks(ask: impl Fn(Request) -> Result<crate::peers::client::Response, ClientError>) {
    let raw = RawPeer::start(|heard| {
        let body = format!("{} {}", heard.header("x-a"), heard.body.len());
        let length = body.len();
        Act::Answer(
            format!("HTTP/1.1 418 Teapot\r\nX-B: c\r\nContent-Length: {length}\r\n\r\n{body}")
                .into_bytes(),
        )
    });
    let closing = RawPeer::start(|_| Act::Close);
    let urls = vec!["https://h:1".into(), closing.url(), raw.url()];
    let mut request = Request::get(urls, "/p?q", PATIENCE);
    request.method = http::Method::POST;
    request.body = "12345".into();
    request.headers.insert("x-a", "a".parse().unwrap());
    let response = ask(request).unwrap();
    assert_eq!(response.status, StatusCode::IM_A_TEAPOT);
    assert_eq!(response.headers["x-b"], "c");
    assert_eq!(response.body, "a 5");
    assert_eq!(response.url, raw.url());
    assert_eq!(raw.wait(|_| true).path, "/p?q");

    let mut small = get(vec![raw.url()], "/");
    small.response_bytes_max = 1;
    assert!(matches!(
        ask(small),
        Err(ClientError::TooLong { limit: 1, .. })
    ));
    let broken = ask(get(vec![closing.url()], "/"));
    assert!(matches!(broken, Err(ClientError::Broken { .. })));
    assert!(matches!(ask(get(vec![], "/")), Err(ClientError::NoUrl)));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    assert!(matches!(
        ask(get(vec![nowhere], "/")),
        Err(ClientError::Dial(_))
    ));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let late = Request::get(vec![silent_url], "/", Duration::from_millis(10));
    assert!(matches!(ask(late), Err(ClientError::Timeout { .. })));
}

#[test]
fn members_can_be_asked_before_there_is_a_transport() {
    asks(request_blocking);
}

#[test]
fn members_can_be_asked_through_the_transport() {
    let member = Member::start(0xa1);
    let client: Client = member.transport.client();
    asks(|request| wait(client.request(request)));
    member.transport.stop();
    let late = wait(client.request(get(vec![], "/")));
    assert!(matches!(late, Err(ClientError::Stopped)));
}
