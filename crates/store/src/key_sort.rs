//! Sorts many rows by their keys, which share long prefixes.
//!
//! Comparing keys costs a miss of the cache for each side, so each row carries the eight bytes of
//! its key that are being looked at: rows are sorted by those, and each group of equals goes on
//! eight bytes later, behind what all of the group have in common. (Multikey quicksort with caching;
//! Bentley and Sedgewick, "Fast Algorithms for Sorting and Searching Strings", 1997.)

/// A row to be sorted: where it stands in the order of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which run of rows.
    pub run: u32,
    /// Which row of the run.
    pub row: u32,
    /// The bytes of the key at the depth that is being sorted, zeros behind its end.
    chunk: u64,
    /// How many of them are the key's; one more where the key goes on.
    len: u8,
}

impl Place {
    /// A row, before it is sorted.
    pub fn new(run: u32, row: u32) -> Place {
        Place {
            run,
            row,
            chunk: 0,
            len: 0,
        }
    }

    fn position(&self) -> (u32, u32) {
        (self.run, self.row)
    }
}

const CHUNK: usize = 8;
/// Marks a key that goes on behind its chunk.
const GOES_ON: u8 = CHUNK as u8 + 1;
/// Groups below this size are sorted by comparing whole keys.
const SMALL: usize = 24;
/// Rows that make a second thread worth it.
const PARALLEL: usize = 50_000;

/// Sorts by key, and equal keys by history.
pub fn sort<'k>(places: &mut [Place], key: &(impl Fn(&Place) -> &'k [u8] + Sync)) {
    if places.len() < PARALLEL {
        sort_from(places, 0, key);
        return;
    }
    let depth = common_prefix(places, 0, key);
    sort_chunks(places, depth, key);
    // Two threads share the groups.
    let middle = places.len() / 2;
    let pivot = (places[middle].chunk, places[middle].len);
    let cut = places.partition_point(|place| (place.chunk, place.len) < pivot);
    let (left, right) = places.split_at_mut(cut);
    std::thread::scope(|scope| {
        scope.spawn(|| sort_groups(left, depth, key));
        sort_groups(right, depth, key);
    });
}

fn sort_from<'k>(places: &mut [Place], depth: usize, key: &impl Fn(&Place) -> &'k [u8]) {
    if places.len() < SMALL {
        places.sort_unstable_by(|a, b| {
            key(a)[depth..]
                .cmp(&key(b)[depth..])
                .then(a.position().cmp(&b.position()))
        });
        return;
    }
    let depth = common_prefix(places, depth, key);
    sort_chunks(places, depth, key);
    sort_groups(places, depth, key);
}

/// How far all keys are equal.
fn common_prefix<'k>(places: &[Place], depth: usize, key: &impl Fn(&Place) -> &'k [u8]) -> usize {
    let Some((first, rest)) = places.split_first() else {
        return depth;
    };
    let mut common = &key(first)[depth..];
    for place in rest {
        let other = &key(place)[depth..];
        let equal = common.iter().zip(other).take_while(|(a, b)| a == b).count();
        common = &common[..equal];
        if common.is_empty() {
            break;
        }
    }
    depth + common.len()
}

fn sort_chunks<'k>(places: &mut [Place], depth: usize, key: &impl Fn(&Place) -> &'k [u8]) {
    for place in places.iter_mut() {
        let rest = &key(place)[depth..];
        let mut chunk = [0; CHUNK];
        let len = rest.len().min(CHUNK);
        chunk[..len].copy_from_slice(&rest[..len]);
        place.chunk = u64::from_be_bytes(chunk);
        place.len = if rest.len() > CHUNK {
            GOES_ON
        } else {
            len as u8
        };
    }
    places.sort_unstable_by_key(|place| (place.chunk, place.len, place.run, place.row));
}

/// Goes on with the rows whose chunks are equal and whose keys go on.
fn sort_groups<'k>(places: &mut [Place], depth: usize, key: &impl Fn(&Place) -> &'k [u8]) {
    for group in places.chunk_by_mut(|a, b| (a.chunk, a.len) == (b.chunk, b.len)) {
        if group.len() > 1 && group[0].len == GOES_ON {
            sort_from(group, depth + CHUNK, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_disk::faulty::Random;

    fn check(keys: &[Vec<u8>]) {
        let mut places: Vec<Place> = (0..keys.len())
            .map(|i| Place::new(i as u32 / 100, i as u32 % 100))
            .collect();
        let key = |place: &Place| &keys[(place.run * 100 + place.row) as usize][..];
        sort(&mut places, &key);
        for pair in places.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            assert!(
                (key(a), a.position()) < (key(b), b.position()),
                "{a:?} {b:?}"
            );
        }
    }

    #[test]
    fn sorts_as_a_comparison_does() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let n = if seed == 0 {
                PARALLEL + 1000
            } else {
                random.below(3000) as usize
            };
            let alphabet = 1 + random.below(4);
            let keys: Vec<Vec<u8>> = (0..n)
                .map(|_| {
                    let len = random.below(30) as usize;
                    let tail = (0..len).map(|_| random.below(alphabet) as u8);
                    [&b"/registry/pods/"[..], &tail.collect::<Vec<u8>>()].concat()
                })
                .collect();
            check(&keys);
        }
    }

    #[test]
    fn zeros_and_ends_are_told_apart() {
        let keys: Vec<Vec<u8>> = (0..100).rev().map(|n| vec![0; n % 25]).collect();
        check(&keys);
    }
}
