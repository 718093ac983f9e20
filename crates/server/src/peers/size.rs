//! Sizes for people.

const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

/// A number of bytes in powers of a thousand: `20 kB`, `1.6 MB`.
pub(super) fn spell_size(bytes: u64) -> String {
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let exponent = bytes.ilog10() / 3;
    let scaled = bytes as f64 / 1000f64.powi(exponent as i32);
    let tenths = (scaled * 10.0 + 0.5).floor() / 10.0;
    let digits = usize::from(tenths < 10.0);
    format!("{tenths:.digits$} {}", UNITS[exponent as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spelled_as_etcd_spells_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (9, "9 B"),
            (10, "10 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (20_480, "20 kB"),
            (1_572_864, "1.6 MB"),
            (82_854_982, "83 MB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(spell_size(bytes), text);
        }
    }
}
