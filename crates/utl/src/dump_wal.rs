//! `dump wal`: the entries of a log, or with `--raw` all its records, as etcd-dump-logs prints them.

mod entry_types;

use crate::database::disk;
use crate::error::Failure;
use crate::text_format::{self, octal};
use crate::{layout, log_entries};
use entry_types::Filters;
use prost::Message as _;
use quorate_api::etcdserverpb::InternalRaftRequest;
use quorate_cli::Invocation;
use quorate_cli::streams::write_out;
use quorate_store::ids::Identity;
use quorate_store::membership::spell_id;
use quorate_wal::types::{ConfChangeKind, Entry, EntryKind};
use quorate_wal::walpb::{RecordType, Snapshot};
use quorate_wal::{Located, Next, Reader, raftpb};
use std::path::Path;

/// Text gathered before it is written.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output, a buffer at a time.
#[derive(Default)]
struct Out(String);

impl Out {
    fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.0.push_str(line);
        self.0.push('\n');
        match self.0.len() {
            0..BUFFER_BYTES => Ok(()),
            _ => self.flush(),
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let text = std::mem::take(&mut self.0);
        Ok(write_out(text.as_bytes())?)
    }
}

/// What was read before an error is shown.
impl Drop for Out {
    fn drop(&mut self) {
        let _told_by_the_error = self.flush();
    }
}

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let flags = &invocation.given;
    let words = flags.texts();
    let wal_dir = match (&words[..], flags.text("wal-dir")) {
        ([data_dir], given) => layout::wal_dir_or(Path::new(data_dir), &given),
        ([], given) if !given.is_empty() => given.into(),
        (other, _) => {
            return Err(Failure::Arguments(format!(
                "Must provide data-dir argument (got {other:?})"
            )));
        }
    };
    let start = flags
        .is_set("start-index")
        .then(|| flags.uint("start-index"));
    if flags.flag("raw") {
        if flags.is_set("entry-type") {
            return Err(Failure::Arguments(
                "--entry-type is not supported with --raw".into(),
            ));
        }
        return raw(&wal_dir, start);
    }
    let filters = Filters::parse(&flags.text("entry-type"));
    entries(&wal_dir, start, flags.uint("end-index"), &filters)
}

fn entries(wal_dir: &Path, start: Option<u64>, end: u64, filters: &Filters) -> Result<(), Failure> {
    let mut out = Out::default();
    let log = match start {
        Some(index) => {
            out.line(&format!("Start dumping log entries from index {index}."))?;
            let at = Snapshot {
                index: index.saturating_sub(1),
                ..Snapshot::default()
            };
            log_entries::read_from(wal_dir, at)?
        }
        None => {
            let at = log_entries::newest_record(wal_dir)?;
            match (at.index, at.term) {
                (0, 0) => out.line("Snapshot:\nempty")?,
                (index, term) => out.line(&format!("Snapshot:\nterm={term} index={index}"))?,
            }
            out.line("Start dumping log entries from snapshot.")?;
            log_entries::read_from(wal_dir, at)?
        }
    };
    let (member, cluster) = Identity::decode(&log.metadata)
        .map_or((0, 0), |identity| (identity.member_id, identity.cluster_id));
    out.line(&format!(
        "WAL metadata:\nnodeID={} clusterID={} term={} commitIndex={} vote={}",
        spell_id(member),
        spell_id(cluster),
        log.state.term,
        log.state.commit,
        spell_id(log.state.vote),
    ))?;
    let within: Vec<&Entry> = log.entries.iter().filter(|e| e.index < end).collect();
    out.line(&format!("WAL entries: {}", within.len()))?;
    if let Some(last) = within.last() {
        out.line(&format!("lastIndex={}", last.index))?;
    }
    out.line(&format!("{:>4}\t{:>10}\ttype\tdata", "term", "index"))?;
    let mut count = 0;
    for entry in within {
        if filters.pass(entry) {
            count += 1;
            out.line(&entry_line(entry))?;
        }
    }
    out.line(&format!(
        "\nEntry types ({}) count is : {count}",
        filters.text()
    ))?;
    out.flush()
}

fn entry_line(entry: &Entry) -> String {
    let head = format!("{:>4}\t{:>10}", entry.term, entry.index);
    match entry.kind {
        EntryKind::Normal => match InternalRaftRequest::decode(&entry.data[..]) {
            Ok(request) => format!("{head}\tnorm\t{}", text_format::request(request)),
            Err(_) => format!("{head}\tnorm\t???"),
        },
        EntryKind::ConfChange => match raftpb::decode_conf_change(&entry.data) {
            Ok(change) => format!(
                "{head}\tconf\tmethod={} id={}",
                method(change.kind),
                spell_id(change.node_id)
            ),
            Err(_) => format!("{head}\tconf\t???"),
        },
        EntryKind::ConfChangeV2 => match raftpb::decode_conf_change_v2(&entry.data) {
            Ok(change) => {
                let changes: Vec<String> = change
                    .changes
                    .iter()
                    .map(|one| format!("method={} id={}", method(one.kind), spell_id(one.node_id)))
                    .collect();
                format!("{head}\tconf2\t{}", changes.join(" "))
            }
            Err(_) => format!("{head}\tconf2\t???"),
        },
    }
}

