//! Prometheus' text format, version 0.0.4, with numbers spelled as Go spells them.

use super::instruments::Distribution;
use std::fmt::Write as _;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It grows.
    Counter,
    /// It goes up and down; etcd has some whose names end in `_total`.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

/// A page of metrics.
#[derive(Default)]
pub struct Page {
    text: String,
}

/// Labels of a sample: name and value.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    /// Begins a metric; its samples follow.
    pub fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// One sample.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.text.push_str(name);
        self.labels(labels, None);
        self.text.push(' ');
        self.text.push_str(&spell(value));
        self.text.push('\n');
    }

    /// A metric of one sample.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.begin(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A distribution's samples.
    pub fn distribution(&mut self, name: &str, labels: Labels<'_>, found: &Distribution) {
        let mut total = 0;
        for (bucket, count) in found.buckets.iter().enumerate().take(found.scale.bounds) {
            total += count;
            let bound = found.scale.bound(bucket).expect("it is one with a bound");
            self.bucket(name, labels, &spell(bound), total);
        }
        let sum = found.sum as f64 / found.scale.unit as f64;
        self.rest_of_histogram(name, labels, sum, found.count());
    }

    /// A bucket of a histogram.
    pub fn bucket(&mut self, name: &str, labels: Labels<'_>, bound: &str, below: u64) {
        self.write(format_args!("{name}_bucket"));
        self.labels(labels, Some(bound));
        self.write(format_args!(" {below}\n"));
    }

    /// What follows a histogram's buckets.
    pub fn rest_of_histogram(&mut self, name: &str, labels: Labels<'_>, sum: f64, count: u64) {
        self.bucket(name, labels, "+Inf", count);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count as f64);
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }

    fn labels(&mut self, labels: Labels<'_>, bound: Option<&str>) {
        let all = labels
            .iter()
            .copied()
            .chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in all {
            self.text.push(separator);
            separator = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            for c in value.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        if separator == ',' {
            self.text.push('}');
        }
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text
            .write_fmt(arguments)
            .expect("a string takes everything");
    }
}

/// A number in Go's shortest spelling, which tells bucket bounds apart for whoever queries them.
pub fn spell(value: f64) -> String {
    if value == f64::INFINITY {
        return "+Inf".to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("it is asked for");
    let exponent: i32 = exponent.parse().expect("it is a number");
    if value == 0.0 || (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::instruments::{Histogram, LATENCY};

    #[test]
    fn numbers_are_spelled_as_go_spells_them() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.001, "0.001"),
            (52.4288, "52.4288"),
            (524_288.0, "524288"),
            (1_048_576.0, "1.048576e+06"),
            (2_147_483_648.0, "2.147483648e+09"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(spell(value), text);
        }
    }

    #[test]
    fn a_page_has_headers_samples_and_buckets_that_add_up() {
        let histogram = Histogram::new(LATENCY);
        histogram.observe_many(1_500_000, 2);
        let mut page = Page::default();
        page.single("a_total", Kind::Counter, "As.", 3.0);
        page.begin("b", Kind::Histogram, "Bs.");
        page.distribution("b", &[("x", "a\"b\\")], &histogram.read());
        let text = page.into_text();
        assert!(text.starts_with("# HELP a_total As.\n# TYPE a_total counter\na_total 3\n"));
        assert!(text.contains("# TYPE b histogram\nb_bucket{x=\"a\\\"b\\\\\",le=\"0.001\"} 0\n"));
        assert!(text.contains("le=\"0.002\"} 2\n"));
        assert!(text.contains("le=\"+Inf\"} 2\nb_sum{x=\"a\\\"b\\\\\"} 0.003\nb_count"));
    }
}
