//! Streams in both directions.

use super::fake::*;
use crate::transport::*;
use bytes::Bytes;
use std::time::Duration;

#[tokio::test]
async fn messages_go_both_ways_and_the_service_ends_it() {
    let mut server = Server::start();
    let client = server.client().await;
    let (response, mut send) = begin(&client, request("/t.T/Chat")).await;
    let sink = server.opened().await;
    let both = [framed(b"one"), framed(b"two")].concat();
    send.send_data(both.into(), false).unwrap();
    for expected in ["one", "two"] {
        match server.event().await {
            Event::Message(message) => {
                assert_eq!(message, expected);
                sink.send(message.into());
            }
            other => panic!("{other:?}"),
        }
    }
    send.send_data(Bytes::new(), true).unwrap();
    assert!(matches!(server.event().await, Event::HalfClose));
    sink.send(Body::Parts(vec![
        Bytes::from_static(b"th"),
        Bytes::from_static(b"ree"),
    ]));
    assert!(!sink.is_closed());
    sink.close(Status::new(Code::Unavailable, "enough"));
    let outcome = finish(response).await.unwrap();
    assert_eq!(
        outcome.data,
        [framed(b"one"), framed(b"two"), framed(b"three")].concat()
    );
    assert_eq!(
        (
            outcome.trailers["grpc-status"].to_str().unwrap(),
            outcome.message()
        ),
        ("14", "enough")
    );
    assert!(matches!(server.event().await, Event::HandlerDropped));
    assert!(sink.is_closed());
    sink.send(b"too late".to_vec().into());
}

#[tokio::test]
async fn a_server_stream_reads_one_message() {
    let server = Server::start();
    let client = server.client().await;
    let outcome = call(&client, "/t.T/List", b"500").await;
    let expected: Vec<u8> = (0..500)
        .flat_map(|n| framed(n.to_string().as_bytes()))
        .collect();
    assert_eq!(outcome.data, expected);
    assert_eq!(outcome.code(), "0");
    let twice = [framed(b"1"), framed(b"2")].concat();
    let outcome = call_request(&client, request("/t.T/List"), twice.into())
        .await
        .unwrap();
    assert_eq!(outcome.data, framed(b"0"));
}

#[tokio::test]
async fn a_stream_may_be_refused_at_once_or_by_a_message() {
    let mut server = Server::start();
    let client = server.client().await;
    let outcome = call(&client, "/t.T/Closed", b"x").await;
    assert_eq!((outcome.code(), outcome.message()), ("7", "closed"));
    let outcome = call(&client, "/t.T/Chat", b"refuse").await;
    assert_eq!((outcome.code(), outcome.message()), ("3", "refused"));
    server.opened().await;
    assert!(matches!(server.event().await, Event::HandlerDropped));
}

#[tokio::test]
async fn a_cancelled_stream_hears_of_it_once() {
    let mut server = Server::start();
    let client = server.client().await;
    // Before and after the client's end of messages.
    for half_closed in [false, true] {
        let (response, mut send) = begin(&client, request("/t.T/Chat")).await;
        let sink = server.opened().await;
        if half_closed {
            send.send_data(Bytes::new(), true).unwrap();
            assert!(matches!(server.event().await, Event::HalfClose));
        }
        send.send_reset(h2::Reason::CANCEL);
        drop(response);
        assert!(matches!(server.event().await, Event::Cancel));
        assert!(matches!(server.event().await, Event::HandlerDropped));
        assert!(sink.is_closed());
    }
}

#[tokio::test]
async fn a_lost_connection_cancels_its_streams() {
    let mut server = Server::start();
    let client = server.client().await;
    let call = begin(&client, request("/t.T/Chat")).await;
    server.opened().await;
    drop((client, call));
    assert!(matches!(server.event().await, Event::Cancel));
    assert!(matches!(server.event().await, Event::HandlerDropped));
}

#[tokio::test]
async fn a_deadline_cancels_a_stream() {
    let mut server = Server::start();
    let client = server.client().await;
    let (response, _send) = begin(
        &client,
        with_headers("/t.T/Chat", &[("grpc-timeout", "20m")]),
    )
    .await;
    server.opened().await;
    assert_eq!(finish(response).await.unwrap().code(), "4");
    assert!(matches!(server.event().await, Event::Cancel));
}

