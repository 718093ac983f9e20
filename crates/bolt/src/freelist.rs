//! Free pages, and pages that become free once no reader can see them.
//!
//! Invariants:
//! - `free` holds maximal runs of pages that neither the newest committed state nor any open
//!   reader's reaches; runs do not touch.
//! - A pending run was in use from transaction `since` on (its writer) up to the one before the
//!   transaction that freed it, and is needed by the readers of just these states.
//! - No page is in two runs.
//!
//! Nothing of it is stored: it is found anew at each open.
//!
//! Source: bbolt 1.4 internal/freelist for when a page may be released.

use std::collections::BTreeMap;

/// Size classes of [`FreeList::allocate`]'s starting points: runs of 2^k pages and more.
const CLASSES: usize = 24;

/// Pages `start..start + len` that one transaction freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// The transaction that wrote them, 0 where it is unknown.
    pub(crate) since: u64,
}

/// What one transaction freed and readers may still need.
#[derive(Clone, Debug, Default)]
struct Pending {
    runs: Vec<Freed>,
    /// The newest reader that the remaining runs were found to be needed by.
    held_by: Option<u64>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeList {
    free: BTreeMap<u64, u64>,
    free_pages: u64,
    pending: BTreeMap<u64, Pending>,
    pending_pages: u64,
    /// Every free run that starts below `no_fit_below[k]` is shorter than 2^k pages.
    no_fit_below: [u64; CLASSES],
}

/// The largest k with 2^k <= len.
fn class(len: u64) -> usize {
    ((63 - len.leading_zeros()) as usize).min(CLASSES - 1)
}

impl FreeList {
    /// Free pages that may be allocated now.
    pub(crate) fn free_pages(&self) -> u64 {
        self.free_pages
    }

    /// Pages that are kept for readers.
    pub(crate) fn pending_pages(&self) -> u64 {
        self.pending_pages
    }

    /// Free runs from the lowest up.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.free.iter().map(|(start, len)| (*start, *len))
    }

    /// Whether pages are kept for readers that transaction `txid` or one before it freed.
    pub(crate) fn keeps_freed_by(&self, txid: u64) -> bool {
        self.pending
            .keys()
            .next()
            .is_some_and(|oldest| *oldest <= txid)
    }

    /// All pending runs.
    pub(crate) fn pending_runs(&self) -> impl Iterator<Item = Freed> {
        self.pending
            .values()
            .flat_map(|pending| pending.runs.iter().copied())
    }

    /// Free pages below `end`.
    pub(crate) fn free_pages_below(&self, end: u64) -> u64 {
        self.free
            .range(..end)
            .map(|(start, len)| (*len).min(end - start))
            .sum()
    }

    /// Adds a run that nobody needs.
    pub(crate) fn add(&mut self, start: u64, len: u64) {
        assert!(start >= 2 && len > 0, "meta pages are never free");
        self.free_pages += len;
        let mut start = start;
        let mut len = len;
        if let Some((&before, &before_len)) = self.free.range(..start).next_back() {
            assert!(before + before_len <= start, "page {start} is free already");
            if before + before_len == start {
                self.free.remove(&before);
                start = before;
                len += before_len;
            }
        }
        if let Some((&behind, &behind_len)) = self.free.range(start..).next() {
            assert!(start + len <= behind, "page {behind} is free already");
            if start + len == behind {
                self.free.remove(&behind);
                len += behind_len;
            }
        }
        self.free.insert(start, len);
        for low in &mut self.no_fit_below[..=class(len)] {
            *low = (*low).min(start);
        }
    }

    /// Takes the lowest run of `len` pages that ends at `end` or before it.
    pub(crate) fn allocate(&mut self, len: u64, end: u64) -> Option<u64> {
        assert!(len > 0, "nothing to allocate");
        let class = class(len);
        let mut all_short = true;
        let mut found = None;
        for (&start, &run) in self.free.range(self.no_fit_below[class]..) {
            if start + len > end {
                break;
            }
            if run >= len {
                found = Some((start, run));
                break;
            }
            all_short &= run >> class == 0;
            if all_short {
                self.no_fit_below[class] = start + 1;
            }
        }
        let (start, run) = found?;
        self.free.remove(&start);
        if run > len {
            self.free.insert(start + len, run - len);
            // The rest starts higher than the run did, and is as long as it or shorter, so what is
            // known about the runs below stays true.
        }
        self.free_pages -= len;
        Some(start)
    }

