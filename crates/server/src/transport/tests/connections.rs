//! Connections: their limits, keep-alive, and their end.

use super::fake::*;
use crate::transport::*;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// A client that says only what it is told to.
async fn raw(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(io::PREFACE).await.unwrap();
    socket.write_all(SETTINGS).await.unwrap();
    socket
}

async fn read_to_end(mut socket: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut all));
    read.await
        .expect("the server closes the connection")
        .unwrap();
    all
}

fn goaway(bytes: &[u8]) -> Option<(u32, Vec<u8>)> {
    let mut rest = bytes;
    while rest.len() >= 9 {
        let len = usize::from(rest[0]) << 16 | usize::from(rest[1]) << 8 | usize::from(rest[2]);
        let payload = &rest[9..9 + len];
        if rest[3] == 7 {
            let reason = u32::from_be_bytes(payload[4..8].try_into().unwrap());
            return Some((reason, payload[8..].to_vec()));
        }
        rest = &rest[9 + len..];
    }
    None
}

#[tokio::test]
async fn too_many_pings_are_answered_with_goaway() {
    let server = Server::start();
    let mut socket = raw(&server).await;
    for _ in 0..3 {
        socket.write_all(PING).await.unwrap();
    }
    // The first three are allowed: each is acknowledged.
    let mut seen = Vec::new();
    while seen
        .windows(9)
        .filter(|head| head[..5] == [0, 0, 8, 6, 1])
        .count()
        < 3
    {
        assert!(socket.read_buf(&mut seen).await.unwrap() > 0);
    }
    assert_eq!(goaway(&seen), None);
    socket.write_all(PING).await.unwrap();
    seen.extend(read_to_end(socket).await);
    assert_eq!(goaway(&seen), Some((11, b"too_many_pings".to_vec())));
}

#[tokio::test]
async fn a_silent_peer_is_pinged_and_then_left() {
    let keepalive = Keepalive {
        interval: Duration::from_millis(30),
        timeout: Duration::from_millis(40),
        ..Keepalive::default()
    };
    let server = Server::with(Limits {
        keepalive,
        ..Limits::default()
    });
    let started = Instant::now();
    let seen = read_to_end(raw(&server).await).await;
    assert!(started.elapsed() >= Duration::from_millis(70));
    assert!(
        seen.windows(9)
            .any(|head| head == [0, 0, 8, 6, 0, 0, 0, 0, 0]),
        "there was a ping"
    );
}

#[tokio::test]
async fn the_limit_of_streams_is_announced_and_kept() {
    let server = Server::with(Limits {
        streams_max: 3,
        ..Limits::default()
    });
    let client = server.client().await;
    call(&client, "/t.T/Echo", b"x").await;
    assert_eq!(client.current_max_send_streams(), 3);
}

#[tokio::test]
async fn a_burst_of_cancelled_calls_does_not_end_the_connection() {
    let server = Server::start();
    let client = server.client().await;
    call(&client, "/t.T/Echo", b"x").await;
    for _ in 0..500 {
        let (response, mut send) = begin(&client, request("/t.T/Echo")).await;
        send.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    assert_eq!(call(&client, "/t.T/Echo", b"x").await.answer(), b"x");
}

#[tokio::test]
async fn garbage_ends_the_connection_and_nothing_else() {
    let server = Server::start();
    let mut socket = raw(&server).await;
    socket.write_all(&[0xff; 100]).await.unwrap();
    assert!(goaway(&read_to_end(socket).await).is_some());
    let client = server.client().await;
    assert_eq!(call(&client, "/t.T/Echo", b"x").await.answer(), b"x");
}

#[tokio::test]
async fn shutting_down_finishes_what_was_begun() {
    let mut server = Server::start();
    let client = server.client().await;
    let idle = server.client().await;
    call(&idle, "/t.T/Echo", b"x").await;
    let (response, mut send) = begin(&client, request("/t.T/Later")).await;
    send.send_data(framed(b"x"), true).unwrap();
    let (_, responder, _) = server.later_call().await;
    assert_eq!(server.transport.connections(), 2);
    let Server {
        transport, address, ..
    } = server;
    let down = tokio::task::spawn_blocking(move || transport.shutdown(Duration::from_secs(30)));
    // The idle connection is closed; no further one is taken.
    while idle.clone().ready().await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!down.is_finished());
    responder.respond(Ok(b"done".to_vec().into()));
    assert_eq!(finish(response).await.unwrap().answer(), b"done");
    down.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn shutting_down_cuts_off_what_takes_too_long() {
    let mut server = Server::start();
    let client = server.client().await;
    let (response, _send) = begin(&client, request("/t.T/Chat")).await;
    let sink = server.opened().await;
    let Server {
        transport,
        mut events,
        ..
    } = server;
    let down = tokio::task::spawn_blocking(move || transport.shutdown(Duration::from_millis(20)));
    down.await.unwrap();
    assert!(finish(response).await.is_err());
    assert!(sink.is_closed());
    let mut cancelled = false;
    while let Some(event) = events.recv().await {
        cancelled |= matches!(event, Event::Cancel);
    }
    assert!(cancelled);
}

#[tokio::test]
async fn a_responder_outlives_its_connection_harmlessly() {
    let mut server = Server::start();
    let client = server.client().await;
    let (response, mut send) = begin(&client, request("/t.T/Later")).await;
    send.send_data(framed(b"x"), true).unwrap();
    let (_, responder, cancellation) = server.later_call().await;
    drop((client, response, send));
    while server.transport.connections() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(cancellation.is_cancelled());
    responder.respond(Ok(vec![].into()));
}
