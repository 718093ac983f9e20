//! Several members over a network without faults: they agree, one that was away catches up from the
//! log or by a database, and the membership changes.

#[allow(dead_code, reason = "the settings are wanted alone")]
mod machine;

use prost::Message as _;
use quorate_api::etcdserverpb::{InternalRaftRequest, PutRequest, RequestHeader};
use quorate_disk::Disk;
use quorate_disk::faulty::FaultyDisk;
use quorate_node::boot::{Boot, Join, boot};
use quorate_node::raft::{Message, MessageKind};
use quorate_node::store::hash;
use quorate_node::store::membership::Member as ClusterMember;
use quorate_node::wal::snap;
use quorate_node::{
    CommitStage, LogStage, Member, MemberChange, PeerChange, Proposal, ProposalKind, Received,
    Reply,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const TICK_MS: u64 = 100;

fn settings(name: &str, initial: &[&str]) -> Boot {
    let urls = |name: &str| vec![format!("http://{name}:2380")];
    let initial = initial.iter().map(|name| ((*name).to_owned(), urls(name)));
    let mut boot = Boot {
        initial_cluster: initial.collect(),
        ..machine::settings()
    };
    let member = &mut boot.member;
    member.name = name.into();
    member.client_urls = vec![format!("http://{name}:2379")];
    member.commit_writes = 50;
    member.compaction_rows = 10;
    boot
}

struct Node {
    boot: Boot,
    disk: Arc<dyn Disk>,
    member: Member<u64>,
    log: LogStage,
    commit: CommitStage,
    replies: BTreeMap<u64, Result<(), String>>,
    peers: BTreeMap<u64, Vec<String>>,
    adopted: usize,
}

impl Node {
    fn start(settings: Boot, disk: Arc<dyn Disk>) -> Node {
        let booted = boot(disk.clone(), settings.clone()).unwrap();
        let index = booted.member.view().applied_index;
        Node {
            boot: settings,
            disk,
            member: booted.member,
            log: booted.log,
            commit: CommitStage::new(booted.db, index),
            replies: BTreeMap::new(),
            peers: BTreeMap::new(),
            adopted: 0,
        }
    }

    fn id(&self) -> u64 {
        self.member.config().member_id
    }

    /// Steps the member and its stages; what goes to others, with the database where it has one.
    fn step(&mut self) -> Vec<(Message, Option<Vec<u8>>)> {
        let effects = self.member.advance().unwrap();
        if let Some(db) = effects.replaced_db {
            self.adopted += 1;
            self.commit = CommitStage::new(db, self.member.view().applied_index);
            self.member.database_replaced();
        }
        effects.log.into_iter().for_each(|job| self.log.push(job));
        if self.log.has_waiting() {
            for done in self.log.step().unwrap() {
                self.member.log_done(done).unwrap();
            }
        }
        for (token, reply) in effects.replies {
            let outcome = match reply {
                Reply::Outcome(Ok(_)) | Reply::Ready => Ok(()),
                Reply::Outcome(Err(error)) | Reply::Failed(error) => Err(error.to_string()),
            };
            self.replies.insert(token, outcome);
        }
        if let Some(frozen) = effects.commit {
            let committed = self.commit.commit(&frozen).unwrap().unwrap();
            self.member.commit_done(committed);
        }
        if let Some(mut step) = effects.compaction {
            let batch = step.planner.step(&step.view, step.rows).unwrap();
            self.member.compaction_planned(step.planner, batch);
        }
        for change in effects.peers {
            match change {
                PeerChange::Set { id, peer_urls } => drop(self.peers.insert(id, peer_urls)),
                PeerChange::Remove { id } => drop(self.peers.remove(&id)),
            }
        }
        let mut sent: Vec<_> = effects.messages.into_iter().map(|m| (m, None)).collect();
        for snapshot in effects.snapshots {
            let mut bytes = Vec::new();
            snapshot
                .view
                .file
                .write_to(&mut |piece| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                })
                .unwrap();
            sent.push((snapshot.message, Some(bytes)));
        }
        sent
    }

    fn receive(&mut self, message: Message, database: Option<Vec<u8>>) {
        let Some(bytes) = database else {
            assert_ne!(message.kind, MessageKind::Snap);
            return self.member.step(message).unwrap();
        };
        let index = message.snapshot.as_ref().unwrap().metadata.index;
        let dir = self.boot.directories.snap();
        let file = self
            .disk
            .open(
                &snap::database_tmp_path(&dir, index),
                quorate_disk::Mode::CreateNew,
            )
            .unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file.sync_all().unwrap();
        snap::publish_database(&*self.disk, &dir, index).unwrap();
        let directories = &self.boot.directories;
        let received = Received::open(&self.disk, directories, index, self.boot.store).unwrap();
        self.member.step_snapshot(message, received).unwrap();
    }
}

