//! The one pass over the file at open: which pages are in use, and a bucket's entries.
//!
//! Branches are walked first, which tells the leaves of a bucket in the order of its keys without
//! touching them. Leaves are then read in runs, in file order as far as runs go, by a few threads,
//! each asking for the next run while it works on one. Buckets found in them are walked next.
//!
//! Invariant: every page is entered once. A second way to it is an error, so that no cycle keeps
//! the walk going, and what is left over is free.

use crate::checksum;
use crate::cursor::{DEPTH_MAX, Entry};
use crate::db::Snapshot;
use crate::error::{Error, Problem};
use crate::freelist::FreeList;
use crate::map::PageBits;
use crate::page::{self, BucketRoot, Leaf, Page};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes of leaf pages in a run, without their overflow pages.
const RUN_BYTES: usize = 1 << 20;

/// Most threads that read leaves.
const THREADS_MAX: usize = 4;

/// Receives the entries of a bucket at open.
pub trait LeafScan: Sync {
    /// The entries of consecutive leaves, in the order of their keys. `run` numbers the runs from
    /// 0 in that order; they come in any order, from several threads, each run once. A run has
    /// about 1 MiB of leaves or more, apart from the last. An error ends the opening.
    fn leaves<'a>(
        &self,
        run: usize,
        entries: &mut dyn Iterator<Item = Entry<'a>>,
    ) -> Result<(), String>;
}

/// What the pass found out.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) free: FreeList,
    pub(crate) unverified_pages: u64,
}

/// A tree to walk.
struct Tree {
    root: u64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The tree of top-level buckets.
    Root,
    /// The bucket whose entries are wanted.
    Wanted,
    /// Any other.
    Other,
}

/// Leaves to read.
struct Task {
    kind: Kind,
    /// Number of the run in its tree.
    run: usize,
    leaves: Vec<u64>,
}

struct Walk<'a> {
    snapshot: &'a Snapshot,
    scan: Option<(&'a [u8], &'a dyn LeafScan)>,
    in_use: PageBits,
    unverified_pages: AtomicU64,
    /// Trees found in leaves, to be walked next.
    found: Mutex<Vec<Tree>>,
}

/// That the keys of a page ascend.
fn check_order(page: &Page<'_>) -> Result<(), Problem> {
    let count = match page {
        Page::Branch(branch) => branch.count(),
        Page::Leaf(leaf) => leaf.count(),
    };
    let key = |index| match page {
        Page::Branch(branch) => branch.key(index),
        Page::Leaf(leaf) => leaf.key(index),
    };
    for index in 1..count {
        if key(index - 1)? >= key(index)? {
            return Err(Problem::KeyOrder(index));
        }
    }
    Ok(())
}

/// Walks everything below the root of `snapshot`.
pub(crate) fn walk(
    snapshot: &Snapshot,
    scan: Option<(&[u8], &dyn LeafScan)>,
) -> Result<Found, Error> {
    let meta = snapshot.meta;
    let walk = Walk {
        snapshot,
        scan,
        in_use: PageBits::new(meta.high_water),
        unverified_pages: AtomicU64::new(0),
        found: Mutex::new(vec![Tree {
            root: meta.root,
            kind: Kind::Root,
        }]),
    };
    if meta.has_freelist() {
        // It stays as it is until the first commit has replaced this state.
        let run = snapshot.map.run(meta.freelist, meta.high_water)?;
        walk.enter(meta.freelist, run)?;
    }
    loop {
        let trees = std::mem::take(&mut *walk.found.lock().unwrap_or_else(PoisonError::into_inner));
        if trees.is_empty() {
            break;
        }
        let mut tasks = Vec::new();
        for tree in trees {
            walk.collect(tree, &mut tasks)?;
        }
        tasks.sort_by_key(|task| task.leaves.iter().min().copied());
        walk.read_leaves(&tasks)?;
    }
    Ok(Found {
        free: walk.free_pages(),
        unverified_pages: walk.unverified_pages.into_inner(),
    })
}

impl<'a> Walk<'a> {
    /// Marks the pages of a run as in use.
    fn enter(&self, id: u64, run: &[u8]) -> Result<(), Error> {
        let pages = (run.len() / self.snapshot.map.page_size()) as u64;
        for page in id..id + pages {
            if self.in_use.set(page) {
                return Err(self.snapshot.map.corrupt(page, Problem::ReachedTwice));
            }
        }
        Ok(())
    }

