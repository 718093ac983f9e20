//! What tools and the boot sequence ask of a log without opening it for writing.
//!
//! Source: etcd's `ValidSnapshotEntries` and `Verify`.

use crate::error::Damage;
use crate::raftpb::decode_hard_state;
use crate::reader::{Located, Next, Reader};
use crate::walpb::{RecordType, Snapshot, decode_snapshot};
use crate::{Torn, WalError};
use bytes::Bytes;
use quorate_disk::Disk;
use quorate_raft::types::HardState;
use std::path::Path;

/// The snapshot records whose index is committed by the log's last hard state, in file order.
///
/// The newest state is the one with the highest index, which need not be the last: a member that
/// received a snapshot while an older one of its own was being written leaves them in that order.
pub fn snapshot_records(disk: &dyn Disk, dir: &Path) -> Result<Vec<Snapshot>, WalError> {
    let mut reader = Reader::open_all(disk, dir)?;
    let mut snapshots = Vec::new();
    let mut state = HardState::default();
    while let Next::Record(located) = reader.next()? {
        match known_type(&reader, &located)? {
            RecordType::Snapshot => snapshots.push(snapshot_of(&reader, &located)?),
            RecordType::State => state = state_of(&reader, &located)?,
            RecordType::Metadata | RecordType::Entry | RecordType::Crc => {}
        }
    }
    snapshots.retain(|snapshot| snapshot.index <= state.commit);
    Ok(snapshots)
}

/// What [`verify`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The last hard state.
    pub hard_state: HardState,
    /// The unfinished write at the end, if there is one; opening the log repairs it.
    pub torn: Option<Torn>,
}

/// Reads a log from the snapshot record `at` to its end and checks all of it but the entries'
/// content. Only the index and term of `at` count.
pub fn verify(disk: &dyn Disk, dir: &Path, at: &Snapshot) -> Result<Verified, WalError> {
    let mut reader = Reader::open(disk, dir, at.index)?;
    let mut metadata = None;
    let mut hard_state = HardState::default();
    let mut found = false;
    let torn = loop {
        let located = match reader.next()? {
            Next::Record(located) => located,
            Next::End => break None,
            Next::Torn(torn) => break Some(torn),
        };
        match known_type(&reader, &located)? {
            RecordType::Metadata => check_metadata(&reader, &located, &mut metadata)?,
            RecordType::State => hard_state = state_of(&reader, &located)?,
            RecordType::Snapshot => found |= matches_start(&snapshot_of(&reader, &located)?, at)?,
            RecordType::Entry | RecordType::Crc => {}
        }
    };
    if !found {
        return Err(WalError::SnapshotNotFound {
            dir: dir.to_path_buf(),
            index: at.index,
        });
    }
    Ok(Verified { hard_state, torn })
}

pub(crate) fn known_type(reader: &Reader, located: &Located) -> Result<RecordType, WalError> {
    let number = located.record.number;
    RecordType::from_number(number)
        .ok_or_else(|| reader.damaged(located, Damage::RecordType(number)))
}

pub(crate) fn snapshot_of(reader: &Reader, located: &Located) -> Result<Snapshot, WalError> {
    decode_snapshot(&located.record.data).map_err(|error| reader.damaged(located, error))
}

pub(crate) fn state_of(reader: &Reader, located: &Located) -> Result<HardState, WalError> {
    let state =
        decode_hard_state(&located.record.data).map_err(|error| reader.damaged(located, error))?;
    if state.term == 0 && !state.is_empty() {
        return Err(reader.damaged(located, Damage::HardStateWithoutTerm));
    }
    Ok(state)
}

/// Keeps the first metadata and refuses another.
pub(crate) fn check_metadata(
    reader: &Reader,
    located: &Located,
    metadata: &mut Option<Bytes>,
) -> Result<(), WalError> {
    match metadata {
        Some(first) if *first != located.record.data => {
            Err(reader.damaged(located, Damage::Metadata))
        }
        Some(_) => Ok(()),
        None => {
            // A copy of its own: it outlives the chunk that it was read with.
            *metadata = Some(Bytes::copy_from_slice(&located.record.data));
            Ok(())
        }
    }
}

/// Whether the record is the one that reading starts at; an error if it has another term.
pub(crate) fn matches_start(record: &Snapshot, at: &Snapshot) -> Result<bool, WalError> {
    if record.index != at.index {
        return Ok(false);
    }
    if record.term != at.term {
        return Err(WalError::SnapshotMismatch {
            index: at.index,
            wanted: at.term,
            found: record.term,
        });
    }
    Ok(true)
}