#[derive(Default)]
struct Cluster {
    nodes: BTreeMap<u64, Node>,
    away: Vec<u64>,
    next_id: u64,
}

impl Cluster {
    fn new(names: &[&str]) -> Cluster {
        let mut cluster = Cluster::default();
        for (i, name) in names.iter().enumerate() {
            let disk = Arc::new(FaultyDisk::new(i as u64));
            cluster.add(Node::start(settings(name, names), disk));
        }
        cluster.elect();
        cluster
    }

    fn add(&mut self, node: Node) {
        self.nodes.insert(node.id(), node);
    }

    /// Delivers everything until nothing is under way.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..1_000 {
            let mut sent = Vec::new();
            for node in self.nodes.values_mut() {
                sent.extend(node.step());
            }
            // What a stage has done leads to messages with the next step, or the one after it.
            quiet = if sent.is_empty() { quiet + 1 } else { 0 };
            if quiet == 4 {
                return;
            }
            for (message, database) in sent {
                let cut = self.away.contains(&message.to) || self.away.contains(&message.from);
                let (from, to) = (message.from, message.to);
                let is_snapshot = database.is_some();
                if !cut && let Some(node) = self.nodes.get_mut(&to) {
                    node.receive(message, database);
                }
                if is_snapshot && let Some(node) = self.nodes.get_mut(&from) {
                    node.member.report_snapshot(to, !cut);
                }
            }
        }
        panic!("a cluster comes to rest");
    }

    fn ticks(&mut self, count: usize) {
        for _ in 0..count {
            let ids: Vec<u64> = self.nodes.keys().copied().collect();
            for node in self.nodes.values_mut() {
                node.member.set_now(node.member.now_ms() + TICK_MS);
                for id in &ids {
                    if *id != node.id() {
                        node.member.peer_active(*id, !self.away.contains(id));
                    }
                }
                node.member.tick();
            }
            self.settle();
        }
    }

    fn leader(&self) -> Option<u64> {
        let mut leaders = self.nodes.values().filter(|node| {
            let leads = node.member.status().leader == node.id();
            leads && !self.away.contains(&node.id())
        });
        let leader = leaders.next()?.id();
        assert!(leaders.next().is_none(), "one leads");
        Some(leader)
    }

    fn elect(&mut self) -> u64 {
        for _ in 0..200 {
            self.ticks(1);
            if let Some(leader) = self.leader() {
                // Its first entry, and the names of all.
                self.ticks(60);
                return leader;
            }
        }
        panic!("somebody is elected");
    }

    fn put(&mut self, at: u64, key: &str, value: &str) -> u64 {
        self.next_id += 1;
        let id = 1 << 40 | self.next_id;
        let request = InternalRaftRequest {
            header: Some(RequestHeader {
                id,
                ..Default::default()
            }),
            put: Some(PutRequest {
                key: key.to_owned().into(),
                value: value.to_owned().into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let node = self.nodes.get_mut(&at).unwrap();
        node.member.propose(vec![Proposal {
            id,
            data: request.encode_to_vec().into(),
            token: Some(id),
            kind: ProposalKind::Ordinary,
        }]);
        self.settle();
        id
    }

    fn change(&mut self, at: u64, change: &MemberChange) -> Result<(), String> {
        self.next_id += 1;
        let token = self.next_id;
        let node = self.nodes.get_mut(&at).unwrap();
        node.member.change_membership(change, token);
        self.ticks(2);
        self.nodes[&at].replies[&token].clone()
    }

    /// All who are there hold the same.
    fn assert_equal(&mut self) {
        self.ticks(3);
        let mut seen: Option<(u64, i64, u32)> = None;
        for node in self.nodes.values().filter(|n| !self.away.contains(&n.id())) {
            let view = node.member.view();
            let hash = hash::hash_by_revision(view, &view.hashes, 0).unwrap().hash;
            let state = (view.applied_index, view.revision, hash);
            assert_eq!(*seen.get_or_insert(state), state);
        }
    }
}

#[test]
fn any_member_takes_a_write_and_all_hold_it() {
    let mut cluster = Cluster::new(&["a", "b", "c"]);
    let ids: Vec<u64> = cluster.nodes.keys().copied().collect();
    for (i, id) in ids.iter().enumerate() {
        let token = cluster.put(*id, &format!("k{i}"), "v");
        assert_eq!(cluster.nodes[id].replies[&token], Ok(()));
    }
    cluster.assert_equal();
    for node in cluster.nodes.values() {
        assert_eq!(node.member.view().revision, 4);
        let published = node
            .member
            .view()
            .members
            .iter()
            .all(|m| !m.name.is_empty());
        assert!(published, "each has told its name");
        assert_eq!(node.peers.len(), 2);
    }
}

#[test]
fn who_was_away_too_long_gets_a_database() {
    let mut cluster = Cluster::new(&["a", "b", "c"]);
    let leader = cluster.leader().unwrap();
    let slow = *cluster.nodes.keys().find(|id| **id != leader).unwrap();
    cluster.away.push(slow);
    for i in 0..300 {
        cluster.put(leader, &format!("k{}", i % 40), &"x".repeat(i));
    }
    cluster.ticks(3);
    cluster.away.clear();
    cluster.ticks(30);
    assert_eq!(cluster.nodes[&slow].adopted, 1);
    let token = cluster.put(slow, "from the slow one", "v");
    assert_eq!(cluster.nodes[&slow].replies[&token], Ok(()));
    cluster.assert_equal();

    // And it starts again from what it got.
    let node = cluster.nodes.remove(&slow).unwrap();
    let (settings, disk) = (node.boot.clone(), node.disk.clone());
    drop(node);
    cluster.add(Node::start(settings, disk));
    cluster.ticks(30);
    cluster.assert_equal();
}

#[test]
fn a_log_that_a_snapshot_stands_for_is_short() {
    let mut cluster = Cluster::new(&["a", "b", "c"]);
    let leader = cluster.leader().unwrap();
    let slow = *cluster.nodes.keys().find(|id| **id != leader).unwrap();
    cluster.away.push(slow);
    for i in 0..40 {
        cluster.put(leader, &format!("k{i}"), "v");
    }
    cluster.away.clear();
    cluster.ticks(30);
    assert_eq!(cluster.nodes[&slow].adopted, 1);
    cluster.assert_equal();
}

#[test]
fn snapshots_of_the_log_are_a_count_of_entries_apart() {
    let mut cluster = Cluster::new(&["a"]);
    let id = cluster.leader().unwrap();
    for i in 0..100 {
        cluster.put(id, &format!("k{i}"), "v");
    }
    let node = &cluster.nodes[&id];
    let names = node.disk.list(&node.boot.directories.snap()).unwrap();
    let mut at: Vec<u64> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".snap")?.split_once('-'))
        .map(|(_, index)| u64::from_str_radix(index, 16).unwrap())
        .collect();
    at.sort_unstable();
    assert_eq!(at, [21, 42, 63, 84]);
}

