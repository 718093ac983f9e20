//! The driver: a member of `node` behind sockets, on threads and real files.

mod compactor;
pub mod config;
mod driver;
mod gateway;
mod http;
pub mod logging;
mod measured_disk;
mod metrics;
mod notes;
mod request_text;
pub mod server;
pub mod services;
mod slow_requests;
pub mod transport;
