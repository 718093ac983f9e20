//! Errors of the operating system as Go spells them.

/// The system's text, without the number, and in small letters.
pub fn text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_are_gos() {
        let missing = std::fs::File::open("/no/such/file").expect_err("no such file");
        assert_eq!(text(&missing), "no such file or directory");
        for (number, words) in [
            (98, "address already in use"),
            (13, "permission denied"),
            (20, "not a directory"),
            (2, "no such file or directory"),
        ] {
            assert_eq!(text(&std::io::Error::from_raw_os_error(number)), words);
        }
    }
}
