//! Starting a member from its data directory, or making one.
//!
//! Layout, as etcd's: `member/wal/*.wal`, `member/snap/db`, `member/snap/*.snap`. The order at a
//! restart: the snapshot record with the *highest* index that is committed and lies where the log is
//! read from; where its index is above the database's consistent index, the received database
//! `INDEX.snap.db` takes the database's place; the configuration from the bucket `members`;
//! the commit index is the larger of the log's and the database's (a hard state that only moves the
//! commit index is not synced); and entries above the consistent index are applied anew.
//!
//! A new member of a cluster that is there ([`Join`]) begins with an empty log and no configuration:
//! the leader's entries or snapshot bring both.

use crate::Error;
use crate::conf_change::{conf_state_of, decode};
use crate::ids::{RequestIds, cluster_id, member_id};
use crate::log_stage::LogStage;
use crate::member::{Config, Member};
use bytes::Bytes;
use quorate_bolt::Db;
use quorate_disk::Disk;
use quorate_raft::{
    ConfChange, ConfChangeKind, Config as RaftConfig, Entry, EntryKind, MemoryStorage, Raft,
    Snapshot, SnapshotMetadata,
};
use quorate_store::ids::Identity;
use quorate_store::membership::{ChangeContext, Member as ClusterMember, go_json};
use quorate_store::watch::{self, Hub};
use quorate_store::{Store, open};
use quorate_wal::{
    Options as WalOptions, Recovered, Wal, WalError, raftpb, snap, snapshot_records, walpb,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a member's files are.
#[derive(Clone, Debug)]
pub struct Directories {
    /// As --data-dir has it.
    pub data: PathBuf,
    /// As --wal-dir has it, where it is set.
    pub wal: Option<PathBuf>,
}

impl Directories {
    /// `data/member`.
    pub fn member(&self) -> PathBuf {
        self.data.join("member")
    }

    /// The log's segments.
    pub fn wal(&self) -> PathBuf {
        self.wal
            .clone()
            .unwrap_or_else(|| self.member().join("wal"))
    }

    /// Database and snapshot files.
    pub fn snap(&self) -> PathBuf {
        self.member().join("snap")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.snap().join("db")
    }
}

/// What a member is started with.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Its files.
    pub directories: Directories,
    /// Its settings; the ids in them are filled in here.
    pub member: Config,
    /// Heartbeat interval in ticks.
    pub heartbeat_ticks: u32,
    /// Whether elections ask before they begin.
    pub pre_vote: bool,
    /// Names and peer URLs of the members that a new cluster begins with.
    pub initial_cluster: Vec<(String, Vec<String>)>,
    /// The new cluster's token.
    pub token: String,
    /// How this member is known to a cluster that is there, for its first start; instead of a new
    /// cluster.
    pub join: Option<Join>,
    /// Whether a cluster of this member alone is made of what the directory holds: entries that are
    /// not known to be committed are dropped, and all other members removed.
    pub force_new_cluster: bool,
    /// Store settings.
    pub store: quorate_store::Config,
    /// Watch settings.
    pub watch: watch::Config,
    /// Segments to keep; 0: all.
    pub max_wals: usize,
    /// Snapshot files to keep; 0: all.
    pub max_snapshots: usize,
    /// How the log is kept.
    pub log: WalOptions,
    /// Wall-clock time in milliseconds, for request ids.
    pub start_ms: u64,
    /// Randomness for election timeouts.
    pub seed: u64,
}

/// What a new member was told by the members that are there.
#[derive(Clone, Debug)]
pub struct Join {
    /// The id that it was added under.
    pub member_id: u64,
    /// The cluster's.
    pub cluster_id: u64,
}

/// A started member and its stages.
pub struct Booted<T> {
    /// The machine.
    pub member: Member<T>,
    /// The log stage.
    pub log: LogStage,
    /// The database, for the commit stage.
    pub db: Db,
    /// What was found.
    pub found: Found,
}

