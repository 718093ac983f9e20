//! Unary calls.

use super::fake::*;
use crate::transport::*;
use bytes::Bytes;
use std::io::Write;
use std::thread;
use std::time::Duration;

#[tokio::test]
async fn an_answer_comes_with_headers_and_trailers() {
    let server = Server::start();
    let client = server.client().await;
    let outcome = call(&client, "/t.T/Echo", b"hello").await;
    assert_eq!(outcome.answer(), b"hello");
    assert_eq!(outcome.trailers["grpc-status"], "0");
    assert_eq!(call(&client, "/t.T/Echo", b"").await.answer(), b"");
}

#[tokio::test]
async fn an_error_is_trailers_only() {
    let server = Server::start();
    let client = server.client().await;
    let outcome = call(&client, "/t.T/Fail", b"x").await;
    assert_eq!(
        (outcome.http, outcome.code(), outcome.message()),
        (200, "9", "no: 100%25")
    );
    assert_eq!(outcome.headers["x"], "y");
    assert!(outcome.data.is_empty() && outcome.trailers.is_empty());
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented() {
    let server = Server::start();
    let client = server.client().await;
    for (path, message) in [
        ("/t.T/Nope", "unknown method Nope for service t.T"),
        ("/no.Such/Thing", "unknown service no.Such"),
        ("/nothing", "malformed method name: \"/nothing\""),
    ] {
        let outcome = call(&client, path, b"x").await;
        assert_eq!(
            (outcome.http, outcome.code(), outcome.message()),
            (200, "12", message)
        );
    }
}

#[tokio::test]
async fn requests_that_are_no_calls_are_refused() {
    let server = Server::start();
    let client = server.client().await;
    let refused = async |request| {
        let outcome = call_request(&client, request, Bytes::new()).await.unwrap();
        (
            outcome.http,
            outcome.code().to_owned(),
            outcome.message().to_owned(),
        )
    };
    let other = with_headers("/t.T/Echo", &[("content-type", "application/grpcx")]);
    let text = "invalid gRPC request content-type \"application/grpcx\"";
    assert_eq!(refused(other).await, (415, "3".into(), text.into()));
    let mut get = request("/t.T/Echo");
    *get.method_mut() = http::Method::GET;
    let text = "Received a HEADERS frame with :method \"GET\" which should be POST";
    assert_eq!(refused(get).await, (405, "13".into(), text.into()));
    let timeout = with_headers("/t.T/Echo", &[("grpc-timeout", "5")]);
    let text = "malformed grpc-timeout: transport: timeout string is too short: \"5\"";
    assert_eq!(refused(timeout).await, (400, "13".into(), text.into()));
    let packed = with_headers("/t.T/Echo", &[("grpc-encoding", "foo")]);
    let text = "grpc: Decompressor is not installed for grpc-encoding \"foo\"";
    assert_eq!(refused(packed).await, (200, "12".into(), text.into()));
    assert_eq!(
        refused(request("/t.T/Echo")).await,
        (200, "2".into(), "EOF".into())
    );
}

#[tokio::test]
async fn a_subtype_is_grpc_too() {
    let server = Server::start();
    let client = server.client().await;
    let request = with_headers("/t.T/Echo", &[("content-type", "application/grpc+proto")]);
    assert_eq!(
        call_request(&client, request, framed(b"x"))
            .await
            .unwrap()
            .answer(),
        b"x"
    );
}

#[tokio::test]
async fn a_message_above_the_limit_is_refused_with_its_prefix() {
    let limits = Limits {
        message_bytes_max: 1000,
        ..Limits::default()
    };
    let server = Server::with(limits);
    let client = server.client().await;
    assert_eq!(
        call(&client, "/t.T/Echo", &[1; 1000]).await.answer(),
        [1; 1000]
    );
    // The rest of the message never comes.
    let (response, mut send) = begin(&client, request("/t.T/Echo")).await;
    send.send_data(Bytes::from_static(&[0, 0, 0, 3, 233]), false)
        .unwrap();
    let outcome = finish(response).await.unwrap();
    assert_eq!(outcome.code(), "8");
    assert_eq!(
        outcome.message(),
        "grpc: received message larger than max (1001 vs. 1000)"
    );
}

#[tokio::test]
async fn packed_requests_are_understood() {
    let server = Server::start();
    let client = server.client().await;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&[b'z'; 5000]).unwrap();
    let mut body = framed(&packer.finish().unwrap()).to_vec();
    body[0] = 1;
    let request = with_headers("/t.T/Echo", &[("grpc-encoding", "gzip")]);
    let outcome = call_request(&client, request, body.into()).await.unwrap();
    assert_eq!(outcome.answer(), [b'z'; 5000]);
}

