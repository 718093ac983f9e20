//! Values in JSON as Go's encoding/json writes them: bytes in base64, and `<`, `>`, `&` escaped in
//! strings.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fmt::Write;

/// A string.
pub fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Bytes.
pub fn bytes(bytes: &[u8]) -> String {
    format!("\"{}\"", BASE64_STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_by_go() {
        assert_eq!(
            string("a<b>&\"\\\n\x01é\u{2028}"),
            "\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\u0001é\\u2028\""
        );
    }
}