    /// A page that was not entered before, sound and with the right checksum.
    fn page(&self, id: u64) -> Result<Page<'a>, Error> {
        let map = &self.snapshot.map;
        let meta = self.snapshot.meta;
        let run = map.run(id, meta.high_water)?;
        self.enter(id, run)?;
        let page = map.page_afresh(id, meta.high_water)?;
        let verified = checksum::verify(run, page.used_bytes(), meta.txid);
        match verified.map_err(|problem| map.corrupt(id, problem))? {
            Some(_txid) => {}
            None => {
                // Nothing else vouches for the order by which everything is found.
                check_order(&page).map_err(|problem| map.corrupt(id, problem))?;
                let pages = run.len() / map.page_size();
                self.unverified_pages
                    .fetch_add(pages as u64, Ordering::Relaxed);
            }
        }
        Ok(page)
    }

    /// Walks a tree's branches and adds its leaves as tasks.
    fn collect(&self, tree: Tree, tasks: &mut Vec<Task>) -> Result<(), Error> {
        // All leaves of a tree are at one depth, which the leftmost path tells.
        let mut height = 0;
        let mut id = tree.root;
        while let Page::Branch(branch) = self.snapshot.page(id)? {
            height += 1;
            if height >= DEPTH_MAX {
                return Err(self.snapshot.map.corrupt(id, Problem::Depth));
            }
            id = branch.child(0);
        }
        let mut level = vec![tree.root];
        for _ in 0..height {
            let mut below = Vec::new();
            for id in level {
                match self.page(id)? {
                    Page::Branch(branch) => {
                        below.extend((0..branch.count()).map(|index| branch.child(index)));
                    }
                    Page::Leaf(_) => {
                        return Err(self.snapshot.map.corrupt(id, Problem::Type(page::LEAF)));
                    }
                }
            }
            level = below;
        }
        let per_run = (RUN_BYTES / self.snapshot.map.page_size()).max(1);
        for (run, leaves) in level.chunks(per_run).enumerate() {
            tasks.push(Task {
                kind: tree.kind,
                run,
                leaves: leaves.to_vec(),
            });
        }
        Ok(())
    }

    fn read_leaves(&self, tasks: &[Task]) -> Result<(), Error> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(THREADS_MAX).min(tasks.len());
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(task) = tasks.get(number) else {
                    return;
                };
                if let Some(later) = tasks.get(number + threads) {
                    self.prefetch(&later.leaves);
                }
                if let Err(error) = self.read_run(task) {
                    stop.store(true, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|(other, _)| number < *other) {
                        *failed = Some((number, error));
                    }
                }
            }
        };
        if threads > 1 {
            std::thread::scope(|scope| {
                for _ in 1..threads {
                    scope.spawn(work);
                }
                work();
            });
        } else {
            work();
        }
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Asks for pages to be read in, neighbours in one request.
    fn prefetch(&self, leaves: &[u64]) {
        let high_water = self.snapshot.meta.high_water;
        let mut rest = leaves;
        while let Some(&first) = rest.first() {
            let neighbours = rest
                .iter()
                .zip(first..)
                .take_while(|(id, expected)| **id == *expected);
            let count = neighbours.count();
            // Ids are not checked yet.
            if first < high_water {
                self.snapshot
                    .map
                    .prefetch(first, (count as u64).min(high_water - first));
            }
            rest = &rest[count..];
        }
    }

    /// Reads the leaves of a run, notes the buckets in them, and hands the entries on.
    fn read_run(&self, task: &Task) -> Result<(), Error> {
        let mut leaves = Vec::with_capacity(task.leaves.len());
        for &id in &task.leaves {
            match self.page(id)? {
                Page::Leaf(leaf) => leaves.push(leaf),
                Page::Branch(_) => {
                    return Err(self.snapshot.map.corrupt(id, Problem::Type(page::BRANCH)));
                }
            }
        }
        for (leaf, id) in leaves.iter().zip(&task.leaves) {
            self.note_buckets(leaf, *id, task.kind)?;
        }
        match self.scan {
            Some((_, scan)) if task.kind == Kind::Wanted => {
                self.hand_on(scan, task.run, &leaves, &task.leaves)
            }
            _ => Ok(()),
        }
    }

    fn note_buckets(&self, leaf: &Leaf<'a>, id: u64, kind: Kind) -> Result<(), Error> {
        let corrupt = |problem| self.snapshot.map.corrupt(id, problem);
        for index in 0..leaf.count() {
            if !leaf.is_bucket(index) {
                continue;
            }
            let (name, value) = leaf.entry(index).map_err(corrupt)?;
            let (root, _) = page::parse_bucket(value, index).map_err(corrupt)?;
            let wanted = match self.scan {
                Some((wanted, scan)) if kind == Kind::Root && name == wanted => Some(scan),
                _ => None,
            };
            match (root, wanted) {
                (BucketRoot::Page(root), wanted) => {
                    let kind = if wanted.is_some() {
                        Kind::Wanted
                    } else {
                        Kind::Other
                    };
                    let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push(Tree { root, kind });
                }
                (BucketRoot::Inline(leaf), Some(scan)) => self.hand_on(scan, 0, &[leaf], &[id])?,
                (BucketRoot::Inline(_), None) => {}
            }
        }
        Ok(())
    }

    /// Hands on the entries of leaves with these ids (for an inline one, the page it is in).
    fn hand_on(
        &self,
        scan: &dyn LeafScan,
        run: usize,
        leaves: &[Leaf<'a>],
        ids: &[u64],
    ) -> Result<(), Error> {
        let mut broken = None;
        let places = leaves.iter().zip(ids).flat_map(|(leaf, id)| {
            let plain = (0..leaf.count()).filter(|index| !leaf.is_bucket(*index));
            plain.map(move |index| (leaf, id, index))
        });
        let mut entries = places.map_while(|(leaf, id, index)| match leaf.entry(index) {
            Ok(entry) => Some(entry),
            Err(problem) => {
                broken = Some(self.snapshot.map.corrupt(*id, problem));
                None
            }
        });
        let answer = scan.leaves(run, &mut entries);
        match (broken, answer) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(()),
            (None, Err(problem)) => {
                let path = self.snapshot.map.path().to_path_buf();
                Err(Error::Scan { path, problem })
            }
        }
    }

    fn free_pages(&self) -> FreeList {
        let mut free = FreeList::default();
        let mut start = None;
        let high_water = self.snapshot.meta.high_water;
        for page in 2..=high_water {
            let is_free = page < high_water && !self.in_use.get(page);
            match (start, is_free) {
                (None, true) => start = Some(page),
                (Some(first), false) => {
                    free.add(first, page - first);
                    start = None;
                }
                _ => {}
            }
        }
        free
    }
}