#[tokio::test]
async fn a_message_may_come_in_pieces() {
    let server = Server::start();
    let client = server.client().await;
    let (response, mut send) = begin(&client, request("/t.T/Echo")).await;
    let message = counted(0, 500_000);
    for part in framed(&message).chunks(777) {
        send.reserve_capacity(part.len());
        send.send_data(Bytes::copy_from_slice(part), false).unwrap();
    }
    send.send_data(Bytes::new(), true).unwrap();
    assert_eq!(finish(response).await.unwrap().answer(), message);
}

#[tokio::test]
async fn incomplete_messages_beyond_the_limit_are_refused() {
    let limits = Limits {
        assembling_bytes_max: 100_000,
        ..Limits::default()
    };
    let server = Server::with(limits);
    let client = server.client().await;
    let part = framed(&[7; 90_000]).slice(..80_000);
    let (_first, mut first) = begin(&client, request("/t.T/Echo")).await;
    first.send_data(part.clone(), false).unwrap();
    let (second, mut send) = begin(&client, request("/t.T/Echo")).await;
    send.send_data(part.clone(), false).unwrap();
    assert_eq!(finish(second).await.unwrap().code(), "8");
    // Its share is free again once the reset was read.
    first.send_reset(h2::Reason::CANCEL);
    call(&client, "/t.T/Echo", b"x").await;
    let mut whole = part.to_vec();
    whole.resize(90_005, 7);
    let outcome = call_request(&client, request("/t.T/Echo"), whole.into())
        .await
        .unwrap();
    assert_eq!(outcome.answer().len(), 90_000);
}

#[tokio::test]
async fn an_answer_may_come_from_another_thread() {
    let mut server = Server::start();
    let client = server.client().await;
    let waiting = tokio::spawn(async move { call(&client, "/t.T/Later", b"question").await });
    let (message, responder, cancellation) = server.later_call().await;
    assert_eq!(message, "question");
    thread::spawn(move || responder.respond(Ok(b"answer".to_vec().into())))
        .join()
        .unwrap();
    assert_eq!(waiting.await.unwrap().answer(), b"answer");
    assert!(!cancellation.is_cancelled());
}

#[tokio::test]
async fn a_batch_of_answers_reaches_all_connections() {
    let mut server = Server::start();
    let mut waiting = Vec::new();
    for n in 0..4 {
        let client = server.client().await;
        for m in 0..25 {
            let client = client.clone();
            waiting.push(tokio::spawn(async move {
                let question = format!("{n} {m}");
                let outcome = call(&client, "/t.T/Later", question.as_bytes()).await;
                assert_eq!(outcome.answer(), question.as_bytes());
            }));
        }
    }
    let mut calls = Vec::new();
    while calls.len() < 100 {
        calls.push(server.later_call().await);
    }
    let mut batch = WakeBatch::new();
    for (message, responder, _) in calls {
        responder.respond_in(Ok(message.into()), &mut batch);
    }
    batch.flush();
    for call in waiting {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn calls_that_come_together_are_flushed_together() {
    let mut server = Server::start();
    let client = server.client().await;
    call(&client, "/t.T/Echo", b"x").await;
    while server.events.try_recv().is_ok() {}
    // These leave in one write, since the client's task runs in between.
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (response, mut send) = client
                .clone()
                .send_request(request("/t.T/Echo"), false)
                .unwrap();
            send.send_data(framed(b"x"), true).unwrap();
            finish(response)
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let mut flushes = 0;
    while let Ok(Event::Flush) = server.events.try_recv() {
        flushes += 1;
    }
    assert!((1..25).contains(&flushes), "{flushes} flushes for 50 calls");
}

#[tokio::test]
async fn a_call_without_an_answer_ends_all_the_same() {
    let server = Server::start();
    let client = server.client().await;
    assert_eq!(call(&client, "/t.T/Drop", b"x").await.code(), "14");
    assert_eq!(call(&client, "/t.T/Forget", b"x").await.code(), "13");
}

#[tokio::test]
async fn a_large_answer_goes_as_the_peer_takes_it() {
    let server = Server::start();
    let client = server.client().await;
    for len in [0, 1, 16_379, 16_380, 70_000, 5_000_000] {
        let outcome = call(&client, "/t.T/Big", len.to_string().as_bytes()).await;
        assert_eq!(outcome.answer(), counted(0, len), "{len}");
    }
    // A window of a few bytes is enough, if it takes long.
    let tiny = server
        .client_with(h2::client::Builder::new().initial_window_size(3))
        .await;
    assert_eq!(
        call(&tiny, "/t.T/Big", b"2000").await.answer(),
        counted(0, 2000)
    );
    assert_eq!(
        call(&tiny, "/t.T/Echo", b"some words").await.answer(),
        b"some words"
    );
}

#[tokio::test]
async fn a_source_that_fails_resets_the_stream() {
    let server = Server::start();
    let client = server.client().await;
    let error = call_request(&client, request("/t.T/Broken"), framed(b""))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR));
    assert_eq!(call(&client, "/t.T/Echo", b"x").await.answer(), b"x");
}

