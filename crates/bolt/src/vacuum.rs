//! Giving free space back while the database is in use.
//!
//! The tree is walked in the order of its keys, again and again. Each step is a small write
//! transaction that dirties some leaves, so that commit puts them elsewhere: those that stand
//! beyond the size which the database would have without holes (`target`), and neighbours that
//! fit into fewer pages. Commit takes the lowest free pages, and lowers the high-water mark where
//! the end of the file has become free.
//!
//! A run of several pages needs a hole of its size. Where there is none below the target, the
//! stretch of that size with the fewest pages in use (`window`) is kept from being filled and
//! emptied first. A run moves in a step of its own, so that nothing else takes its hole.
//!
//! What a step takes from the end stays in the way for as long as a reader's state has it there, and
//! what readers keep below is no room. So nothing is given up while that may be the reason: a pass
//! that gained nothing is judged once all that was freed by its end is free, and counts only if that
//! held at its beginning, too. Until then steps do nothing ([`VacuumNext::Wait`]). What is gained in
//! the end thus does not depend on when the readers of older states let go.
//!
//! It ends because the high-water mark falls, or a run comes below the target, only so often; what
//! else happens is limited by [`IDLE_PASSES`] and [`WINDOW_PASSES`].

use crate::bucket_node::BucketNode;
use crate::commit::{self, Placement};
use crate::cut::{Tail, cut, is_settled, tail};
use crate::db::Db;
use crate::error::Error;
use crate::freelist::FreeList;
use crate::map::Map;
use crate::memory::Memory;
use crate::page::{Leaf, Page};
use crate::settle::{capacity, pieces_when_full};
use crate::walk::{self, Place, Position, Visitor};
use crate::window::{emptiest, meets};
use crate::write::WriteTx;
use std::collections::{BTreeMap, BTreeSet};

/// Passes without a gain after which there is nothing left to do.
const IDLE_PASSES: u32 = 2;

/// Passes that a window may take until it is given up.
const WINDOW_PASSES: u32 = 8;

/// Neighbours that are looked at together.
const GROUP_MAX: usize = 8;

/// Bytes that may be looked at for each byte that may be moved.
const LOOK_FACTOR: u64 = 8;

/// Pages of the largest window, unless a single run is longer.
const WINDOW_PAGES: u64 = 4096;

/// Steps at the end that only commit and cut: one per meta page, and the cut.
const LAST_STEPS: u32 = 3;

/// Runs that a pass remembers.
const RUNS_MAX: usize = 1 << 16;

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumStep {
    /// Bytes of the pages that were moved.
    pub moved_bytes: u64,
    /// Bytes by which the file became shorter.
    pub cut_bytes: u64,
    /// What follows.
    pub next: VacuumNext,
}

/// What follows a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VacuumNext {
    /// Another step.
    #[default]
    Step,
    /// Another step, which does nothing before some read transactions of older states have ended.
    Wait,
    /// Nothing: what was free when it began, or was freed before, is given back. A further step
    /// begins from the start.
    Done,
}

/// Where the vacuum stands between two steps.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    position: Position,
    pass: Option<Pass>,
    /// A pass that is over and to be judged, and the transaction up to which what was freed is to be
    /// free by then.
    ended: Option<(Pass, u64)>,
    /// The walk came to a run that is to be moved now, before anything else.
    run_first: bool,
    idle_passes: u32,
    window_passes: u32,
    /// Runs that could not be moved out of a window; forgotten with the next gain.
    immovable: BTreeSet<u64>,
    /// The lowest high-water mark since the beginning; `None` before.
    best: Option<u64>,
    /// Nothing is left to be moved; steps until the end.
    last_steps: Option<u32>,
}

/// One walk over the whole tree.
#[derive(Clone, Debug)]
struct Pass {
    /// Pages from here on are to be moved.
    target: u64,
    /// Whether it began with nothing kept for readers that had been freed before.
    unhindered: bool,
    /// Pages that are kept free for runs: first, and number.
    window: Option<(u64, u64)>,
    /// Whether the window was empty when the pass began, and so need not be emptied.
    emptied: bool,
    /// The longest run that found no hole, in pages, and all of them together.
    stuck_run: u64,
    stuck_pages: u64,
    /// Whether runs moved from beyond the target to below.
    runs_moved: bool,
    /// Runs below the target, some of them at least: they stand in the way of a window.
    runs_below: BTreeMap<u64, u64>,
}

/// A page to be written anew.
struct Touch {
    bucket: Vec<Vec<u8>>,
    key: Vec<u8>,
    id: u64,
    /// Leaves of one group (above 0) are packed together.
    group: u32,
}