/// What was found on disk.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Whether the directory held a member already.
    pub initialized: bool,
    /// The database's consistent index.
    pub consistent_index: u64,
    /// Entries of the log above the newest snapshot record.
    pub entries: usize,
    /// The commit index that raft starts with.
    pub commit: u64,
    /// The newest revision of the store.
    pub revision: i64,
    /// A torn tail that was repaired.
    pub repaired: Option<quorate_wal::Repair>,
}

/// Whether the directory holds a member.
pub fn is_initialized(disk: &dyn Disk, directories: &Directories) -> Result<bool, Error> {
    Ok(quorate_wal::exists(disk, &directories.wal())?)
}

/// Starts the member.
pub fn boot<T>(disk: Arc<dyn Disk>, boot: Boot) -> Result<Booted<T>, Error> {
    let directories = &boot.directories;
    let snap_dir = directories.snap();
    disk.create_dir_all(&snap_dir)
        .map_err(Error::io("create directory", &snap_dir))?;
    let initialized = is_initialized(&*disk, directories)?;
    let (mut store, mut db) = open(disk.clone(), &directories.database(), boot.store)?;
    snap::clean_up(&*disk, &snap_dir)?;
    let wal_options = boot.log;
    let wal_dir = directories.wal();

    let mut config = boot.member.clone();
    let mut found = Found {
        initialized,
        ..Found::default()
    };
    let (wal, raft, snapshot_index) = if initialized {
        let (at, mut wal, mut recovered) =
            open_log(&disk, directories, store.applied().index, wal_options)?;
        if at.index > store.applied().index {
            drop((store, db));
            (store, db) = adopt_received(&disk, &boot, &at)?;
        }
        let identity =
            Identity::decode(&recovered.metadata).ok_or_else(|| Error::Inconsistent {
                path: wal_dir.clone(),
                what: "its metadata cannot be read".into(),
            })?;
        config.member_id = identity.member_id;
        config.cluster_id = identity.cluster_id;
        found.entries = recovered.entries.len();
        found.repaired = recovered.repaired.take();
        let consistent = store.applied().index;
        if boot.force_new_cluster {
            let commit = recovered.hard_state.commit.max(consistent);
            force_new_cluster(&mut wal, &mut recovered, &store, &config, commit)?;
        }
        let last = recovered
            .entries
            .last()
            .map_or(at.index, |entry| entry.index);
        if consistent > last {
            return Err(Error::Inconsistent {
                path: wal_dir,
                what: format!(
                    "the log ends at index {last}, before the database's consistent index \
                     {consistent}: entries were lost"
                ),
            });
        }
        let mut hard_state = recovered.hard_state;
        hard_state.commit = hard_state.commit.max(consistent);
        found.commit = hard_state.commit;
        let mut storage = MemoryStorage::new();
        if at.index > 0 || consistent > 0 {
            let metadata = SnapshotMetadata {
                conf_state: conf_state_of(store.members()),
                index: at.index,
                term: at.term,
            };
            if at.index > 0 {
                let snapshot = Snapshot {
                    data: Bytes::new(),
                    metadata,
                };
                storage
                    .apply_snapshot(snapshot)
                    .expect("an empty storage takes any snapshot");
            } else {
                storage.set_conf_state(metadata.conf_state);
            }
        }
        storage.set_hard_state(hard_state);
        storage.append(&recovered.entries);
        // A crash right after the log was made leaves one without its first entries. A member that
        // joined gets its first ones from the leader.
        let is_empty = last == 0 && hard_state.is_empty();
        let first = is_empty.then(|| initial_members(&boot).ok()).flatten();
        let is_own = |member: &ClusterMember| member.id == config.member_id;
        let raft = Raft::new(raft_config(&boot, &config, consistent), storage);
        let mut raft = raft.map_err(Error::Raft)?;
        if let Some(members) = first.filter(|members| members.iter().any(is_own)) {
            raft.bootstrap(first_peers(&members)).map_err(Error::Raft)?;
        }
        (wal, raft, at.index)
    } else if let Some(join) = &boot.join {
        config.member_id = join.member_id;
        config.cluster_id = join.cluster_id;
        let metadata = identity(&config).encode();
        let wal = Wal::create(&disk, &wal_dir, &metadata, wal_options)?;
        let raft =
            Raft::new(raft_config(&boot, &config, 0), MemoryStorage::new()).map_err(Error::Raft)?;
        (wal, raft, 0)
    } else {
        let members = initial_members(&boot)?;
        let own = members
            .iter()
            .find(|member| member.name == boot.member.name)
            .expect("initial_members checked that this member is among them");
        config.member_id = own.id;
        config.cluster_id = cluster_id(&members.iter().map(|m| m.id).collect::<Vec<_>>());
        let metadata = identity(&config).encode();
        let wal = Wal::create(&disk, &wal_dir, &metadata, wal_options)?;
        let mut raft =
            Raft::new(raft_config(&boot, &config, 0), MemoryStorage::new()).map_err(Error::Raft)?;
        raft.bootstrap(first_peers(&members)).map_err(Error::Raft)?;
        (wal, raft, 0)
    };
    found.consistent_index = store.applied().index;
    found.revision = store.revision();
    let hub = Hub::new(boot.watch, store.revision());
    let own_ids = RequestIds::new(config.member_id, boot.start_ms << 1);
    let log = LogStage::new(
        wal,
        disk,
        snap_dir,
        directories.database(),
        boot.max_wals,
        boot.max_snapshots,
    );
    let mut member = Member::new(config, raft, store, hub, snapshot_index, own_ids);
    member.campaign_if_alone();
    Ok(Booted {
        member,
        log,
        db,
        found,
    })
}

