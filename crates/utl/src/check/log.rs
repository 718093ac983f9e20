//! The log: the chain of its records, and that they make sense one after the other.
//!
//! A log may end in a write that was never finished. A process that is killed leaves the beginning of
//! it. A machine that loses its power leaves any of its sectors and not the others, so that whole
//! frames may stand behind one that is not there: the log ends before that one, and a start clears the
//! rest. What was never finished was never told durable: where an index is known to be committed that
//! the log ends before, that is damage.

use super::report::{LogFacts, Report};
use crate::database::disk;
use crate::error::Failure;
use bytes::Bytes;
use quorate_store::ids::Identity;
use quorate_wal::types::{Entry, HardState};
use quorate_wal::walpb::{self, RecordType};
use quorate_wal::{Located, Next, Reader, SegmentName, WalError, list_segments, raftpb};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The checksum and whose log it is. Behind them stands the hard state, unless the writer has made none
/// since its start: etcd does not remember the one before.
const HEAD_RECORDS: u64 = 2;

/// What other files are compared with.
#[derive(Default)]
pub struct Log {
    pub identity: Option<Identity>,
    pub state: HardState,
    pub entries: Entries,
    /// What a received snapshot replaces once it is committed.
    replaced: Option<Replaced>,
    /// Snapshot records.
    pub snapshots: Vec<walpb::Snapshot>,
    /// Whether all of it was read.
    pub is_read: bool,
    /// The lowest index in a segment's name.
    pub begins_at: u64,
    segment: Option<SegmentName>,
    /// Segments whose head was read.
    headed: BTreeSet<SegmentName>,
    /// Records of the segment so far.
    in_segment: u64,
    records: u64,
    metadata: Option<Bytes>,
}

/// Which entries there are.
#[derive(Default)]
pub struct Entries {
    /// Terms of entries, by the first index of each term.
    terms: BTreeMap<u64, u64>,
    /// Index of the first entry; 0 where there is none.
    pub first_index: u64,
    /// Index that entries and snapshots reach.
    pub last_index: u64,
}

/// See [`Log::replaced`].
struct Replaced {
    /// Index of the snapshot.
    by: u64,
    entries: Entries,
}

impl Entries {
    /// Term of the entry at an index that is there.
    pub fn term_at(&self, index: u64) -> Option<u64> {
        if self.first_index == 0 || index < self.first_index || index > self.last_index {
            return None;
        }
        self.terms
            .range(..=index)
            .next_back()
            .map(|(_, term)| *term)
    }

    /// Takes an entry.
    fn take(&mut self, entry: &Entry) -> Result<(), String> {
        let index = entry.index;
        if self.first_index == 0 {
            self.first_index = index;
        }
        // What is overwritten is gone, with all that followed it.
        self.terms.split_off(&index);
        self.first_index = self.first_index.min(index);
        self.last_index = index;
        let before = self.terms.last_key_value().map_or(0, |(_, term)| *term);
        if entry.term < before {
            return Err(format!(
                "entry {index} of term {} follows one of term {before}",
                entry.term
            ));
        }
        if entry.term > before {
            self.terms.insert(index, entry.term);
        }
        Ok(())
    }
}

impl Log {
    /// The newest snapshot record that is committed.
    pub fn newest_snapshot(&self) -> Option<&walpb::Snapshot> {
        let committed = self.snapshots.iter();
        committed
            .filter(|snapshot| snapshot.index <= self.state.commit)
            .max_by_key(|snapshot| snapshot.index)
    }
}

