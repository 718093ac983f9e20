//! The failpoints' names, which are etcd's.

/// All of them, sorted.
///
/// | name | where | what reaches it |
/// |---|---|---|
/// | `afterCommit` | after a commit of the file | any write |
/// | `afterStartDBTxn` | after the start of its transaction | any write |
/// | `afterWritebackBuf` | after what was applied became visible | any write |
/// | `applyAfterOpenSnapshot` | once a received database has taken its place, on the log's thread | a snapshot for a member that lags |
/// | `applyBeforeOpenSnapshot` | where `raftBeforeApplySnap` is | a snapshot for a member that lags |
/// | `beforeApplyOneConfChange` | before a change of the membership is applied, in the member's loop | a change, or a start that applies one |
/// | `beforeApplyOneEntryNormal` | before an entry is applied, in the member's loop | any write |
/// | `beforeCheckpointInLeaseRenew` | before a lease is renewed, on the client's connection | a renewal |
/// | `beforeCommit` | before a commit of the file | any write |
/// | `beforeLookupWhenLeaseTimeToLive` | before a lease is looked up | a question for its time to live |
/// | `beforePublishing` | before the member's attributes are proposed | the start |
/// | `beforeRangeStreamChunk` | before a chunk of a range stream is made | a range stream |
/// | `beforeSendWatchResponse` | before a message to a watch stream, in the member's loop | a watch |
/// | `beforeStartDBTxn` | before the start of its transaction | any write |
/// | `beforeWritebackBuf` | before what was applied becomes visible, in the member's loop | any write |
/// | `commitAfterPreCommitHook` | after the consistent index went into a commit | any write |
/// | `commitBeforePreCommitHook` | before the consistent index goes into a commit | any write |
/// | `compactAfterAcquiredBatchTxLock` | before each batch of a compaction is planned | a compaction |
/// | `compactAfterCommitBatch` | before a batch that is not the first is planned | a compaction of more rows than a batch has |
/// | `compactAfterCommitScheduledCompact` | once a compaction's order is durable | a compaction |
/// | `compactAfterSetFinishedCompact` | after a compaction's end went into a buffer | a compaction |
/// | `compactBeforeCommitBatch` | after a batch that is not the last was removed | a compaction of more rows than a batch has |
/// | `compactBeforeCommitScheduledCompact` | after a compaction's order went into a buffer | a compaction |
/// | `compactBeforeSetFinishedCompact` | before a compaction's end goes into a buffer | a compaction |
/// | `defragBeforeCopy` | before the first step of a vacuum, on the commit thread | a defragmentation |
/// | `raftAfterApplySnap` | once the log in memory begins at a received snapshot | a snapshot for a member that lags |
/// | `raftAfterSaveSnap` | after the record of a received snapshot in the log | a snapshot for a member that lags |
/// | `raftAfterSave` | once what was written to the log is durable, in the member's loop | any write |
/// | `raftAfterWALRelease` | once the log let go of what a received snapshot covers | a snapshot for a member that lags |
/// | `raftBeforeAdvance` | after what raft wants done was taken | any write |
/// | `raftBeforeApplySnap` | once a received snapshot's record is durable, before the database takes its place | a snapshot for a member that lags |
/// | `raftBeforeFollowerSend` | before a follower's messages go to the transport | any write |
/// | `raftBeforeLeaderSend` | before a leader's messages go to the transport, none as well; what goes to the log may be on its way | any write |
/// | `raftBeforeSaveSnap` | before the `.snap` file of a received snapshot | a snapshot for a member that lags |
/// | `raftBeforeSave` | before something goes to the log or to others, in the member's loop, which etcd's holds up as well | any write |
/// | `raftBeforeWALSaveSnaphot` | between the `.snap` file of an own snapshot and its record | writes, as many as lie between snapshots |
/// | `raftDropHeartbeat` | where a stream's messages are read; a value drops them | a member that hears of another |
/// | `snapDBDirSyncError` | where `snapDBRenameBeforeDirSync` is; a value is what the directory's sync fails with | a snapshot for a member that lags |
/// | `snapDBRenameBeforeDirSync` | once a database that was received has its name | a snapshot for a member that lags |
/// | `walAfterSync` | after a sync of the log | any write |
/// | `walBeforeSync` | before a sync of the log | any write |
pub const NAMES: &[&str] = &[
    "afterCommit",
    "afterStartDBTxn",
    "afterWritebackBuf",
    "applyAfterOpenSnapshot",
    "applyBeforeOpenSnapshot",
    "beforeApplyOneConfChange",
    "beforeApplyOneEntryNormal",
    "beforeCheckpointInLeaseRenew",
    "beforeCommit",
    "beforeLookupWhenLeaseTimeToLive",
    "beforePublishing",
    "beforeRangeStreamChunk",
    "beforeSendWatchResponse",
    "beforeStartDBTxn",
    "beforeWritebackBuf",
    "commitAfterPreCommitHook",
    "commitBeforePreCommitHook",
    "compactAfterAcquiredBatchTxLock",
    "compactAfterCommitBatch",
    "compactAfterCommitScheduledCompact",
    "compactAfterSetFinishedCompact",
    "compactBeforeCommitBatch",
    "compactBeforeCommitScheduledCompact",
    "compactBeforeSetFinishedCompact",
    "defragBeforeCopy",
    "raftAfterApplySnap",
    "raftAfterSave",
    "raftAfterSaveSnap",
    "raftAfterWALRelease",
    "raftBeforeAdvance",
    "raftBeforeApplySnap",
    "raftBeforeFollowerSend",
    "raftBeforeLeaderSend",
    "raftBeforeSave",
    "raftBeforeSaveSnap",
    "raftBeforeWALSaveSnaphot",
    "raftDropHeartbeat",
    "snapDBDirSyncError",
    "snapDBRenameBeforeDirSync",
    "walAfterSync",
    "walBeforeSync",
];

/// The place of a name in [`NAMES`]; at compile time a name that is not there is an error.
pub const fn index_of(name: &str) -> usize {
    let mut index = 0;
    while index < NAMES.len() {
        if same(NAMES[index], name) {
            return index;
        }
        index += 1;
    }
    panic!("not in the list of failpoints")
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(NAMES.is_sorted());
        for (index, name) in NAMES.iter().enumerate() {
            assert_eq!(index_of(name), index);
        }
    }
}
