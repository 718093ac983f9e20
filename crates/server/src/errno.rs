//! The operating system's errors in the words that Go has for them, which are those of strerror(3)
//! in lower case: operators and tests know etcd's messages.

use std::io;

/// An error without Rust's additions.
pub fn spell(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text
        .split_once(" (os error")
        .map_or(text.as_str(), |(text, _)| text);
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
    fn errors_are_spelled_as_etcd_logs_them() {
        for (number, text) in [
            (98, "address already in use"),
            (13, "permission denied"),
            (20, "not a directory"),
            (2, "no such file or directory"),
        ] {
            assert_eq!(spell(&io::Error::from_raw_os_error(number)), text);
        }
    }
}
