//! Leases in a cluster whose leader stops for a while.

#[allow(dead_code, reason = "the settings are wanted alone")]
mod machine;

use machine::settings;
use prost::Message as _;
use quorate_api::etcdserverpb::{InternalRaftRequest, LeaseGrantRequest, RequestHeader};
use quorate_disk::faulty::FaultyDisk;
use quorate_node::boot::{Boot, boot};
use quorate_node::raft::{Message, MessageKind};
use quorate_node::store::lease::Renewal;
use quorate_node::{LogDone, LogStage, Member, Proposal, ProposalKind};
use std::sync::Arc;

const LEASE: i64 = 77;

struct Node {
    id: u64,
    member: Member<()>,
    log: LogStage,
}

impl Node {
    fn start(at: usize) -> Node {
        let cluster = (0..3).map(|n| (format!("m{n}"), vec![format!("http://10.0.0.{n}:2380")]));
        let mut boot_with = Boot {
            initial_cluster: cluster.collect(),
            seed: at as u64 * 7919,
            ..settings()
        };
        boot_with.member.name = format!("m{at}");
        let disk = Arc::new(FaultyDisk::new(at as u64));
        let booted = boot(disk, boot_with).expect("an empty disk takes a member");
        Node {
            id: booted.member.config().member_id,
            member: booted.member,
            log: booted.log,
        }
    }

    /// Does everything that is to be done; what it sends.
    fn work(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let effects = self.member.advance().expect("its disk is sound");
            messages.extend(effects.messages);
            effects.log.into_iter().for_each(|job| self.log.push(job));
            if !self.log.has_waiting() {
                return messages;
            }
            for done in self.log.step().expect("its disk is sound") {
                assert!(!matches!(done, LogDone::Full(_)));
                self.member.log_done(done).expect("its disk is sound");
            }
        }
    }

    fn tick(&mut self) {
        self.member.set_now(self.member.now_ms() + 100);
        self.member.tick();
    }

    fn leads(&self) -> bool {
        self.member.status().leader == self.id
    }
}

/// Delivers among the nodes that are `awake` until nobody has anything to say.
fn settle(nodes: &mut [Node], awake: &[usize]) {
    loop {
        let sent: Vec<Message> = awake.iter().flat_map(|at| nodes[*at].work()).collect();
        if sent.is_empty() {
            return;
        }
        for message in sent {
            let to = awake.iter().find(|at| nodes[**at].id == message.to);
            if let Some(to) = to {
                nodes[*to].member.step(message).expect("its log is sound");
            }
        }
    }
}

fn elect(nodes: &mut [Node], awake: &[usize]) -> usize {
    for _ in 0..200 {
        awake.iter().for_each(|at| nodes[*at].tick());
        settle(nodes, awake);
        if let Some(leader) = awake.iter().find(|at| nodes[**at].leads()) {
            return *leader;
        }
    }
    panic!("someone comes to lead");
}

#[test]
fn a_leader_that_slept_revokes_nothing_that_its_successor_renewed() {
    let mut nodes: Vec<Node> = (0..3).map(Node::start).collect();
    let old = elect(&mut nodes, &[0, 1, 2]);
    let id = 1 << 20;
    let request = InternalRaftRequest {
        header: Some(RequestHeader {
            id,
            ..Default::default()
        }),
        lease_grant: Some(LeaseGrantRequest { id: LEASE, ttl: 2 }),
        ..Default::default()
    };
    nodes[old].member.propose(vec![Proposal {
        id,
        data: request.encode_to_vec().into(),
        token: None,
        kind: ProposalKind::Ordinary,
    }]);
    settle(&mut nodes, &[0, 1, 2]);
    assert!(nodes[old].member.lessor().exists(LEASE));

    // It sleeps, the others go on, and the client with them.
    let others: Vec<usize> = (0..3).filter(|at| *at != old).collect();
    let new = elect(&mut nodes, &others);
    let now_ms = nodes[new].member.now_ms();
    let renewal = nodes[new].member.lessor().renew(LEASE, now_ms);
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");

    // It wakes up when its own idea of the lease's end is over, and first hears of its successor.
    nodes[new].tick();
    let beat = nodes[new].work().into_iter();
    let beat = beat.filter(|message| message.kind == MessageKind::Heartbeat);
    let to_old: Vec<Message> = beat.filter(|m| m.to == nodes[old].id).collect();
    assert!(!to_old.is_empty(), "a leader's tick is a heartbeat");
    let later_ms = nodes[old].member.now_ms() + 60_000;
    nodes[old].member.set_now(later_ms);
    to_old
        .into_iter()
        .for_each(|message| nodes[old].member.step(message).expect("its log is sound"));
    nodes[old].tick();
    let sent = nodes[old].work();
    assert!(
        sent.iter().all(|message| message.kind != MessageKind::Prop),
        "{sent:?}"
    );
}
