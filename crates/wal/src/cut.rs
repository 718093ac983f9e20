//! From one segment to the next.
//!
//! The next segment's space is reserved ahead, in `0.tmp` or `1.tmp`, by whoever has time for it
//! ([`NextSegment::prepare`]). A cut writes its head, syncs it, shortens the old tail to what it
//! holds, and renames the new one into the log.
//!
//! Invariants:
//! - A segment has its name only once its head is durable, and the old tail is durable before the
//!   new one has its name: readers never find a gap.
//! - A prepared segment holds zeros only.
//! - Until the rename, no space is no error of the log's: the old tail is used on.
//!
//! Source: etcd's `wal.cut` and file pipeline.

use crate::WalError;
use crate::append::{Wal, segment_head};
use crate::create::locked;
use crate::reader::OpenSegment;
use crate::segment::SegmentName;
use quorate_disk::{Disk, File, Mode};
use std::path::PathBuf;
use std::sync::Arc;

/// The order to prepare a segment; see [`Wal::next_segment`]. Any thread may carry it out.
pub struct NextSegment {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
}

/// A segment that only waits for its head and its name; see [`Wal::offer`].
pub struct PreparedSegment {
    path: PathBuf,
    file: Arc<dyn File>,
    len: u64,
}

impl NextSegment {
    /// Makes and locks the file and reserves its space.
    pub fn prepare(self) -> Result<PreparedSegment, WalError> {
        let io = |action| {
            let path = self.path.clone();
            move |source| WalError::io(action, &path, source)
        };
        let file = self
            .disk
            .open(&self.path, Mode::Create)
            .map_err(io("make"))?;
        file.try_lock_record()
            .map_err(|source| locked(&self.path, source))?;
        // What an earlier attempt left there must not show behind the tail.
        file.set_len(0).map_err(io("empty"))?;
        if let Err(source) = file.allocate(self.bytes) {
            let error = WalError::io("reserve space for", &self.path, source);
            // Half of a reservation would only take space from the others.
            self.disk.remove(&self.path).map_err(io("remove"))?;
            return Err(error);
        }
        Ok(PreparedSegment {
            path: self.path,
            file,
            len: self.bytes,
        })
    }
}

impl Wal {
    /// The order to prepare the segment that will follow, unless that is done. One order at a time
    /// may be open, and its outcome comes back through [`Wal::offer`].
    pub fn next_segment(&mut self) -> Option<NextSegment> {
        if self.prepared.is_some() || self.failed {
            return None;
        }
        // Two names in turn, so that an order given right after a cut does not meet its file.
        let path = self.dir.join(format!("{}.tmp", self.prepared_count % 2));
        self.prepared_count += 1;
        Some(NextSegment {
            disk: self.disk.clone(),
            path,
            bytes: self.options.segment_bytes,
        })
    }

    /// Takes a prepared segment. If the log prepared one itself meanwhile, this one is removed.
    pub fn offer(&mut self, prepared: PreparedSegment) -> Result<(), WalError> {
        match &self.prepared {
            None => self.prepared = Some(prepared),
            Some(_) => remove(&*self.disk, prepared)?,
        }
        Ok(())
    }

    /// Prepares the segment that will follow, unless that is done.
    pub fn prepare_next_segment(&mut self) -> Result<(), WalError> {
        match self.next_segment() {
            Some(order) => self.offer(order.prepare()?),
            None => Ok(()),
        }
    }

    /// Begins a new segment. All that was written before is durable then.
    ///
    /// On [`WalError::StorageFull`] the old segment stays the tail, and the log can be used on.
    pub fn cut(&mut self) -> Result<(), WalError> {
        self.check_usable()?;
        self.prepare_next_segment()?;
        let new = self.prepared.take().expect("it was just prepared");
        let (head, crc) = segment_head(self.crc, &self.metadata, &self.state);
        if let Err(source) = new.file.write_all_at(&head, 0) {
            let error = WalError::io("write", &new.path, source);
            remove(&*self.disk, new)?;
            return Err(error);
        }
        if !self.options.unsafe_no_sync {
            let outcome = new
                .file
                .sync_data()
                .map_err(|source| WalError::sync("sync", &new.path, source));
            self.fatal(outcome)?;
        }

        // A reader goes on to the next segment at the end of the file as well as at a zero length,
        // so this only gives space back.
        let offset = self.offset;
        let tail = self.segments.back_mut().expect("a log has a tail");
        match tail.file.set_len(offset) {
            Ok(()) => tail.len = offset,
            Err(source) => {
                let error = WalError::io("shorten", &tail.path, source);
                return self.fatal(Err(error));
            }
        }
        self.sync_tail()?;

        let seq = self
            .tail()
            .name
            .seq
            .checked_add(1)
            .expect("64 bits of segments do not run out");
        let name = SegmentName {
            seq,
            index: self.last_index + 1,
        };
        let path = self.dir.join(name.to_string());
        if let Err(source) = self.disk.rename(&new.path, &path) {
            let error = WalError::io("rename to", &path, source);
            remove(&*self.disk, new)?;
            return if matches!(error, WalError::StorageFull { .. }) {
                Err(error)
            } else {
                self.fatal(Err(error))
            };
        }
        if !self.options.unsafe_no_sync {
            let outcome = self.disk.sync_dir(&self.dir);
            let outcome =
                outcome.map_err(|source| WalError::sync("sync directory", &self.dir, source));
            self.fatal(outcome)?;
        }
        let len = new.len.max(head.len() as u64);
        self.segments.push_back(OpenSegment {
            name,
            path,
            file: new.file,
            len,
        });
        self.offset = head.len() as u64;
        self.crc = crc;
        Ok(())
    }

    /// Gives back the locks of segments that hold nothing above `index` but the newest of them, so
    /// that [`crate::purge`] may remove them. To be called with a durable snapshot's index.
    pub fn release_to(&mut self, index: u64) {
        let above = self
            .segments
            .iter()
            .position(|segment| segment.name.index >= index);
        // The segment before the first that begins at or above `index` may hold `index` itself.
        let released = above.unwrap_or(self.segments.len()).saturating_sub(1);
        self.segments.drain(..released);
    }

    pub(crate) fn discard_prepared(&mut self) -> Result<(), WalError> {
        match self.prepared.take() {
            Some(prepared) => remove(&*self.disk, prepared),
            None => Ok(()),
        }
    }
}

fn remove(disk: &dyn Disk, prepared: PreparedSegment) -> Result<(), WalError> {
    disk.remove(&prepared.path)
        .map_err(|source| WalError::io("remove", &prepared.path, source))
}