impl Db {
    /// Moves up to about `budget_bytes` (at least one page, or one run of pages) towards the
    /// beginning of the file, and shortens it where its end is free. Waits for the writer, and
    /// holds it up for as long as a commit of that size takes.
    pub fn vacuum_step(&self, budget_bytes: usize) -> Result<VacuumStep, Error> {
        let mut tx = self.begin_write()?;
        let cut_bytes = cut(&self.inner, &mut tx)?;
        let meta = tx.memory.base.meta;
        let high_water = meta.high_water;
        let mut progress = std::mem::take(&mut tx.writer.vacuum);
        let quiet = |next| VacuumStep {
            cut_bytes,
            next,
            moved_bytes: 0,
        };
        if let Some((pass, freed_by)) = progress.ended.take() {
            let tail = tx.writer.free.tail_start(high_water);
            let unhindered = !tx.writer.free.keeps_freed_by(freed_by);
            if !unhindered && !progress.is_gain(tail) {
                progress.ended = Some((pass, freed_by));
                tx.writer.vacuum = progress;
                return Ok(quiet(VacuumNext::Wait));
            }
            progress.judge(&pass, &tx.writer.free, high_water, unhindered);
        }
        if let Some(steps) = progress.last_steps {
            let next = last_step(tx, progress, steps)?;
            return Ok(quiet(next));
        }

        let begun = progress.pass.take();
        let mut pass = begun.unwrap_or_else(|| {
            let unhindered = !tx.writer.free.keeps_freed_by(meta.txid);
            progress.begin(&tx.writer.free, high_water, unhindered)
        });
        let run_first = std::mem::take(&mut progress.run_first);
        let mut plan = Plan::new(
            &mut pass,
            &tx.writer.free,
            &tx.memory.base.map,
            budget_bytes,
        );
        plan.run_first = run_first;
        let at_end = walk::walk(&tx.memory.base, &mut progress.position, &mut plan)?;
        let Plan {
            touches,
            moved,
            come_back,
            stuck_run,
            stuck_pages,
            runs_below,
            immovable,
            run_to,
            reaches_target,
            ..
        } = plan;
        let at_end = at_end && come_back.is_none();
        if let Some(position) = come_back {
            progress.position = position;
            progress.run_first = true;
        }
        progress.immovable.extend(immovable);
        pass.runs_moved |= reaches_target;
        pass.stuck_run = stuck_run;
        pass.stuck_pages = stuck_pages;
        pass.runs_below = runs_below;
        let (end, avoid) = run_to.unwrap_or((pass.target, pass.window));
        let tail = tx.writer.free.tail_start(high_water);
        let commits = !touches.is_empty() || tail < high_water;
        if at_end {
            progress.ended = Some((pass, meta.txid + u64::from(commits)));
        } else {
            progress.pass = Some(pass);
        }
        tx.writer.vacuum = progress;

        if commits {
            for touch in touches.into_values() {
                touch_page(&mut tx.root, &tx.memory, &touch)?;
            }
            commit::commit(tx, Placement::Below { end, avoid })?;
        }
        Ok(VacuumStep {
            cut_bytes,
            next: VacuumNext::Step,
            moved_bytes: moved,
        })
    }
}

/// A step after the last pass: has both meta pages say where the file ends, so that it can be cut.
fn last_step(mut tx: WriteTx<'_>, progress: Progress, steps: u32) -> Result<VacuumNext, Error> {
    let tail = tail(tx.db, &tx);
    let is_over = steps == 0 || is_settled(&tx);
    if is_over && tail == Tail::AsItShouldBe {
        return Ok(VacuumNext::Done);
    }
    tx.writer.vacuum = Progress {
        last_steps: Some(steps.saturating_sub(1)),
        ..progress
    };
    match tail {
        // By the next step.
        Tail::ToBeCut => Ok(VacuumNext::Step),
        Tail::Read if is_over => Ok(VacuumNext::Wait),
        Tail::AsItShouldBe | Tail::Read => {
            let end = tx.memory.base.meta.high_water;
            commit::commit(tx, Placement::Below { end, avoid: None })?;
            Ok(VacuumNext::Step)
        }
    }
}

/// Opens a page up so that commit writes it anew.
fn touch_page(root: &mut BucketNode, memory: &Memory, touch: &Touch) -> Result<(), Error> {
    let mut bucket = root;
    for name in &touch.bucket {
        bucket.append_only = true;
        bucket = bucket.child(memory, name)?.ok_or(Error::BucketMissing)?;
    }
    bucket.append_only = true;
    bucket.rewrite(memory, &touch.key, touch.id, touch.group)
}

impl Progress {
    fn begin(&mut self, free: &FreeList, high_water: u64, unhindered: bool) -> Pass {
        self.position = Position::default();
        self.best.get_or_insert(high_water);
        let holes = free.free_pages() + free.pending_pages();
        Pass {
            target: high_water - holes,
            unhindered,
            window: None,
            emptied: false,
            stuck_run: 0,
            stuck_pages: 0,
            runs_moved: false,
            runs_below: BTreeMap::new(),
        }
    }

