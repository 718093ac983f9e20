//! Locks and elections: one at a time, whatever happens to those who wait.

use crate::fake::{Call, Server, alone, servers};
use crate::model::Model;
use quorate_client::api::Error as Known;
use quorate_client::api::etcdserverpb::request_op::Request;
use quorate_client::api::etcdserverpb::{
    LeaseGrantResponse, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    TxnRequest, TxnResponse,
};
use quorate_client::{Client, Error, Loss, Session};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

fn model() -> (Model, Client) {
    let ([server], options) = servers(["a:1"]);
    (
        Model::serve(server),
        Client::new(&["a:1"], &options).unwrap(),
    )
}

async fn session(client: &Client) -> Session {
    Session::new(client, 10).await.unwrap()
}

/// A session under the lease 7, and the stream that renews it.
async fn granted(server: &mut Server, client: &Client) -> (Session, Call) {
    let play = async {
        server.call().await.reply(LeaseGrantResponse {
            id: 7,
            ttl: 10,
            ..LeaseGrantResponse::default()
        });
        let renewals = server.call().await;
        renewals.answer(LeaseKeepAliveResponse {
            id: 7,
            ttl: 10,
            ..LeaseKeepAliveResponse::default()
        });
        renewals
    };
    let (session, renewals) = tokio::join!(session(client), play);
    (session, renewals)
}

fn puts(txn: &TxnRequest) -> bool {
    matches!(txn.success[0].request, Some(Request::RequestPut(_)))
}

fn deletes(txn: &TxnRequest) -> bool {
    matches!(txn.success[0].request, Some(Request::RequestDeleteRange(_)))
}

