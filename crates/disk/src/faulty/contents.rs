//! One file's bytes: as they are, as they are durable, and the changes between the two.
//!
//! Invariant: `durable` with `pending` applied in order equals what `memory` holds. The live bytes
//! stand in an anonymous file of the operating system, so that views are maps of it.

use super::{BLOCK_BYTES, Random, SECTOR_BYTES};
use rustix::fs::MemfdFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

pub(super) struct Contents {
    memory: fs::File,
    len: u64,
    durable: Sparse,
    pending: Vec<Change>,
    /// Blocks below this number are charged, whatever was written.
    allocated_blocks: u64,
    /// Charged blocks from there on.
    written_blocks: BTreeSet<u64>,
    /// Open files.
    pub(super) handles: u64,
}

/// An unsynced change.
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

/// Bytes in blocks; absent ones are zero.
#[derive(Clone, Default)]
struct Sparse {
    len: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Sparse {
    fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.blocks.split_off(&len.div_ceil(BLOCK_BYTES));
            if let Some(last) = self.blocks.get_mut(&(len / BLOCK_BYTES)) {
                last[(len % BLOCK_BYTES) as usize..].fill(0);
            }
        }
        self.len = len;
    }

    /// Writes, and grows where the bytes reach beyond the end.
    fn write(&mut self, bytes: &[u8], offset: u64) {
        self.len = self.len.max(offset + bytes.len() as u64);
        for (at, part) in pieces(bytes, offset, BLOCK_BYTES) {
            let block = self
                .blocks
                .entry(at / BLOCK_BYTES)
                .or_insert_with(|| vec![0; BLOCK_BYTES as usize].into_boxed_slice());
            let start = (at % BLOCK_BYTES) as usize;
            block[start..start + part.len()].copy_from_slice(part);
        }
    }
}

/// Cuts bytes that stand at `offset` where multiples of `unit` are.
fn pieces(bytes: &[u8], offset: u64, unit: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = bytes;
    let mut at = offset;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = (unit - at % unit).min(rest.len() as u64);
        let (part, behind) = rest.split_at(len as usize);
        let piece = (at, part);
        rest = behind;
        at += len;
        Some(piece)
    })
}

/// How much of the unsynced changes a power cut keeps.
enum Fate {
    All,
    Nothing,
    /// All before this change, then by the sector.
    From(usize),
}

impl Fate {
    fn keeps(&self, number: usize, random: &mut Random) -> bool {
        match self {
            Fate::All => true,
            Fate::Nothing => false,
            Fate::From(first) => number < *first || random.below(2) == 0,
        }
    }
}

impl Contents {
    pub(super) fn new() -> io::Result<Contents> {
        let memory = rustix::fs::memfd_create("quorate-faulty-disk", MemfdFlags::CLOEXEC)?;
        Ok(Contents {
            memory: memory.into(),
            len: 0,
            durable: Sparse::default(),
            pending: Vec::new(),
            allocated_blocks: 0,
            written_blocks: BTreeSet::new(),
            handles: 0,
        })
    }

    fn from_durable(durable: Sparse) -> Contents {
        let mut contents = Contents::new().expect("anonymous memory for a test's file");
        let fill = |memory: &fs::File| -> io::Result<()> {
            memory.set_len(durable.len)?;
            for (&number, block) in &durable.blocks {
                let at = number * BLOCK_BYTES;
                let end = (at + BLOCK_BYTES).min(durable.len);
                memory.write_all_at(&block[..(end - at) as usize], at)?;
            }
            Ok(())
        };
        fill(&contents.memory).expect("anonymous memory for a test's file");
        contents.len = durable.len;
        contents.written_blocks = durable.blocks.keys().copied().collect();
        contents.durable = durable;
        contents
    }

