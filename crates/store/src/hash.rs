//! HashKV: a checksum over the kept history, equal on all members at equal revisions.
//!
//! CRC-32C over the bucket's name, then key and value of each row that counts. What a compaction
//! below the asked revision would remove does not count, so that members whose compactions are at
//! different stages agree. Source: etcd's mvcc hash; its corners are kept:
//! - what to keep is computed at the *asked* revision, while rows are filtered that way only up to
//!   the *compact* revision (and not at all where nothing is kept);
//! - a tombstone exactly at the compact revision does not count;
//! - a hash stored by a compaction answers for its revision.

use crate::Error;
use crate::index::{KeyRange, Root};
use crate::revision::{Revision, RowKey};
use crate::view::View;
use quorate_api as api;
use quorate_bolt::ReadTx;
use std::ops::{Bound, ControlFlow};

/// How many stored hashes are remembered.
const STORED: usize = 10;

/// A hash and what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueHash {
    /// CRC-32C.
    pub hash: u32,
    /// The compact revision it was computed with.
    pub compact_revision: i64,
    /// The newest revision in it.
    pub revision: i64,
}

/// The hashes that finished compactions left.
#[derive(Clone, Debug, Default)]
pub struct StoredHashes(Vec<KeyValueHash>);

impl StoredHashes {
    /// Remembers one; the oldest revisions are forgotten first.
    pub fn store(&mut self, hash: KeyValueHash) {
        self.0.push(hash);
        self.0.sort_by_key(|hash| hash.revision);
        let excess = self.0.len().saturating_sub(STORED);
        self.0.drain(..excess);
    }

    /// All of them, those of the newest revisions first.
    pub fn newest_first(&self) -> impl Iterator<Item = KeyValueHash> {
        self.0.iter().rev().copied()
    }

    /// The one for this revision.
    pub fn find(&self, revision: i64) -> Option<KeyValueHash> {
        self.0
            .iter()
            .find(|hash| hash.revision == revision)
            .copied()
    }
}

/// Which rows at or below the compact revision count.
pub enum Keep {
    /// All: no key exists.
    All,
    /// These, ascending.
    Only(Vec<Revision>),
}

/// Adds up rows in the order of history.
pub struct Hasher {
    crc: u32,
    compact_revision: i64,
    revision: i64,
}

impl Hasher {
    /// A hasher of history up to `revision`, of a store compacted at `compact_revision`.
    pub fn new(compact_revision: i64, revision: i64) -> Hasher {
        Hasher {
            crc: crc32c::crc32c(b"key"),
            compact_revision,
            revision,
        }
    }

    /// Takes in a row; `kept` is asked for rows up to the compact revision.
    pub fn add(&mut self, row: RowKey, value: &[u8], kept: impl FnOnce() -> bool) {
        let main = row.revision.main;
        if main > self.revision
            || (main == self.compact_revision && row.tombstone)
            || (main <= self.compact_revision && !kept())
        {
            return;
        }
        self.crc = crc32c::crc32c_append(self.crc, &row.encode());
        self.crc = crc32c::crc32c_append(self.crc, value);
    }

    /// The sum.
    pub fn finish(&self) -> KeyValueHash {
        KeyValueHash {
            hash: self.crc,
            compact_revision: self.compact_revision,
            revision: self.revision,
        }
    }
}

/// The hash at a revision (0: the newest).
pub fn hash_by_revision(
    view: &View,
    stored: &StoredHashes,
    asked: i64,
) -> Result<KeyValueHash, Error> {
    if let Some(hash) = stored.find(asked) {
        return Ok(hash);
    }
    if asked > 0 && asked < view.compact_revision {
        return Err(api::Error::Compacted.into());
    }
    if asked > view.revision {
        return Err(api::Error::FutureRev.into());
    }
    let revision = if asked == 0 { view.revision } else { asked };
    let keep = kept_at(&view.root, revision, view.compact_revision);
    let mut hasher = Hasher::new(view.compact_revision, revision);
    view.rows()?.scan(
        Revision::default(),
        revision.saturating_add(1),
        |row, value| {
            hasher.add(row, value, || match &keep {
                Keep::All => true,
                Keep::Only(kept) => kept.binary_search(&row.revision).is_ok(),
            });
            Ok(true)
        },
    )?;
    Ok(hasher.finish())
}

/// The hash of the whole file, as Maintenance.Hash has it: CRC-32C over every bucket's name, keys
/// and values, but for what differs between members that agree (consistent index, term, storage
/// version).
pub fn hash_file(file: &ReadTx) -> Result<u32, Error> {
    let mut crc = 0;
    for name in file.buckets()? {
        crc = crc32c::crc32c_append(crc, &name);
        let Some(bucket) = file.bucket(&name)? else {
            continue;
        };
        let mut cursor = bucket.range(Bound::Unbounded)?;
        while let Some((key, value)) = cursor.next()? {
            let own = matches!(key, b"consistent_index" | b"term" | b"storageVersion");
            if *name != *b"meta" || !own {
                crc = crc32c::crc32c_append(crc, key);
                crc = crc32c::crc32c_append(crc, value);
            }
        }
    }
    Ok(crc)
}

/// The revisions up to `compact_revision` that a compaction at `revision` would keep, deletions
/// aside.
fn kept_at(root: &Root, revision: i64, compact_revision: i64) -> Keep {
    let (mut kept, mut any) = (Vec::new(), false);
    let _ = root.walk::<()>(
        KeyRange {
            start: b"",
            end: None,
        },
        |_, entry| {
            if let Some(live) = entry.live_at(revision) {
                any = true;
                if live.main <= compact_revision {
                    kept.push(live);
                }
            }
            ControlFlow::Continue(())
        },
    );
    kept.sort_unstable();
    if any { Keep::Only(kept) } else { Keep::All }
}

/// Whether a compaction at `revision` keeps anything of any key, deletions at it included.
pub fn keeps_anything(root: &Root, revision: i64) -> bool {
    root.walk(
        KeyRange {
            start: b"",
            end: None,
        },
        |_, entry| match entry.at(revision) {
            Some(point) if !point.tombstone || point.revision.main == revision => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        },
    )
    .is_break()
}
