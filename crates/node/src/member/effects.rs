//! What a member wants done after a round, and what an operator should read.

use super::{MemberChange, PeerChange, Reply, SnapshotToSend};
use crate::log_stage::LogJob;
use quorate_api as api;
use quorate_bolt::Db;
use quorate_raft::{JournalLine, Message};
use quorate_store::View;
use quorate_store::commit::Frozen;
use quorate_store::compaction::Planner;
use quorate_store::watch::catch_up::Step;
use std::sync::Arc;

/// A step of compaction for whoever plans it.
pub struct CompactionStep {
    /// The planner; it comes back with the batch.
    pub planner: Planner,
    /// Where it reads.
    pub view: Arc<View>,
    /// Rows to look at.
    pub rows: usize,
}

/// Something an operator should read.
#[derive(Clone, Debug)]
pub enum Note {
    /// From raft.
    Raft(JournalLine),
    /// A member was added.
    MemberAdded {
        /// Its id.
        id: u64,
        /// Its peer URLs.
        peer_urls: Vec<String>,
        /// Whether it learns.
        is_learner: bool,
    },
    /// A member was removed.
    MemberRemoved {
        /// Its id.
        id: u64,
    },
    /// The cluster version was decided or changed.
    ClusterVersion {
        /// The new one.
        version: String,
        /// The one before; none where it is the first.
        before: Option<String>,
        /// Whether it went down, and the log is cut off below it.
        lowered: bool,
    },
    /// What this member says of itself is on the log.
    Published,
    /// Requests are served: this member leads and has applied an entry of its term, or the cluster
    /// has taken note of it.
    Ready,
    /// A database that was received from another member took the store's place.
    Adopted {
        /// The snapshot's index.
        index: u64,
        /// Its term.
        term: u64,
        /// The last entry that had been applied before.
        applied: u64,
    },
    /// A learner votes from now on.
    MemberPromoted {
        /// Its id.
        id: u64,
    },
    /// A member is reached elsewhere.
    MemberUpdated {
        /// Its id.
        id: u64,
        /// Its peer URLs.
        peer_urls: Vec<String>,
    },
    /// A change of membership was not proposed.
    ChangeRefused {
        /// Which.
        change: MemberChange,
        /// Why.
        error: api::Error,
    },
    /// A change of membership was found invalid when it was applied.
    ChangeInvalid {
        /// Whose.
        id: u64,
        /// Why.
        error: api::Error,
    },
    /// The file's layout has this version now.
    StorageVersion {
        /// The version.
        version: String,
    },
    /// A snapshot of the log was recorded.
    Snapshot {
        /// Its index.
        index: u64,
    },
    /// Files were removed.
    Purged(Vec<std::path::PathBuf>),
    /// The log has no space.
    DiskFull(String),
    /// The log has space again.
    DiskHasSpace,
    /// A request found the file larger than the quota: the space alarm is raised.
    QuotaExceeded,
    /// A defragmentation waits for readers of older states, or for space on the disk.
    VacuumWaits,
    /// A compaction finished.
    Compacted {
        /// Its revision.
        revision: i64,
        /// Rows removed.
        removed: u64,
        /// The hash of what it left and removed.
        hash: u32,
        /// When it was applied, by the member's clock.
        took_ms: u64,
    },
}

/// What is to be done. The log's jobs and the messages to others need not wait for each other; the view
/// is published before the replies go out, and another database is taken before what is to be
/// committed to it.
pub struct Effects<T> {
    /// The database that takes the place of the commit stage's; a commit that is under way may be
    /// finished, and [`Member::database_replaced`] is due once it is in use.
    pub replaced_db: Option<Db>,
    /// For the log stage, in order.
    pub log: Vec<LogJob>,
    /// For the commit stage.
    pub commit: Option<Frozen>,
    /// Whether the commit stage is to make a step of the vacuum, after the commit and once the view
    /// is published.
    pub vacuum: bool,
    /// To be published before the replies go out.
    pub view: Option<Arc<View>>,
    /// Who is told what.
    pub replies: Vec<(T, Reply)>,
    /// Who is to be reached where, as of now.
    pub peers: Vec<PeerChange>,
    /// To other members.
    pub messages: Vec<Message>,
    /// To other members, with a database; [`Member::report_snapshot`] is due for each.
    pub snapshots: Vec<SnapshotToSend>,
    /// For whoever catches watchers up.
    pub watch_steps: Vec<Step>,
    /// For whoever plans compactions.
    pub compaction: Option<CompactionStep>,
    /// For the log an operator reads.
    pub notes: Vec<Note>,
    /// Whether the member was removed from the cluster and must stop.
    pub removed: bool,
}

impl<T> Default for Effects<T> {
    fn default() -> Effects<T> {
        Effects {
            replaced_db: None,
            log: Vec::new(),
            commit: None,
            vacuum: false,
            view: None,
            replies: Vec::new(),
            peers: Vec::new(),
            messages: Vec::new(),
            snapshots: Vec::new(),
            watch_steps: Vec::new(),
            compaction: None,
            notes: Vec::new(),
            removed: false,
        }
    }
}
