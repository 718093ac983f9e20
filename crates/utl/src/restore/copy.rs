//! Copying a snapshot to where it becomes a database.
//!
//! A snapshot that was taken through the API has a SHA-256 of the rest at its end, which its length
//! tells: a database's is a multiple of 512. One thread copies inside of the kernel, another reads and
//! hashes, and a third has what was copied written to the disk meanwhile, so that little is left to
//! be done by the sync that makes the change of it durable.

use crate::error::Failure;
use quorate_cli::progress::Progress;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

/// Bytes of the hash.
const HASH_BYTES: u64 = 32;
/// What a database's length is a multiple of: no disk's sector is smaller.
const SECTOR_BYTES: u64 = 512;
/// Bytes read at once for the hash.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes copied between two steps of the progress.
const STEP_BYTES: u64 = 16 << 20;

/// A snapshot file.
pub struct Source {
    path: PathBuf,
    file: File,
    /// Bytes of the database in it.
    len: u64,
    hash: Option<[u8; HASH_BYTES as usize]>,
}

impl Source {
    /// Opens it.
    pub fn open(path: &Path) -> Result<Source, Failure> {
        let mut file = File::open(path).map_err(Failure::io("open", path))?;
        let at = file
            .seek(SeekFrom::End(-(HASH_BYTES as i64)))
            .map_err(Failure::io("seek", path))?;
        let mut hash = [0; HASH_BYTES as usize];
        file.read_exact(&mut hash)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Failure::Reason("EOF".into()),
                _ => Failure::io("read", path)(error),
            })?;
        let len = at + HASH_BYTES;
        let has_hash = len % SECTOR_BYTES == HASH_BYTES;
        Ok(Source {
            path: path.to_path_buf(),
            file,
            len: if has_hash { at } else { len },
            hash: has_hash.then_some(hash),
        })
    }

    /// Copies the database to a new file, and tells whether its hash was verified. Not all of what
    /// was copied is synced.
    pub fn copy(&self, to: &Path, skip_hash_check: bool) -> Result<bool, Failure> {
        if self.hash.is_none() && !skip_hash_check {
            return Err(Failure::Reason(
                "snapshot missing hash but --skip-hash-check=false".into(),
            ));
        }
        let expected = self.hash.filter(|_| !skip_hash_check);
        let copied = thread::scope(|scope| {
            let hashing = expected.map(|_| scope.spawn(|| self.sha256()));
            let copied = self.copy_bytes(to);
            let hash = hashing.map(|thread| thread.join().expect("hashing does not panic"));
            copied.map(|()| hash)
        })?;
        if let (Some(expected), Some(found)) = (expected, copied.transpose()?)
            && expected != found
        {
            return Err(Failure::Reason(format!(
                "expected sha256 {}, got {}",
                decimal(&expected),
                decimal(&found)
            )));
        }
        Ok(expected.is_some())
    }

    fn copy_bytes(&self, to: &Path) -> Result<(), Failure> {
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(to)
            .map_err(Failure::io("open", to))?;
        let mut from = &self.file;
        from.seek(SeekFrom::Start(0))
            .map_err(Failure::io("seek", &self.path))?;
        let written = out.try_clone().map_err(Failure::io("dup", to))?;
        thread::scope(|scope| {
            // One order at most waits: a sync covers all that was written before it began.
            let (order, orders) = mpsc::sync_channel::<()>(1);
            let syncing = scope.spawn(move || orders.iter().try_for_each(|()| written.sync_data()));
            let copied = self.copy_steps(&mut from, &mut out, to, &order);
            drop(order);
            let synced = syncing.join().expect("syncing does not panic");
            copied.and(synced.map_err(Failure::io("fsync", to)))
        })
    }

    fn copy_steps(
        &self,
        from: &mut &File,
        out: &mut File,
        to: &Path,
        order: &SyncSender<()>,
    ) -> Result<(), Failure> {
        let progress = Progress::bytes("copying", self.len);
        let mut done = 0;
        while done < self.len {
            let step = STEP_BYTES.min(self.len - done);
            let copied = io::copy(&mut from.take(step), out).map_err(Failure::io("write", to))?;
            if copied < step {
                let short = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(Failure::io("read", &self.path)(short));
            }
            done += copied;
            progress.set(done);
            // Busy with an earlier one, or at its end with an error that is told by `join`.
            let _busy = order.try_send(());
        }
        Ok(())
    }

    fn sha256(&self) -> Result<[u8; HASH_BYTES as usize], Failure> {
        let mut sum = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < self.len {
            let part = (self.len - at).min(PIECE_BYTES as u64) as usize;
            self.file
                .read_exact_at(&mut piece[..part], at)
                .map_err(Failure::io("read", &self.path))?;
            sum.update(&piece[..part]);
            at += part as u64;
        }
        Ok(sum.finalize().into())
    }
}

/// Bytes as Go prints a slice of them.
fn decimal(bytes: &[u8]) -> String {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    format!("[{}]", numbers.join(" "))
}