/// Checks a log; `None` where nothing of it can be read.
pub fn check(dir: &Path, report: &mut Report) -> Result<Option<Log>, Failure> {
    let segments = match list_segments(&*disk(), dir) {
        Ok(segments) => segments,
        Err(error) => return wrong(dir, error, report).map(|()| None),
    };
    let mut reader = match Reader::open_all(&*disk(), dir) {
        Ok(reader) => reader,
        Err(error) => return wrong(dir, error, report).map(|()| None),
    };
    let mut log = Log::default();
    let sound_to_end = loop {
        match reader.next() {
            Ok(Next::Record(located)) => {
                let path = reader.path().to_path_buf();
                let offset = located.offset;
                if let Err(what) = log.take(located, reader.padding_is_zero()) {
                    report.wrong(&path, format!("record at offset {offset}: {what}"));
                }
            }
            Ok(Next::End) => {
                end(&mut reader, report)?;
                break true;
            }
            Ok(Next::Torn(torn)) => {
                report.note(
                    reader.path(),
                    format!(
                        "the log ends in a write that was never finished, at offset {}; the next \
                         start cuts it off, and so does repair",
                        torn.offset
                    ),
                );
                break true;
            }
            Err(error) => {
                wrong(dir, error, report)?;
                break false;
            }
        }
    };
    if let Err(what) = log.end() {
        report.wrong(dir, what);
    }
    log.is_read = sound_to_end;
    log.begins_at = segments.iter().map(|name| name.index).min().unwrap_or(0);
    if sound_to_end {
        // A segment gets its name when its head is durable.
        for name in segments.iter().filter(|name| !log.headed.contains(name)) {
            report.wrong(
                &dir.join(name.to_string()),
                "the segment does not begin with what every segment has",
            );
        }
    }
    if log.metadata.is_none() {
        report.wrong(dir, "no record says whose log it is");
    }
    if log.state.commit > log.entries.last_index {
        report.wrong(
            dir,
            format!(
                "entries up to {} are committed, and the last one is {}: entries are missing",
                log.state.commit, log.entries.last_index
            ),
        );
    }
    report.log = Some(LogFacts {
        segments: segments.len() as u64,
        records: log.records,
        first_index: log.entries.first_index,
        last_index: log.entries.last_index,
        term: log.state.term,
        commit: log.state.commit,
        snapshot_index: log.newest_snapshot().map_or(0, |snapshot| snapshot.index),
    });
    Ok(Some(log))
}

/// Reports what is wrong with a log; what the operating system refused ends the check.
fn wrong(dir: &Path, error: WalError, report: &mut Report) -> Result<(), Failure> {
    match error {
        WalError::Damaged {
            path,
            offset,
            damage,
        } => report.wrong(&path, format!("record at offset {offset}: {damage}")),
        WalError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            report.wrong(dir, "there is no log");
        }
        other @ (WalError::NoSegments { .. } | WalError::SequenceGap { .. }) => {
            report.wrong(dir, other.to_string());
        }
        other => return Err(other.into()),
    }
    Ok(())
}

/// Behind the end there are zeros, but for sectors of a write whose first ones are not there.
fn end(reader: &mut Reader, report: &mut Report) -> Result<(), Failure> {
    let offset = reader.offset();
    if let Some(at) = reader.nonzero_behind(offset)? {
        report.note(
            reader.path(),
            format!(
                "the log ends at offset {offset}, and a part of a write that was never finished \
                 stands behind it at {at}; the next start clears it, and so does repair"
            ),
        );
    }
    Ok(())
}

impl Log {
    fn take(&mut self, located: Located, padding_is_zero: bool) -> Result<(), String> {
        let Located {
            segment, record, ..
        } = located;
        self.records += 1;
        if self.segment.replace(segment) != Some(segment) {
            self.in_segment = 0;
        }
        self.in_segment += 1;
        if self.in_segment == HEAD_RECORDS {
            self.headed.insert(segment);
        }
        let Some(kind) = RecordType::from_number(record.number) else {
            return Err(format!("unknown type {}", record.number));
        };
        let heads = match self.in_segment {
            1 => kind == RecordType::Crc && record.data.is_empty(),
            2 => kind == RecordType::Metadata,
            _ => kind != RecordType::Crc,
        };
        if !heads {
            return Err("a segment begins with a checksum and whose log it is".into());
        }
        if !padding_is_zero {
            return Err("the bytes behind it, up to the next one, are not zero".into());
        }
        let text = |error: quorate_wal::DecodeError| error.to_string();
        match kind {
            RecordType::Crc => Ok(()),
            RecordType::Metadata => self.metadata(record.data),
            RecordType::State => self.state(raftpb::decode_hard_state(&record.data).map_err(text)?),
            RecordType::Entry => self.entry(&raftpb::decode_entry(&record.data).map_err(text)?),
            RecordType::Snapshot => {
                self.snapshot(walpb::decode_snapshot(&record.data).map_err(text)?)
            }
        }
    }

