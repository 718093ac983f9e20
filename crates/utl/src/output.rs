//! Results on standard output, in the forms of `--write-out`.

use crate::cli::{Invocation, print};
use crate::error::Failure;
use serde::Serialize;

/// A result that can be written.
pub trait Report: Serialize {
    /// Names and values for people, in a row.
    fn columns(&self) -> Vec<(&'static str, String)>;
    /// The same one below the other, as a program may read it.
    fn fields(&self) -> Vec<(&'static str, String)>;
}

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Values in a line.
    Simple,
    /// A name and a value in each line.
    Fields,
    /// JSON.
    Json,
    /// Not to be had of any result.
    Protobuf,
    /// A table with a frame.
    Table,
}

impl Format {
    /// The one that the line asks for.
    pub fn of(invocation: &Invocation) -> Result<Format, Failure> {
        match invocation.flags.text("write-out") {
            "simple" => Ok(Format::Simple),
            "fields" => Ok(Format::Fields),
            "json" => Ok(Format::Json),
            "protobuf" => Ok(Format::Protobuf),
            "table" => Ok(Format::Table),
            _ => Err(Failure::Format("unsupported output format".into())),
        }
    }
}

/// Writes a result.
pub fn write<R: Report>(format: Format, report: &R) -> Result<(), Failure> {
    print(text(format, report)?.as_bytes());
    Ok(())
}

fn text<R: Report>(format: Format, report: &R) -> Result<String, Failure> {
    Ok(match format {
        Format::Simple => {
            let values: Vec<String> = report.columns().into_iter().map(|(_, v)| v).collect();
            format!("{}\n", values.join(", "))
        }
        Format::Fields => {
            let lines = report.fields().into_iter();
            lines
                .map(|(name, value)| format!("\"{name}\" : {value}\n"))
                .collect()
        }
        Format::Json => {
            let json = serde_json::to_string(report).expect("plain data has a JSON form");
            format!("{json}\n")
        }
        Format::Protobuf => {
            return Err(Failure::Format(
                "protobuf not supported as output format".into(),
            ));
        }
        Format::Table => {
            let columns = report.columns();
            let names = columns
                .iter()
                .map(|(name, _)| name.to_uppercase())
                .collect();
            let values = columns.into_iter().map(|(_, value)| value).collect();
            table(names, &[values])
        }
    })
}

/// A table: names in the middle, values at the right.
pub fn table(names: Vec<String>, rows: &[Vec<String>]) -> String {
    let len = |cell: &String| cell.chars().count();
    let widths: Vec<usize> = (0..names.len())
        .map(|column| {
            let cells = rows.iter().map(|row| len(&row[column]));
            cells.chain([len(&names[column])]).max().unwrap_or(0)
        })
        .collect();
    let frame = |left: &str, middle: &str, right: &str| {
        let lines: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", lines.join(middle))
    };
    let row = |cells: &[String], centre: bool| {
        let cells: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| {
                if centre {
                    format!(" {cell:^width$} ")
                } else {
                    format!(" {cell:>width$} ")
                }
            })
            .collect();
        format!("│{}│\n", cells.join("│"))
    };
    let mut out = frame("┌", "┬", "┐");
    out.push_str(&row(&names, true));
    out.push_str(&frame("├", "┼", "┤"));
    for cells in rows {
        out.push_str(&row(cells, false));
    }
    out.push_str(&frame("└", "┴", "┘"));
    out
}

/// A number of bytes as Go's humanize writes it: powers of 1000, one decimal below 10.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let exponent = (bytes as f64).log(1000.0).floor();
    let unit = UNITS[(exponent as usize).min(UNITS.len() - 1)];
    let value = (bytes as f64 / 1000f64.powf(exponent) * 10.0 + 0.5).floor() / 10.0;
    if value < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Sample {
        hash: u32,
    }

    impl Report for Sample {
        fn columns(&self) -> Vec<(&'static str, String)> {
            vec![
                ("hash", format!("{:x}", self.hash)),
                ("total keys", "7".into()),
            ]
        }
        fn fields(&self) -> Vec<(&'static str, String)> {
            vec![("Hash", self.hash.to_string())]
        }
    }

    #[test]
    fn forms() {
        let sample = Sample { hash: 0x70b9fd01 };
        let text = |format| text(format, &sample).unwrap();
        assert_eq!(text(Format::Simple), "70b9fd01, 7\n");
        assert_eq!(text(Format::Fields), "\"Hash\" : 1891237121\n");
        assert_eq!(text(Format::Json), "{\"hash\":1891237121}\n");
        assert_eq!(
            text(Format::Table),
            "┌──────────┬────────────┐\n\
             │   HASH   │ TOTAL KEYS │\n\
             ├──────────┼────────────┤\n\
             │ 70b9fd01 │          7 │\n\
             └──────────┴────────────┘\n"
        );
    }

    #[test]
    fn bytes_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (24_576, "25 kB"),
            (9_950, "10 kB"),
            (1_234_567, "1.2 MB"),
            (16_801_792, "17 MB"),
        ] {
            assert_eq!(human_bytes(bytes), text);
        }
    }
}
