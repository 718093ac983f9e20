//! Watches and leases over streams that break.

use crate::fake::{Call, alone, servers};
use quorate_client::api::Error as Known;
use quorate_client::api::error::Code;
use quorate_client::api::etcdserverpb::watch_request::RequestUnion;
use quorate_client::api::etcdserverpb::{
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, RangeResponse, ResponseHeader,
    WatchCreateRequest, WatchRequest, WatchResponse,
};
use quorate_client::api::mvccpb::{Event, KeyValue};
use quorate_client::{Client, Error, Holding, Loss, Watcher};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The request that a watch stream begins with.
async fn create(call: &mut Call) -> WatchCreateRequest {
    assert!(call.path.ends_with("/Watch"), "{}", call.path);
    match call.request::<WatchRequest>().await.request_union {
        Some(RequestUnion::CreateRequest(create)) => create,
        other => panic!("{other:?}"),
    }
}

fn answer(revision: i64, events: &[i64]) -> WatchResponse {
    let event = |&mod_revision: &i64| Event {
        kv: Some(KeyValue {
            key: "n/k".into(),
            mod_revision,
            ..KeyValue::default()
        }),
        ..Event::default()
    };
    WatchResponse {
        header: Some(ResponseHeader {
            revision,
            ..ResponseHeader::default()
        }),
        events: events.iter().map(event).collect(),
        ..WatchResponse::default()
    }
}

fn created(revision: i64) -> WatchResponse {
    WatchResponse {
        created: true,
        ..answer(revision, &[])
    }
}

/// A watch of `k`; from now on where `start_revision` is 0.
fn watch_from(client: &Client, start_revision: i64) -> Watcher {
    client
        .watcher(WatchCreateRequest {
            key: "k".into(),
            start_revision,
            ..WatchCreateRequest::default()
        })
        .unwrap()
}