    pub(super) fn memory(&self) -> &fs::File {
        &self.memory
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read_exact(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.memory.read_exact_at(buf, offset)
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.memory.write_all_at(bytes, offset)?;
        self.len = self.len.max(offset + bytes.len() as u64);
        for block in blocks(offset, bytes.len() as u64) {
            if block >= self.allocated_blocks {
                self.written_blocks.insert(block);
            }
        }
        self.pending.push(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
        Ok(())
    }

    pub(super) fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.memory.set_len(len)?;
        self.len = len;
        let kept = len.div_ceil(BLOCK_BYTES);
        self.allocated_blocks = self.allocated_blocks.min(kept);
        self.written_blocks.split_off(&kept);
        self.pending.push(Change::Length(len));
        Ok(())
    }

    pub(super) fn allocate(&mut self, len: u64) -> io::Result<()> {
        if len > self.len {
            self.memory.set_len(len)?;
            self.len = len;
            self.pending.push(Change::Length(len));
        }
        self.allocated_blocks = self.allocated_blocks.max(len.div_ceil(BLOCK_BYTES));
        self.written_blocks = self.written_blocks.split_off(&self.allocated_blocks);
        Ok(())
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::Write { offset, bytes } => self.durable.write(&bytes, offset),
                Change::Length(len) => self.durable.set_len(len),
            }
        }
    }

    /// Some of the changes become durable, and the others never do by themselves.
    pub(super) fn sync_failed(&mut self, random: &mut Random) {
        self.durable = self.after_crash(random);
        self.pending.clear();
    }

    pub(super) fn corrupt(&mut self, offset: u64, mask: u8) -> io::Result<()> {
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, offset)?;
        byte[0] ^= mask;
        self.memory.write_all_at(&byte, offset)?;
        // The flip is in the medium, whatever of the pending changes comes to it.
        self.sync();
        self.durable.write(&byte, offset);
        Ok(())
    }

    pub(super) fn crash(&self, random: &mut Random) -> Contents {
        Contents::from_durable(self.after_crash(random))
    }

    fn after_crash(&self, random: &mut Random) -> Sparse {
        let fate = match random.below(4) {
            0 => Fate::All,
            1 => Fate::Nothing,
            _ => Fate::From(random.below(self.pending.len() as u64 + 1) as usize),
        };
        let lengths_kept = match fate {
            Fate::All => usize::MAX,
            Fate::Nothing => 0,
            Fate::From(first) => {
                first + random.below((self.pending.len() - first) as u64 + 1) as usize
            }
        };
        let mut found = self.durable.clone();
        for (number, change) in self.pending.iter().enumerate() {
            match change {
                Change::Length(len) => {
                    if number < lengths_kept {
                        found.set_len(*len);
                    }
                }
                Change::Write { offset, bytes } => {
                    let end = offset + bytes.len() as u64;
                    if number < lengths_kept && end > found.len {
                        found.set_len(end);
                    }
                    for (at, part) in pieces(bytes, *offset, SECTOR_BYTES) {
                        // Bytes beyond an end that did not move are not part of the file.
                        let inside = found.len.saturating_sub(at).min(part.len() as u64);
                        if inside > 0 && fate.keeps(number, random) {
                            found.write(&part[..inside as usize], at);
                        }
                    }
                }
            }
        }
        found
    }

    /// Blocks that the file takes.
    pub(super) fn charged_blocks(&self) -> u64 {
        self.allocated_blocks + self.written_blocks.len() as u64
    }

    /// Blocks of a range that it does not take yet.
    pub(super) fn uncharged_blocks(&self, offset: u64, len: u64) -> u64 {
        let new = blocks(offset, len).filter(|block| {
            *block >= self.allocated_blocks && !self.written_blocks.contains(block)
        });
        new.count() as u64
    }

    /// Stops to charge for it.
    pub(super) fn release(&mut self) {
        self.allocated_blocks = 0;
        self.written_blocks.clear();
    }
}

fn blocks(offset: u64, len: u64) -> std::ops::Range<u64> {
    if len == 0 {
        0..0
    } else {
        offset / BLOCK_BYTES..(offset + len).div_ceil(BLOCK_BYTES)
    }
}
