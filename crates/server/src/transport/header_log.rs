//! The headers of requests on standard error, for whoever looks into what a client sends.
//!
//! A process written in Go does so on `GODEBUG=http2debug=2`; the lines have the text of its
//! HTTP/2 library. They go to standard error whatever the log's outputs are, and only values that
//! let someone in are withheld.

use http::request;
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Whether the value of `GODEBUG` asks for it.
pub fn asked_for(godebug: &str) -> bool {
    godebug.contains("http2debug=2")
}

/// Writes the headers of a request.
pub(super) fn write(parts: &request::Parts) {
    // Nobody listening is no reason to fail the request.
    let _heard = io::stderr().write_all(lines(parts).as_bytes());
}

/// A line a field, those of HTTP/2 itself first.
fn lines(parts: &request::Parts) -> String {
    let mut lines = String::new();
    let mut add = |name: &str, value: &str, suffix: &str| {
        // Writing to a string does not fail.
        let _written = writeln!(
            lines,
            "http2: decoded hpack field header field {name:?} = {value:?}{suffix}"
        );
    };
    add(":method", parts.method.as_str(), "");
    add(":scheme", parts.uri.scheme_str().unwrap_or_default(), "");
    let path = parts.uri.path_and_query();
    add(":path", path.map_or("", |path| path.as_str()), "");
    if let Some(authority) = parts.uri.authority() {
        add(":authority", authority.as_str(), "");
    }
    for (name, value) in &parts.headers {
        let secret = value.is_sensitive() || matches!(name.as_str(), "token" | "authorization");
        if secret {
            add(name.as_str(), "", " (sensitive)");
        } else {
            add(
                name.as_str(),
                &String::from_utf8_lossy(value.as_bytes()),
                "",
            );
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_s_way_of_asking() {
        assert!(asked_for("http2debug=2"));
        assert!(asked_for("madvdontneed=1,http2debug=2"));
        assert!(!asked_for("http2debug=1"));
        assert!(!asked_for(""));
    }

    #[test]
    fn each_field_has_a_line_and_tokens_have_no_value() {
        let request = http::Request::builder()
            .method("POST")
            .uri("http://localhost:2379/etcdserverpb.KV/Put")
            .header("content-type", "application/grpc")
            .header("token", "abc")
            .body(())
            .unwrap();
        let (parts, ()) = request.into_parts();
        let expected = [
            r#"":method" = "POST""#,
            r#"":scheme" = "http""#,
            r#"":path" = "/etcdserverpb.KV/Put""#,
            r#"":authority" = "localhost:2379""#,
            r#""content-type" = "application/grpc""#,
            r#""token" = "" (sensitive)"#,
        ]
        .map(|field| format!("http2: decoded hpack field header field {field}\n"));
        assert_eq!(lines(&parts), expected.concat());
    }
}
