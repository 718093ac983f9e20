//! What a service may know about a call besides its message.

use super::inbox::{Inbox, Responder, StreamKey};
use super::status::{Code, Status};
use http::HeaderMap;
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it connects from.
    pub address: PeerAddress,
    /// Who it proved to be, on connections that can tell.
    pub tls: Option<TlsIdentity>,
}

/// Where a peer connects from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix socket, whose clients have no names.
    Unix,
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Tcp(address) => address.fmt(f),
            PeerAddress::Unix => f.write_str("@"),
        }
    }
}

/// What a verified client certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The subject's common name.
    pub common_name: String,
}

/// A call as its service sees it. Metadata is looked up when asked for.
pub struct CallContext {
    headers: HeaderMap,
    peer: Arc<Peer>,
    deadline: Option<Instant>,
    inbox: Arc<Inbox>,
    key: StreamKey,
    deferred: Cell<bool>,
    cancellation: OnceCell<Cancellation>,
}

/// Tells whether a call's answer has become useless. Works from any thread.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Whether the client went away or cancelled, or the deadline passed.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl CallContext {
    pub(super) fn new(
        headers: HeaderMap,
        peer: Arc<Peer>,
        deadline: Option<Instant>,
        inbox: Arc<Inbox>,
        key: StreamKey,
    ) -> CallContext {
        CallContext {
            headers,
            peer,
            deadline,
            inbox,
            key,
            deferred: Cell::new(false),
            cancellation: OnceCell::new(),
        }
    }

    /// The means to answer later, from any thread; see [`super::Reply::Later`]. To be taken once.
    pub fn responder(&self) -> Responder {
        assert!(!self.deferred.replace(true), "a call is answered once");
        Responder::new(self.inbox.clone(), self.key)
    }

    pub(super) fn is_deferred(&self) -> bool {
        self.deferred.get()
    }

    /// When the client stops waiting.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// A flag that is raised when the answer has become useless.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.get_or_init(Cancellation::default).clone()
    }

    pub(super) fn cancel(&self) {
        if let Some(cancellation) = self.cancellation.get() {
            cancellation.0.store(true, Ordering::Release);
        }
    }

    /// The first value of a metadata key; `None` too if it is not text.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.headers.get(key)?.to_str().ok()
    }

    /// The auth token: metadata `token`, or else `authorization`.
    pub fn token(&self) -> Option<&str> {
        self.metadata("token")
            .or_else(|| self.metadata("authorization"))
    }

    /// Whether the call is to fail while there is no leader (metadata `hasleader`).
    pub fn requires_leader(&self) -> bool {
        self.metadata("hasleader") == Some("true")
    }

    /// The API version that the client was built for.
    pub fn client_api_version(&self) -> Option<&str> {
        self.metadata("client-api-version")
    }

    /// What the client calls itself.
    pub fn user_agent(&self) -> Option<&str> {
        self.metadata("user-agent")
    }

    /// Who calls.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The connection that the call came on.
    pub fn connection_id(&self) -> u64 {
        self.inbox.id()
    }
}

/// Reads the header `grpc-timeout`: up to eight digits and a unit.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, Status> {
    let malformed =
        |why: String| Status::new(Code::Internal, format!("malformed grpc-timeout: {why}"));
    if text.len() < 2 {
        return Err(malformed(format!(
            "transport: timeout string is too short: {text:?}"
        )));
    }
    if text.len() > 9 {
        return Err(malformed(format!(
            "transport: timeout string is too long: {text:?}"
        )));
    }
    let unit: fn(u64) -> Duration = match text.as_bytes()[text.len() - 1] {
        b'H' => |hours| Duration::from_secs(hours * 3600),
        b'M' => |minutes| Duration::from_secs(minutes * 60),
        b'S' => Duration::from_secs,
        b'm' => Duration::from_millis,
        b'u' => Duration::from_micros,
        b'n' => Duration::from_nanos,
        _ => {
            return Err(malformed(format!(
                "transport: timeout unit is not recognized: {text:?}"
            )));
        }
    };
    let digits = &text[..text.len() - 1];
    // At most eight digits, so that no unit overflows.
    match digits.parse::<u64>() {
        Ok(count) if digits.bytes().all(|digit| digit.is_ascii_digit()) => Ok(unit(count)),
        _ => Err(malformed(format!(
            "strconv.ParseUint: parsing {digits:?}: invalid syntax"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_digits_and_a_unit() {
        let timeout = |text| parse_timeout(text).map_err(|status| status.message.into_owned());
        assert_eq!(timeout("5S"), Ok(Duration::from_secs(5)));
        assert_eq!(
            timeout("99999999H"),
            Ok(Duration::from_secs(99_999_999 * 3600))
        );
        assert_eq!(timeout("2M"), Ok(Duration::from_secs(120)));
        assert_eq!(timeout("1500m"), Ok(Duration::from_millis(1500)));
        assert_eq!(timeout("7u"), Ok(Duration::from_micros(7)));
        assert_eq!(timeout("0n"), Ok(Duration::ZERO));
        assert_eq!(
            timeout("5").unwrap_err(),
            "malformed grpc-timeout: transport: timeout string is too short: \"5\""
        );
        for bad in ["", "S", "123456789S", "5x", "+5S", "-1S", "1.5S", "é"] {
            assert!(timeout(bad).is_err(), "{bad}");
        }
    }
}
