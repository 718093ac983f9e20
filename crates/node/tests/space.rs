//! A member whose file has grown beyond the quota, and how it gets room again: the alarm, a
//! compaction, a defragmentation.

#[allow(dead_code, reason = "the model is for other tests")]
mod machine;

use machine::{Machine, faulty, settings};
use quorate_api::etcdserverpb::alarm_request::AlarmAction;
use quorate_api::etcdserverpb::{
    AlarmRequest, AlarmType, CompactionRequest, InternalRaftRequest, PutRequest,
};
use quorate_node::boot::Boot;

const PAGE_BYTES: u64 = 4096;
/// The smallest quota of etcd's own tests.
const QUOTA_BYTES: u64 = 13 * PAGE_BYTES;

const REFUSED: &str = "etcdserver: mvcc: database space exceeded";

fn put(key: &str, len: usize) -> InternalRaftRequest {
    InternalRaftRequest {
        put: Some(PutRequest {
            key: key.as_bytes().to_vec().into(),
            value: vec![b'v'; len].into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn compaction(revision: i64, physical: bool) -> InternalRaftRequest {
    InternalRaftRequest {
        compaction: Some(CompactionRequest { revision, physical }),
        ..Default::default()
    }
}

/// Takes back the alarm that the member has raised.
fn disarm(machine: &Machine) -> InternalRaftRequest {
    InternalRaftRequest {
        alarm: Some(AlarmRequest {
            action: AlarmAction::Deactivate as i32,
            member_id: machine.member.config().member_id,
            alarm: AlarmType::Nospace as i32,
        }),
        ..Default::default()
    }
}

fn with_quota() -> Boot {
    let mut settings = settings();
    settings.store.quota_bytes = QUOTA_BYTES as i64;
    settings
}

/// Commits only where something waits for it.
fn without_commits() -> Boot {
    let mut settings = settings();
    settings.member.commit_interval_ms = u64::MAX / 2;
    settings.member.commit_writes = usize::MAX / 2;
    settings.member.snapshot_count = u64::MAX / 2;
    settings
}

fn start(seed: u64, settings: Boot) -> Machine {
    Machine::start_with(faulty(seed), seed, settings, false).expect("an empty disk is sound")
}

/// Steps until the answer is there, and no further.
fn answer(machine: &mut Machine, token: usize) -> Result<(), String> {
    for _ in 0..10_000 {
        if let Some(answer) = machine.replies.get(&token) {
            return answer.clone();
        }
        let busy = machine.step().expect("the disk is sound");
        if !busy && !machine.replies.contains_key(&token) {
            machine.member.set_now(machine.member.now_ms() + 10);
        }
    }
    panic!("{token} is answered");
}

fn ask(machine: &mut Machine, token: usize, request: InternalRaftRequest) -> Result<(), String> {
    machine.propose(token, request);
    answer(machine, token)
}

/// Puts one key again and again until it is refused; the token after the last one.
fn fill(machine: &mut Machine) -> usize {
    for token in 0..1000 {
        match ask(machine, token, put("large", PAGE_BYTES as usize)) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, REFUSED);
                return token + 1;
            }
        }
    }
    panic!("the quota is reached");
}

fn has_alarm(machine: &Machine) -> bool {
    machine.member.view().alarms.any(AlarmType::Nospace)
}

#[test]
fn who_is_refused_for_space_finds_the_alarm() {
    for seed in 0..50 {
        let mut machine = start(seed, with_quota());
        let next = fill(&mut machine);
        assert!(has_alarm(&machine), "seed {seed}");
        // It took effect and is there nevertheless.
        assert_eq!(machine.member.view().revision, next as i64 + 1);
        let before = machine.member.view().revision;
        assert_eq!(
            ask(&mut machine, next, put("small", 1)),
            Err(REFUSED.into())
        );
        assert_eq!(machine.member.view().revision, before);
    }
}

#[test]
fn the_alarm_is_raised_once_for_all_that_came_together() {
    let mut settings = without_commits();
    settings.store.quota_bytes = QUOTA_BYTES as i64;
    let mut machine = start(1, settings);
    for token in 0..20 {
        // The size is known with the commit.
        ask(&mut machine, token, put("large", 4096)).expect("the file is small");
    }
    machine.member.commit_now(20);
    answer(&mut machine, 20).expect("the disk is sound");
    let before = machine.member.status().committed;
    for token in 21..=40 {
        machine.propose(token, put("large", 1));
    }
    machine.settle().expect("the disk is sound");
    for token in 21..=40 {
        assert_eq!(machine.replies[&token], Err(REFUSED.into()));
    }
    assert!(has_alarm(&machine));
    assert_eq!(machine.member.status().committed, before + 21);
}

#[test]
fn a_defragmentation_brings_the_size_below_the_quota_whoever_reads() {
    for seed in 0..50 {
        let mut machine = start(seed, with_quota());
        ask(&mut machine, 1 << 20, put("first", 64)).expect("the file is empty");
        let next = fill(&mut machine);
        let full = machine.member.view().clone();
        let before = full.sizes.total;
        let revision = full.revision;
        ask(&mut machine, next, compaction(revision, true)).expect("it is a new revision");
        let compacted = machine.member.view().clone();

        machine.member.defragment(next + 1);
        for _ in 0..5 {
            machine.tick().expect("the disk is sound");
        }
        // A reader has pages that are free otherwise: it is not done before they are.
        assert!(!machine.replies.contains_key(&(next + 1)), "seed {seed}");
        drop(full);
        for _ in 0..5 {
            machine.tick().expect("the disk is sound");
        }
        drop(compacted);
        answer(&mut machine, next + 1).expect("nothing is in the way");

        let after = machine.member.view().sizes.total;
        assert_eq!(after as u64, machine.file_pages() * PAGE_BYTES);
        assert!(
            after as u64 <= 9 * PAGE_BYTES,
            "seed {seed}: {after} of {before} bytes"
        );
        let request = disarm(&machine);
        ask(&mut machine, next + 2, request).expect("the alarm can be taken back");
        ask(&mut machine, next + 3, put("second", 64)).expect("there is room again");
        assert!(!has_alarm(&machine));
        machine.check_file();
    }
}

#[test]
fn a_defragmentation_commits_what_was_removed_before_it() {
    let mut machine = start(2, without_commits());
    for token in 0..20 {
        ask(&mut machine, token, put("large", 9_000)).expect("there is no quota");
    }
    ask(&mut machine, 20, compaction(21, false)).expect("it is a new revision");
    machine.settle().expect("the disk is sound");
    assert!(
        machine.file_pages() > 60 && !machine.member.is_committed(),
        "the rows are in the file, and their removal is not"
    );
    machine.member.defragment(21);
    answer(&mut machine, 21).expect("nothing is in the way");
    assert!(machine.file_pages() < 12, "{} pages", machine.file_pages());
    machine.check_file();
}

#[test]
fn who_asks_during_a_defragmentation_gets_the_next_one() {
    let mut machine = start(3, without_commits());
    for token in 0..20 {
        ask(&mut machine, token, put("large", 9_000)).expect("there is no quota");
    }
    ask(&mut machine, 20, compaction(20, true)).expect("it is a new revision");
    machine.member.defragment(21);
    machine.step().expect("the disk is sound");
    // Removed while the first one runs, and in memory only.
    ask(&mut machine, 22, compaction(21, false)).expect("it is a new revision");
    machine.member.defragment(23);
    machine.member.defragment(24);
    answer(&mut machine, 21).expect("nothing is in the way");
    assert!(!machine.replies.contains_key(&23) && !machine.replies.contains_key(&24));
    answer(&mut machine, 23).expect("nothing is in the way");
    answer(&mut machine, 24).expect("nothing is in the way");
    assert!(machine.file_pages() < 12, "{} pages", machine.file_pages());
}

#[test]
fn a_physical_compaction_ends_under_constant_writes() {
    let mut machine = Machine::start_with(faulty(9), 9, settings(), false).unwrap();
    for token in 0..20 {
        machine.propose(token, put("k", 10));
    }
    machine.settle().unwrap();
    machine.slow_commits = true;
    machine.propose(100, compaction(15, true));
    for token in 200..400 {
        machine.propose(token, put("k", 10));
        machine.step().unwrap();
    }
    assert_eq!(machine.replies.get(&100), Some(&Ok(())));
}
