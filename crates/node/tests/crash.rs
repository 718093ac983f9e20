//! A member is stopped before and after every disk call of a scripted load, and comes back.
//!
//! What must hold after each crash: the file passes its check; the store stands at a revision at or
//! above every acknowledged one; and at each revision that is kept, its content is the model's.

mod machine;

use machine::{Machine, Model, faulty};
use quorate_disk::faulty::{FaultyDisk, Random, Stop};
use std::sync::Arc;

/// Requests of the load.
const REQUESTS: usize = 60;

/// The model after each request, and the revision and compaction it then has.
struct Run {
    models: Vec<Model>,
    requests: Vec<quorate_api::etcdserverpb::InternalRaftRequest>,
}

fn script(seed: u64) -> Run {
    let (mut random, mut model) = (Random::new(seed), Model::new());
    let (mut models, mut requests) = (Vec::new(), Vec::new());
    for _ in 0..REQUESTS {
        requests.push(model.draw(&mut random));
        models.push(model.clone());
    }
    Run { models, requests }
}

/// Runs the load until the disk stops; how many requests were acknowledged.
fn run(disk: &Arc<FaultyDisk>, seed: u64, script: &Run) -> usize {
    let Ok(mut machine) = Machine::start(disk.clone(), seed) else {
        assert!(
            disk.stopped(),
            "only a stopped disk keeps a member from starting"
        );
        return 0;
    };
    for (token, request) in script.requests.iter().enumerate() {
        machine.propose(token, request.clone());
        let ended = machine.settle().is_err() || (token % 7 == 0 && machine.tick().is_err());
        if ended {
            assert!(disk.stopped(), "only a stopped disk ends a member");
            return machine
                .replies
                .keys()
                .next_back()
                .map_or(0, |last| last + 1);
        }
    }
    machine.replies.len()
}

fn check(disk: Arc<FaultyDisk>, seed: u64, script: &Run, acknowledged: usize, what: &str) {
    let mut machine = Machine::start(disk, seed).unwrap_or_else(|e| panic!("{what}: {e}"));
    let revision = machine.member.view().revision;
    let newest = script.models.last().expect("a script has requests");
    let least = match acknowledged {
        0 => 1,
        n => script.models[n - 1].revision(),
    };
    assert!(
        revision >= least,
        "{what}: revision {revision} is below the acknowledged {least}"
    );
    assert!(
        revision <= newest.revision(),
        "{what}: revision {revision} was never reached"
    );
    let compacted = machine.member.view().compact_revision;
    if acknowledged > 0 {
        let promised = script.models[acknowledged - 1].compacted;
        assert!(
            compacted >= promised,
            "{what}: compaction at {promised} was acknowledged"
        );
    }
    for at in compacted.max(1)..=revision {
        assert_eq!(
            &machine.content(at),
            newest.content(at),
            "{what}: at revision {at}"
        );
    }
    machine.check_file();
    // It goes on: another write, durable and applied.
    let put = quorate_api::etcdserverpb::PutRequest {
        key: "after".into(),
        value: what.as_bytes().to_vec().into(),
        ..Default::default()
    };
    let token = usize::MAX;
    machine.propose(
        token,
        quorate_api::etcdserverpb::InternalRaftRequest {
            put: Some(put),
            ..Default::default()
        },
    );
    machine.settle().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(machine.replies.get(&token), Some(&Ok(())), "{what}");
}

#[test]
fn every_disk_call_may_be_the_last() {
    let seed = 1;
    let script = script(seed);
    let whole = faulty(seed);
    assert_eq!(run(&whole, seed, &script), REQUESTS);
    let calls = whole.counts().calls;
    assert!(calls > 200, "the load keeps the disk busy: {calls} calls");
    check(
        Arc::new(whole.crash(seed)),
        seed,
        &script,
        REQUESTS,
        "after all",
    );
    for call in 1..=calls {
        for stop in [Stop::Before, Stop::After] {
            let disk = faulty(seed);
            disk.stop_at(call, stop);
            let acknowledged = run(&disk, seed, &script);
            let what = format!("stopped {stop:?} call {call} of {calls}");
            check(
                Arc::new(disk.crash(call)),
                seed + call,
                &script,
                acknowledged,
                &what,
            );
        }
    }
}

#[test]
fn random_loads_crash_at_random_calls_and_crash_again() {
    for seed in 100..160 {
        let script = script(seed);
        let whole = faulty(seed);
        run(&whole, seed, &script);
        let calls = whole.counts().calls;
        let mut random = Random::new(seed);
        let disk = faulty(seed);
        disk.stop_at(1 + random.below(calls), Stop::After);
        let acknowledged = run(&disk, seed, &script);
        // The restart is interrupted, too.
        let second = Arc::new(disk.crash(seed));
        second.stop_at(1 + random.below(20), Stop::Before);
        let _interrupted = Machine::start(second.clone(), seed).is_err();
        let what = format!("seed {seed}");
        check(
            Arc::new(second.crash(seed + 1)),
            seed,
            &script,
            acknowledged,
            &what,
        );
    }
}

