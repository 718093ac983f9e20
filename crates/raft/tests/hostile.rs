//! Messages that no member sends: whatever a peer makes up, a member answers with an error or
//! ignores it, and goes on.

use bytes::Bytes;
use quorate_raft::{
    ConfChangeV2, ConfState, Config, Entry, EntryKind, MemoryStorage, Message, MessageKind, Raft,
    Role, Snapshot, SnapshotMetadata, StepError,
};

#[path = "network/random.rs"]
mod random;
use random::Random;

fn decode(_: EntryKind, data: &[u8]) -> Option<ConfChangeV2> {
    // Half of what is made up can be read.
    data.len().is_multiple_of(2).then(ConfChangeV2::default)
}

fn member(random: &mut Random) -> Raft<MemoryStorage> {
    let mut config = Config::new(1, decode);
    config.election_ticks = 3;
    config.check_quorum = random.once_in(2);
    config.pre_vote = random.once_in(2);
    config.max_inflight_messages = 2;
    config.applied = 1;
    let mut storage = MemoryStorage::new();
    storage
        .apply_snapshot(Snapshot {
            data: Bytes::new(),
            metadata: SnapshotMetadata {
                conf_state: ConfState {
                    voters: vec![1, 2, 3],
                    learners: vec![4],
                    ..ConfState::default()
                },
                index: 1,
                term: 1,
            },
        })
        .unwrap();
    Raft::new(config, storage).unwrap()
}

/// Numbers around the edges, and around what the member has.
fn some_number(random: &mut Random, near: u64) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - 1,
        3 => random.next(),
        4 => near.saturating_sub(1),
        5 => near.saturating_add(1),
        _ => near,
    }
}

fn some_message(random: &mut Random, raft: &Raft<MemoryStorage>) -> Message {
    let (state, last) = (raft.hard_state(), raft.last_index());
    let kinds = MessageKind::ALL;
    let mut message = Message::new(kinds[random.below(kinds.len())], 1);
    message.from = [0, 1, 2, 2, 3, 4, 9, u64::MAX, u64::MAX - 1][random.below(9)];
    // Mostly our own term, so that the rest matters; seldom the end of time.
    message.term = match random.below(60) {
        0 => u64::MAX,
        1 => 0,
        2..6 => state.term.saturating_add(1),
        _ => state.term,
    };
    message.index = some_number(random, last);
    message.log_term = match random.below(3) {
        0 => some_number(random, state.term),
        _ => raft.term_at(message.index).unwrap_or(state.term),
    };
    message.commit = some_number(random, state.commit);
    message.reject = random.once_in(3);
    message.reject_hint = some_number(random, last);
    let context_len = random.below(10);
    message.context = vec![random.next() as u8; context_len].into();
    let mut index = message.index;
    for _ in 0..random.below(4) {
        index = if random.once_in(10) {
            random.next()
        } else {
            index.wrapping_add(1)
        };
        let kind = [
            EntryKind::Normal,
            EntryKind::ConfChange,
            EntryKind::ConfChangeV2,
        ];
        message.entries.push(Entry {
            term: some_number(random, message.term.min(5)),
            index,
            kind: kind[random.below(3)],
            data: vec![0; random.below(4)].into(),
        });
        if random.once_in(2) {
            message.entries.last_mut().unwrap().term = message.term;
        }
    }
    if random.once_in(3) {
        let mut set = || {
            (0..random.below(4))
                .map(|_| random.below(6) as u64)
                .collect()
        };
        let conf_state = ConfState {
            voters: set(),
            learners: set(),
            voters_outgoing: set(),
            learners_next: set(),
            auto_leave: random.once_in(2),
        };
        message.snapshot = Some(Box::new(Snapshot {
            data: Bytes::new(),
            metadata: SnapshotMetadata {
                conf_state,
                index: some_number(random, last),
                term: some_number(random, state.term),
            },
        }));
    }
    message
}

fn work(raft: &mut Raft<MemoryStorage>) {
    let output = raft.ready();
    if let Some(mut job) = output.append {
        if let Some(snapshot) = job.snapshot.take() {
            raft.storage_mut().apply_snapshot(snapshot).unwrap();
        }
        raft.storage_mut().append(&job.entries);
        let (_, own) = job.split_responses(1);
        raft.append_done(own);
    }
    if let Some(job) = output.apply {
        raft.apply_done(job.done);
    }
    raft.take_journal();
}

#[test]
fn no_message_makes_a_member_panic() {
    let (mut refused, mut taken, mut led) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut random = Random(seed);
        let mut raft = member(&mut random);
        for _ in 0..300 {
            match random.below(12) {
                0 => raft.tick(),
                1 | 2 => work(&mut raft),
                3 => {
                    // Help it to lead, or it would follow for ever.
                    let _ = raft.campaign();
                    work(&mut raft);
                    for kind in [MessageKind::PreVoteResp, MessageKind::VoteResp] {
                        let mut vote = Message::new(kind, 1);
                        vote.from = 2;
                        let pre_vote = u64::from(kind == MessageKind::PreVoteResp);
                        vote.term = raft.hard_state().term.saturating_add(pre_vote);
                        let _ = raft.step(vote);
                        work(&mut raft);
                    }
                    led += u64::from(raft.soft_state().role == Role::Leader);
                }
                _ => {
                    let message = some_message(&mut random, &raft);
                    match raft.step(message) {
                        Ok(()) => taken += 1,
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    assert!(
        refused > 10_000 && taken > 10_000 && led > 1_000,
        "{refused} {taken} {led}"
    );
}

fn follower() -> Raft<MemoryStorage> {
    let mut raft = member(&mut Random(0));
    let mut heartbeat = Message::new(MessageKind::Heartbeat, 1);
    (heartbeat.from, heartbeat.term) = (2, 5);
    raft.step(heartbeat).unwrap();
    raft
}

#[test]
fn local_and_malformed_messages_are_refused() {
    let mut raft = follower();
    for kind in [
        MessageKind::Hup,
        MessageKind::StorageAppendResp,
        MessageKind::ForgetLeader,
    ] {
        let mut message = Message::new(kind, 1);
        message.from = u64::MAX;
        assert_eq!(raft.step(message), Err(StepError::LocalMessage), "{kind}");
    }
    let mut stranger = Message::new(MessageKind::AppResp, 1);
    (stranger.from, stranger.term) = (9, 5);
    assert_eq!(raft.step(stranger), Err(StepError::PeerNotFound));
    let mut gap = Message::new(MessageKind::App, 1);
    (gap.from, gap.term, gap.index, gap.log_term) = (2, 5, 1, 1);
    let entry = |index| Entry {
        term: 5,
        index,
        ..Entry::default()
    };
    gap.entries = vec![entry(2), entry(4)];
    assert!(matches!(raft.step(gap), Err(StepError::Malformed(_))));
    assert_eq!(raft.last_index(), 1);
}

#[test]
fn a_commit_index_beyond_the_log_is_an_error_that_names_both() {
    let mut raft = follower();
    let mut heartbeat = Message::new(MessageKind::Heartbeat, 1);
    (heartbeat.from, heartbeat.term, heartbeat.commit) = (2, 5, 9);
    let error = StepError::CommitBeyondLog {
        commit: 9,
        last_index: 1,
    };
    assert_eq!(raft.step(heartbeat), Err(error));
    assert_eq!(raft.hard_state().commit, 1);
}
