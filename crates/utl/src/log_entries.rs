//! The entries of a log that is not in use.

use crate::database::disk;
use crate::error::Failure;
use quorate_wal::types::{Entry, HardState};
use quorate_wal::walpb::{RecordType, Snapshot};
use quorate_wal::{Damage, Next, Reader, WalError, raftpb, snapshot_records};
use std::path::Path;

/// What a log holds behind a snapshot record.
#[derive(Debug, Default)]
pub struct LogEntries {
    /// The record.
    pub at: Snapshot,
    /// What heads the segments.
    pub metadata: Vec<u8>,
    /// The last hard state.
    pub state: HardState,
    /// The entries behind the record, of which later ones replaced earlier ones.
    pub entries: Vec<Entry>,
}

/// The newest snapshot record that is committed; the empty one where there is none.
pub fn newest_record(wal_dir: &Path) -> Result<Snapshot, Failure> {
    let records = snapshot_records(&*disk(), wal_dir)?;
    let newest = records.into_iter().max_by_key(|record| record.index);
    Ok(newest.unwrap_or_default())
}

/// Reads what follows a snapshot record; a write that was never finished ends the log.
pub fn read_from(wal_dir: &Path, at: Snapshot) -> Result<LogEntries, Failure> {
    let mut reader = Reader::open(&*disk(), wal_dir, at.index)?;
    let mut log = LogEntries {
        at,
        ..LogEntries::default()
    };
    while let Next::Record(located) = reader.next()? {
        let damaged = |damage: Damage| WalError::Damaged {
            path: wal_dir.join(located.segment.to_string()),
            offset: located.offset,
            damage,
        };
        let data = &located.record.data;
        match RecordType::from_number(located.record.number) {
            Some(RecordType::Entry) => {
                let entry = raftpb::decode_entry(data).map_err(|e| damaged(e.into()))?;
                let first = log.entries.first().map_or(entry.index, |first| first.index);
                let keep = entry.index.saturating_sub(first);
                log.entries
                    .truncate(usize::try_from(keep).unwrap_or(usize::MAX));
                if entry.index > log.at.index {
                    log.entries.push(entry);
                }
            }
            Some(RecordType::State) => {
                log.state = raftpb::decode_hard_state(data).map_err(|e| damaged(e.into()))?;
            }
            Some(RecordType::Metadata) => log.metadata = data.to_vec(),
            Some(RecordType::Crc | RecordType::Snapshot) => {}
            None => return Err(damaged(Damage::RecordType(located.record.number)).into()),
        }
    }
    Ok(log)
}
