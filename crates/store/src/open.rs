//! Opening: the store as its file tells it.
//!
//! One pass over the file finds the free pages and hands every row of the `key` bucket to
//! [`RowScan`], in parallel; the rows are then sorted by key and the index is built bottom-up. What
//! the other buckets hold is read into memory. Nothing is replayed here: the driver applies the
//! log's entries above the consistent index.

use crate::Error;
use crate::alarm::Alarms;
use crate::buckets::{BucketId, Edits};
use crate::commit::{committed, create_buckets};
use crate::hash::StoredHashes;
use crate::index::{Entry, Index, Point};
use crate::key_sort::{self, Place};
use crate::lease::{self, Lessor};
use crate::membership::Membership;
use crate::mvcc::Mvcc;
use crate::quota::Quota;
use crate::revision::{Revision, RowKey};
use crate::rows::{self, Snapshot};
use crate::store::{Applied, Sizes, Store};
use crate::view::{KEY_BUCKET, decode};
use quorate_bolt::{Db, LeafScan, Options, ReadTx};
use quorate_disk::Disk;
use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What the store is told once.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// As --quota-backend-bytes has it: 0 for the default, negative for none.
    pub quota_bytes: i64,
    /// Leases.
    pub lease: lease::Config,
}

/// A row as the pass over the file found it.
struct Found {
    row: RowKey,
    create: i64,
    version: i64,
    lease: i64,
    key_start: usize,
    key_end: usize,
}

/// All rows, in a few large buffers: those go back to the system at once when they are dropped, while
/// many small ones would stay with the allocator for a while.
#[derive(Default)]
struct Rows {
    keys: Vec<u8>,
    rows: Vec<Found>,
    /// Runs of leaves: their number in the order of keys, and their rows.
    runs: Vec<(usize, Range<usize>)>,
}

impl Rows {
    fn key(&self, found: &Found) -> &[u8] {
        &self.keys[found.key_start..found.key_end]
    }

    /// The rows of a run.
    fn run(&self, run: usize) -> &[Found] {
        &self.rows[self.runs[run].1.clone()]
    }

    /// The row at a place.
    fn at(&self, place: &Place) -> (&[u8], &Found) {
        let found = &self.run(place.run as usize)[place.row as usize];
        (self.key(found), found)
    }
}

#[derive(Default)]
struct RowScan {
    found: Mutex<Rows>,
}

impl LeafScan for RowScan {
    fn leaves(
        &self,
        run: usize,
        entries: &mut dyn Iterator<Item = (&[u8], &[u8])>,
    ) -> Result<(), String> {
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            let row = RowKey::decode(key).map_err(|e| e.to_string())?;
            let kv = decode(row, value).map_err(|e| e.to_string())?;
            let key_start = keys.len();
            keys.extend_from_slice(kv.key);
            rows.push(Found {
                row,
                create: kv.create_revision,
                version: kv.version,
                lease: kv.lease,
                key_start,
                key_end: keys.len(),
            });
        }
        let mut all = self
            .found
            .lock()
            .expect("no scan panics while it holds the lock");
        let (first_key, first_row) = (all.keys.len(), all.rows.len());
        all.keys.extend_from_slice(&keys);
        all.rows.extend(rows.into_iter().map(|found| Found {
            key_start: first_key + found.key_start,
            key_end: first_key + found.key_end,
            ..found
        }));
        let rows = first_row..all.rows.len();
        all.runs.push((run, rows));
        Ok(())
    }
}

/// Opens the store in `path`, making the file where there is none. The file handle is for the
/// commit stage.
pub fn open(disk: Arc<dyn Disk>, path: &Path, config: Config) -> Result<(Store, Db), Error> {
    let (db, rows) = scan(disk, path, &Options::default())?;
    create_buckets(&db)?;
    refuse_auth(&db.begin_read())?;
    let store = restore(&db, &rows, config)?;
    Ok((store, db))
}

/// Opens the store in a file that is there and leaves the file as it is. Nothing may be applied: it
/// is for views alone.
pub fn open_read_only(disk: Arc<dyn Disk>, path: &Path) -> Result<Store, Error> {
    let options = Options {
        read_only: true,
        initial_map_size: 0,
        ..Options::default()
    };
    let (db, rows) = scan(disk, path, &options)?;
    let config = Config {
        quota_bytes: 0,
        lease: lease::Config {
            min_ttl_s: 0,
            checkpoint_interval_ms: None,
        },
    };
    restore(&db, &rows, config)
}

/// Opens the file and gathers its rows, in the order of their keys.
fn scan(disk: Arc<dyn Disk>, path: &Path, options: &Options) -> Result<(Db, Rows), Error> {
    let scan = RowScan::default();
    let db = Db::open_scanning(disk, path, options, KEY_BUCKET, &scan)?;
    let mut rows = scan
        .found
        .into_inner()
        .expect("no scan panics while it holds the lock");
    rows.runs.sort_unstable_by_key(|(run, _)| *run);
    Ok((db, rows))
}