    /// Whether `len` free pages in a row end at `end` or before it, without those of `avoid`
    /// (first, and number).
    pub(crate) fn has_run(&self, len: u64, end: u64, avoid: Option<(u64, u64)>) -> bool {
        let (hole, hole_end) =
            avoid.map_or((u64::MAX, u64::MAX), |(start, len)| (start, start + len));
        self.free
            .range(self.no_fit_below[class(len)]..)
            .take_while(|(start, _)| *start + len <= end)
            .any(|(start, run)| {
                let run_end = (start + run).min(end);
                let below = run_end.min(hole).saturating_sub(*start);
                let above = run_end.saturating_sub(hole_end.max(*start));
                below >= len || above >= len
            })
    }

    /// Whether all pages `start..start + len` are free.
    pub(crate) fn is_free(&self, start: u64, len: u64) -> bool {
        let run = self.free.range(..=start).next_back();
        run.is_some_and(|(run, run_len)| run + run_len >= start + len)
    }

    /// Takes the free ones of the pages `start..start + len` out, and gives them.
    pub(crate) fn carve(&mut self, start: u64, len: u64) -> Vec<(u64, u64)> {
        let end = start + len;
        let first = self
            .free
            .range(..=start)
            .next_back()
            .map_or(start, |(run, _)| *run);
        let inside: Vec<(u64, u64)> = self
            .free
            .range(first..end)
            .map(|(run, run_len)| ((*run).max(start), (run + run_len).min(end)))
            .filter(|(from, to)| from < to)
            .map(|(from, to)| (from, to - from))
            .collect();
        for &(from, len) in &inside {
            self.take(from, len);
        }
        inside
    }

    /// Takes the free pages `start..start + len` out, all of which are free.
    pub(crate) fn take(&mut self, start: u64, len: u64) {
        let (&run, &run_len) = self
            .free
            .range(..=start)
            .next_back()
            .expect("the pages are free");
        assert!(run + run_len >= start + len, "the pages are free");
        self.free.remove(&run);
        if run < start {
            self.free.insert(run, start - run);
        }
        if start + len < run + run_len {
            self.free.insert(start + len, run + run_len - start - len);
        }
        self.free_pages -= len;
    }

    /// Where the free run that ends at `high_water` starts; `high_water` where there is none.
    pub(crate) fn tail_start(&self, high_water: u64) -> u64 {
        match self.free.iter().next_back() {
            Some((&start, &len)) if start + len == high_water => start,
            _ => high_water,
        }
    }

    /// Keeps what transaction `txid` freed until no reader needs it.
    pub(crate) fn add_pending(&mut self, txid: u64, runs: Vec<Freed>) {
        if runs.is_empty() {
            return;
        }
        self.pending_pages += runs.iter().map(|run| run.len).sum::<u64>();
        let before = self.pending.insert(
            txid,
            Pending {
                runs,
                held_by: None,
            },
        );
        assert!(before.is_none(), "each transaction frees once");
    }

