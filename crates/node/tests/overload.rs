//! What a member takes that has fallen behind with applying.

#[allow(dead_code, reason = "the model and the file are for other tests")]
mod machine;

use machine::{Machine, faulty, settings};
use quorate_api::etcdserverpb::{
    InternalRaftRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest,
};

const REFUSED: &str = "etcdserver: too many requests";
const GAP: u64 = 3;

fn put(bytes: usize) -> InternalRaftRequest {
    InternalRaftRequest {
        put: Some(PutRequest {
            key: b"k".to_vec().into(),
            value: vec![b'v'; bytes].into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn grant(id: i64) -> InternalRaftRequest {
    InternalRaftRequest {
        lease_grant: Some(LeaseGrantRequest { id, ttl: 1000 }),
        ..Default::default()
    }
}

fn revoke(id: i64) -> InternalRaftRequest {
    InternalRaftRequest {
        lease_revoke: Some(LeaseRevokeRequest { id }),
        ..Default::default()
    }
}

/// A member with leases 1 to 9 that applies nothing more, and the next token.
fn behind(of_revocations: u64) -> (Machine, usize) {
    let mut settings = settings();
    settings.member.max_apply_gap = GAP;
    settings.member.max_apply_gap_of_revocations = of_revocations;
    settings.member.commit_bytes_cap = 10_000;
    let disk = faulty(6);
    let mut machine =
        Machine::start_with(disk, 6, settings, false).expect("an empty disk is sound");
    for id in 1..10 {
        ask(&mut machine, id as usize, grant(id));
        assert_eq!(machine.replies.remove(&(id as usize)), Some(Ok(())));
    }
    machine.commits_hang = true;
    let mut token = 10;
    loop {
        ask(&mut machine, token, put(4_000));
        token += 1;
        let status = machine.member.status();
        if status.committed - status.applied > GAP {
            return (machine, token);
        }
    }
}

fn ask(machine: &mut Machine, token: usize, request: InternalRaftRequest) {
    machine.propose(token, request);
    machine.settle().expect("the disk is sound");
}

#[test]
fn revocations_are_taken_for_longer_where_they_may() {
    let (mut machine, put_token) = behind(2 * GAP);
    ask(&mut machine, put_token, put(1));
    assert_eq!(
        machine.replies.remove(&put_token),
        Some(Err(REFUSED.into()))
    );
    let mut taken = 0;
    let first = put_token + 1;
    for id in 1..10 {
        let token = put_token + id as usize;
        ask(&mut machine, token, revoke(id));
        match machine.replies.remove(&token) {
            None => taken += 1,
            Some(refused) => assert_eq!(refused, Err(REFUSED.into())),
        }
    }
    assert!((1..=GAP).contains(&taken), "{taken} taken");

    machine.commits_hang = false;
    machine.settle().expect("the disk is sound");
    for token in first..first + taken as usize {
        assert_eq!(machine.replies.get(&token), Some(&Ok(())));
    }
    ask(&mut machine, 1000, put(1));
    assert_eq!(machine.replies.get(&1000), Some(&Ok(())));
}

#[test]
fn revocations_are_refused_like_all_else_where_they_may_not() {
    let (mut machine, token) = behind(GAP);
    ask(&mut machine, token, revoke(1));
    assert_eq!(machine.replies.get(&token), Some(&Err(REFUSED.into())));
}
