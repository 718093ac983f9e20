//! Tokens: asked for once, whoever waits for one, and however.

use crate::fake::{Call, alone, servers};
use quorate_client::api::Error as Known;
use quorate_client::api::etcdserverpb::watch_request::RequestUnion;
use quorate_client::api::etcdserverpb::{
    AuthenticateResponse, PutRequest, PutResponse, ResponseHeader, WatchCreateRequest,
    WatchRequest, WatchResponse,
};
use quorate_client::{Client, Credentials, Error, Options, Watcher};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_millis(1);

fn with_password(options: Options) -> Options {
    Options {
        credentials: Some(Credentials::Password {
            user: "u".to_owned(),
            password: "p".to_owned(),
        }),
        ..options
    }
}

fn watcher(client: &Client) -> Watcher {
    let request = WatchCreateRequest {
        key: "k".into(),
        start_revision: 1,
        ..WatchCreateRequest::default()
    };
    client.watcher(request).unwrap()
}

fn give(call: Call, token: &str) {
    assert!(call.path.ends_with("/Authenticate"), "{}", call.path);
    call.reply(AuthenticateResponse {
        token: token.to_owned(),
        ..AuthenticateResponse::default()
    });
}

/// Takes a watch, made with this token.
async fn watched(call: &mut Call, token: Option<&str>) {
    assert!(call.path.ends_with("/Watch"), "{}", call.path);
    assert_eq!(call.token.as_deref(), token);
    let request: WatchRequest = call.request().await;
    assert!(matches!(
        request.request_union,
        Some(RequestUnion::CreateRequest(_))
    ));
}

fn created() -> WatchResponse {
    WatchResponse {
        header: Some(ResponseHeader {
            revision: 1,
            ..ResponseHeader::default()
        }),
        created: true,
        ..WatchResponse::default()
    }
}

