//! A member whose file has grown beyond the quota.

#[allow(dead_code, reason = "the model is for other tests")]
mod machine;

use machine::{Machine, faulty, settings};
use quorate_api::etcdserverpb::{AlarmType, InternalRaftRequest, PutRequest};
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