#[tokio::test]
async fn a_context_tells_what_the_headers_say() {
    let server = Server::start();
    let client = server.client().await;
    let headers = [
        ("authorization", "second"),
        ("token", "first"),
        ("hasleader", "true"),
        ("client-api-version", "3.7.3"),
        ("user-agent", "test/1"),
        ("grpc-timeout", "60S"),
    ];
    let outcome = call_request(&client, with_headers("/t.T/Context", &headers), framed(b""))
        .await
        .unwrap();
    let text = "Some(\"first\") true Some(\"3.7.3\") Some(\"test/1\") true true";
    assert_eq!(std::str::from_utf8(outcome.answer()).unwrap(), text);
    let outcome = call_request(
        &client,
        with_headers("/t.T/Context", &headers[..1]),
        framed(b""),
    )
    .await
    .unwrap();
    assert_eq!(
        std::str::from_utf8(outcome.answer()).unwrap(),
        "Some(\"second\") false None None false true"
    );
}

#[tokio::test]
async fn a_deadline_ends_a_call_and_its_answer_comes_too_late() {
    let mut server = Server::start();
    let client = server.client().await;
    let started = std::time::Instant::now();
    let request = with_headers("/t.T/Later", &[("grpc-timeout", "30m")]);
    let outcome = call_request(&client, request, framed(b"x")).await.unwrap();
    assert_eq!(
        (outcome.code(), outcome.message()),
        ("4", "context deadline exceeded")
    );
    assert!(started.elapsed() >= Duration::from_millis(30));
    let (_, responder, cancellation) = server.later_call().await;
    assert!(cancellation.is_cancelled());
    // The next call takes the same place, and the late answer does not reach it.
    let waiting = tokio::spawn(async move { call(&client, "/t.T/Later", b"next").await });
    let (_, next, _) = server.later_call().await;
    let mut batch = WakeBatch::new();
    responder.respond_in(Ok(b"late".to_vec().into()), &mut batch);
    next.respond_in(Ok(b"right".to_vec().into()), &mut batch);
    batch.flush();
    assert_eq!(waiting.await.unwrap().answer(), b"right");
}

#[tokio::test]
async fn a_cancelled_call_is_known_to_be() {
    let mut server = Server::start();
    let client = server.client().await;
    let (response, mut send) = begin(&client, request("/t.T/Later")).await;
    send.send_data(framed(b"x"), true).unwrap();
    let (_, responder, cancellation) = server.later_call().await;
    send.send_reset(h2::Reason::CANCEL);
    drop(response);
    // Another call on the connection shows that the reset was read.
    call(&client, "/t.T/Echo", b"x").await;
    assert!(cancellation.is_cancelled());
    drop(responder);
    call(&client, "/t.T/Echo", b"x").await;
}

#[tokio::test]
async fn many_calls_run_at_once() {
    let mut server = Server::start();
    let client = server
        .client_with(
            h2::client::Builder::new()
                .initial_max_send_streams(2000)
                .data_frame_budget(BUDGET),
        )
        .await;
    let calls: Vec<_> = (0..1000)
        .map(|n: u32| {
            let client = client.clone();
            tokio::spawn(async move {
                call(&client, "/t.T/Later", &n.to_be_bytes())
                    .await
                    .answer()
                    .to_vec()
            })
        })
        .collect();
    let mut waiting = Vec::new();
    while waiting.len() < 1000 {
        waiting.push(server.later_call().await);
    }
    for (message, responder, _) in waiting.into_iter().rev() {
        responder.respond(Ok(message.into()));
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), (n as u32).to_be_bytes());
    }
}

#[tokio::test]
async fn a_peer_that_takes_no_answers_makes_no_new_calls() {
    let limits = Limits {
        unsent_bytes_max: 1_000_000,
        ..Limits::default()
    };
    let mut server = Server::with(limits);
    let client = server
        .client_with(h2::client::Builder::new().initial_window_size(0))
        .await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        let (response, mut send) = begin(&client, request("/t.T/Later")).await;
        send.send_data(framed(b"x"), true).unwrap();
        let (_, responder, _) = server.later_call().await;
        responder.respond(Ok(vec![1; 400_000].into()));
        // An answer whose headers are here is counted.
        calls.push(response.await.unwrap());
    }
    let (held, mut send) = begin(&client, request("/t.T/Later")).await;
    send.send_data(framed(b"held"), true).unwrap();
    // Another connection is not concerned, and by its answer the first has been read too: both are
    // read in the order of their bytes, and a call that was made would be heard of.
    let other = server.client().await;
    assert_eq!(call(&other, "/t.T/Echo", b"x").await.answer(), b"x");
    while let Ok(event) = server.events.try_recv() {
        assert!(matches!(event, Event::Flush), "no call is made: {event:?}");
    }
    // Streams that are dropped free their share, and the call goes on.
    drop(calls);
    let (message, responder, _) = server.later_call().await;
    assert_eq!(message, "held");
    responder.respond(Ok(Bytes::new().into()));
    drop(held);
}
