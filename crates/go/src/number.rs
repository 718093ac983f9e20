//! Numbers and booleans as Go's strconv reads them, with its error texts.

use super::quote::quote;

/// Why a text is no number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {}: {reason}", quote(.text.as_bytes()))]
pub struct NumberError {
    function: &'static str,
    text: String,
    reason: &'static str,
}

/// A signed number of 64 bits. Base 0 takes the base from the prefix, as Go's literals have it.
pub fn parse_i64(text: &str, base: u32) -> Result<i64, NumberError> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let bound = 1u64 << 63;
    let refused = |reason| NumberError {
        function: "ParseInt",
        text: text.to_owned(),
        reason,
    };
    let magnitude = magnitude(digits, base).map_err(refused)?;
    match negative {
        true if magnitude <= bound => Ok(0i64.wrapping_sub_unsigned(magnitude)),
        false if magnitude < bound => Ok(magnitude.cast_signed()),
        _ => Err(refused(OUT_OF_RANGE)),
    }
}

/// An unsigned number of 64 bits; base 0 as in [`parse_i64`].
pub fn parse_u64(text: &str, base: u32) -> Result<u64, NumberError> {
    magnitude(text, base).map_err(|reason| NumberError {
        function: "ParseUint",
        text: text.to_owned(),
        reason,
    })
}

/// A boolean.
pub fn parse_bool(text: &str) -> Result<bool, NumberError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(NumberError {
            function: "ParseBool",
            text: text.to_owned(),
            reason: SYNTAX,
        }),
    }
}

const SYNTAX: &str = "invalid syntax";
const OUT_OF_RANGE: &str = "value out of range";

fn magnitude(text: &str, base: u32) -> Result<u64, &'static str> {
    let (digits, base, underscores) = match base {
        0 => literal(text),
        _ => (text, base, false),
    };
    let mut value = 0u64;
    let mut overflow = false;
    let mut seen = false;
    for c in digits.chars() {
        if c == '_' && underscores {
            continue;
        }
        let digit = c.to_digit(base).ok_or(SYNTAX)?;
        seen = true;
        match value
            .checked_mul(u64::from(base))
            .and_then(|value| value.checked_add(u64::from(digit)))
        {
            Some(next) => value = next,
            None => overflow = true,
        }
    }
    match (seen, overflow) {
        (false, _) => Err(SYNTAX),
        (true, true) => Err(OUT_OF_RANGE),
        (true, false) => Ok(value),
    }
}

/// Digits, base and whether underscores may part the digits.
fn literal(text: &str) -> (&str, u32, bool) {
    let lower = text.get(..2).map(str::to_ascii_lowercase);
    match lower.as_deref() {
        Some("0x") => (&text[2..], 16, true),
        Some("0b") => (&text[2..], 2, true),
        Some("0o") => (&text[2..], 8, true),
        Some(other) if other.starts_with('0') => (&text[1..], 8, true),
        _ => (text, 10, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_by_go() {
        assert_eq!(parse_i64("-12", 0), Ok(-12));
        assert_eq!(parse_i64("0x1f", 0), Ok(31));
        assert_eq!(parse_i64("017", 0), Ok(15));
        assert_eq!(parse_i64("1_000", 0), Ok(1000));
        assert_eq!(parse_i64("-9223372036854775808", 10), Ok(i64::MIN));
        assert_eq!(parse_i64("6a6ca2295dc8930b", 16), Ok(0x6a6c_a229_5dc8_930b));
        assert_eq!(parse_u64("ffffffffffffffff", 16), Ok(u64::MAX));
    }

    #[test]
    fn errors_speak_as_gos() {
        let text = |e: NumberError| e.to_string();
        assert_eq!(
            parse_i64("zz", 16).map_err(text),
            Err(r#"strconv.ParseInt: parsing "zz": invalid syntax"#.to_owned())
        );
        assert_eq!(
            parse_i64("99999999999999999999", 16).map_err(text),
            Err(
                r#"strconv.ParseInt: parsing "99999999999999999999": value out of range"#
                    .to_owned()
            )
        );
        assert_eq!(
            parse_u64("-1", 16).map_err(text),
            Err(r#"strconv.ParseUint: parsing "-1": invalid syntax"#.to_owned())
        );
        assert_eq!(
            parse_bool("maybe").map_err(text),
            Err(r#"strconv.ParseBool: parsing "maybe": invalid syntax"#.to_owned())
        );
        for bad in ["", "-", "1_0"] {
            assert!(parse_i64(bad, 10).is_err(), "{bad}");
        }
    }
}
