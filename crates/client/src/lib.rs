//! A client of etcd's API, version 3: for quorate and for etcd.
//!
//! [`Client`] keeps a connection to each of its endpoints and is cheap to clone. Every rpc goes
//! through [`Client::call`], [`Client::receive`] or [`Client::exchange`]; the typed methods beside
//! them are one file for each service. Messages are those of [`api`].
//!
//! ```no_run
//! use quorate_client::api::etcdserverpb::{PutRequest, WatchCreateRequest};
//! use quorate_client::{Client, Options, Session};
//!
//! # async fn run() -> quorate_client::Result<()> {
//! let client = Client::new(&["127.0.0.1:2379"], &Options::default())?;
//! let put = PutRequest {
//!     key: "sky".into(),
//!     value: "blue".into(),
//!     ..Default::default()
//! };
//! let revision = client.put(put).await?.header.unwrap_or_default().revision;
//!
//! // All that happens to it from then on, over any number of broken connections.
//! let mut watcher = client.watcher(WatchCreateRequest {
//!     key: "sky".into(),
//!     start_revision: revision,
//!     ..Default::default()
//! })?;
//! for event in watcher.next().await?.events {
//!     assert_eq!(event.kv.unwrap_or_default().value, "blue");
//! }
//!
//! // One process at a time, of those that agree on the name.
//! let session = Session::new(&client, 10).await?;
//! let lock = session.mutex("painting").lock().await?;
//! lock.unlock().await?;
//! session.close().await
//! # }
//! ```
//!
//! What is built on the rpcs:
//! - [`Watcher`]: a watch without gap or double, whatever breaks.
//! - [`LeaseKeeper`] and [`Session`]: a lease that is renewed, and tells when it is lost.
//! - [`Mutex`] and [`Election`]: turns that are taken with programs in any language.
//! - [`Transaction`]: reads and writes that are done over when others were in between.
//! - [`Client::namespace`], [`Client::ordered`], [`Client::require_leader`],
//!   [`Client::with_timeout`], [`Client::endpoint`]: the same client, with keys under a prefix, reads
//!   that never go back, a leader required, another time limit, or one member alone.
//! - [`Client::page`]: metrics and health of a member.
//!
//! Invariants:
//! - A write that may have happened is never sent again; see [`Client`] for what is.
//! - A status of the server whose text etcd fixes arrives as [`Error::Known`].
//! - Futures may be dropped at any time: what they waited for is given up, and no event is lost.
//!
//! `examples/` run against the endpoints in `ETCDCTL_ENDPOINTS`.

mod address;
mod answers;
mod auth;
mod balancer;
mod client;
mod cluster;
mod codec;
mod connection;
mod election;
mod error;
mod greeting;
mod kv;
mod lease;
mod lease_keeper;
mod maintenance;
mod mutex;
mod namespace;
mod options;
mod ordering;
mod page;
mod queue;
mod resumption;
mod retry;
mod session;
mod tls;
mod token;
mod transaction;
mod transport;
mod watch;
mod watcher;

pub use answers::Answers;
pub use client::Client;
pub use election::{Election, Leadership, Observer};
pub use error::Error;
pub use kv::RangeStream;
pub use lease::KeepAlive;
pub use lease_keeper::{Holding, LeaseKeeper, Loss};
pub use maintenance::Snapshot;
pub use mutex::{Lock, Mutex};
pub use namespace::prefix_end;
pub use options::{Credentials, Options, Retry, Tls};
pub use quorate_api as api;
pub use session::Session;
pub use transaction::{Isolation, Transaction};
pub use transport::{Connecting, Connector, Transport};
pub use watch::Watch;
pub use watcher::Watcher;

/// What every call of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;