const SOON: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn one_session_at_a_time_and_each_with_a_greater_token() {
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    let (model, client) = model();
    let contend = async |client: Client| {
        let session = Session::new(&client, 10).await.unwrap();
        let mut tokens = Vec::new();
        for _ in 0..5 {
            let lock = session.mutex("m").lock().await.unwrap();
            assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0);
            sleep(SOON).await;
            assert_eq!(INSIDE.fetch_sub(1, Ordering::SeqCst), 1);
            tokens.push(lock.revision());
            lock.unlock().await.unwrap();
        }
        assert!(tokens.is_sorted());
        tokens
    };
    let (a, b, c) = tokio::join!(
        contend(client.clone()),
        contend(client.clone()),
        contend(client.clone())
    );
    let mut all = [a, b, c].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 15);
    assert!(model.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn keys_are_those_that_other_languages_use() {
    let (model, client) = model();
    let session = session(&client).await;
    let lock = session.mutex("m").lock().await.unwrap();
    let name = format!("m/{:x}", session.lease());
    assert_eq!(lock.key(), &name);
    assert_eq!(model.keys(), [name]);
}

#[tokio::test(start_paused = true)]
async fn trying_leaves_nothing_behind() {
    let (model, client) = model();
    let (one, other) = (session(&client).await, session(&client).await);
    let lock = one
        .mutex("m")
        .try_lock()
        .await
        .unwrap()
        .expect("it is free");
    assert!(other.mutex("m").try_lock().await.unwrap().is_none());
    assert_eq!(model.keys(), [lock.key().clone()]);
    lock.unlock().await.unwrap();
    assert!(other.mutex("m").try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_is_not_waited_for() {
    let (model, client) = model();
    let (one, other) = (session(&client).await, session(&client).await);
    let lock = one.mutex("m").lock().await.unwrap();
    let waited = timeout(Duration::from_secs(1), other.mutex("m").lock()).await;
    assert!(waited.is_err());
    sleep(SOON).await;
    assert_eq!(model.keys(), [lock.key().clone()]);
    // So does one who forgets to unlock.
    drop(lock);
    sleep(SOON).await;
    assert!(model.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_does_not_overtake_its_put() {
    let (mut server, client) = alone();
    let (session, _renewals) = granted(&mut server, &client).await;
    let mutex = session.mutex("m");
    let (waited, mut put) = tokio::join!(timeout(SOON, mutex.lock()), server.call());
    assert!(waited.is_err());
    sleep(SOON).await;
    assert!(server.is_idle());
    let request: TxnRequest = put.request().await;
    assert!(puts(&request));
    put.reply(TxnResponse::default());
    let request: TxnRequest = server.call().await.request().await;
    assert!(deletes(&request));
}

/// A worker of a runtime runs what was spawned last first.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_gives_up_at_once_leaves_nothing_behind() {
    let worker = tokio::spawn(async {
        let (mut server, client) = alone();
        let (session, renewals) = granted(&mut server, &client).await;
        let mutex = session.mutex("m");
        let gone = tokio::select! {
            biased;
            lock = mutex.lock() => panic!("{lock:?}"),
            () = std::future::ready(()) => server.call(),
        };
        let mut put = gone.await;
        let request: TxnRequest = put.request().await;
        assert!(puts(&request));
        put.reply(TxnResponse::default());
        let request: TxnRequest = server.call().await.request().await;
        assert!(deletes(&request));
        drop(renewals);
    });
    worker.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_put_that_comes_late_is_deleted_too() {
    let (mut server, client) = alone();
    let (session, _renewals) = granted(&mut server, &client).await;
    let mutex = session.mutex("m");
    let begun = Instant::now();
    let play = async {
        // The member has taken it, and its answer is lost.
        let mut put = server.call().await;
        let _: TxnRequest = put.request().await;
        put.refuse(Known::Timeout);
        let mut deletions = Vec::new();
        while deletions.len() < 2 {
            let mut call = server.call().await;
            // The lease is renewed meanwhile.
            if !call.path.ends_with("/Txn") {
                continue;
            }
            let request: TxnRequest = call.request().await;
            assert!(deletes(&request));
            deletions.push(begun.elapsed());
            call.reply(TxnResponse::default());
        }
        deletions
    };
    let (lock, deletions) = tokio::join!(mutex.lock(), play);
    lock.unwrap_err();
    assert!(deletions[0] < Duration::from_secs(1), "{deletions:?}");
    assert!(deletions[1] > Duration::from_secs(7), "{deletions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_may_be_dropped_where_no_runtime_is() {
    let (model, client) = model();
    let session = session(&client).await;
    let lock = session.mutex("m").lock().await.unwrap();
    std::thread::spawn(move || drop(lock)).join().unwrap();
    sleep(SOON).await;
    assert!(model.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn sessions_under_one_lease_share_their_locks() {
    let (model, client) = model();
    let one = session(&client).await;
    let other = Session::resume(&client, one.lease()).await.unwrap();
    let first = one.mutex("m").lock().await.unwrap();
    let second = other.mutex("m").lock().await.unwrap();
    assert_eq!(first.revision(), second.revision());
    // In another namespace it is another lock, though its key is called the same.
    let elsewhere = client.namespace("n/");
    let apart = Session::resume(&elsewhere, one.lease()).await.unwrap();
    let third = apart.mutex("m").lock().await.unwrap();
    assert_ne!(third.revision(), second.revision());
    drop(first);
    drop(third);
    sleep(SOON).await;
    assert_eq!(model.keys(), [second.key().clone()]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_loss_was_only_feared_is_revoked() {
    let (mut server, client) = alone();
    let (session, _renewals) = granted(&mut server, &client).await;
    assert_eq!(session.keeper().lost().await, Loss::Expired);
    let play = async {
        loop {
            let call = server.call().await;
            if call.path.ends_with("/LeaseRevoke") {
                break call.reply(LeaseRevokeResponse::default());
            }
        }
    };
    let (closed, ()) = tokio::join!(session.close(), play);
    closed.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closing_ends_with_the_lease_whoever_answers() {
    let (mut server, client) = alone();
    let (session, renewals) = granted(&mut server, &client).await;
    let begun = Instant::now();
    let (closed, _unanswered) = tokio::join!(session.close(), server.call());
    assert!(matches!(closed, Err(Error::Deadline { .. })), "{closed:?}");
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    assert!(renewals.is_gone());
}

#[tokio::test(start_paused = true)]
async fn unlocking_outlives_a_broken_connection() {
    let ([server], options) = servers(["a:1"]);
    let entrance = server.entrance();
    let model = Model::serve(server);
    let client = Client::new(&["a:1"], &options).unwrap();
    let session = session(&client).await;
    let lock = session.mutex("m").lock().await.unwrap();
    entrance.shut();
    let (unlocked, ()) = tokio::join!(lock.unlock(), async {
        sleep(SOON).await;
        entrance.open();
    });
    unlocked.unwrap();
    assert!(model.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_shares_its_lock() {
    let (model, client) = model();
    let session = session(&client).await;
    let first = session.mutex("m").lock().await.unwrap();
    let second = session.mutex("m").lock().await.unwrap();
    assert_eq!(first.revision(), second.revision());
    drop(first);
    sleep(SOON).await;
    assert_eq!(model.keys(), [second.key().clone()]);
    // One who comes while it is given back finds it, or takes it anew.
    drop(second);
    let third = session.mutex("m").lock().await.unwrap();
    sleep(SOON).await;
    assert_eq!(model.keys(), [third.key().clone()]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_frees_its_lock_and_stops_its_waiters() {
    let (model, client) = model();
    let (one, other) = (session(&client).await, session(&client).await);
    let _lock = one.mutex("m").lock().await.unwrap();
    let mutex = other.mutex("m");
    let (waited, ()) = tokio::join!(mutex.lock(), async {
        sleep(SOON).await;
        model.expire(other.lease());
    });
    assert!(matches!(waited, Err(Error::SessionEnded)), "{waited:?}");
    let third = session(&client).await;
    let mutex = third.mutex("m");
    let (held, ()) = tokio::join!(mutex.lock(), async {
        sleep(SOON).await;
        one.close().await.unwrap();
    });
    assert_eq!(model.keys(), [held.unwrap().key().clone()]);
}

#[tokio::test(start_paused = true)]
async fn leaders_follow_one_another_in_order_and_are_seen() {
    let (model, client) = model();
    let client = client.namespace("n/");
    let (one, other) = (session(&client).await, session(&client).await);
    let mut observer = client.observe("e");
    assert!(one.election("e").leader().await.unwrap().is_none());
    let watch = async {
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(observer.next().await.unwrap().value);
        }
        seen
    };
    let lead = async {
        let mut first = one.election("e").campaign("a").await.unwrap();
        assert!(
            timeout(SOON, other.election("e").campaign("c"))
                .await
                .is_err()
        );
        first.proclaim("b").await.unwrap();
        let election = other.election("e");
        let (second, ()) = tokio::join!(election.campaign("c"), async {
            sleep(SOON).await;
            let leader = other.election("e").leader().await.unwrap().unwrap();
            assert_eq!(
                (leader.key, leader.value),
                (first.key().clone(), "b".into())
            );
            first.resign().await.unwrap();
        });
        second.unwrap()
    };
    let (seen, second) = tokio::join!(watch, lead);
    assert_eq!(seen, ["a", "b", "c"]);
    // Another process of the same session takes over.
    let mut resumed = other
        .election("e")
        .resume(second.key().clone(), second.revision());
    drop(second);
    sleep(SOON).await;
    resumed.proclaim("d").await.unwrap();
    assert_eq!(observer.next().await.unwrap().value, "d");
    assert_eq!(model.keys(), [format!("n/e/{:x}", other.lease())]);
    model.expire(other.lease());
    assert!(matches!(
        resumed.proclaim("e").await,
        Err(Error::NotElected)
    ));
}

#[tokio::test(start_paused = true)]
async fn who_lost_its_lease_does_not_lead_when_its_turn_comes() {
    let (model, client) = model();
    let (one, other) = (session(&client).await, session(&client).await);
    let first = one.election("e").campaign("a").await.unwrap();
    let election = other.election("e");
    let (elected, ()) = tokio::join!(election.campaign("b"), async {
        sleep(SOON).await;
        // Before the keeper of the lease has a chance to see it.
        model.expire(other.lease());
        first.resign().await.unwrap();
    });
    assert!(matches!(elected, Err(Error::SessionEnded)), "{elected:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_a_session_outlives_a_broken_connection() {
    let (mut server, client) = alone();
    let (session, _renewals) = granted(&mut server, &client).await;
    let play = async {
        let mut call = server.call().await;
        let request: LeaseRevokeRequest = call.request().await;
        assert_eq!(request.id, 7);
        // It was done, and the answer is lost.
        server.break_connections();
        let mut again = server.call().await;
        while !again.path.ends_with("/LeaseRevoke") {
            again = server.call().await;
        }
        again.refuse(Known::LeaseNotFound);
    };
    let (closed, ()) = tokio::join!(session.close(), play);
    closed.unwrap();
}
