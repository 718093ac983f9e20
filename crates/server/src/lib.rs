//! The driver: a member of `node` behind sockets, on threads and real files.

mod auto_compaction;
mod bootstrap;
mod cluster_versions;
mod compactor;
pub mod config;
mod corruption;
mod data_dir;
mod driver;
mod features;
mod gateway;
mod http;
mod listeners;
pub mod logging;
#[cfg(test)]
mod lone;
mod measured_disk;
mod metrics;
mod notes;
mod peer_api;
mod peers;
mod request_text;
pub mod server;
mod services;
mod slow_requests;
mod stop;
pub mod transport;
