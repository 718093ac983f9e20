//! The driver: a member of `node` behind sockets, on threads and real files.

mod auto_compaction;
mod bootstrap;
pub mod cluster_versions;
mod compactor;
pub mod config;
pub mod corruption;
mod data_dir;
mod driver;
pub mod errno;
mod gateway;
mod http;
mod listeners;
pub mod logging;
#[cfg(test)]
mod lone;
mod measured_disk;
mod metrics;
mod notes;
pub mod peer_api;
pub mod peers;
mod request_text;
pub mod server;
pub mod services;
mod slow_requests;
pub mod transport;