#[test]
fn a_member_joins_as_a_learner_votes_and_leaves() {
    let mut cluster = Cluster::new(&["a"]);
    let first = cluster.leader().unwrap();
    for i in 0..300 {
        cluster.put(first, &format!("k{i}"), "v");
    }
    let new = ClusterMember {
        id: 0xb,
        peer_urls: vec!["http://b:2380".into()],
        is_learner: true,
        ..Default::default()
    };
    cluster
        .change(first, &MemberChange::Add(new.clone()))
        .unwrap();
    assert_eq!(
        cluster.change(first, &MemberChange::Promote(0xb)),
        Err("etcdserver: can only promote a learner member which is in sync with leader".into())
    );
    let mut settings = settings("b", &[]);
    settings.join = Some(Join {
        member_id: 0xb,
        cluster_id: cluster.nodes[&first].member.config().cluster_id,
    });
    cluster.add(Node::start(settings, Arc::new(FaultyDisk::new(9))));
    cluster.ticks(60);
    assert_eq!(cluster.nodes[&0xb].adopted, 1);
    assert!(cluster.nodes[&0xb].member.status().is_learner);
    assert_eq!(cluster.change(first, &MemberChange::Promote(0xb)), Ok(()));
    cluster.ticks(60);
    assert!(!cluster.nodes[&0xb].member.status().is_learner);
    cluster.assert_equal();

    let token = 1 << 50;
    let leader = cluster.nodes.get_mut(&first).unwrap();
    leader.member.transfer_leader(0xb, token);
    cluster.ticks(2);
    assert_eq!(cluster.nodes[&first].replies[&token], Ok(()));
    assert_eq!(cluster.leader(), Some(0xb));
    assert_eq!(cluster.change(0xb, &MemberChange::Remove(first)), Ok(()));
    // Nobody is left to tell it so; peers refuse it from now on.
    assert_eq!(cluster.nodes[&0xb].peers.len(), 0);
    cluster.nodes.remove(&first);
    let token = cluster.put(0xb, "alone", "v");
    assert_eq!(cluster.nodes[&0xb].replies[&token], Ok(()));
}

