//! A client of etcd's API, version 3: for quorate and for etcd.
//!
//! [`Client`] holds one channel to one or several endpoints and is cheap to clone; every rpc goes
//! through [`Client::call`], [`Client::receive`] or [`Client::exchange`], and the typed methods
//! beside them (one file for each service) are thin. Messages are those of `quorate_api`.
//!
//! Invariants:
//! - Nothing is retried here: a write that failed with a broken connection may have happened.
//! - An answer's size is not bounded by the client; the server bounds what it sends.
//! - A status of the server whose text etcd fixes arrives as [`Error::Known`].

mod client;
mod codec;
mod error;
mod kv;
mod lease;
mod maintenance;
mod watch;

pub use client::{Answers, Client, Options};
pub use error::Error;
pub use lease::KeepAlive;
pub use maintenance::Snapshot;
pub use quorate_api as api;
pub use watch::Watch;

/// What every call of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;