async fn next(watcher: &mut Watcher) -> Vec<i64> {
    let pairs = watcher.next().await.unwrap().events.into_iter();
    pairs.map(|event| event.kv.unwrap().mod_revision).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was() {
    let ([mut server], options) = servers(["a:1"]);
    let client = Client::new(&["a:1"], &options).unwrap().namespace("n/");
    let mut watcher = watch_from(&client, 0);
    let play = async {
        let mut call = server.call().await;
        let request = create(&mut call).await;
        assert_eq!(
            (request.start_revision, request.key.as_ref()),
            (0, &b"n/k"[..])
        );
        call.answer(created(5));
        call.answer(answer(7, &[6, 7]));
        call.answer(WatchResponse {
            fragment: true,
            ..answer(9, &[8])
        });
        call.refuse(Known::Stopped);
        // The member stopped within an answer, which is told from its beginning.
        let mut call = server.call().await;
        assert_eq!(create(&mut call).await.start_revision, 8);
        call.answer(created(9));
        call.answer(answer(9, &[7, 8, 9]));
        call.answer(answer(12, &[]));
        call.end(Code::Ok, "");
        let mut call = server.call().await;
        assert_eq!(create(&mut call).await.start_revision, 13);
        server.break_connections();
        let mut call = server.call().await;
        assert_eq!(create(&mut call).await.start_revision, 13);
        call.answer(created(13));
        call.answer(answer(13, &[13]));
        call
    };
    let watch = async {
        watcher.created().await.unwrap();
        assert_eq!(watcher.next_revision(), 6);
        assert_eq!(next(&mut watcher).await, [6, 7]);
        assert_eq!(next(&mut watcher).await, [8, 9]);
        assert_eq!(next(&mut watcher).await, []);
        let last = watcher.next().await.unwrap();
        assert_eq!(last.events[0].kv.as_ref().unwrap().key, "k");
        assert_eq!(watcher.next_revision(), 14);
    };
    tokio::join!(play, watch);
}

#[tokio::test(start_paused = true)]
async fn what_ends_a_watch_is_told() {
    let (mut server, client) = alone();
    let mut watcher = watch_from(&client, 2);
    let play = async {
        let mut call = server.call().await;
        create(&mut call).await;
        call.answer(WatchResponse {
            canceled: true,
            compact_revision: 4,
            ..created(9)
        });
        server.call().await.refuse(Known::NoLeader);
        let mut call = server.call().await;
        // The caller has asked for more.
        assert_eq!(create(&mut call).await.start_revision, 2);
        call.answer(answer(9, &[2]));
        call
    };
    let watch = async {
        let compacted = watcher.next().await;
        assert!(
            matches!(
                compacted,
                Err(Error::Compacted {
                    compact_revision: 4
                })
            ),
            "{compacted:?}"
        );
        let error = watcher.next().await;
        assert!(
            matches!(error, Err(Error::Known(Known::NoLeader))),
            "{error:?}"
        );
        assert_eq!(next(&mut watcher).await, [2]);
    };
    tokio::join!(play, watch);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_word_is_replaced() {
    let (mut server, client) = alone();
    let mut watcher = watch_from(&client, 1);
    let play = async {
        // As a proxy ends one that was quiet for long.
        create(&mut server.call().await).await;
        let mut call = server.call().await;
        create(&mut call).await;
        call.answer(answer(1, &[1]));
        call
    };
    let (_, events) = tokio::join!(play, next(&mut watcher));
    assert_eq!(events, [1]);
}

#[tokio::test(start_paused = true)]
async fn waiting_a_little_at_a_time_opens_a_watch_as_well() {
    let ([mut server], options) = servers(["a:1"]);
    server.shut();
    let client = Client::new(&["a:1"], &options).unwrap();
    let mut watcher = watch_from(&client, 1);
    let play = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.open();
        let mut call = server.call().await;
        create(&mut call).await;
        call.answer(answer(1, &[1]));
        call
    };
    let watch = async {
        loop {
            let soon = Duration::from_millis(1);
            if let Ok(answer) = timeout(soon, watcher.next()).await {
                break assert_eq!(answer.unwrap().events.len(), 1);
            }
        }
    };
    tokio::join!(play, watch);
}

/// Answers a keep-alive.
async fn renew(call: &mut Call, ttl: i64) {
    let request: LeaseKeepAliveRequest = call.request().await;
    call.answer(LeaseKeepAliveResponse {
        id: request.id,
        ttl,
        ..LeaseKeepAliveResponse::default()
    });
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_after_a_third_of_its_ttl_over_any_stream() {
    let (mut server, client) = alone();
    let play = async {
        let mut call = server.call().await;
        renew(&mut call, 9).await;
        let granted = Instant::now();
        renew(&mut call, 9).await;
        assert_eq!(granted.elapsed(), Duration::from_secs(3));
        server.break_connections();
        let mut call = server.call().await;
        renew(&mut call, 9).await;
        assert!(
            granted.elapsed() < Duration::from_secs(8),
            "{:?}",
            granted.elapsed()
        );
        let mut call = call;
        renew(&mut call, 0).await;
        call
    };
    let keep = async {
        let keeper = client.keep_lease(7).await.unwrap();
        let ttl = Duration::from_secs(9);
        assert_eq!(keeper.holding(), Holding::Held { ttl });
        assert_eq!(keeper.lost().await, Loss::Gone);
        assert_eq!(keeper.holding(), Holding::Lost(Loss::Gone));
    };
    tokio::join!(play, keep);
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_answer_is_lost_when_its_ttl_is_over() {
    let (mut server, client) = alone();
    let play = async {
        let mut call = server.call().await;
        renew(&mut call, 9).await;
        call
    };
    let keep = async {
        let keeper = client.keep_lease(7).await.unwrap();
        let renewed = Instant::now();
        assert_eq!(keeper.lost().await, Loss::Expired);
        assert_eq!(renewed.elapsed(), Duration::from_secs(9));
    };
    tokio::join!(play, keep);
}

#[tokio::test(start_paused = true)]
async fn no_such_lease() {
    let (mut server, client) = alone();
    let play = async {
        let mut call = server.call().await;
        renew(&mut call, 0).await;
        call
    };
    let (_, kept) = tokio::join!(play, client.keep_lease(7));
    assert!(
        matches!(kept, Err(Error::Known(Known::LeaseNotFound))),
        "{kept:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_a_member_that_hangs() {
    let ([mut one, mut other], options) = servers(["a:1", "b:1"]);
    let client = Client::new(&["a:1", "b:1"], &options).unwrap();
    let play = async {
        let (mut call, hangs, mut next) = tokio::select! {
            call = one.call() => (call, one.entrance(), other),
            call = other.call() => (call, other.entrance(), one),
        };
        renew(&mut call, 9).await;
        hangs.cut();
        let mut call = next.call().await;
        renew(&mut call, 9).await;
        renew(&mut call, 0).await;
        call
    };
    let keep = async {
        let keeper = client.keep_lease(7).await.unwrap();
        assert_eq!(keeper.lost().await, Loss::Gone);
    };
    tokio::select! {
        _ = async { tokio::join!(play, keep) } => {}
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("no other member was asked"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_asks_another_member_whoever_else_calls() {
    for others in 0..2 {
        let ([mut one, mut other], options) = servers(["a:1", "b:1"]);
        let client = Client::new(&["a:1", "b:1"], &options).unwrap();
        let play = async {
            let (mut call, hangs, mut next) = tokio::select! {
                call = one.call() => (call, one, other),
                call = other.call() => (call, other, one),
            };
            renew(&mut call, 9).await;
            let _unanswered: LeaseKeepAliveRequest = call.request().await;
            // Each call moves the turn.
            for _ in 0..others {
                assert!(timeout(SOON, client.get("k")).await.is_err());
            }
            let mut renewal = loop {
                let call = next.call().await;
                if call.path.ends_with("/LeaseKeepAlive") {
                    break call;
                }
            };
            renew(&mut renewal, 9).await;
            renew(&mut renewal, 0).await;
            (call, hangs)
        };
        let keep = async {
            let keeper = client.keep_lease(7).await.unwrap();
            let begun = Instant::now();
            assert_eq!(keeper.lost().await, Loss::Gone);
            begun.elapsed()
        };
        let (_, lasted) = tokio::join!(play, keep);
        // A third of 9 s, a third of what is left, and a third again with the other one.
        assert!(
            lasted < Duration::from_millis(8_500),
            "{others}: {lasted:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_be_late_as_long_as_the_lease_is_there() {
    let (mut server, client) = alone();
    let play = async {
        let mut call = server.call().await;
        renew(&mut call, 9).await;
        for _ in 0..3 {
            let request: LeaseKeepAliveRequest = call.request().await;
            tokio::time::sleep(Duration::from_secs(4)).await;
            call.answer(LeaseKeepAliveResponse {
                id: request.id,
                ttl: 9,
                ..LeaseKeepAliveResponse::default()
            });
        }
        renew(&mut call, 0).await;
        call
    };
    let keep = async {
        let keeper = client.keep_lease(7).await.unwrap();
        assert_eq!(keeper.lost().await, Loss::Gone);
    };
    tokio::join!(play, keep);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_waited_for_is_not_taken_for_the_next() {
    let (mut server, client) = alone();
    let play = async {
        let mut call = server.call().await;
        renew(&mut call, 9).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        renew(&mut call, 9).await;
        renew(&mut call, 0).await;
        call
    };
    let keep = async {
        let (mut stream, _) = client.lease_keep_alive(7).await.unwrap();
        let soon = Duration::from_secs(1);
        assert!(timeout(soon, stream.renew(7)).await.is_err());
        let answer = stream.renew(8).await.unwrap();
        assert_eq!((answer.id, answer.ttl), (8, 0));
    };
    tokio::join!(play, keep);
}

#[tokio::test(start_paused = true)]
async fn progress_is_asked_for_over_another_stream_where_one_is_broken() {
    let (mut server, client) = alone();
    let mut watcher = watch_from(&client, 1);
    let play = async {
        let mut call = server.call().await;
        create(&mut call).await;
        call.answer(created(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
        server.break_connections();
        // The second one breaks when it was asked.
        for is_answered in [false, true] {
            let mut call = server.call().await;
            create(&mut call).await;
            call.answer(created(1));
            let request: WatchRequest = call.request().await;
            assert!(matches!(
                request.request_union,
                Some(RequestUnion::ProgressRequest(_))
            ));
            match is_answered {
                true => call.answer(answer(5, &[])),
                false => server.break_connections(),
            }
        }
        // Once is enough.
        let mut call = server.call().await;
        assert_eq!(create(&mut call).await.start_revision, 6);
        call.answer(created(6));
        call.answer(answer(6, &[6]));
        assert!(
            timeout(SOON, call.try_request::<WatchRequest>())
                .await
                .is_err()
        );
    };
    let watch = async {
        watcher.created().await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        watcher.progress();
        assert_eq!(next(&mut watcher).await, []);
        assert_eq!(watcher.next_revision(), 6);
        assert_eq!(next(&mut watcher).await, [6]);
    };
    tokio::join!(watch, play);
}

#[tokio::test(start_paused = true)]
async fn each_question_about_progress_has_its_answer() {
    let (mut server, client) = alone();
    let mut watcher = watch_from(&client, 1);
    watcher.progress();
    watcher.progress();
    let play = async {
        let mut call = server.call().await;
        create(&mut call).await;
        call.answer(created(1));
        for revision in [5, 6] {
            let request: WatchRequest = call.request().await;
            assert!(matches!(
                request.request_union,
                Some(RequestUnion::ProgressRequest(_))
            ));
            call.answer(answer(revision, &[]));
        }
        call
    };
    let watch = async {
        assert_eq!(next(&mut watcher).await, []);
        assert_eq!(next(&mut watcher).await, []);
        assert_eq!(watcher.next_revision(), 7);
    };
    tokio::join!(watch, play);
}

#[tokio::test(start_paused = true)]
async fn watches_that_nobody_reads_hold_up_nobody_else() {
    let (mut server, client) = alone();
    let large = WatchResponse {
        cancel_reason: "x".repeat(2 << 20),
        ..answer(1, &[1])
    };
    let mut unread = Vec::new();
    for _ in 0..6 {
        let mut watcher = watch_from(&client, 1);
        let play = async {
            let mut call = server.call().await;
            create(&mut call).await;
            call.answer(created(1));
            call.answer(large.clone());
            call
        };
        let made = async { tokio::join!(play, watcher.created()) };
        let (call, made) = timeout(MINUTE, made).await.expect("an answer");
        made.unwrap();
        unread.push((call, watcher));
    }
    // All has come that comes.
    tokio::time::sleep(SOON).await;
    let play = async { server.call().await.reply(RangeResponse::default()) };
    let read = async { tokio::join!(play, client.get("k")) };
    let (_, read) = timeout(MINUTE, read).await.expect("an answer");
    read.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_stays_when_its_endpoint_is_taken_out() {
    let ([mut old, _new], options) = servers(["a:1", "b:1"]);
    let client = Client::new(&["a:1"], &options).unwrap();
    let mut watcher = watch_from(&client, 1);
    let play = async {
        let mut call = old.call().await;
        create(&mut call).await;
        call.answer(created(1));
        call
    };
    let (made, call) = tokio::join!(watcher.created(), play);
    made.unwrap();
    client.set_endpoints(&["b:1"]).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!call.is_gone());
    call.answer(answer(2, &[2]));
    assert_eq!(next(&mut watcher).await, [2]);
}
