//! A client of etcd's API, version 3: for quorate and for etcd.
//!
//! [`Client`] holds a connection to each of its endpoints and is cheap to clone; every rpc goes
//! through [`Client::call`], [`Client::receive`] or [`Client::exchange`], and the typed methods
//! beside them (one file for each service) are thin. Messages are those of `quorate_api`.
//!
//! Invariants:
//! - A write that may have happened is never sent again; see [`Client`] for what is.
//! - A status of the server whose text etcd fixes arrives as [`Error::Known`].

mod address;
mod balancer;
mod client;
mod cluster;
mod codec;
mod connection;
mod election;
mod error;
mod kv;
mod lease;
mod lease_keeper;
mod maintenance;
mod mutex;
mod namespace;
mod options;
mod ordering;
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

pub use client::{Answers, Client};
pub use election::{Election, Leadership, Observer};
pub use error::Error;
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