    /// Whether the high-water mark would be lower than ever with the tail cut off.
    fn is_gain(&self, tail: u64) -> bool {
        self.best.is_none_or(|best| tail < best)
    }

    /// Takes in what a pass gained, and begins another one or the last steps. `unhindered`: nothing
    /// that was freed by the end of this pass is kept for readers.
    fn judge(&mut self, pass: &Pass, free: &FreeList, high_water: u64, unhindered: bool) {
        let tail = free.tail_start(high_water);
        if self.is_gain(tail) {
            self.best = Some(tail);
            self.immovable.clear();
            self.idle_passes = 0;
            self.window_passes = 0;
        } else if pass.unhindered {
            self.idle_passes += 1;
        }
        if pass.runs_moved {
            // Where they stand now is for the next pass to see.
            self.idle_passes = 0;
            self.window_passes = 0;
        }
        let mut next = self.begin(free, high_water, unhindered);
        if pass.stuck_run > 0 && !pass.runs_moved && self.window_passes < WINDOW_PASSES {
            self.window_passes += u32::from(pass.unhindered);
            let end = next.target;
            let obstacles: Vec<(u64, u64)> = pass
                .runs_below
                .iter()
                .map(|(start, len)| (*start, *len))
                .filter(|(start, len)| *len >= pass.stuck_run || self.immovable.contains(start))
                .collect();
            // One that is being emptied stays, until it is used.
            next.window = pass.window.filter(|&(start, len)| {
                len >= pass.stuck_run && start + len <= end && !meets(&obstacles, start, len)
            });
            // For all that is stuck, or else for some of it.
            let mut len = pass.stuck_pages.min(WINDOW_PAGES);
            while next.window.is_none() && len >= pass.stuck_run {
                next.window = emptiest(free, &obstacles, len, end);
                len /= 2;
            }
            if next.window.is_none() {
                next.window = emptiest(free, &obstacles, pass.stuck_run, end);
            }
            if let Some((start, len)) = next.window {
                next.emptied = free.is_free(start, len);
                self.idle_passes = 0;
            }
        }
        if self.idle_passes >= IDLE_PASSES {
            *self = Progress {
                last_steps: Some(LAST_STEPS),
                ..Progress::default()
            };
        } else {
            self.pass = Some(next);
        }
    }
}

/// Chooses the pages of one step.
struct Plan<'a> {
    target: u64,
    /// Pages to be emptied: first, and number.
    to_empty: Option<(u64, u64)>,
    free: &'a FreeList,
    map: &'a Map,
    /// Single pages that find a place below the target.
    room: u64,
    page_size: u64,
    budget: u64,
    moved: u64,
    looked: u64,
    touches: BTreeMap<u64, Touch>,
    groups: u32,
    /// Leaves next to each other below one branch that might be packed.
    neighbours: Vec<Neighbour>,
    /// A run moves, now or in the next step, and nothing else with it.
    alone: bool,
    /// Nothing but a run moves.
    run_first: bool,
    /// Where the next step is to begin, if not where the walk ends.
    come_back: Option<Position>,
    stuck_run: u64,
    stuck_pages: u64,
    runs_below: BTreeMap<u64, u64>,
    /// Runs in the window that have nowhere to go.
    immovable: BTreeSet<u64>,
    /// Where the run of this step goes: below the first, and not into the second.
    run_to: Option<(u64, Option<(u64, u64)>)>,
    /// Whether it goes from beyond the target to below.
    reaches_target: bool,
}

struct Neighbour {
    parent: u64,
    id: u64,
    key: Vec<u8>,
    /// Bytes of each element.
    sizes: Vec<usize>,
}

