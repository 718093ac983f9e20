//! What the state machine has to tell an operator, kept until the driver fetches it.
//!
//! The core knows no logging framework: it notes lines here, in etcd's wording, because people and
//! tests search logs for it; the driver drains them after each call. Nothing is noted on the way
//! of an ordinary proposal, heartbeat or acknowledgement.
//!
//! Invariants: at most [`JOURNAL_LINES_MAX`] lines wait; what does not fit is counted, not kept.

use std::fmt;

/// Lines that may wait to be fetched.
pub const JOURNAL_LINES_MAX: usize = 4096;

/// How much a line matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For someone who looks for a fault in the protocol.
    Debug,
    /// Elections, configurations, snapshots.
    #[default]
    Info,
    /// Something was refused or lost that should not be.
    Warn,
    /// A caller or peer broke the rules.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        })
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    /// How much it matters.
    pub level: Level,
    /// What happened.
    pub text: String,
}

/// The lines noted since they were last taken.
#[derive(Debug)]
pub struct Journal {
    floor: Level,
    lines: Vec<JournalLine>,
    lost: u64,
}

impl Journal {
    pub(crate) fn new(floor: Level) -> Journal {
        Journal {
            floor,
            lines: Vec::new(),
            lost: 0,
        }
    }

    /// Formats and keeps a line, unless it is below the floor.
    pub(crate) fn note(&mut self, level: Level, text: fmt::Arguments<'_>) {
        if level < self.floor {
            return;
        }
        if self.lines.len() >= JOURNAL_LINES_MAX {
            self.lost += 1;
            return;
        }
        self.lines.push(JournalLine {
            level,
            text: text.to_string(),
        });
    }

    pub(crate) fn take(&mut self) -> Vec<JournalLine> {
        std::mem::take(&mut self.lines)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

macro_rules! note {
    ($journal:expr, $level:ident, $($text:tt)*) => {
        $journal.note($crate::journal::Level::$level, format_args!($($text)*))
    };
}
pub(crate) use note;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_below_the_floor_and_beyond_the_bound_are_not_kept() {
        let mut journal = Journal::new(Level::Info);
        note!(journal, Debug, "unseen");
        assert!(journal.is_empty());
        for line in 0..JOURNAL_LINES_MAX + 3 {
            note!(journal, Warn, "line {line}");
        }
        assert_eq!(journal.lost(), 3);
        let lines = journal.take();
        assert_eq!(lines.len(), JOURNAL_LINES_MAX);
        assert_eq!(lines[1].text, "line 1");
        assert!(journal.is_empty());
    }
}
