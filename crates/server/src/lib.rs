//! The driver: a member of `node` behind sockets, on threads and real files.

mod auto_compaction;
mod compactor;
pub mod config;
mod data_dir;
mod driver;
pub mod errno;
mod gateway;
mod http;
mod listeners;
pub mod logging;
mod measured_disk;
mod metrics;
mod notes;
pub mod peers;
mod request_text;
pub mod server;
pub mod services;
mod slow_requests;
pub mod transport;
