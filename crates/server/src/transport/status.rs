//! How a call ends: a gRPC code, a message, and what else the trailers carry.
//!
//! Source: gRPC over HTTP/2 (`PROTOCOL-HTTP2.md`), "Responses".

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
pub use quorate_api::Code;
use std::borrow::Cow;
use std::fmt::Write;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
pub(super) const GRPC_CONTENT: HeaderValue = HeaderValue::from_static("application/grpc");

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code; [`Code::Ok`] for a stream that ends well.
    pub code: Code,
    /// For people, and for clients of etcd, which compare it.
    pub message: Cow<'static, str>,
    /// An encoded google.rpc.Status; left out if empty.
    pub details: Bytes,
    /// More trailers.
    pub trailers: Vec<(HeaderName, HeaderValue)>,
}

impl Status {
    /// A status without details and trailers.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Status {
        Status {
            code,
            message: message.into(),
            details: Bytes::new(),
            trailers: Vec::new(),
        }
    }

    /// A stream's good end.
    pub fn ok() -> Status {
        Status::new(Code::Ok, "")
    }

    /// What a call ends with whose time is up.
    pub fn deadline_exceeded() -> Status {
        Status::new(Code::DeadlineExceeded, "context deadline exceeded")
    }

    /// Adds this status to headers or trailers.
    pub(super) fn put(&self, into: &mut HeaderMap) {
        into.insert(GRPC_STATUS, code_value(self.code));
        if !self.message.is_empty() {
            into.insert(GRPC_MESSAGE, message_value(&self.message));
        }
        if !self.details.is_empty() {
            into.insert(GRPC_DETAILS, base64_value(&self.details));
        }
        for (name, value) in &self.trailers {
            into.append(name, value.clone());
        }
    }

    /// The trailers of a call that has sent its headers.
    pub(super) fn to_trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(2);
        self.put(&mut trailers);
        trailers
    }

    /// The headers of a call that ends without an answer.
    pub(super) fn to_headers(&self, http: http::StatusCode) -> http::Response<()> {
        let mut response = http::Response::new(());
        *response.status_mut() = http;
        response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT);
        self.put(response.headers_mut());
        response
    }
}

impl From<quorate_api::Error> for Status {
    fn from(error: quorate_api::Error) -> Status {
        Status::new(error.code(), error.text())
    }
}

fn code_value(code: Code) -> HeaderValue {
    match code {
        Code::Ok => HeaderValue::from_static("0"),
        other => HeaderValue::from(other as u16),
    }
}

/// The message with everything outside printable ASCII, and the percent sign, percent-encoded.
fn message_value(message: &str) -> HeaderValue {
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'%';
    let encoded: Cow<'_, str> = if message.bytes().all(plain) {
        Cow::Borrowed(message)
    } else {
        let mut out = String::with_capacity(message.len() + 16);
        for byte in message.bytes() {
            if plain(byte) {
                out.push(char::from(byte));
            } else {
                write!(out, "%{byte:02X}").expect("a string takes everything");
            }
        }
        Cow::Owned(out)
    };
    HeaderValue::from_str(&encoded).expect("printable ASCII is a header value")
}

/// Base64 without padding, as binary metadata travels.
fn base64_value(bytes: &[u8]) -> HeaderValue {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(padded);
        for digit in 0..=group.len() {
            let index = bits >> (18 - 6 * digit) & 63;
            out.push(char::from(DIGITS[index as usize]));
        }
    }
    HeaderValue::from_str(&out).expect("base64 is a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_travel_percent_encoded() {
        assert_eq!(
            message_value("etcdserver: too many requests"),
            "etcdserver: too many requests"
        );
        assert_eq!(message_value("100% \n\u{e9}\u{7f}"), "100%25 %0A%C3%A9%7F");
    }

    #[test]
    fn binary_trailers_travel_in_base64() {
        for (plain, encoded) in [
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
        ] {
            assert_eq!(base64_value(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn trailers_carry_all_of_a_status() {
        let mut status = Status::new(Code::Unavailable, "etcdserver: no leader");
        status.details = Bytes::from_static(b"foo");
        status
            .trailers
            .push((HeaderName::from_static("x"), HeaderValue::from_static("y")));
        let trailers = status.to_trailers();
        assert_eq!(trailers["grpc-status"], "14");
        assert_eq!(trailers["grpc-message"], "etcdserver: no leader");
        assert_eq!(trailers["grpc-status-details-bin"], "Zm9v");
        assert_eq!(trailers["x"], "y");
        assert_eq!(Status::ok().to_trailers().len(), 1);
    }
}