fn first_peers(members: &[ClusterMember]) -> Vec<(u64, Bytes)> {
    let first_entry = |member: &ClusterMember| {
        let change = ConfChange {
            kind: ConfChangeKind::AddNode,
            node_id: member.id,
            context: go_json(member).into(),
            ..Default::default()
        };
        let mut data = Vec::new();
        raftpb::put_conf_change(&mut data, &change);
        (member.id, Bytes::from(data))
    };
    let mut peers: Vec<(u64, Bytes)> = members.iter().map(first_entry).collect();
    peers.sort_unstable_by_key(|(id, _)| *id);
    peers
}

/// The members that a new cluster begins with, this one among them.
fn initial_members(boot: &Boot) -> Result<Vec<ClusterMember>, Error> {
    let members: Vec<ClusterMember> = boot
        .initial_cluster
        .iter()
        .map(|(name, urls)| ClusterMember {
            id: member_id(urls, &boot.token),
            name: name.clone(),
            peer_urls: urls.clone(),
            ..Default::default()
        })
        .collect();
    if !members.iter().any(|member| member.name == boot.member.name) {
        return Err(Error::Configuration(format!(
            "couldn't find local name {:?} in the initial cluster configuration",
            boot.member.name
        )));
    }
    Ok(members)
}

fn raft_config(boot: &Boot, config: &Config, applied: u64) -> RaftConfig {
    RaftConfig {
        election_ticks: config.election_ticks,
        heartbeat_ticks: boot.heartbeat_ticks,
        seed: boot.seed ^ config.member_id,
        applied,
        max_size_per_message: 512 * 1024,
        max_inflight_messages: 512,
        max_committed_size: 16 * 1024 * 1024,
        check_quorum: true,
        pre_vote: boot.pre_vote,
        ..RaftConfig::new(config.member_id, decode)
    }
}