    fn metadata(&mut self, data: Bytes) -> Result<(), String> {
        match &self.metadata {
            Some(known) if *known != data => {
                return Err("it says that the log is another member's".into());
            }
            Some(_) => return Ok(()),
            None => {}
        }
        self.identity = Identity::decode(&data);
        self.metadata = Some(Bytes::copy_from_slice(&data));
        match self.identity {
            Some(_) => Ok(()),
            None => Err("it does not say whose log it is".into()),
        }
    }

    fn state(&mut self, state: HardState) -> Result<(), String> {
        let before = std::mem::replace(&mut self.state, state);
        if state.term < before.term {
            return Err(format!("term {} after term {}", state.term, before.term));
        }
        if state.commit < before.commit {
            return Err(format!(
                "committed up to {} after up to {}",
                state.commit, before.commit
            ));
        }
        self.replaced.take_if(|it| it.by <= state.commit);
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), String> {
        let index = entry.index;
        if index == 0 || entry.term == 0 {
            return Err("an entry without term or index".into());
        }
        if self.replaced.as_ref().is_some_and(|it| index <= it.by) {
            self.put_back();
        }
        // The first one of all may have any index: older segments are released. Where a snapshot record
        // stands before it, it need not be the newest one's; the entry is the one that the segment was
        // begun for.
        let last = match self.entries {
            Entries { last_index: 0, .. } => 0,
            Entries {
                first_index: 0,
                last_index,
                ..
            } => {
                let begun_for = self.segment.map_or(0, |segment| segment.index);
                let committed = self.state.commit;
                last_index.max(committed).max(begun_for.saturating_sub(1))
            }
            Entries { last_index, .. } => last_index,
        };
        if last > 0 && index > last + 1 {
            return Err(format!(
                "entry {index} follows entry {last}: entries are missing"
            ));
        }
        if last > 0 && index <= self.state.commit {
            return Err(format!(
                "entry {index} is written again, and entries up to {} are committed",
                self.state.commit
            ));
        }
        self.entries.take(entry)
    }

    /// Puts back what a snapshot was to replace that was never committed: a crash came before that.
    fn put_back(&mut self) {
        if let Some(replaced) = self.replaced.take() {
            self.entries = replaced.entries;
        }
    }

    /// Takes a snapshot record. It need not have a configuration: servers up to 3.4 wrote none.
    fn snapshot(&mut self, snapshot: walpb::Snapshot) -> Result<(), String> {
        let index = snapshot.index;
        let is_committed = index <= self.state.commit;
        if !is_committed {
            self.put_back();
        }
        let known = self.entries.term_at(index);
        let contradicts = known.is_some_and(|term| term != snapshot.term);
        if contradicts && is_committed {
            return Err(format!(
                "a snapshot at {index} of term {}, where the entry has another",
                snapshot.term
            ));
        }
        if contradicts || index > self.entries.last_index {
            // It was received: it takes the place of all entries, and the log goes on behind it.
            let received = Entries {
                last_index: index,
                ..Entries::default()
            };
            let entries = std::mem::replace(&mut self.entries, received);
            if !is_committed {
                self.replaced = Some(Replaced { by: index, entries });
            }
        }
        self.snapshots.push(snapshot);
        Ok(())
    }

    /// Takes the log's end.
    fn end(&mut self) -> Result<(), String> {
        let Some(replaced) = &self.replaced else {
            return Ok(());
        };
        let (by, follows) = (replaced.by, self.entries.first_index);
        self.put_back();
        match follows {
            0 => Ok(()),
            follows => Err(format!(
                "entry {follows} follows a snapshot at {by} that is not committed: entries are \
                 missing"
            )),
        }
    }
}
