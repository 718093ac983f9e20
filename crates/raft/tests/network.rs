//! Whole groups over a hostile network and disks that forget what was not synced.
//!
//! One seed decides everything: what is delivered, in which order, twice or never; when a log or
//! apply job completes; who crashes, and how much of its unfinished writing survives. The oracles
//! watch after each action:
//! - election safety: a term has one leader;
//! - log matching: two logs with an entry in common have all before it in common;
//! - leader completeness: a new leader has all that was applied in earlier terms;
//! - state machine safety: all members apply the same entry at an index;
//! - linearizable reads: a read index covers all that was applied when it was asked for.
//!
//! In the end the network heals, and the group must make progress and agree.

#[path = "network/group.rs"]
mod group;
#[path = "network/member.rs"]
mod member;
#[path = "network/oracle.rs"]
mod oracle;
#[path = "network/random.rs"]
mod random;

use group::Group;

/// What happened over some seeds; a test that exercised nothing has proved nothing.
fn run(seeds: std::ops::Range<u64>, actions: u32) -> group::Counts {
    let mut total = group::Counts::default();
    for seed in seeds {
        let mut group = Group::new(seed);
        for _ in 0..actions {
            group.act();
        }
        group.heal_and_agree();
        total.add(&group.counts);
    }
    total
}

#[test]
fn safe_under_loss_reordering_crashes_and_membership_changes() {
    let counts = run(0..3_000, 6_000);
    assert!(counts.leaders > 5_000, "{counts:?}");
    assert!(counts.applied > 100_000, "{counts:?}");
    assert!(counts.crashes > 2_000, "{counts:?}");
    assert!(counts.lost_jobs > 500, "{counts:?}");
    assert!(counts.torn_jobs > 200, "{counts:?}");
    assert!(counts.snapshots > 100, "{counts:?}");
    assert!(counts.conf_changes > 500, "{counts:?}");
    assert!(counts.joint > 50, "{counts:?}");
    assert!(counts.reads > 500, "{counts:?}");
    assert!(counts.transfers > 50, "{counts:?}");
    assert!(counts.stuck < 30, "{counts:?}");
}

#[test]
fn a_seed_replays() {
    let (one, two) = (run(7..9, 3_000), run(7..9, 3_000));
    assert_eq!(one, two);
}