/// Makes a cluster of this member alone, by entries that remove the others (and add this one, where
/// it is not known). They are durable before anything is applied.
fn force_new_cluster(
    wal: &mut Wal,
    recovered: &mut Recovered,
    store: &Store,
    config: &Config,
    commit: u64,
) -> Result<(), Error> {
    recovered.entries.retain(|entry| entry.index <= commit);
    // Who is a member once everything committed is applied.
    let mut ids: BTreeSet<u64> = store.members().iter().map(|member| member.id).collect();
    for entry in &recovered.entries {
        if entry.index <= store.applied().index || entry.kind != EntryKind::ConfChange {
            continue;
        }
        let Ok(change) = raftpb::decode_conf_change(&entry.data) else {
            continue; // apply says what is wrong with it
        };
        match change.kind {
            ConfChangeKind::AddNode | ConfChangeKind::AddLearnerNode => {
                ids.insert(change.node_id);
            }
            ConfChangeKind::RemoveNode => {
                ids.remove(&change.node_id);
            }
            ConfChangeKind::UpdateNode => {}
        }
    }
    // This member comes first: at no time may there be no voter.
    let mut changes = Vec::new();
    let learns = store
        .members()
        .get(config.member_id)
        .filter(|m| m.is_learner);
    if !ids.contains(&config.member_id) || learns.is_some() {
        let context = ChangeContext {
            member: ClusterMember {
                id: config.member_id,
                peer_urls: vec!["http://localhost:2380".to_owned()],
                ..Default::default()
            },
            is_promote: learns.is_some(),
        };
        changes.push(ConfChange {
            kind: ConfChangeKind::AddNode,
            node_id: config.member_id,
            context: go_json(&context).into(),
            ..Default::default()
        });
    }
    let others = ids.iter().filter(|id| **id != config.member_id);
    changes.extend(others.map(|id| ConfChange {
        kind: ConfChangeKind::RemoveNode,
        node_id: *id,
        ..Default::default()
    }));
    let term = recovered.hard_state.term;
    for (change, index) in changes.iter().zip(commit + 1..) {
        let mut data = Vec::new();
        raftpb::put_conf_change(&mut data, change);
        recovered.entries.push(Entry {
            term,
            index,
            kind: EntryKind::ConfChange,
            data: data.into(),
        });
    }
    recovered.hard_state.commit = commit + changes.len() as u64;
    let from = recovered.entries.len() - changes.len();
    wal.append(Some(&recovered.hard_state), &recovered.entries[from..])?;
    wal.sync()?;
    Ok(())
}

/// Opens the log at its newest snapshot record that is committed and lies where the log is read from.
/// Of a snapshot that was being received when the member went down, the record may have been committed
/// later, by entries, and lie in a segment before; then the one below it is the newest that counts.
/// A database that is behind the record is refused, as by etcd, where none was received with it.
fn open_log(
    disk: &Arc<dyn Disk>,
    directories: &Directories,
    applied: u64,
    options: WalOptions,
) -> Result<(walpb::Snapshot, Wal, Recovered), Error> {
    let (wal_dir, snap_dir) = (directories.wal(), directories.snap());
    let mut records = snapshot_records(&**disk, &wal_dir)?;
    records.sort_by_key(|record| record.index);
    // Why the newest one does not count.
    let mut passed = None;
    while let Some(at) = records.pop() {
        if at.index > applied {
            received_database(disk, &snap_dir, at.index)?;
        }
        match Wal::open(disk, &wal_dir, &at, options) {
            Ok((wal, recovered)) => {
                let last = recovered.entries.last().map_or(at.index, |it| it.index);
                return match passed {
                    // Something is missing in between.
                    Some(error) if recovered.hard_state.commit > last => Err(error),
                    _ => Ok((at, wal, recovered)),
                };
            }
            Err(error @ WalError::SnapshotNotFound { .. }) => {
                passed.get_or_insert(error.into());
            }
            Err(error) => return Err(passed.unwrap_or_else(|| error.into())),
        }
    }
    Err(passed.unwrap_or_else(|| Error::Inconsistent {
        path: wal_dir,
        what: "no snapshot record is committed".into(),
    }))
}

fn received_database(disk: &Arc<dyn Disk>, snap_dir: &Path, index: u64) -> Result<PathBuf, Error> {
    snap::find_database(&**disk, snap_dir, index).map_err(|error| match error {
        WalError::NoDatabase { path } => Error::NoReceivedDatabase { path },
        other => other.into(),
    })
}

