//! A database that was received with a snapshot: opened and checked before raft hears of it.
//!
//! Its every page is read and verified, and its consistent index must be the one that the snapshot
//! claims: a database that is damaged or another one's is refused while the old state is still in
//! force. The log stage then puts the file in the place of the member's own.

use crate::Error;
use crate::boot::Directories;
use quorate_bolt::Db;
use quorate_disk::Disk;
use quorate_store::{Store, open};
use quorate_wal::snap;
use std::sync::Arc;

/// A received database, ready to take the store's place.
pub struct Received {
    pub(crate) index: u64,
    pub(crate) store: Store,
    pub(crate) db: Db,
}

impl Received {
    /// Opens the database that was received for the snapshot at `index` (`INDEX.snap.db` in the
    /// directory of snapshots, complete and durable).
    pub fn open(
        disk: &Arc<dyn Disk>,
        directories: &Directories,
        index: u64,
        config: quorate_store::Config,
    ) -> Result<Received, Error> {
        let path = snap::database_path(&directories.snap(), index);
        let (store, db) = open(disk.clone(), &path, config)?;
        let found = store.applied().index;
        if found != index {
            return Err(Error::Inconsistent {
                path,
                what: format!(
                    "its consistent index is {found}, and the snapshot it came with is of {index}"
                ),
            });
        }
        Ok(Received { index, store, db })
    }

    /// The index it is at.
    pub fn index(&self) -> u64 {
        self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_disk::faulty::FaultyDisk;
    use quorate_store::lease;

    #[test]
    fn a_database_that_is_in_use_is_told_from_a_bad_one() {
        let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new(1));
        let directories = Directories {
            data: "/data".into(),
            wal: None,
        };
        let config = quorate_store::Config {
            quota_bytes: 0,
            lease: lease::Config {
                min_ttl_s: 1,
                checkpoint_interval_ms: None,
            },
        };
        disk.create_dir_all(&directories.snap()).unwrap();
        let first = Received::open(&disk, &directories, 0, config).unwrap();
        let again = Received::open(&disk, &directories, 0, config);
        assert!(again.is_err_and(|error| error.is_locked()));
        drop(first);
        let other = Received::open(&disk, &directories, 0, config);
        assert!(other.is_ok());
        let bad = Received::open(&disk, &directories, 7, config);
        assert!(bad.is_err_and(|error| !error.is_locked()));
    }
}
