//! Numbers of bytes as Go's humanize writes them.

/// Bytes in units of a thousand, two digits at least.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let step = bytes.ilog10() / 3;
    let scale = 1000u64.pow(step);
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let value = (bytes as f64 / scale as f64 * 10.0 + 0.5).floor() / 10.0;
    let places = usize::from(value < 10.0);
    format!("{value:.places$} {}", UNITS[step as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_humanized() {
        for (bytes, text) in [
            (0, "0 B"),
            (9, "9 B"),
            (10, "10 B"),
            (16, "16 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_950, "10 kB"),
            (20_480, "20 kB"),
            (24_576, "25 kB"),
            (1_234_567, "1.2 MB"),
            (1_572_864, "1.6 MB"),
            (16_801_792, "17 MB"),
            (82_854_982, "83 MB"),
            (2_147_483_648, "2.1 GB"),
            (8_589_934_592, "8.6 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(human_bytes(bytes), text);
        }
    }
}
