//! Where a hole for a run of pages is made: the stretch with the least in it.

use crate::freelist::FreeList;

/// Sums over the free pages from the beginning of the file.
struct FreeSums {
    /// Where a free run starts, its length, and the free pages before it.
    runs: Vec<(u64, u64, u64)>,
}

impl FreeSums {
    fn new(free: &FreeList) -> FreeSums {
        let mut before = 0;
        let runs = free.runs().map(|(start, len)| {
            let run = (start, len, before);
            before += len;
            run
        });
        FreeSums {
            runs: runs.collect(),
        }
    }

    /// Free pages below `end`.
    fn below(&self, end: u64) -> u64 {
        let count = self.runs.partition_point(|(start, _, _)| *start < end);
        match self.runs[..count].last() {
            Some((start, len, before)) => before + (*len).min(end - start),
            None => 0,
        }
    }
}

/// Whether any of `runs`, which are in ascending order, has pages in `start..start + len`.
pub(crate) fn meets(runs: &[(u64, u64)], start: u64, len: u64) -> bool {
    let next = runs.partition_point(|(run, _)| *run < start);
    let meets_next = runs.get(next).is_some_and(|(run, _)| *run < start + len);
    let meets_before = next > 0 && runs[next - 1].0 + runs[next - 1].1 > start;
    meets_next || meets_before
}

/// The stretch of `len` pages below `end` with the most free pages, and without any of the pages
/// of `runs`, which are in ascending order.
pub(crate) fn emptiest(
    free: &FreeList,
    runs: &[(u64, u64)],
    len: u64,
    end: u64,
) -> Option<(u64, u64)> {
    let sums = FreeSums::new(free);
    let holes = sums.runs.iter().map(|(start, _, _)| *start);
    let behind_runs = runs.iter().map(|(start, pages)| start + pages);
    let mut best: Option<(u64, u64)> = None;
    let before_runs = runs.iter().map(|(start, _)| start.saturating_sub(len));
    for start in holes.chain(behind_runs).chain(before_runs).chain([2]) {
        if start < 2 || start + len > end || meets(runs, start, len) {
            continue;
        }
        let count = sums.below(start + len) - sums.below(start);
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((start, count));
        }
    }
    best.map(|(start, _)| (start, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(runs: &[(u64, u64)]) -> FreeList {
        let mut list = FreeList::default();
        for &(start, len) in runs {
            list.add(start, len);
        }
        list
    }

    #[test]
    fn the_stretch_with_the_most_holes_is_found() {
        let list = free(&[(5, 1), (10, 2), (14, 3), (30, 1)]);
        assert_eq!(emptiest(&list, &[], 7, 40), Some((10, 7)));
        // Not beyond the end.
        assert_eq!(emptiest(&list, &[], 7, 16), Some((5, 7)));
        assert_eq!(emptiest(&list, &[], 7, 8), None);
        assert_eq!(emptiest(&free(&[]), &[], 7, 40), Some((2, 7)));
    }

    #[test]
    fn runs_stand_in_the_way() {
        let list = free(&[(5, 1), (10, 2), (14, 3), (30, 1)]);
        assert_eq!(emptiest(&list, &[(12, 2)], 7, 40), Some((5, 7)));
        assert_eq!(emptiest(&list, &[(12, 2)], 4, 40), Some((14, 4)));
        assert_eq!(emptiest(&list, &[(12, 2), (17, 20)], 7, 40), Some((5, 7)));
        assert_eq!(emptiest(&list, &[(2, 38)], 7, 40), None);
        assert!(meets(&[(12, 2)], 13, 1) && meets(&[(12, 2)], 5, 8));
        assert!(!meets(&[(12, 2)], 14, 9) && !meets(&[(12, 2)], 5, 7));
    }
}
