//! Quoted strings: Go's `%q` and its inverse.

use std::fmt::Write;

/// Bytes in double quotes with Go's escapes; bytes that are not UTF-8 become `\xNN`.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| escape(c, &mut out));
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}").expect("writing to a String cannot fail");
        }
    }
    out.push('"');
    out
}

fn escape(c: char, out: &mut String) {
    let short = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\x07' => "\\a",
        '\x08' => "\\b",
        '\x0c' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\x0b' => "\\v",
        _ => "",
    };
    let code = u32::from(c);
    if !short.is_empty() {
        out.push_str(short);
    } else if printable(c) {
        out.push(c);
    } else if code < 0x80 {
        write!(out, "\\x{code:02x}").expect("writing to a String cannot fail");
    } else if code < 0x10000 {
        write!(out, "\\u{code:04x}").expect("writing to a String cannot fail");
    } else {
        write!(out, "\\U{code:08x}").expect("writing to a String cannot fail");
    }
}

/// Whether Go's unicode.IsPrint holds. The standard library's debug form escapes the same
/// characters, but for marks at the start of a string; hence the letter before.
fn printable(c: char) -> bool {
    let text: String = ['a', c].iter().collect();
    text.escape_debug().count() == 2
}

/// What a quoted text at the start of `text` says, and what follows it: double quotes with
/// escapes, or back quotes without. `None` where there is no such text.
pub fn scan_quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    match text.first()? {
        b'`' => {
            let end = text[1..].iter().position(|byte| *byte == b'`')? + 1;
            Some((text[1..end].to_vec(), &text[end + 1..]))
        }
        b'"' => {
            let mut out = Vec::new();
            let mut rest = &text[1..];
            loop {
                match *rest.first()? {
                    b'"' => return Some((out, &rest[1..])),
                    b'\n' => return None,
                    b'\\' => rest = unescape(&rest[1..], &mut out)?,
                    byte => {
                        out.push(byte);
                        rest = &rest[1..];
                    }
                }
            }
        }
        _ => None,
    }
}

/// Takes one escape, its backslash already taken.
fn unescape<'a>(text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let rest = &text[1.min(text.len())..];
    let plain = match *text.first()? {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        b'"' => b'"',
        b'x' => {
            let (value, rest) = digits(rest, 2, 16)?;
            out.push(u8::try_from(value).ok()?);
            return Some(rest);
        }
        b'u' => return unescape_char(rest, 4, out),
        b'U' => return unescape_char(rest, 8, out),
        b'0'..=b'7' => {
            let (value, rest) = digits(text, 3, 8)?;
            out.push(u8::try_from(value).ok()?);
            return Some(rest);
        }
        _ => return None,
    };
    out.push(plain);
    Some(rest)
}

fn unescape_char<'a>(text: &'a [u8], count: usize, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (value, rest) = digits(text, count, 16)?;
    let c = char::from_u32(value)?;
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Some(rest)
}

fn digits(text: &[u8], count: usize, base: u32) -> Option<(u32, &[u8])> {
    let (head, rest) = text.split_at_checked(count)?;
    let mut value = 0u32;
    for byte in head {
        let digit = char::from(*byte).to_digit(base)?;
        value = value.checked_mul(base)?.checked_add(digit)?;
    }
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_is_gos() {
        assert_eq!(quote(b"v\x01\xff&\xc3\xa9"), "\"v\\x01\\xff&é\"");
        assert_eq!(quote(b"a\"\\\n\x7f"), "\"a\\\"\\\\\\n\\x7f\"");
        assert_eq!(
            quote("\u{a0}\u{301}e\u{301}".as_bytes()),
            "\"\\u00a0\u{301}e\u{301}\""
        );
        assert_eq!(quote("\u{e0001}".as_bytes()), "\"\\U000e0001\"");
    }

    #[test]
    fn what_was_quoted_is_read_back() {
        for text in [&b""[..], b"plain", b"\x00\xff\"\\", "é\u{a0}".as_bytes()] {
            let quoted = quote(text) + " rest";
            assert_eq!(
                scan_quoted(quoted.as_bytes()),
                Some((text.to_vec(), &b" rest"[..]))
            );
        }
    }

    #[test]
    fn broken_quotes_are_none() {
        for text in [
            "",
            "a",
            "\"",
            "\"a",
            "\"\\",
            "\"\\q\"",
            "\"\\x4",
            "\"\\400\"",
            "`a",
        ] {
            assert_eq!(scan_quoted(text.as_bytes()), None, "{text}");
        }
        assert_eq!(scan_quoted(b"`a\\n`"), Some((b"a\\n".to_vec(), &b""[..])));
        assert_eq!(scan_quoted(b"\"\\101\""), Some((b"A".to_vec(), &b""[..])));
    }
}
