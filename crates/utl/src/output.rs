//! Results on standard output, in the forms of `--write-out`.

use crate::error::Failure;
use quorate_cli::Invocation;
use quorate_cli::format::Format;
use quorate_cli::streams::write_out;
use quorate_cli::table;
use serde::Serialize;

/// A result that can be written.
pub trait Report: Serialize {
    /// Names and values for people, in a row.
    fn columns(&self) -> Vec<(&'static str, String)>;
    /// The same one below the other, as a program may read it.
    fn fields(&self) -> Vec<(&'static str, String)>;
}

/// The form that the line asks for.
pub fn form(invocation: &Invocation) -> Result<Format, Failure> {
    Ok(Format::from_name(&invocation.given.text("write-out"))?)
}

/// Writes a result.
pub fn write<R: Report>(format: Format, report: &R) -> Result<(), Failure> {
    Ok(write_out(text(format, report)?.as_bytes())?)
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
            let (names, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
            table::draw(&names, &[values])
        }
    })
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
}
