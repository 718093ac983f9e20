//! What can go wrong between a caller and its answer.

use crate::connection::Broken;
use quorate_api::Error as Known;
use quorate_api::error::Code;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is no URL of a server.
    #[error("{endpoint} is not an endpoint: {reason}")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A key or a certificate cannot be used.
    #[error("{file}: {reason}")]
    Tls {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A page that is no rpc cannot be had (see [`crate::Client::page`]).
    #[error("{url}: {reason}")]
    Page {
        /// Which one.
        url: String,
        /// The chain of causes.
        reason: String,
    },
    /// No endpoint was given.
    #[error("no endpoint given")]
    NoEndpoint,
    /// No connection could be made, or the one there was broke.
    #[error("{method}: no connection: {reason}")]
    Connection {
        /// The rpc's path.
        method: &'static str,
        /// Nothing was done: the server has not seen the request, or refused to look at it.
        unsent: bool,
        /// The chain of causes.
        reason: String,
    },
    /// The server refused with one of etcd's own errors.
    #[error("{}", .0.text())]
    Known(Known),
    /// The server answered with another status.
    #[error("{method}: {code}: {text}")]
    Status {
        /// The rpc's path.
        method: &'static str,
        /// The gRPC code's number.
        code: i32,
        /// The status message.
        text: String,
    },
    /// There was no answer within [`crate::Options::request_timeout`], or the limit of
    /// [`crate::Client::with_timeout`]. A write may have
    /// happened. [`crate::Client::unreachable`] may say why.
    #[error("context deadline exceeded")]
    Deadline {
        /// The rpc's path.
        method: &'static str,
    },
    /// A watch begins before what is kept of the history.
    #[error("{}", Known::Compacted.text())]
    Compacted {
        /// The oldest revision that a watch can begin at.
        compact_revision: i64,
    },
    /// The server has ended a watch.
    #[error("the watch was canceled: {reason}")]
    WatchCanceled {
        /// As the server has it.
        reason: String,
    },
    /// No member is as new as what was read before (see [`crate::Client::ordered`]).
    #[error("no endpoint has the revision that was read before")]
    NotFresh,
    /// The session's lease is lost, and with it what it held.
    #[error("the session has ended")]
    SessionEnded,
    /// This is not the leader of the election any more.
    #[error("not the leader of the election")]
    NotElected,
    /// An answer lacks what the protocol has in it.
    #[error("{method}: the answer lacks {what}")]
    Malformed {
        /// The rpc's path.
        method: &'static str,
        /// What is missing.
        what: &'static str,
    },
    /// A stream ended where the protocol has another message.
    #[error("{method}: the stream ended early")]
    Ended {
        /// The rpc's path.
        method: &'static str,
    },
}

impl Error {
    /// Whether the cluster, or the way to it, was not there; another attempt may find it. A write may
    /// have happened all the same.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Known(known) => known.code() == Code::Unavailable,
            Error::Status { code, .. } => *code == Code::Unavailable as i32,
            Error::Connection { .. } | Error::Deadline { .. } => true,
            _ => false,
        }
    }

    /// From a transport's status: one of etcd's errors where code and text are in its table.
    pub(crate) fn from_status(method: &'static str, status: &tonic::Status) -> Error {
        let code = i32::from(status.code());
        if let Some((found, limit)) = too_large(status) {
            return Error::Status {
                method,
                code: Code::ResourceExhausted as i32,
                text: format!("grpc: received message larger than max ({found} vs. {limit})"),
            };
        }
        // A proxy that closes a stream which was quiet for long.
        if status.message().contains(WITHOUT_STATUS) {
            return Error::Ended { method };
        }
        if let Some(known) = find_known(code, status.message()) {
            return Error::Known(known);
        }
        let transport = std::error::Error::source(status);
        match transport {
            Some(source) => Error::Connection {
                method,
                unsent: source
                    .downcast_ref::<Broken>()
                    .is_some_and(|broken| broken.unsent),
                reason: chain(source),
            },
            None => Error::Status {
                method,
                code,
                text: status.message().to_owned(),
            },
        }
    }
}

/// Of a stream that ended without a status, what the transport says.
const WITHOUT_STATUS: &str = "missing grpc-status trailer";

/// Length and limit, where an answer was refused for its length: the transport's text for that is
/// not the one that gRPC's users know.
fn too_large(status: &tonic::Status) -> Option<(u64, u64)> {
    let text = status.message();
    let rest = text.strip_prefix("Error, decoded message length too large: found ")?;
    let (found, rest) = rest.split_once(" bytes, the limit is: ")?;
    let limit = rest.strip_suffix(" bytes")?;
    Some((found.parse().ok()?, limit.parse().ok()?))
}

/// The entry of etcd's table with this code and text.
fn find_known(code: i32, text: &str) -> Option<Known> {
    Known::ALL
        .iter()
        .copied()
        .find(|known| known.code() as i32 == code && known.text() == text)
}

/// An error with all that caused it, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_the_table_is_known() {
        for &known in Known::ALL {
            let status =
                tonic::Status::new(tonic::Code::from_i32(known.code() as i32), known.text());
            match Error::from_status("/a/b", &status) {
                Error::Known(found) => assert_eq!(found, known),
                other => panic!("{known:?} became {other:?}"),
            }
        }
    }

    #[test]
    fn a_known_text_under_another_code_is_no_known_error() {
        let status = tonic::Status::new(tonic::Code::DataLoss, Known::EmptyKey.text());
        let error = Error::from_status("/a/b", &status);
        assert!(matches!(error, Error::Status { code: 15, .. }), "{error:?}");
    }

    #[test]
    fn a_status_with_a_cause_is_a_broken_connection() {
        let cause = std::io::Error::other("reset by peer");
        let status = tonic::Status::from_error(Box::new(cause));
        let error = Error::from_status("/a/b", &status);
        assert!(
            matches!(&error, Error::Connection { reason, .. } if reason.contains("reset by peer")),
            "{error:?}"
        );
    }
}
