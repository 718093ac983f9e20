//! A version of etcd, as go-semver reads and writes it.

use quorate_go::number;
use quorate_go::quote::quote;
use std::fmt;

/// `major.minor.patch`; what else a semantic version may have is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: i64,
    pub minor: i64,
    pub patch: i64,
}

impl Version {
    /// The first of a minor one.
    pub const fn new(major: i64, minor: i64) -> Version {
        Version {
            major,
            minor,
            patch: 0,
        }
    }

    /// Reads three numbers; the error is go-semver's text.
    pub fn parse(text: &str) -> Result<Version, String> {
        let core = text.split('+').next().unwrap_or_default();
        let core = core.split('-').next().unwrap_or_default();
        let parts: Vec<&str> = core.splitn(3, '.').collect();
        let [major, minor, patch] = parts[..] else {
            return Err(format!("{core} is not in dotted-tri format"));
        };
        Ok(Version {
            major: decimal(major)?,
            minor: decimal(minor)?,
            patch: decimal(patch)?,
        })
    }

    /// `major.minor`.
    pub fn minor_text(&self) -> String {
        format!("{}.{}", self.major, self.minor)
    }
}

fn decimal(text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bare = text.trim_start_matches('0');
    let bare = if digits && bare.is_empty() { "0" } else { bare };
    match digits {
        true => number::parse_i64(bare, 10).map_err(|error| error.to_string()),
        false => Err(format!(
            "strconv.ParseInt: parsing {}: invalid syntax",
            quote(text.as_bytes())
        )),
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
