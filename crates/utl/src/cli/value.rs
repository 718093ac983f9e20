//! Values of flags, in Go's spelling and with Go's complaints.

use super::command::Kind;

/// A flag's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// See [`Kind::Bool`].
    Bool(bool),
    /// See [`Kind::Text`].
    Text(String),
    /// See [`Kind::Int`].
    Int(i64),
    /// See [`Kind::Uint`].
    Uint(u64),
    /// Nanoseconds; see [`Kind::Duration`].
    Duration(i64),
}

/// A text between double quotes, as Go's `%q` writes it.
pub fn go_quote(text: &str) -> String {
    go_quote_bytes(text.as_bytes())
}

/// The same of bytes that need not be a text.
pub fn go_quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x07' => out.push_str("\\a"),
                '\x08' => out.push_str("\\b"),
                '\x0b' => out.push_str("\\v"),
                '\x0c' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || c == '\x7f' => {
                    out.push_str(&format!("\\x{:02x}", c as u32));
                }
                c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

/// Reads a value; the error is Go's text.
pub fn parse(kind: Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Text => Ok(Value::Text(text.to_owned())),
        Kind::Bool => match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(complaint("ParseBool", text, "invalid syntax")),
        },
        Kind::Int => {
            let (negative, digits) = match text.as_bytes() {
                [b'-', ..] => (true, &text[1..]),
                [b'+', ..] => (false, &text[1..]),
                _ => (false, text),
            };
            let number = integer(digits).map_err(|why| complaint("ParseInt", text, why))?;
            let signed = if negative {
                -i128::from(number)
            } else {
                i128::from(number)
            };
            i64::try_from(signed)
                .map(Value::Int)
                .map_err(|_| complaint("ParseInt", text, "value out of range"))
        }
        Kind::Uint => integer(text)
            .map(Value::Uint)
            .map_err(|why| complaint("ParseUint", text, why)),
        Kind::Duration => duration(text).map(Value::Duration),
    }
}

fn complaint(function: &str, text: &str, why: &str) -> String {
    format!("strconv.{function}: parsing {}: {why}", go_quote(text))
}

/// A number in the base that its beginning names, underscores between digits allowed.
fn integer(text: &str) -> Result<u64, &'static str> {
    const SYNTAX: &str = "invalid syntax";
    let lower = text.to_ascii_lowercase();
    let (base, digits, prefixed) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..], true),
        [b'0', b'b', ..] => (2, &lower[2..], true),
        [b'0', b'o', ..] => (8, &lower[2..], true),
        [b'0', _, ..] => (8, &lower[1..], true),
        _ => (10, &lower[..], false),
    };
    let underscores =
        digits.contains("__") || digits.ends_with('_') || (!prefixed && digits.starts_with('_'));
    let bare: String = digits.chars().filter(|c| *c != '_').collect();
    if underscores || bare.is_empty() || !bare.chars().all(|c| c.is_digit(base)) {
        return Err(SYNTAX);
    }
    u64::from_str_radix(&bare, base).map_err(|_| "value out of range")
}

/// Go's `time.ParseDuration`, in nanoseconds.
pub fn duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", go_quote(text));
    let (negative, mut rest) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, behind) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        let end = behind
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let unit_ns: i128 = match unit {
            "" => return Err(format!("time: missing unit in duration {}", go_quote(text))),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => {
                return Err(format!(
                    "time: unknown unit {} in duration {}",
                    go_quote(unit),
                    go_quote(text)
                ));
            }
        };
        let whole: i128 = match whole {
            "" => 0,
            digits => digits.parse::<i64>().map_err(|_| invalid())?.into(),
        };
        total += whole * unit_ns;
        let mut scale = unit_ns;
        let mut part = 0;
        for digit in fraction.bytes().take(18) {
            part = part * 10 + i128::from(digit - b'0');
            scale *= 10;
        }
        total += part * unit_ns * unit_ns / scale;
        rest = behind;
        if total > i128::from(i64::MAX) {
            return Err(invalid());
        }
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("10s", 10_000_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5ms", 500_000),
            ("-1us", -1_000),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(ns), "{text}");
        }
        assert_eq!(
            duration("5x").unwrap_err(),
            "time: unknown unit \"x\" in duration \"5x\""
        );
        assert_eq!(
            duration("5").unwrap_err(),
            "time: missing unit in duration \"5\""
        );
        assert_eq!(duration("s").unwrap_err(), "time: invalid duration \"s\"");
        assert!(duration("99999999999999999h").is_err());
    }

    #[test]
    fn numbers() {
        let int = |text: &str| parse(Kind::Int, text);
        assert_eq!(int("-0x10"), Ok(Value::Int(-16)));
        assert_eq!(int("1_000"), Ok(Value::Int(1000)));
        assert_eq!(int("9223372036854775807"), Ok(Value::Int(i64::MAX)));
        assert_eq!(
            int("9223372036854775808").unwrap_err(),
            "strconv.ParseInt: parsing \"9223372036854775808\": value out of range"
        );
        assert!(int("").is_err() && int("08").is_err() && int("0x").is_err() && int("_1").is_err());
        assert!(parse(Kind::Uint, "-1").is_err());
    }

    #[test]
    fn quotes() {
        assert_eq!(go_quote("a\"\\\n\u{1}é"), "\"a\\\"\\\\\\n\\x01é\"");
        assert_eq!(go_quote_bytes(b"\xffk"), "\"\\xffk\"");
    }
}
