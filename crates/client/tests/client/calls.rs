//! Which calls are made again, and with what token.

use crate::fake::{alone, servers};
use quorate_client::api::Error as Known;
use quorate_client::api::etcdserverpb::request_op::Request;
use quorate_client::api::etcdserverpb::{
    AuthenticateRequest, AuthenticateResponse, Member, MemberListResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RangeStreamResponse, RequestOp, ResponseHeader, TxnRequest,
    TxnResponse,
};
use quorate_client::{Client, Credentials, Error, Options};
use std::time::Duration;
use tokio::time::Instant;

fn put(key: &'static str) -> PutRequest {
    PutRequest {
        key: key.into(),
        ..PutRequest::default()
    }
}

fn at(revision: i64) -> RangeResponse {
    RangeResponse {
        header: Some(ResponseHeader {
            revision,
            ..ResponseHeader::default()
        }),
        ..RangeResponse::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_outlives_its_connection() {
    let (mut server, client) = alone();
    let play = async {
        let call = server.call().await;
        server.break_connections();
        drop(call);
        let mut call = server.call().await;
        assert_eq!(call.request::<RangeRequest>().await.key, "k");
        call.refuse(Known::NoLeader);
        server.call().await.reply(at(7));
    };
    let (answer, ()) = tokio::join!(client.get("k"), play);
    assert_eq!(answer.unwrap(), at(7));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_may_have_happened_is_not_made_again() {
    let (mut server, client) = alone();
    let play = async {
        let mut call = server.call().await;
        assert_eq!(call.request::<PutRequest>().await.key, "k");
        server.break_connections();
    };
    let (answer, ()) = tokio::join!(client.put(put("k")), play);
    assert!(
        matches!(answer, Err(Error::Connection { unsent: false, .. })),
        "{answer:?}"
    );
    let play = async { server.call().await.refuse(Known::LeaderChanged) };
    let (answer, ()) = tokio::join!(client.put(put("k")), play);
    assert!(matches!(answer, Err(Error::Known(Known::LeaderChanged))));
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_until_somebody_is_there() {
    let ([mut server], options) = servers(["a:1"]);
    server.shut();
    let client = Client::new(&["a:1"], &options).unwrap();
    let begun = Instant::now();
    let play = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(server.is_idle());
        server.open();
        server.call().await.reply(PutResponse::default());
    };
    let (answer, ()) = tokio::join!(client.put(put("k")), play);
    answer.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(64),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_down_costs_nothing() {
    let ([mut up, down], options) = servers(["a:1", "b:1"]);
    down.shut();
    let options = Options {
        wait_for_ready: false,
        ..options
    };
    let client = Client::new(&["a:1", "b:1"], &options).unwrap();
    let begun = Instant::now();
    for _ in 0..10 {
        let play = async { up.call().await.reply(PutResponse::default()) };
        let (answer, ()) = tokio::join!(client.put(put("k")), play);
        answer.unwrap();
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_not_up() {
    let ([mut one, mut other], options) = servers(["a:1", "b:1"]);
    one.get_stuck();
    let client = Client::new(&["a:1", "b:1"], &options).unwrap();
    let begun = Instant::now();
    for _ in 0..5 {
        let play = async { other.call().await.reply(PutResponse::default()) };
        let (answer, ()) = tokio::join!(client.put(put("k")), play);
        answer.unwrap();
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    other.shut();
    one.open();
    // A read, for it may still meet the connection that breaks.
    let play = async { one.call().await.reply(at(7)) };
    let (answer, ()) = tokio::join!(client.get("k"), play);
    answer.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(7),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_sign_of_life_is_given_up() {
    let ([mut server], options) = servers(["a:1"]);
    let options = Options {
        keepalive_time: Some(Duration::from_secs(1)),
        keepalive_timeout: Duration::from_secs(5),
        ..options
    };
    let client = Client::new(&["a:1"], &options).unwrap();
    let begun = Instant::now();
    let play = async {
        let call = server.call().await;
        server.cut();
        server.call().await.reply(at(7));
        drop(call);
    };
    let (answer, ()) = tokio::join!(client.get("k"), play);
    answer.unwrap();
    // Ten seconds are the least that there are between pings.
    let range = Duration::from_secs(15)..Duration::from_secs(16);
    assert!(range.contains(&begun.elapsed()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn calls_go_round_those_that_are_up() {
    let ([mut one, mut other], options) = servers(["a:1", "b:1"]);
    let client = Client::new(&["a:1", "b:1"], &options).unwrap();
    let mut counts = [0, 0];
    for _ in 0..20 {
        let play = async {
            tokio::select! {
                call = one.call() => { counts[0] += 1; call }
                call = other.call() => { counts[1] += 1; call }
            }
            .reply(PutResponse::default());
        };
        let (answer, ()) = tokio::join!(client.put(put("k")), play);
        answer.unwrap();
    }
    // Until both are connected only one of them is called.
    assert!(counts[0] >= 9 && counts[1] >= 9, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_call_with_its_retries() {
    let ([server], options) = servers(["a:1"]);
    server.shut();
    let options = Options {
        request_timeout: Some(Duration::from_secs(3)),
        ..options
    };
    let client = Client::new(&["a:1"], &options).unwrap();
    let begun = Instant::now();
    let answer = client.get("k").await;
    assert!(matches!(answer, Err(Error::Deadline { .. })), "{answer:?}");
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_server_is_told_how_long_the_client_waits() {
    let ([mut server], options) = servers(["a:1"]);
    let unlimited = Client::new(&["a:1"], &options).unwrap();
    let client = unlimited.with_timeout(Duration::from_millis(1500));
    let begun = Instant::now();
    let play = async {
        let call = server.call().await;
        assert_eq!(call.timeout.as_deref(), Some("1500000u"));
        call
    };
    let (_call, answer) = tokio::join!(play, client.get("k"));
    assert!(matches!(answer, Err(Error::Deadline { .. })), "{answer:?}");
    assert_eq!(begun.elapsed(), Duration::from_millis(1500));
    let play = async {
        let call = server.call().await;
        assert_eq!(call.timeout, None);
        call.reply(RangeResponse::default());
    };
    let ((), answer) = tokio::join!(play, unlimited.get("k"));
    answer.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_no_protocol_can_tell_is_none() {
    let (mut server, client) = alone();
    let client = client.with_timeout(Duration::MAX);
    let play = async {
        let call = server.call().await;
        assert_eq!(call.timeout, None);
        call.reply(RangeResponse::default());
    };
    let ((), answer) = tokio::join!(play, client.get("k"));
    answer.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_once() {
    let ([mut server], options) = servers(["a:1"]);
    let options = Options {
        credentials: Some(Credentials::Password {
            user: "u".to_owned(),
            password: "p".to_owned(),
        }),
        ..options
    };
    let client = Client::new(&["a:1"], &options).unwrap();
    let play = async {
        for token in ["first", "second"] {
            let mut call = server.call().await;
            assert!(call.path.ends_with("/Authenticate") && call.token.is_none());
            let request: AuthenticateRequest = call.request().await;
            assert_eq!(
                (request.name.as_str(), request.password.as_str()),
                ("u", "p")
            );
            call.reply(AuthenticateResponse {
                token: token.to_owned(),
                ..AuthenticateResponse::default()
            });
            let call = server.call().await;
            assert_eq!(call.token.as_deref(), Some(token));
            match token {
                "first" => call.refuse(Known::InvalidAuthToken),
                _ => call.reply(PutResponse::default()),
            }
        }
        let call = server.call().await;
        assert_eq!(call.token.as_deref(), Some("second"));
        call.reply(PutResponse::default());
    };
    let calls = async {
        client.put(put("k")).await.unwrap();
        // Another handle on one endpoint has the same token.
        let one = client.endpoint("a:1").unwrap();
        one.put(put("k")).await.unwrap();
    };
    tokio::join!(calls, play);
}

#[tokio::test(start_paused = true)]
async fn reads_in_order_ask_until_somebody_is_new_enough() {
    let ([mut server], options) = servers(["a:1"]);
    let client = Client::new(&["a:1"], &options).unwrap().ordered();
    let play = async {
        for revision in [5, 3, 4, 5] {
            server.call().await.reply(at(revision));
        }
        for _ in 0..6 {
            server.call().await.reply(at(4));
        }
    };
    let reads = async {
        assert_eq!(client.get("k").await.unwrap(), at(5));
        assert_eq!(client.clone().get("k").await.unwrap(), at(5));
        assert!(matches!(client.get("k").await, Err(Error::NotFresh)));
    };
    tokio::join!(reads, play);
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_writes_is_not_made_again_for_the_sake_of_order() {
    let (mut server, client) = alone();
    let client = client.ordered();
    let txn = |request| TxnRequest {
        success: vec![RequestOp {
            request: Some(request),
        }],
        ..TxnRequest::default()
    };
    let done = |revision| TxnResponse {
        header: at(revision).header,
        ..TxnResponse::default()
    };
    let play = async {
        server.call().await.reply(at(5));
        server.call().await.reply(done(3));
        server.call().await.reply(done(3));
        server.call().await.reply(done(5));
    };
    let calls = async {
        client.get("k").await.unwrap();
        let written = client.txn(txn(Request::RequestPut(put("k")))).await;
        assert!(matches!(written, Err(Error::NotFresh)), "{written:?}");
        let read = client.txn(txn(Request::RequestRange(RangeRequest::default())));
        assert_eq!(read.await.unwrap(), done(5));
    };
    tokio::join!(calls, play);
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn members_do_not_lead_out_of_encryption() {
    let (mut server, client) = alone();
    let play = async {
        let member = Member {
            name: "b".to_owned(),
            client_ur_ls: vec!["http://b:1".to_owned()],
            ..Member::default()
        };
        server.call().await.reply(MemberListResponse {
            members: vec![member],
            ..MemberListResponse::default()
        });
    };
    // Both are in use: one that is reached in the clear, and one that is not.
    let both = ["a:1", "https://a:1"];
    client.set_endpoints(&both).unwrap();
    let (synced, ()) = tokio::join!(client.sync(), play);
    match synced {
        Err(Error::Endpoint { endpoint, .. }) => assert_eq!(endpoint, "http://b:1"),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.endpoints(), both);
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_the_members() {
    let ([mut old, mut new], options) = servers(["http://a:1", "http://b:1"]);
    let client = Client::new(&["http://a:1"], &options).unwrap();
    let play = async {
        let member = Member {
            name: "b".to_owned(),
            client_ur_ls: vec!["http://b:1".to_owned()],
            ..Member::default()
        };
        old.call().await.reply(MemberListResponse {
            members: vec![member],
            ..MemberListResponse::default()
        });
        new.call().await.reply(PutResponse::default());
    };
    let calls = async {
        client.sync().await.unwrap();
        assert_eq!(client.endpoints(), ["http://b:1"]);
        client.put(put("k")).await.unwrap();
    };
    tokio::join!(calls, play);
}

#[tokio::test(start_paused = true)]
async fn a_read_in_pieces_is_in_order_too() {
    let ([mut server], options) = servers(["a:1"]);
    let client = Client::new(&["a:1"], &options).unwrap().ordered();
    let play = async {
        server.call().await.reply(at(5));
        let piece = RangeStreamResponse {
            range_response: Some(at(4)),
        };
        server.call().await.reply(piece);
        let piece = RangeStreamResponse {
            range_response: Some(at(9)),
        };
        server.call().await.reply(piece);
        for revision in [8, 9] {
            server.call().await.reply(at(revision));
        }
    };
    let reads = async {
        client.get("k").await.unwrap();
        let mut pieces = client.range_stream(RangeRequest::default()).await.unwrap();
        let piece = pieces.next().await;
        assert!(matches!(piece, Err(Error::NotFresh)), "{piece:?}");
        let mut pieces = client.range_stream(RangeRequest::default()).await.unwrap();
        assert_eq!(pieces.next().await.unwrap(), Some(at(9)));
        assert_eq!(client.get("k").await.unwrap(), at(9));
    };
    let _ = tokio::join!(reads, tokio::time::timeout(Duration::from_secs(60), play));
}

#[tokio::test(start_paused = true)]
async fn who_hangs_up_is_not_dialled_without_a_pause() {
    let ([server, mut other], options) = servers(["a:1", "b:1"]);
    server.hang_up();
    let client = Client::new(&["a:1", "b:1"], &options).unwrap();
    let play = async { other.call().await.reply(at(7)) };
    let (answer, ()) = tokio::join!(client.get("k"), play);
    answer.unwrap();
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert!(server.connections() < 3, "{}", server.connections());
    // It is, with pauses, and used as soon as it answers.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let dialled = server.connections();
    assert!((10..60).contains(&dialled), "{dialled}");
}