/// Puts the database that was received with a snapshot in the database's place.
fn adopt_received(
    disk: &Arc<dyn Disk>,
    boot: &Boot,
    at: &walpb::Snapshot,
) -> Result<(Store, Db), Error> {
    let (snap_dir, path) = (boot.directories.snap(), boot.directories.database());
    let received = received_database(disk, &snap_dir, at.index)?;
    disk.rename(&received, &path)
        .map_err(Error::io("rename to", &path))?;
    disk.sync_dir(&snap_dir)
        .map_err(Error::io("sync directory", &snap_dir))?;
    let (store, db) = open(disk.clone(), &path, boot.store)?;
    let index = store.applied().index;
    if index < at.index {
        return Err(Error::Inconsistent {
            path,
            what: format!(
                "its consistent index {index} is below the snapshot's, {}: it is not the database \
                 that belongs to the log",
                at.index
            ),
        });
    }
    Ok((store, db))
}

fn identity(config: &Config) -> Identity {
    Identity {
        member_id: config.member_id,
        cluster_id: config.cluster_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_disk::Mode;
    use quorate_disk::faulty::FaultyDisk;
    use quorate_raft::{ConfState, Entry, EntryKind, HardState};

    const OPTIONS: WalOptions = WalOptions {
        segment_bytes: 4096,
        unsafe_no_sync: false,
    };

    fn entries(indexes: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
        let entry = |index| Entry {
            term: 1,
            index,
            kind: EntryKind::Normal,
            data: vec![1; 100].into(),
        };
        indexes.map(entry).collect()
    }

    fn state(commit: u64) -> HardState {
        HardState {
            term: 1,
            vote: 1,
            commit,
        }
    }

    /// A log of committed entries 1 to 5, and the record of a snapshot at 8 that was being received.
    fn log() -> (Arc<dyn Disk>, Directories, Wal) {
        let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new(1));
        let directories = Directories {
            data: "/data".into(),
            wal: None,
        };
        disk.create_dir_all(&directories.snap()).unwrap();
        let mut wal = Wal::create(&disk, &directories.wal(), b"who", OPTIONS).unwrap();
        wal.append(Some(&state(5)), &entries(1..=5)).unwrap();
        let record = walpb::Snapshot {
            index: 8,
            term: 1,
            conf_state: Some(ConfState::default()),
        };
        wal.save_snapshot_record(&record).unwrap();
        wal.close().unwrap();
        let at = walpb::Snapshot::default();
        let (wal, _) = Wal::open(&disk, &directories.wal(), &at, OPTIONS).unwrap();
        (disk, directories, wal)
    }

    #[test]
    fn a_record_counts_where_its_database_is_there() {
        let (disk, directories, mut wal) = log();
        wal.append(Some(&state(10)), &entries(6..=10)).unwrap();
        wal.close().unwrap();
        let opened_at = |applied| {
            let opened = open_log(&disk, &directories, applied, OPTIONS);
            opened.map(|(at, _, recovered)| (at.index, recovered.entries.len()))
        };
        // The log leads past it, but the database may be another one.
        assert!(matches!(
            opened_at(6),
            Err(Error::NoReceivedDatabase { .. })
        ));
        assert_eq!(opened_at(8).unwrap(), (8, 2));
        let received = snap::database_path(&directories.snap(), 8);
        disk.open(&received, Mode::CreateNew).unwrap();
        assert_eq!(opened_at(6).unwrap(), (8, 2));
    }

    #[test]
    fn a_record_may_lie_before_the_segment_that_the_log_is_opened_at() {
        let (disk, directories, mut wal) = log();
        wal.append(Some(&state(6)), &entries(6..=6)).unwrap();
        wal.cut().unwrap();
        wal.append(Some(&state(10)), &entries(7..=10)).unwrap();
        wal.close().unwrap();
        let (at, _, recovered) = open_log(&disk, &directories, 9, OPTIONS).unwrap();
        assert_eq!((at.index, recovered.entries.len()), (0, 10));
    }

    #[test]
    fn a_log_that_does_not_lead_to_what_is_committed_is_refused() {
        let (disk, directories, mut wal) = log();
        wal.append(Some(&state(8)), &[]).unwrap();
        wal.close().unwrap();
        let opened = open_log(&disk, &directories, 5, OPTIONS);
        assert!(matches!(opened, Err(Error::NoReceivedDatabase { .. })));
    }
}
