//! Lines of input cut into words, as etcdctl's interactive commands cut them.

use quorate_go::quote::scan_quoted;

/// The words of a line: those in double quotes with Go's escapes, in single quotes as they are,
/// and what else has no blank. `None` where an escape is wrong.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.first() {
        let end = match first {
            b'"' => double_quoted_end(rest),
            b'\'' => rest[1..]
                .iter()
                .position(|byte| *byte == b'\'')
                .map(|at| at + 2),
            byte if is_blank(*byte) => None,
            _ => Some(
                rest.iter()
                    .position(|byte| is_blank(*byte))
                    .unwrap_or(rest.len()),
            ),
        };
        let Some(end) = end else {
            // A blank, or a quote that nothing closes, which counts for nothing.
            rest = &rest[1..];
            continue;
        };
        let (word, tail) = rest.split_at(end);
        words.push(match first {
            b'"' => scan_quoted(word)?.0,
            b'\'' => word[1..end - 1].to_vec(),
            _ => word.to_vec(),
        });
        rest = tail;
    }
    Some(words)
}

/// Where the quotes at the start end.
fn double_quoted_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let words = split(line.as_bytes())?;
        Some(
            words
                .into_iter()
                .map(|word| String::from_utf8(word).expect("text"))
                .collect(),
        )
    }

    #[test]
    fn words_are_cut_at_blanks_and_quotes() {
        let cut = |line: &str| words(line).expect("words");
        assert_eq!(cut("put foo  bar"), ["put", "foo", "bar"]);
        assert_eq!(cut("put 'a b' \"c\\td\""), ["put", "a b", "c\td"]);
        assert_eq!(cut("put \"\" ''"), ["put", "", ""]);
        assert_eq!(cut("a\"b c"), ["a\"b", "c"]);
        assert_eq!(cut("get \"open"), ["get", "open"]);
        assert!(cut("  ").is_empty());
        assert_eq!(words("put \"\\q\""), None);
    }
}