    /// Frees what no reader of these transactions needs. `readers` are in ascending order.
    pub(crate) fn release(&mut self, readers: &[u64]) {
        let mut released = Vec::new();
        self.pending.retain(|&txid, pending| {
            // Readers at `txid` and later do not see the pages any more.
            let older = readers.partition_point(|reader| *reader < txid);
            let newest = older.checked_sub(1).map(|index| readers[index]);
            match newest {
                None => released.append(&mut pending.runs),
                Some(reader) if pending.held_by != Some(reader) => {
                    pending.held_by = Some(reader);
                    pending.runs.retain(|run| {
                        let needed = run.since <= reader;
                        if !needed {
                            released.push(*run);
                        }
                        needed
                    });
                }
                Some(_) => {}
            }
            !pending.runs.is_empty()
        });
        for run in released {
            self.pending_pages -= run.len;
            self.add(run.start, run.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(start: u64, len: u64, since: u64) -> Freed {
        Freed { start, len, since }
    }

    #[test]
    fn runs_merge_and_the_lowest_fitting_one_is_taken() {
        let mut list = FreeList::default();
        list.add(10, 2);
        list.add(14, 1);
        list.add(12, 2);
        assert_eq!(list.runs().collect::<Vec<_>>(), [(10, 5)]);
        list.add(4, 2);
        assert_eq!(list.allocate(3, 100), Some(10));
        assert_eq!(list.allocate(1, 100), Some(4));
        assert_eq!(list.allocate(2, 14), None);
        assert_eq!(list.allocate(2, 15), Some(13));
        assert_eq!(list.free_pages(), 1);
    }

    #[test]
    fn allocation_agrees_with_a_plain_scan() {
        let mut seed = 1u64;
        let mut random = |bound: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) % bound
        };
        let mut list = FreeList::default();
        let mut model = vec![false; 600];
        for _ in 0..20_000 {
            let len = 1 + random(9);
            if random(2) == 0 {
                let end = 2 + random(598);
                let fits = |start: usize| {
                    start + len as usize <= end as usize
                        && model[start..start + len as usize].iter().all(|free| *free)
                };
                let expected = (2..600).find(|start| fits(*start));
                let found = list.allocate(len, end);
                assert_eq!(found, expected.map(|start| start as u64));
                if let Some(start) = expected {
                    model[start..start + len as usize].fill(false);
                }
            } else {
                let start = 2 + random(598 - len) as usize;
                if model[start..start + len as usize].iter().all(|free| !*free) {
                    list.add(start as u64, len);
                    model[start..start + len as usize].fill(true);
                }
            }
            assert_eq!(
                list.free_pages(),
                model.iter().filter(|free| **free).count() as u64
            );
        }
    }

    #[test]
    fn a_slow_reader_holds_only_what_it_sees() {
        let mut list = FreeList::default();
        list.add_pending(
            10,
            vec![freed(100, 1, 0), freed(101, 1, 7), freed(103, 1, 9)],
        );
        list.add_pending(11, vec![freed(105, 1, 10)]);
        // A reader at 8 sees pages written by 8 and before and freed by 9 and later.
        list.release(&[8]);
        assert_eq!(list.runs().collect::<Vec<_>>(), [(103, 1), (105, 1)]);
        assert_eq!(list.pending_pages(), 2);
        assert!(list.keeps_freed_by(10) && !list.keeps_freed_by(9));
        list.release(&[8, 12]);
        assert_eq!(list.pending_pages(), 2);
        // The next older reader counts once the newest of them is gone.
        list.add_pending(13, vec![freed(110, 1, 5), freed(111, 1, 9)]);
        list.release(&[6, 12]);
        assert_eq!(list.pending_pages(), 3);
        list.release(&[6]);
        assert_eq!(
            list.runs().collect::<Vec<_>>(),
            [(101, 1), (103, 1), (105, 1), (111, 1)]
        );
        list.release(&[]);
        assert_eq!(list.pending_pages(), 0);
    }

    #[test]
    fn the_tail_is_found_and_taken() {
        let mut list = FreeList::default();
        list.add(5, 1);
        list.add(8, 4);
        assert_eq!(list.tail_start(12), 8);
        assert_eq!(list.tail_start(13), 13);
        assert!(list.has_run(4, 12, None) && !list.has_run(4, 11, None));
        assert!(!list.has_run(5, 99, None) && !list.has_run(4, 2, None));
        assert!(list.has_run(2, 12, Some((8, 2))) && !list.has_run(3, 12, Some((8, 2))));
        assert!(list.has_run(3, 12, Some((11, 9))) && !list.has_run(3, 12, Some((10, 1))));
        assert!(list.has_run(4, 12, Some((12, 9))) && list.has_run(4, 12, Some((2, 6))));
        assert!(list.is_free(9, 3) && !list.is_free(9, 4) && !list.is_free(7, 2));
        let mut carved = list.clone();
        assert_eq!(carved.carve(3, 6), [(5, 1), (8, 1)]);
        assert_eq!(carved.carve(10, 1), [(10, 1)]);
        assert_eq!(carved.carve(20, 5), []);
        assert_eq!(carved.runs().collect::<Vec<_>>(), [(9, 1), (11, 1)]);
        list.take(9, 2);
        assert_eq!(list.runs().collect::<Vec<_>>(), [(5, 1), (8, 1), (11, 1)]);
        assert_eq!(list.free_pages_below(9), 2);
    }

    #[test]
    #[should_panic(expected = "free already")]
    fn freeing_twice_is_noticed() {
        let mut list = FreeList::default();
        list.add(5, 3);
        list.add(6, 1);
    }
}