fn method(kind: ConfChangeKind) -> &'static str {
    match kind {
        ConfChangeKind::AddNode => "ConfChangeAddNode",
        ConfChangeKind::RemoveNode => "ConfChangeRemoveNode",
        ConfChangeKind::UpdateNode => "ConfChangeUpdateNode",
        ConfChangeKind::AddLearnerNode => "ConfChangeAddLearnerNode",
    }
}

fn raw(wal_dir: &Path, start: Option<u64>) -> Result<(), Failure> {
    let mut out = Out::default();
    let mut reader = Reader::open_all(&*disk(), wal_dir)?;
    loop {
        match reader.next()? {
            Next::Record(located) => {
                if let Some(line) = record_line(&located, start) {
                    out.line(&line)?;
                }
            }
            Next::End => {
                out.line("EOF: All entries were processed.")?;
                return Ok(());
            }
            Next::Torn(torn) => {
                out.line(&format!(
                    "ErrUnexpectedEOF: The last record might be corrupted, error: {} ends in a \
                     write that was never finished, at offset {}.",
                    torn.segment, torn.offset
                ))?;
                return Ok(());
            }
        }
    }
}

/// A record's line; `None` for one below the index to start at.
fn record_line(located: &Located, start: Option<u64>) -> Option<String> {
    let data = &located.record.data;
    let from = start.unwrap_or(0);
    let unreadable = |what: &str| {
        format!(
            "{what} at offset {} of {} cannot be read",
            located.offset, located.segment
        )
    };
    Some(match RecordType::from_number(located.record.number) {
        Some(RecordType::Metadata) => match Identity::decode(data) {
            Some(identity) => format!(
                "Metadata: NodeID:{} ClusterID:{}",
                identity.member_id, identity.cluster_id
            ),
            None => unreadable("Metadata"),
        },
        Some(RecordType::Crc) => format!("CRC: {}", located.record.crc),
        Some(RecordType::Entry) => match raftpb::decode_entry(data) {
            Ok(entry) if entry.index < from => return None,
            Ok(entry) => raw_entry(&entry),
            Err(_) => unreadable("Entry"),
        },
        Some(RecordType::Snapshot) => match quorate_wal::walpb::decode_snapshot(data) {
            Ok(snapshot) if snapshot.index < from => return None,
            Ok(snapshot) => format!("Snapshot: index:{} term:{}", snapshot.index, snapshot.term),
            Err(_) => unreadable("Snapshot"),
        },
        Some(RecordType::State) => match raftpb::decode_hard_state(data) {
            Ok(state) if state.commit < from => return None,
            Ok(state) => format!(
                "HardState: term:{} vote:{} commit:{}",
                state.term, state.vote, state.commit
            ),
            Err(_) => unreadable("HardState"),
        },
        None => format!("Unexpected WAL log type: {}", located.record.number),
    })
}

fn raw_entry(entry: &Entry) -> String {
    let kind = match entry.kind {
        EntryKind::Normal => String::new(),
        other => format!(" Type:{other}"),
    };
    let data = if entry.data.is_empty() {
        String::new()
    } else {
        format!(" Data:\"{}\" ", octal(&entry.data))
    };
    format!(
        "Entry: Term:{} Index:{}{kind}{data}",
        entry.term, entry.index
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::etcdserverpb::{PutRequest, RequestHeader};

    #[test]
    fn lines() {
        let request = InternalRaftRequest {
            header: Some(RequestHeader {
                id: 7,
                ..RequestHeader::default()
            }),
            put: Some(PutRequest {
                key: "k\n".into(),
                value: "v".into(),
                lease: 1,
                ..PutRequest::default()
            }),
            ..InternalRaftRequest::default()
        };
        let mut entry = Entry {
            term: 5,
            index: 11,
            data: request.encode_to_vec().into(),
            ..Entry::default()
        };
        assert_eq!(
            entry_line(&entry),
            "   5\t        11\tnorm\theader:{ID:7} put:{key:\"k\\n\" value:\"v\" lease:1}"
        );
        assert!(Filters::parse("IRRPut").pass(&entry));
        assert!(!Filters::parse("IRRTxn,ConfigChange").pass(&entry));
        entry.data = (&b"\xff"[..]).into();
        assert_eq!(entry_line(&entry), "   5\t        11\tnorm\t???");
        assert_eq!(raw_entry(&entry), "Entry: Term:5 Index:11 Data:\"\\377\" ");
    }
}
