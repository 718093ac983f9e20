//! What a check found, and how it is told.

use crate::error::Failure;
use quorate_cli::colour::{Stream, Tone, tinted};
use quorate_cli::format::Format;
use quorate_cli::streams::write_out;
use quorate_go::size::human_bytes;
use serde::Serialize;
use std::path::Path;

/// Findings that are kept; a badly broken file has more.
const FINDINGS_MAX: usize = 1000;

/// What a check found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What the database holds.
    pub database: Option<DatabaseFacts>,
    /// What the log holds.
    pub log: Option<LogFacts>,
    /// Snapshot files that were read.
    pub snapshot_files: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub more_findings: u64,
    /// What is worth knowing and not wrong.
    pub notes: Vec<Finding>,
}

/// Something about a file.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// What about it.
    pub what: String,
}

/// What a database holds.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseFacts {
    pub page_bytes: u64,
    /// Pages that something leads to.
    pub pages: u64,
    /// Those of them without a checksum, as etcd writes them.
    pub unverified_pages: u64,
    /// Their bytes; that the tree they make is sound is checked, and what their values hold is not.
    pub unverified_bytes: u64,
    pub buckets: u64,
    pub rows: u64,
    /// Keys that are not deleted.
    pub keys: u64,
    pub revision: i64,
    pub compact_revision: i64,
    pub consistent_index: u64,
    pub term: u64,
}

/// What a log holds.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogFacts {
    pub segments: u64,
    pub records: u64,
    /// Index of the first entry; 0 where there is none.
    pub first_index: u64,
    /// Index of the last entry, or of a snapshot ahead of it.
    pub last_index: u64,
    pub term: u64,
    pub commit: u64,
    /// Index of the newest snapshot record that is committed.
    pub snapshot_index: u64,
}

impl Report {
    /// Something is wrong.
    pub fn wrong(&mut self, file: &Path, what: impl Into<String>) {
        if self.findings.len() == FINDINGS_MAX {
            self.more_findings += 1;
            return;
        }
        self.findings.push(Finding::new(file, what.into()));
    }

    /// Something is worth knowing.
    pub fn note(&mut self, file: &Path, what: impl Into<String>) {
        if self.notes.len() < FINDINGS_MAX {
            self.notes.push(Finding::new(file, what.into()));
        }
    }

    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }

    /// Writes it to standard output.
    pub fn write(&self, format: Format) -> Result<(), Failure> {
        let text = match format {
            Format::Simple => self.text(),
            Format::Json => {
                let json = serde_json::to_string(self).expect("plain data has a JSON form");
                format!("{json}\n")
            }
            Format::Fields | Format::Protobuf | Format::Table => {
                return Err(Failure::Format(
                    "check is written simply or as json only".into(),
                ));
            }
        };
        write_out(text.as_bytes())?;
        Ok(())
    }

    fn text(&self) -> String {
        let mut out = String::new();
        if let Some(db) = &self.database {
            out.push_str(&db.text());
        }
        if let Some(log) = &self.log {
            out.push_str(&log.text());
        }
        if self.snapshot_files > 0 {
            out.push_str(&format!("snapshot files: {}\n", self.snapshot_files));
        }
        for note in &self.notes {
            let head = tinted("note", Tone::Notable, Stream::Out);
            out.push_str(&format!("{head}: {}: {}\n", note.file, note.what));
        }
        for finding in &self.findings {
            let head = tinted("WRONG", Tone::Bad, Stream::Out);
            out.push_str(&format!("{head}: {}: {}\n", finding.file, finding.what));
        }
        if self.more_findings > 0 {
            out.push_str(&format!("and {} more\n", self.more_findings));
        }
        let tone = match self.is_whole() {
            true => Tone::Good,
            false => Tone::Bad,
        };
        out.push_str(&tinted(self.verdict(), tone, Stream::Out));
        out.push('\n');
        out
    }

    fn verdict(&self) -> String {
        let count = self.findings.len() as u64 + self.more_findings;
        match (count, &self.database) {
            (0, Some(db)) if db.unverified_pages > 0 => {
                "verdict: whole, as far as pages without a checksum can tell".into()
            }
            (0, _) => "verdict: whole".into(),
            (1, _) => "verdict: DAMAGED, 1 finding".into(),
            (count, _) => format!("verdict: DAMAGED, {count} findings"),
        }
    }
}

impl Finding {
    fn new(file: &Path, what: String) -> Finding {
        Finding {
            file: file.to_string_lossy().into_owned(),
            what,
        }
    }
}

impl DatabaseFacts {
    fn text(&self) -> String {
        let unverified = match self.unverified_pages {
            0 => "all verified by their checksums".to_owned(),
            pages => format!(
                "{pages} of them ({}) have no checksum: the values in them cannot be verified",
                human_bytes(self.unverified_bytes)
            ),
        };
        format!(
            "database: {} pages ({}), {unverified}\n\
             database: {} buckets, {} keys, {} rows, revision {}, compacted at {}, \
             consistent index {} of term {}\n",
            self.pages,
            human_bytes(self.pages * self.page_bytes),
            self.buckets,
            self.keys,
            self.rows,
            self.revision,
            self.compact_revision,
            self.consistent_index,
            self.term,
        )
    }
}

impl LogFacts {
    fn text(&self) -> String {
        format!(
            "log: {} segments, {} records, entries {} to {}, term {}, committed {}, newest \
             snapshot at {}\n",
            self.segments,
            self.records,
            self.first_index,
            self.last_index,
            self.term,
            self.commit,
            self.snapshot_index,
        )
    }
}
