//! Writes, reads, watches and transacts at the endpoints that ETCDCTL_ENDPOINTS names.

#![allow(clippy::print_stdout)]

use quorate_client::api::etcdserverpb::{PutRequest, WatchCreateRequest};
use quorate_client::{Client, Isolation, Options, prefix_end};
use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints =
        std::env::var("ETCDCTL_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    let endpoints: Vec<&str> = endpoints.split(',').collect();
    let client = Client::new(&endpoints, &Options::default())?.namespace("example/");

    let mut watcher = client.watcher(WatchCreateRequest {
        key: "colour/".into(),
        range_end: prefix_end(b"colour/"),
        ..WatchCreateRequest::default()
    })?;
    watcher.created().await?;

    client
        .put(PutRequest {
            key: "colour/sky".into(),
            value: "blue".into(),
            ..PutRequest::default()
        })
        .await?;
    let mut transaction = client.transaction(Isolation::default());
    loop {
        let sky = transaction.get("colour/sky").await?;
        let value = sky.map(|pair| pair.value).unwrap_or_default();
        transaction.put("colour/sea", value);
        if transaction.commit().await?.is_some() {
            break;
        }
    }
    for pair in client.get_prefix("colour/").await?.kvs {
        println!(
            "{:?} is {:?} at revision {}",
            pair.key, pair.value, pair.mod_revision
        );
    }
    for _ in 0..2 {
        for event in watcher.next().await?.events {
            println!("{:?} {:?}", event.r#type(), event.kv.map(|pair| pair.key));
        }
    }
    Ok(())
}
