//! The failpoints' names, which are etcd's.

/// All of them, sorted.
///
/// | name | where | what reaches it |
/// |---|---|---|
/// | `afterCommit` | after a commit of the file | any write |
/// | `afterStartDBTxn` | after the start of its transaction | any write |
/// | `beforeCheckpointInLeaseRenew` | before a lease is renewed, on the client's connection | a renewal |
/// | `beforeCommit` | before a commit of the file | any write |
/// | `beforeLookupWhenLeaseTimeToLive` | before a lease is looked up | a question for its time to live |
/// | `beforeRangeStreamChunk` | before a chunk of a range stream is made | a range stream |
/// | `beforeSendWatchResponse` | before a message to a watch stream, in the member's loop | a watch |
/// | `beforeStartDBTxn` | before the start of its transaction | any write |
/// | `commitAfterPreCommitHook` | after the consistent index went into a commit | any write |
/// | `commitBeforePreCommitHook` | before the consistent index goes into a commit | any write |
/// | `compactAfterAcquiredBatchTxLock` | before each batch of a compaction is planned | a compaction |
/// | `compactAfterCommitBatch` | before a batch that is not the first is planned | a compaction of more rows than a batch has |
/// | `compactAfterCommitScheduledCompact` | once a compaction's order is durable | a compaction |
/// | `compactAfterSetFinishedCompact` | after a compaction's end went into a buffer | a compaction |
/// | `compactBeforeCommitBatch` | after a batch that is not the last was removed | a compaction of more rows than a batch has |
/// | `compactBeforeCommitScheduledCompact` | after a compaction's order went into a buffer | a compaction |
/// | `compactBeforeSetFinishedCompact` | before a compaction's end goes into a buffer | a compaction |
/// | `defragBeforeCopy` | before each step of the vacuum, on the commit thread | a defragmentation |
/// | `walAfterSync` | after a sync of the log | any write |
/// | `walBeforeSync` | before a sync of the log | any write |
pub const NAMES: &[&str] = &[
    "afterCommit",
    "afterStartDBTxn",
    "beforeCheckpointInLeaseRenew",
    "beforeCommit",
    "beforeLookupWhenLeaseTimeToLive",
    "beforeRangeStreamChunk",
    "beforeSendWatchResponse",
    "beforeStartDBTxn",
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
