//! What a member answers to someone who asks whether it works.

#[allow(dead_code, reason = "the model and the file are for other tests")]
mod machine;

use machine::{Machine, faulty};
use quorate_api::etcdserverpb::{InternalRaftRequest, PutRequest};

#[test]
fn a_lone_member_is_not_healthy_while_its_log_hangs() {
    let mut machine = Machine::start(faulty(4), 4).expect("an empty disk is sound");
    machine.member.read_for_health(1);
    machine.settle().expect("the disk is sound");
    assert_eq!(machine.replies.remove(&1), Some(Ok(())));

    machine.log_hangs = true;
    let put = PutRequest {
        key: b"k".to_vec().into(),
        ..Default::default()
    };
    machine.propose(
        2,
        InternalRaftRequest {
            put: Some(put),
            ..Default::default()
        },
    );
    machine.settle().expect("the disk is sound");
    machine.member.read_for_health(3);
    machine.member.read_index(4);
    machine.settle().expect("the disk is sound");
    assert_eq!(machine.replies.get(&3), None, "the put is not written");
    assert_eq!(
        machine.replies.get(&4),
        Some(&Ok(())),
        "what was acknowledged can be read"
    );

    machine.log_hangs = false;
    machine.settle().expect("the disk is sound");
    assert_eq!(machine.replies.get(&2), Some(&Ok(())));
    assert_eq!(machine.replies.get(&3), Some(&Ok(())));
}
