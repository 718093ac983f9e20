//! The driver: a member of `node` behind sockets, on threads and real files.

mod compactor;
pub mod config;
mod driver;
mod gateway;
mod http;
pub mod logging;
mod metrics;
mod notes;
pub mod server;
pub mod services;
pub mod transport;