fn restore(db: &Db, rows: &Rows, config: Config) -> Result<Store, Error> {
    let file = db.begin_read();
    let meta = Meta::read(&file)?;
    let mut lessor = Lessor::new(config.lease);
    let mut alarms = Alarms::default();
    let mut members = Membership::default();
    for_each(&file, BucketId::Lease, |key, value| {
        lessor.restore(key, value)
    })?;
    for_each(&file, BucketId::Alarm, |key, _| alarms.restore(key))?;
    for bucket in [
        BucketId::Members,
        BucketId::MembersRemoved,
        BucketId::Cluster,
    ] {
        for_each(&file, bucket, |key, value| {
            members.restore(bucket, key, value)
        })?;
    }
    let newest = (0..rows.runs.len())
        .rev()
        .find_map(|run| rows.run(run).last());
    let newest = newest.map_or(1, |found| found.row.revision.main);
    let index = build_index(rows, &mut lessor);
    let scheduled = meta.scheduled.unwrap_or(-1);
    let finished = meta.finished.unwrap_or(-1);
    let committed = committed(db, meta.index);
    let mut store = Store {
        mvcc: Mvcc {
            index,
            rows: rows::Rows::default(),
            frozen: Snapshot::default(),
            file: committed.file,
            // The newest rows may have been compacted away.
            revision: newest.max(finished).max(scheduled).max(1),
            compact_revision: finished,
            untold: Vec::new(),
        },
        lessor,
        edits: Edits::default(),
        deletes: Vec::new(),
        alarms: Arc::new(alarms),
        members: Arc::new(members),
        hashes: Arc::new(StoredHashes::default()),
        quota: Quota::from_config(config.quota_bytes),
        applied: Applied {
            index: meta.index,
            term: meta.term,
        },
        committed_index: meta.index,
        sizes: Sizes {
            total: committed.size,
            in_use: committed.size_in_use,
        },
        jobs: VecDeque::new(),
        scheduled_compaction: meta.scheduled,
        finished_compaction: meta.finished,
        storage_version: meta.storage_version.map(Arc::from),
        freezing: false,
    };
    if scheduled > finished {
        // Interrupted: its hash would miss what was removed before the crash.
        store.schedule(scheduled, false);
    }
    Ok(store)
}

fn refuse_auth(file: &ReadTx) -> Result<(), Error> {
    let mut enabled = false;
    for_each(file, BucketId::Auth, |key, value| {
        enabled |= key == b"authEnabled" && value == [1];
        Ok(())
    })?;
    if enabled {
        return Err(Error::Unsupported(
            "this data directory has authentication enabled, which this version does not enforce \
             yet; it is not opened, so that it is not served without authentication (disable \
             authentication with etcd first)"
                .into(),
        ));
    }
    Ok(())
}

struct Meta {
    index: u64,
    term: u64,
    scheduled: Option<i64>,
    finished: Option<i64>,
    storage_version: Option<String>,
}

impl Meta {
    fn read(file: &ReadTx) -> Result<Meta, Error> {
        let mut meta = Meta {
            index: 0,
            term: 0,
            scheduled: None,
            finished: None,
            storage_version: None,
        };
        for_each(file, BucketId::Meta, |key, value| {
            let number = || {
                let bytes: [u8; 8] = value
                    .try_into()
                    .map_err(|_| Error::corrupt("meta", key, "is not eight bytes long"))?;
                Ok::<u64, Error>(u64::from_be_bytes(bytes))
            };
            let mark = || Ok::<i64, Error>(RowKey::decode(value)?.revision.main);
            match key {
                b"consistent_index" => meta.index = number()?,
                b"term" => meta.term = number()?,
                b"scheduledCompactRev" => meta.scheduled = Some(mark()?),
                b"finishedCompactRev" => meta.finished = Some(mark()?),
                b"storageVersion" => {
                    meta.storage_version = Some(String::from_utf8_lossy(value).into_owned());
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(meta)
    }
}

fn for_each(
    file: &ReadTx,
    bucket: BucketId,
    mut f: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(bucket) = file.bucket(bucket.name().as_bytes())? else {
        return Ok(());
    };
    let mut cursor = bucket.range(Bound::Unbounded)?;
    while let Some((key, value)) = cursor.next()? {
        f(key, value)?;
    }
    Ok(())
}

/// Builds the index from rows in the order of history, and hangs keys on their leases.
fn build_index(rows: &Rows, lessor: &mut Lessor) -> Index {
    let mut order: Vec<Place> = Vec::with_capacity(rows.rows.len());
    for r in 0..rows.runs.len() {
        order.extend((0..rows.run(r).len()).map(|i| Place::new(r as u32, i as u32)));
    }
    let row = |place: &Place| rows.at(place);
    key_sort::sort(&mut order, &|place: &Place| row(place).0);
    let mut groups = order.chunk_by(|a, b| row(a).0 == row(b).0);
    Index::from_sorted(std::iter::from_fn(|| {
        let group = groups.next()?;
        let (key, first) = row(&group[0]);
        let mut entry = Entry::restored(point(first.row), first.create, first.version);
        let mut newest = first;
        for later in &group[1..] {
            let found = row(later).1;
            match (found.row.tombstone, entry.is_live()) {
                (false, _) => entry.put(found.row.revision),
                (true, true) => entry.delete(found.row.revision),
                // A deletion of what is not there: etcd warns and goes on.
                (true, false) => continue,
            }
            newest = found;
        }
        if !newest.row.tombstone && newest.lease != 0 && lessor.exists(newest.lease) {
            lessor.attach(newest.lease, key);
        }
        Some((key, entry))
    }))
}

fn point(row: RowKey) -> Point {
    Point {
        revision: Revision::new(row.revision.main, row.revision.sub),
        tombstone: row.tombstone,
    }
}
