//! The output forms of `--write-out`.

use crate::exit::{self, Exit};

/// Their names, as completions offer them.
pub const NAMES: [&str; 5] = ["fields", "json", "protobuf", "simple", "table"];

/// An output form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    Simple,
    /// A name and a value on each line.
    Fields,
    /// One JSON object a line.
    Json,
    /// A message's bytes.
    Protobuf,
    /// A table with borders.
    Table,
}

impl Format {
    /// The form with this name.
    pub fn from_name(name: &str) -> Result<Format, Exit> {
        Ok(match name {
            "simple" => Format::Simple,
            "fields" => Format::Fields,
            "json" => Format::Json,
            "protobuf" => Format::Protobuf,
            "table" => Format::Table,
            _ => {
                return Err(Exit::new(exit::BAD_FEATURE, "unsupported output format"));
            }
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Simple => "simple",
            Format::Fields => "fields",
            Format::Json => "json",
            Format::Protobuf => "protobuf",
            Format::Table => "table",
        }
    }
}