#[test]
fn a_read_at_a_follower_covers_what_was_acknowledged() {
    let mut cluster = Cluster::new(&["a", "b", "c"]);
    let leader = cluster.leader().unwrap();
    let follower = *cluster.nodes.keys().find(|id| **id != leader).unwrap();
    cluster.put(leader, "k", "v");
    cluster
        .nodes
        .get_mut(&follower)
        .unwrap()
        .member
        .read_index(1);
    cluster.settle();
    let node = &cluster.nodes[&follower];
    assert_eq!(node.replies[&1], Ok(()));
    assert_eq!(node.member.view().revision, 2);

    // Cut off, it answers nothing.
    cluster.away.push(follower);
    cluster
        .nodes
        .get_mut(&follower)
        .unwrap()
        .member
        .read_index(2);
    cluster.ticks(40);
    assert!(!cluster.nodes[&follower].replies.contains_key(&2));
    cluster.ticks(40);
    assert_eq!(
        cluster.nodes[&follower].replies[&2],
        Err("etcdserver: request timed out".into())
    );
}

#[test]
fn reads_that_come_during_a_round_share_the_next() {
    let mut cluster = Cluster::new(&["a", "b", "c"]);
    let leader = cluster.leader().unwrap();
    let follower = *cluster.nodes.keys().find(|id| **id != leader).unwrap();
    let mut rounds = 0;
    let mut questions = |cluster: &mut Cluster, reads: std::ops::Range<u64>| {
        let node = cluster.nodes.get_mut(&follower).unwrap();
        for token in reads {
            node.member.read_index(token);
        }
        let sent = node.step();
        rounds += sent.len();
        sent
    };
    let first = questions(&mut cluster, 1..4);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].0.kind, MessageKind::ReadIndex);
    assert!(questions(&mut cluster, 4..6).is_empty());
    assert!(questions(&mut cluster, 6..9).is_empty());
    for (message, database) in first {
        let leader = cluster.nodes.get_mut(&leader).unwrap();
        leader.receive(message, database);
    }
    cluster.settle();
    let replies = &cluster.nodes[&follower].replies;
    assert!((1..9).all(|token| replies[&token] == Ok(())));
    assert_eq!(rounds, 1);
}

#[test]
fn one_alone_is_made_of_what_is_left_of_three() {
    let mut cluster = Cluster::new(&["a", "b", "c"]);
    let leader = cluster.leader().unwrap();
    cluster.put(leader, "k", "v");
    cluster.ticks(3);
    let survivor = *cluster.nodes.keys().find(|id| **id != leader).unwrap();
    let node = cluster.nodes.remove(&survivor).unwrap();
    let (mut settings, disk) = (node.boot.clone(), node.disk.clone());
    drop(node);
    settings.force_new_cluster = true;
    cluster.nodes.clear();
    cluster.add(Node::start(settings, disk));
    cluster.elect();
    let members: Vec<u64> = {
        let view = cluster.nodes[&survivor].member.view();
        view.members.iter().map(|member| member.id).collect()
    };
    assert_eq!(members, [survivor]);
    let token = cluster.put(survivor, "k2", "v");
    assert_eq!(cluster.nodes[&survivor].replies[&token], Ok(()));
    assert_eq!(cluster.nodes[&survivor].member.view().revision, 3);
}