#[test]
fn hashes_survive_restarts_and_compactions() {
    use quorate_node::store::hash::{StoredHashes, hash_by_revision};
    for seed in 200..230 {
        let script = script(seed);
        let disk = faulty(seed);
        assert_eq!(run(&disk, seed, &script), REQUESTS);
        let hash_at = |machine: &Machine, at: i64| {
            let none = StoredHashes::default();
            hash_by_revision(machine.member.view(), &none, at)
                .expect("it is kept")
                .hash
        };
        let machine = Machine::start(Arc::new(disk.crash(1)), seed).expect("it starts");
        let view = machine.member.view().clone();
        let range = view.compact_revision.max(1)..=view.revision;
        let before: Vec<u32> = range.clone().map(|at| hash_at(&machine, at)).collect();
        drop(machine);
        let again = Machine::start(Arc::new(disk.crash(2)), seed + 1).expect("it starts");
        let after: Vec<u32> = range.map(|at| hash_at(&again, at)).collect();
        assert_eq!(before, after, "seed {seed}");
    }
}

#[test]
fn a_full_disk_refuses_writes_and_recovers() {
    for seed in 300..330 {
        let mut random = Random::new(seed);
        let disk = faulty(seed);
        let mut machine = Machine::start(disk.clone(), seed).expect("an empty disk has space");
        let (mut model, mut acknowledged) = (Model::new(), Model::new());
        let mut refused = 0;
        for token in 0..120 {
            if token == 30 {
                disk.set_space(Some(disk.used_bytes() + random.below(40_000)));
            }
            if token == 90 {
                disk.set_space(None);
            }
            let before = model.clone();
            let request = model.draw(&mut random);
            machine.propose(token, request);
            machine.settle().expect("a full disk is no failure");
            match machine.replies.get(&token) {
                // Known to have happened, or known not to have.
                Some(Ok(())) => acknowledged = model.clone(),
                Some(Err(error)) if error.contains("space exceeded") => {
                    refused += 1;
                    model = before;
                }
                Some(Err(_)) => {}
                // Not decided: it is in the log's queue, and comes through with the space.
                None => {}
            }
            if token % 9 == 0 {
                machine.tick().expect("a full disk is no failure");
            }
        }
        machine.tick().expect("there is space again");
        assert_eq!(
            machine.member.view().revision,
            model.revision(),
            "seed {seed}"
        );
        assert_eq!(
            &machine.content(model.revision()),
            model.content(model.revision())
        );
        assert!(model.revision() >= acknowledged.revision() && refused < 120);
        drop(machine);
        let again = Machine::start(Arc::new(disk.crash(seed)), seed).expect("it starts again");
        let revision = again.member.view().revision;
        assert!(
            revision >= acknowledged.revision(),
            "seed {seed}: acknowledged writes are there"
        );
        assert_eq!(
            &again.content(revision),
            model.content(revision),
            "seed {seed}"
        );
    }
}

#[test]
fn a_snapshot_without_space_stops_no_writes() {
    // The log's space is reserved; whether the database has some of its own depends on the room.
    for room in 0..40 {
        let disk = faulty(500 + room);
        let mut machine = Machine::start(disk.clone(), room).expect("an empty disk has space");
        let put = |machine: &mut Machine, token: usize| {
            let put = quorate_api::etcdserverpb::PutRequest {
                key: "k".into(),
                value: token.to_string().into(),
                ..Default::default()
            };
            let request = quorate_api::etcdserverpb::InternalRaftRequest {
                put: Some(put),
                ..Default::default()
            };
            machine.propose(token, request);
            machine.settle().expect("a full disk is no failure");
            machine.tick().expect("a full disk is no failure");
        };
        (0..10).for_each(|token| put(&mut machine, token));
        disk.set_space(Some(disk.used_bytes() + room * 1024));
        (10..60).for_each(|token| put(&mut machine, token));
        disk.set_space(None);
        (60..160).for_each(|token| put(&mut machine, token));
        assert_eq!(machine.replies[&159], Ok(()), "room {room}");
        let snap = std::path::Path::new("/data/member/snap");
        let names = quorate_disk::Disk::list(&*disk, snap).expect("it is there");
        let newest = names.iter().filter(|name| name.ends_with(".snap")).max();
        assert!(
            newest.is_some_and(|name| &name[17..33] > "0000000000000064"),
            "room {room}: {names:?}"
        );
    }
}

#[test]
fn a_scrub_tells_a_damaged_page_once() {
    let seed = 400;
    let disk = faulty(seed);
    assert_eq!(run(&disk, seed, &script(seed)), REQUESTS);
    let mut machine = Machine::start(disk.clone(), seed).expect("it starts");
    assert_eq!(machine.scrub_all(), 0);
    // A byte in the middle of each page but the metas: some of them are in use.
    let pages = machine.file_pages();
    for page in 2..pages {
        disk.corrupt(
            std::path::Path::new("/data/member/snap/db"),
            page * 4096 + 2000,
            1,
        )
        .expect("the file is that long");
    }
    let found = machine.scrub_all();
    assert!(
        found > 0 && found < pages as usize,
        "{found} of {pages} pages"
    );
}
