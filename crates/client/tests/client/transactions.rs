//! What transactions of each level see of one another.

use crate::fake::servers;
use crate::model::Model;
use bytes::Bytes;
use quorate_client::api::etcdserverpb::PutRequest;
use quorate_client::{Client, Isolation, Transaction};

fn client() -> Client {
    let ([server], options) = servers(["a:1"]);
    Model::serve(server);
    Client::new(&["a:1"], &options).unwrap()
}

async fn put(client: &Client, key: &'static str, value: &'static str) {
    let request = PutRequest {
        key: key.into(),
        value: value.into(),
        ..PutRequest::default()
    };
    client.put(request).await.unwrap();
}

async fn value(client: &Client, key: &'static str) -> Option<Bytes> {
    let answer = client.get(key).await.unwrap();
    answer.kvs.into_iter().next().map(|pair| pair.value)
}

async fn read(transaction: &mut Transaction, key: &'static str) -> Option<Bytes> {
    transaction.get(key).await.unwrap().map(|pair| pair.value)
}

#[tokio::test(start_paused = true)]
async fn counting_together_loses_nothing() {
    for isolation in [
        Isolation::SerializableSnapshot,
        Isolation::Serializable,
        Isolation::RepeatableReads,
    ] {
        let client = client();
        let count = async |client: &Client| {
            for _ in 0..10 {
                let mut transaction = client.transaction(isolation);
                loop {
                    let found = read(&mut transaction, "n").await;
                    let number =
                        found.map_or(0, |n| std::str::from_utf8(&n).unwrap().parse().unwrap());
                    transaction.put("n", i64::to_string(&(number + 1)));
                    if transaction.commit().await.unwrap().is_some() {
                        break;
                    }
                }
            }
        };
        tokio::join!(count(&client), count(&client), count(&client));
        assert_eq!(value(&client, "n").await.unwrap(), "30", "{isolation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_level_lets_through() {
    for (isolation, same_revision, read_checked, write_checked) in [
        (Isolation::SerializableSnapshot, true, true, true),
        (Isolation::Serializable, true, true, false),
        (Isolation::RepeatableReads, false, true, false),
        (Isolation::ReadCommitted, false, false, false),
    ] {
        let client = client();
        put(&client, "a", "1").await;
        put(&client, "b", "1").await;
        let mut transaction = client.transaction(isolation);
        assert_eq!(read(&mut transaction, "a").await.unwrap(), "1");
        put(&client, "b", "2").await;
        let later = read(&mut transaction, "b").await.unwrap();
        assert_eq!(later == "1", same_revision, "{isolation:?}");
        // What was read stays as it is.
        put(&client, "a", "2").await;
        assert_eq!(read(&mut transaction, "a").await.unwrap(), "1");
        transaction.put("c", "x");
        let refused = transaction.commit().await.unwrap().is_none();
        assert_eq!(refused, read_checked, "{isolation:?}");

        let mut transaction = client.transaction(isolation);
        read(&mut transaction, "a").await;
        put(&client, "d", "other").await;
        transaction.put("d", "mine");
        let refused = transaction.commit().await.unwrap().is_none();
        assert_eq!(refused, write_checked, "{isolation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_sees_what_it_writes() {
    let client = client();
    put(&client, "a", "1").await;
    let mut transaction = client.transaction(Isolation::default());
    transaction.delete("a");
    assert_eq!(read(&mut transaction, "a").await, None);
    transaction.put("b", "2");
    assert_eq!(read(&mut transaction, "b").await.unwrap(), "2");
    assert_eq!(value(&client, "b").await, None);
    assert!(transaction.commit().await.unwrap().is_some());
    assert_eq!(value(&client, "a").await, None);
    assert_eq!(value(&client, "b").await.unwrap(), "2");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_there_must_still_not_be_there() {
    let client = client();
    let mut transaction = client.transaction(Isolation::Serializable);
    assert_eq!(read(&mut transaction, "a").await, None);
    put(&client, "a", "1").await;
    transaction.put("b", "x");
    assert!(transaction.commit().await.unwrap().is_none());
    // Anew, with what is there now.
    assert_eq!(read(&mut transaction, "a").await.unwrap(), "1");
    transaction.put("b", "y");
    assert!(transaction.commit().await.unwrap().is_some());
    assert_eq!(value(&client, "b").await.unwrap(), "y");
}
