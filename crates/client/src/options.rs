//! How a client connects, proves itself, waits and retries.

use crate::transport::Connector;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything that is to be said beside the endpoints.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a connection may take to come up, TLS included.
    pub connect_timeout: Duration,
    /// How long a call with one answer may take with all its retries; `None` is for ever. Streams
    /// are not bounded.
    pub request_timeout: Option<Duration>,
    /// Whether a call waits while no endpoint can be reached. If not, it fails once all endpoints
    /// have refused.
    pub wait_for_ready: bool,
    /// After how long a silence the connection is probed with a ping, 10 s at least; `None` is
    /// never.
    pub keepalive_time: Option<Duration>,
    /// How long the answer to such a ping may take before the connection is given up.
    pub keepalive_timeout: Duration,
    /// Whether connections without a call under way are probed as well.
    pub keepalive_while_idle: bool,
    /// TLS, for `https` and `unixs` endpoints and those without a scheme. `https` and `unixs`
    /// without it trust the system's roots.
    pub tls: Option<Tls>,
    /// Who calls; asked for when the cluster has authentication enabled.
    pub credentials: Option<Credentials>,
    /// Every call asks the member for a leader first (metadata `hasleader`).
    pub require_leader: bool,
    /// The largest request that is sent, in bytes.
    pub request_bytes_max: usize,
    /// The largest answer that is taken, in bytes.
    pub answer_bytes_max: usize,
    /// The HTTP/2 window of one stream, in bytes: what a server may send before it is read.
    pub stream_window_bytes: u32,
    /// The HTTP/2 window of a connection, in bytes. Streams that nobody reads take from it until they
    /// are read, and once it is used up no call on the connection is answered; so it is to have room
    /// for all of them.
    pub connection_window_bytes: u32,
    /// Which failures are tried again, and when.
    pub retry: Retry,
    /// Connects in place of the system's sockets.
    pub connector: Option<Arc<dyn Connector>>,
}

/// The largest window that HTTP/2 has (RFC 9113, 6.9.1).
const WINDOW_BYTES_MAX: u32 = i32::MAX as u32;

impl Default for Options {
    fn default() -> Options {
        Options {
            connect_timeout: Duration::from_secs(5),
            request_timeout: None,
            wait_for_ready: true,
            keepalive_time: None,
            keepalive_timeout: Duration::from_secs(20),
            keepalive_while_idle: false,
            tls: None,
            credentials: None,
            require_leader: false,
            request_bytes_max: 2 << 20,
            answer_bytes_max: i32::MAX as usize,
            stream_window_bytes: 1 << 20,
            connection_window_bytes: WINDOW_BYTES_MAX,
            retry: Retry::default(),
            connector: None,
        }
    }
}

/// Where keys and certificates are, all PEM. The files are read for every new connection, so a
/// certificate that is replaced is used from the next one on.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates that are trusted; the system's where there is none.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate, with those that link it to its root.
    pub cert_file: Option<PathBuf>,
    /// Its private key: PKCS#8, PKCS#1 (RSA) or SEC1 (EC), not encrypted.
    pub key_file: Option<PathBuf>,
    /// The name that the server's certificate must have, in place of the endpoint's host.
    pub server_name: Option<String>,
    /// Takes any certificate of the server. Whoever is between can read and change everything.
    pub insecure_skip_verify: bool,
}

/// Who calls.
#[derive(Clone)]
pub enum Credentials {
    /// A user of the cluster. The token that this gives is renewed when the server refuses it.
    Password {
        /// The user's name.
        user: String,
        /// The password.
        password: String,
    },
    /// A token from elsewhere (a JWT), sent as it is.
    Token(String),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credentials::Password { user, .. } => f
                .debug_struct("Password")
                .field("user", user)
                .finish_non_exhaustive(),
            Credentials::Token(_) => f.write_str("Token(..)"),
        }
    }
}

/// How often and how fast a call is tried again; see [`crate::Client`] for which are.
#[derive(Clone, Debug)]
pub struct Retry {
    /// Attempts in all; 1 never retries.
    pub attempts_max: u32,
    /// The wait after as many attempts as make a majority of the endpoints.
    pub wait: Duration,
    /// By which part of itself a wait is made longer or shorter at random, 0 to 1.
    pub jitter: f64,
    /// The seed of what is random; `None` takes one from the system.
    pub seed: Option<u64>,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            attempts_max: 100,
            wait: Duration::from_millis(25),
            jitter: 0.10,
            seed: None,
        }
    }
}