#[tokio::test]
async fn a_full_sink_waits_for_the_peer_to_read() {
    let mut server = Server::start();
    let client = server
        .client_with(h2::client::Builder::new().initial_window_size(10_000))
        .await;
    let (response, mut send) = begin(&client, request("/t.T/Chat")).await;
    let sink = server.opened().await;
    let mut sent = 0;
    while sink.writable() > 0 {
        sink.send(counted(sent, sent + 10_000).into());
        sent += 10_000;
    }
    assert!(
        (SINK_LIMIT_BYTES..SINK_LIMIT_BYTES + 30_000).contains(&sent),
        "{sent}"
    );
    // While it is full, the client's messages wait as well.
    send.send_data(framed(b"waits"), false).unwrap();
    let echo = call(&client, "/t.T/Echo", b"x").await;
    assert_eq!(echo.answer(), b"x");
    while let Ok(event) = server.events.try_recv() {
        assert!(matches!(event, Event::Flush), "{event:?}");
    }

    let (_, mut body) = response.await.unwrap().into_parts();
    let reading = tokio::spawn(async move { read_all(&mut body).await.unwrap() });
    let mut heard = [false; 2];
    while heard != [true; 2] {
        match server.event().await {
            Event::Writable => heard[0] = true,
            Event::Message(message) => heard[1] = message == "waits",
            other => panic!("{other:?}"),
        }
    }
    assert!(sink.writable() >= SINK_LIMIT_BYTES / 2);
    sink.close(Status::ok());
    let data = reading.await.unwrap();
    assert_eq!(data.len(), sent / 10_000 * 10_005);
    assert_eq!(data[data.len() - 10_000..], counted(sent - 10_000, sent));
}

#[tokio::test]
async fn messages_of_any_thread_keep_their_order() {
    let mut server = Server::start();
    let client = server.client().await;
    let (response, _send) = begin(&client, request("/t.T/Chat")).await;
    let sink = server.opened().await;
    let sending = std::thread::spawn(move || {
        for n in 0..2000_u32 {
            let mut batch = WakeBatch::new();
            sink.send_in(n.to_be_bytes().to_vec().into(), &mut batch);
        }
        sink.close(Status::ok());
    });
    let outcome = finish(response).await.unwrap();
    sending.join().unwrap();
    let expected: Vec<u8> = (0..2000_u32)
        .flat_map(|n| framed(&n.to_be_bytes()))
        .collect();
    assert_eq!(outcome.data, expected);
}

#[tokio::test]
async fn small_messages_that_wait_leave_together() {
    let mut server = Server::start();
    let client = server.client().await;
    let (response, _send) = begin(&client, request("/t.T/Chat")).await;
    let sink = server.opened().await;
    let mut batch = WakeBatch::new();
    let sizes = [0, 1, 100, 15_000, 3000, 20_000, 7, 8];
    for (n, size) in sizes.iter().enumerate() {
        sink.send_in(vec![n as u8; *size].into(), &mut batch);
    }
    sink.close_in(Status::ok(), &mut batch);
    batch.flush();
    let (_, mut body) = response.await.unwrap().into_parts();
    let (mut data, mut payloads) = (Vec::new(), 0);
    while let Some(part) = body.data().await {
        let part = part.unwrap();
        body.flow_control().release_capacity(part.len()).unwrap();
        data.extend_from_slice(&part);
        payloads += 1;
    }
    let expected: Vec<u8> = sizes
        .iter()
        .enumerate()
        .flat_map(|(n, size)| framed(&vec![n as u8; *size]))
        .collect();
    assert_eq!(data, expected);
    // Four together; one; one that needs two frames; two together.
    assert!(payloads <= 6, "{payloads}");
    assert_eq!(sink.writable(), SINK_LIMIT_BYTES);
}

#[tokio::test]
async fn a_flood_of_small_messages_is_taken() {
    let mut server = Server::start();
    let client = server.client().await;
    let (response, mut send) = begin(&client, request("/t.T/Chat")).await;
    let sink = server.opened().await;
    for n in 0..30_000_u32 {
        send.send_data(framed(&n.to_be_bytes()), n == 29_999)
            .unwrap();
    }
    for n in 0..30_000_u32 {
        match server.event().await {
            Event::Message(message) => assert_eq!(message, n.to_be_bytes().to_vec()),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(server.event().await, Event::HalfClose));
    sink.close(Status::ok());
    assert_eq!(
        tokio::time::timeout(Duration::from_secs(10), finish(response))
            .await
            .unwrap()
            .unwrap()
            .code(),
        "0"
    );
}

#[tokio::test]
async fn a_message_cut_off_by_the_clients_end_is_an_error() {
    let server = Server::start();
    let client = server.client().await;
    let request_of = |path| call_request(&client, request(path), framed(b"hello").slice(..7));
    let outcome = request_of("/t.T/Chat").await.unwrap();
    assert_eq!(
        (outcome.code(), outcome.message()),
        ("13", "unexpected EOF")
    );
    let outcome = request_of("/t.T/Echo").await.unwrap();
    assert_eq!((outcome.code(), outcome.message()), ("2", "unexpected EOF"));
}