fn refused(error: Known) -> WatchResponse {
    WatchResponse {
        canceled: true,
        cancel_reason: format!("rpc error: code = Unknown desc = {}", error.text()),
        ..created()
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_token_and_is_not_polled_holds_nobody_up() {
    let ([mut server], options) = servers(["a:1"]);
    let client = Client::new(&["a:1"], &with_password(options)).unwrap();
    let (mut one, mut other) = (watcher(&client), watcher(&client));
    // Both wait for a token, and then are kept as they are.
    assert!(timeout(SOON, one.next()).await.is_err());
    assert!(timeout(SOON, other.next()).await.is_err());
    let play = async {
        give(server.call().await, "t");
        let call = server.call().await;
        assert_eq!(call.token.as_deref(), Some("t"));
        call.reply(PutResponse::default());
    };
    let put = timeout(Duration::from_secs(1), client.put(PutRequest::default()));
    let (answer, _) = tokio::join!(put, timeout(Duration::from_secs(1), play));
    answer.expect("an answer").unwrap();
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_token_and_goes_leaves_that_to_the_next() {
    let ([mut server], options) = servers(["a:1"]);
    let client = Client::new(&["a:1"], &with_password(options)).unwrap();
    let put = || client.put(PutRequest::default());
    assert!(timeout(SOON, put()).await.is_err());
    let unanswered = server.call().await;
    let play = async {
        give(server.call().await, "t");
        server.call().await.reply(PutResponse::default());
        server.call().await.reply(PutResponse::default());
    };
    let (one, other, ()) = tokio::join!(put(), put(), play);
    one.unwrap();
    other.unwrap();
    assert!(unanswered.is_gone());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_down_keeps_no_token_from_the_others() {
    let ([mut up, down], options) = servers(["a:1", "b:1"]);
    down.shut();
    let client = Client::new(&["a:1"], &with_password(options)).unwrap();
    let one = client.endpoint("b:1").unwrap();
    let put = timeout(Duration::from_secs(1), client.put(PutRequest::default()));
    let play = async {
        give(up.call().await, "t");
        up.call().await.reply(PutResponse::default());
    };
    tokio::select! {
        biased;
        answer = one.status() => panic!("{answer:?}"),
        (answer, _) = async { tokio::join!(put, timeout(Duration::from_secs(1), play)) } => {
            answer.expect("an answer").unwrap();
        }
    };
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_keeps_no_token_from_anybody() {
    let ([mut one, mut other], options) = servers(["a:1", "b:1"]);
    let client = Client::new(&["a:1", "b:1"], &with_password(options)).unwrap();
    let mut watcher = watcher(&client);
    let play = async {
        // Who is asked first says nothing.
        let (unanswered, next) = tokio::select! {
            call = one.call() => (call, &mut other),
            call = other.call() => (call, &mut one),
        };
        assert_eq!(unanswered.timeout.as_deref(), Some("5000000u"));
        // It may only be slow: the next one has more time.
        let call = next.call().await;
        assert_eq!(call.timeout.as_deref(), Some("10000000u"));
        give(call, "t");
        unanswered
    };
    let put = client.put(PutRequest::default());
    // The watch asks; the put waits for what it gets, and is then called somewhere.
    tokio::select! {
        biased;
        answer = watcher.next() => panic!("{answer:?}"),
        _ = async { tokio::join!(play, put) } => panic!("nobody answers the put"),
        () = tokio::time::sleep(Duration::from_secs(6)) => {}
    }
    let mut called = Vec::new();
    for server in [&mut one, &mut other] {
        while let Ok(call) = timeout(SOON, server.call()).await {
            assert_eq!(call.token.as_deref(), Some("t"));
            called.push(call.path);
        }
    }
    assert!(
        called.iter().any(|path| path.ends_with("/Put")),
        "{called:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn signing_in_has_its_time() {
    let ([mut server], options) = servers(["a:1"]);
    let client = Client::new(&["a:1"], &with_password(options)).unwrap();
    let client = client.with_timeout(Duration::from_secs(2));
    let begun = Instant::now();
    let (answer, _unanswered) = tokio::join!(client.sign_in(), server.call());
    assert!(matches!(answer, Err(Error::Deadline { .. })), "{answer:?}");
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_watch_outlives_a_token_that_cannot_be_had_at_once() {
    let ([mut server], options) = servers(["a:1"]);
    let mut options = with_password(options);
    options.retry.attempts_max = 1;
    let client = Client::new(&["a:1"], &options).unwrap();
    let mut watcher = watcher(&client);
    let play = async {
        give(server.call().await, "0");
        for _ in 0..2 {
            let mut call = server.call().await;
            watched(&mut call, Some("0")).await;
            call.answer(refused(Known::InvalidAuthToken));
            let call = server.call().await;
            assert!(call.path.ends_with("/Authenticate"), "{}", call.path);
            call.refuse(Known::LeaderChanged);
        }
        let mut call = server.call().await;
        watched(&mut call, Some("0")).await;
        call.answer(refused(Known::InvalidAuthToken));
        give(server.call().await, "1");
        let mut call = server.call().await;
        watched(&mut call, Some("1")).await;
        call.answer(created());
        call
    };
    let (_, answer) = tokio::join!(play, watcher.created());
    answer.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_events_has_its_token_renewed_any_number_of_times() {
    let ([mut server], options) = servers(["a:1"]);
    let client = Client::new(&["a:1"], &with_password(options)).unwrap();
    let mut watcher = watcher(&client);
    let play = async {
        give(server.call().await, "0");
        for (error, before, after) in [
            (Known::InvalidAuthToken, "0", "1"),
            (Known::AuthOldRevision, "1", "2"),
            (Known::UserEmpty, "2", "3"),
        ] {
            let mut call = server.call().await;
            watched(&mut call, Some(before)).await;
            call.answer(refused(error));
            give(server.call().await, after);
            let mut call = server.call().await;
            watched(&mut call, Some(after)).await;
            call.answer(created());
            call.refuse(Known::Stopped);
        }
        // One that is new and refused is not renewed.
        for token in ["3", "4"] {
            let mut call = server.call().await;
            watched(&mut call, Some(token)).await;
            call.answer(refused(Known::InvalidAuthToken));
            if token == "3" {
                give(server.call().await, "4");
            }
        }
    };
    let (answer, ()) = tokio::join!(watcher.next(), play);
    assert!(
        matches!(answer, Err(Error::Known(Known::InvalidAuthToken))),
        "{answer:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_refused_together_share_one_new_token() {
    let ([mut server], options) = servers(["a:1"]);
    let client = Client::new(&["a:1"], &with_password(options)).unwrap();
    let (mut one, mut other) = (watcher(&client), watcher(&client));
    let play = async {
        give(server.call().await, "0");
        let (mut first, mut second) = (server.call().await, server.call().await);
        watched(&mut first, Some("0")).await;
        watched(&mut second, Some("0")).await;
        first.answer(refused(Known::InvalidAuthToken));
        give(server.call().await, "1");
        let mut first = server.call().await;
        watched(&mut first, Some("1")).await;
        second.answer(refused(Known::InvalidAuthToken));
        let mut second = server.call().await;
        watched(&mut second, Some("1")).await;
        first.answer(created());
        second.answer(created());
        (first, second)
    };
    let limit = Duration::from_secs(60);
    let (one, other, _) = tokio::join!(
        timeout(limit, one.created()),
        timeout(limit, other.created()),
        play
    );
    one.unwrap().unwrap();
    other.unwrap().unwrap();
}

/// Who is known by a certificate: the users have changed meanwhile, and that is all.
#[tokio::test(start_paused = true)]
async fn a_watch_without_a_password_outlives_a_change_of_users() {
    let (mut server, client) = alone();
    let mut watcher = watcher(&client);
    let play = async {
        let mut call = server.call().await;
        watched(&mut call, None).await;
        call.answer(refused(Known::AuthOldRevision));
        let mut call = server.call().await;
        watched(&mut call, None).await;
        call.answer(created());
        call
    };
    let (answer, _) = tokio::join!(watcher.created(), timeout(Duration::from_secs(60), play));
    answer.unwrap();
}
