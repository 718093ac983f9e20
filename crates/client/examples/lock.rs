//! Takes a lock and leads an election at the endpoints that ETCDCTL_ENDPOINTS names. Start it
//! twice, or beside a Go program that uses the same names, and they take turns.

#![allow(clippy::print_stdout)]

use quorate_client::{Client, Options, Session};
use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints =
        std::env::var("ETCDCTL_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    let endpoints: Vec<&str> = endpoints.split(',').collect();
    let client = Client::new(&endpoints, &Options::default())?;
    let session = Session::new(&client, 10).await?;
    println!("session {:x}", session.lease());

    let lock = session.mutex("example-lock").lock().await?;
    println!(
        "locked: {:?}, fencing token {}",
        lock.key(),
        lock.revision()
    );
    lock.unlock().await?;

    let election = session.election("example-election");
    let mut leadership = election.campaign("first").await?;
    println!("elected: {:?}", leadership.key());
    let mut observer = election.observe();
    println!("the leader says {:?}", observer.next().await?.value);
    leadership.proclaim("second").await?;
    println!("the leader says {:?}", observer.next().await?.value);
    leadership.resign().await?;
    session.close().await?;
    Ok(())
}
