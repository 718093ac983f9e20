//! A handful of seeds, and that a seed is all there is to a run.

use quorate_sim::run::run;
use quorate_sim::sabotage::Sabotage;

#[test]
fn a_handful_of_seeds_passes() {
    for seed in 0..24 {
        let outcome = run(seed, None, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        assert!(outcome.counts.committed > 0, "seed {seed} did nothing");
    }
}

#[test]
fn a_seed_replays_exactly() {
    let mut hashes = Vec::new();
    for seed in 100..116 {
        let (once, again) = (run(seed, None, false), run(seed, None, false));
        assert_eq!(once, again, "seed {seed}");
        hashes.push(once.trace_hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 16, "no two seeds take the same way");
}

#[test]
fn a_planted_bug_replays_exactly() {
    for sabotage in Sabotage::ALL {
        let found = (0..300).find(|seed| run(*seed, Some(sabotage), false).violation.is_some());
        let seed = found.unwrap_or_else(|| panic!("{sabotage:?} is found within 300 seeds"));
        let (once, again) = (
            run(seed, Some(sabotage), false),
            run(seed, Some(sabotage), false),
        );
        assert_eq!(once, again, "{sabotage:?}, seed {seed}");
    }
}
