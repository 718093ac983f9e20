//! What a client may ask of a connection.

use super::keepalive::Keepalive;

/// What a client may ask of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a request: etcd's `--max-request-bytes` and 512 KiB.
    pub message_bytes_max: usize,
    /// Most streams of a connection at a time (`--max-concurrent-streams`). Never more than
    /// [`STREAMS_MAX`].
    pub streams_max: u32,
    /// Keep-alive, in both directions.
    pub keepalive: Keepalive,
    /// Whether HTTP/2 requests that are not gRPC are served as HTTP. Otherwise they get 415, as
    /// etcd answers them on ports without TLS.
    pub plain_http2: bool,
    /// Whether the headers of requests are written to standard error.
    pub headers_shown: bool,
    /// Most bytes of the body of a request that is not gRPC.
    pub http_body_bytes_max: usize,
    /// Bytes of incomplete messages on one connection above which they are refused.
    pub assembling_bytes_max: usize,
    /// Bytes of answers that one connection's peer does not take above which no new calls are made.
    pub unsent_bytes_max: usize,
}

/// Most streams that a connection ever has.
pub const STREAMS_MAX: u32 = 100_000;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_bytes_max: (1536 << 10) + (512 << 10),
            streams_max: u32::MAX,
            keepalive: Keepalive::default(),
            plain_http2: false,
            headers_shown: false,
            http_body_bytes_max: 4 << 20,
            assembling_bytes_max: 256 << 20,
            unsent_bytes_max: 32 << 20,
        }
    }
}