impl<'a> Plan<'a> {
    fn new(pass: &mut Pass, free: &'a FreeList, map: &'a Map, budget_bytes: usize) -> Plan<'a> {
        let in_window = pass.window.map_or(0, |(start, len)| {
            free.free_pages_below(start + len) - free.free_pages_below(start)
        });
        Plan {
            target: pass.target,
            to_empty: pass.window.filter(|_| !pass.emptied),
            free,
            room: free.free_pages_below(pass.target).saturating_sub(in_window),
            map,
            page_size: map.page_size() as u64,
            budget: budget_bytes as u64,
            moved: 0,
            looked: 0,
            touches: BTreeMap::new(),
            groups: 0,
            neighbours: Vec::new(),
            alone: false,
            run_first: false,
            come_back: None,
            stuck_run: pass.stuck_run,
            stuck_pages: pass.stuck_pages,
            runs_below: std::mem::take(&mut pass.runs_below),
            immovable: BTreeSet::new(),
            run_to: None,
            reaches_target: false,
        }
    }

    fn must_move(&self, id: u64, pages: u64) -> bool {
        let in_window = self
            .to_empty
            .is_some_and(|(start, len)| id < start + len && start < id + pages);
        id >= self.target || in_window
    }

    fn touch(&mut self, place: &Place<'_>, key: Vec<u8>, pages: u64, group: u32) {
        let id = place.id;
        let bucket = place.bucket.to_vec();
        let before = self.touches.insert(
            id,
            Touch {
                bucket,
                key,
                id,
                group,
            },
        );
        if before.is_none() {
            self.moved += pages * self.page_size;
        }
    }

    /// A run that is to move: alone, and only if it has somewhere to go.
    fn run(&mut self, place: &Place<'_>, key: Vec<u8>, pages: u64) {
        // From beyond the target, any lower place is a gain.
        let beyond = place.id >= self.target;
        let (end, avoid) = if beyond {
            (place.id, None)
        } else {
            (self.target, self.to_empty)
        };
        if !self.free.has_run(pages, end, avoid) {
            if beyond {
                self.stuck_run = self.stuck_run.max(pages);
                self.stuck_pages += pages;
            } else {
                self.immovable.insert(place.id);
            }
            return;
        }
        if self.touches.is_empty() {
            self.touch(place, key, pages, 0);
            self.run_to = Some((end, avoid));
            self.reaches_target = beyond && self.free.has_run(pages, self.target, None);
            if beyond && !self.reaches_target {
                self.stuck_run = self.stuck_run.max(pages);
                self.stuck_pages += pages;
            }
        } else {
            let mut position = place.bucket.to_vec();
            position.push(key);
            self.come_back = Some(Position(position));
        }
        self.alone = true;
    }

    /// Packs neighbours that fit into fewer pages.
    fn group(&mut self, place: &Place<'_>, leaf: &Leaf<'_>, key: Vec<u8>) {
        let page_size = self.page_size as usize;
        if self
            .neighbours
            .first()
            .is_some_and(|first| first.parent != place.parent)
        {
            self.neighbours.clear();
        }
        let sizes = (0..leaf.count()).map(|index| {
            let (_, key_len, value_len) = leaf.entry_at(index);
            crate::page::ELEMENT_BYTES + key_len + value_len
        });
        self.neighbours.push(Neighbour {
            parent: place.parent,
            id: place.id,
            key,
            sizes: sizes.collect(),
        });
        let count = self.neighbours.len();
        if count < 2 {
            return;
        }
        let sizes: Vec<usize> = self
            .neighbours
            .iter()
            .flat_map(|leaf| leaf.sizes.iter().copied())
            .collect();
        let total: usize = sizes.iter().sum();
        if total < (count - 1) * capacity(page_size) && pieces_when_full(&sizes, page_size) < count
        {
            self.groups += 1;
            let group = self.groups;
            for leaf in std::mem::take(&mut self.neighbours) {
                let place = Place {
                    bucket: place.bucket,
                    parent: leaf.parent,
                    id: leaf.id,
                };
                self.touch(&place, leaf.key, 1, group);
            }
        } else if count == GROUP_MAX {
            self.neighbours.remove(0);
        }
    }
}

impl Visitor for Plan<'_> {
    fn visit(
        &mut self,
        place: &Place<'_>,
        page: Result<(&[u8], Page<'_>), Error>,
    ) -> Result<(), Error> {
        let (run, page) = page?;
        if self.alone {
            return Ok(());
        }
        let pages = run.len() as u64 / self.page_size;
        self.looked += self.page_size;
        let key = match page {
            Page::Leaf(leaf) if leaf.count() == 0 => Ok(&[][..]),
            Page::Leaf(leaf) => leaf.key(0),
            Page::Branch(branch) => branch.key(0),
        };
        let key = key
            .map_err(|problem| self.map.corrupt(place.id, problem))?
            .to_vec();
        if pages > 1 {
            self.neighbours.clear();
            if self.must_move(place.id, pages) {
                self.run(place, key, pages);
            } else if self.runs_below.len() < RUNS_MAX {
                self.runs_below.insert(place.id, pages);
            }
            return Ok(());
        }
        if self.run_first {
            return Ok(());
        }
        if self.must_move(place.id, 1) && (self.touches.len() as u64) < self.room {
            self.touch(place, key.clone(), 1, 0);
        }
        match page {
            Page::Leaf(leaf) if place.parent != 0 && leaf.count() > 0 => {
                self.group(place, &leaf, key);
            }
            Page::Leaf(_) | Page::Branch(_) => self.neighbours.clear(),
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.alone
            || self.moved >= self.budget
            || self.looked >= self.budget.saturating_mul(LOOK_FACTOR)
    }
}
