//! The promises of the production interface, one by one.

use bytes::Bytes;
use quorate_raft::{
    AppendJob, ConfChange, ConfChangeKind, ConfChangeV2, ConfState, Config, Entry, EntryKind,
    HardState, MemoryStorage, Message, MessageKind, Output, Raft, Role, Snapshot, StepError,
    Storage,
};

/// One byte: the node to add.
fn decode(_: EntryKind, data: &[u8]) -> Option<ConfChangeV2> {
    Some(add(u64::from(*data.first()?)))
}

fn add(node_id: u64) -> ConfChangeV2 {
    let change = ConfChange {
        kind: ConfChangeKind::AddNode,
        node_id,
        ..ConfChange::default()
    };
    change.into()
}

fn snapshot(index: u64, term: u64, voters: &[u64]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.metadata.index = index;
    snapshot.metadata.term = term;
    snapshot.metadata.conf_state.voters = voters.to_vec();
    snapshot
}

fn member_with(id: u64, voters: &[u64], set: impl Fn(&mut Config)) -> Raft<MemoryStorage> {
    let mut config = Config::new(id, decode);
    config.applied = 1;
    set(&mut config);
    let mut storage = MemoryStorage::new();
    storage.apply_snapshot(snapshot(1, 1, voters)).unwrap();
    storage.set_hard_state(HardState {
        term: 1,
        vote: 0,
        commit: 1,
    });
    Raft::new(config, storage).unwrap()
}

fn member(id: u64, voters: &[u64]) -> Raft<MemoryStorage> {
    member_with(id, voters, |_| {})
}

fn finish(raft: &mut Raft<MemoryStorage>, mut job: AppendJob) -> Vec<Message> {
    if let Some(snapshot) = job.snapshot.take() {
        raft.storage_mut().apply_snapshot(snapshot).unwrap();
    }
    raft.storage_mut().append(&job.entries);
    let (others, own) = job.split_responses(raft.id());
    raft.append_done(own);
    others
}

/// Everything is done at once, but not applied; what came out of the last round.
fn settle(raft: &mut Raft<MemoryStorage>) -> Vec<Output> {
    let mut outputs = Vec::new();
    while raft.has_ready() {
        let mut output = raft.ready();
        if let Some(job) = output.append.take() {
            finish(raft, job);
        }
        outputs.push(output);
    }
    outputs
}

fn from(from: u64, kind: MessageKind, term: u64) -> Message {
    let mut message = Message::new(kind, 1);
    (message.from, message.term) = (from, term);
    message
}

fn append(term: u64, prev: (u64, u64), entries: &[(u64, u64)], commit: u64) -> Message {
    let mut message = from(2, MessageKind::App, term);
    (message.index, message.log_term, message.commit) = (prev.0, prev.1, commit);
    let entry = |(index, term): &(u64, u64)| Entry {
        term: *term,
        index: *index,
        ..Entry::default()
    };
    message.entries = entries.iter().map(entry).collect();
    message
}

fn leader_of_three(set: impl Fn(&mut Config)) -> Raft<MemoryStorage> {
    let mut raft = member_with(1, &[1, 2, 3], set);
    raft.campaign().unwrap();
    settle(&mut raft);
    raft.step(from(2, MessageKind::VoteResp, 2)).unwrap();
    assert_eq!(raft.soft_state().role, Role::Leader);
    settle(&mut raft);
    raft
}

fn acknowledge(raft: &mut Raft<MemoryStorage>, peer: u64, index: u64) {
    let mut answer = from(peer, MessageKind::AppResp, raft.hard_state().term);
    answer.index = index;
    raft.step(answer).unwrap();
}

#[test]
fn a_lone_member_commits_only_what_is_durable() {
    let mut raft = member(1, &[1]);
    raft.campaign().unwrap();
    let vote = raft.ready().append.unwrap();
    assert!(vote.must_sync);
    assert_eq!(raft.soft_state().role, Role::Candidate);
    finish(&mut raft, vote);
    assert_eq!(raft.soft_state().role, Role::Leader);
    raft.propose_batch(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")])
        .unwrap();
    let job = raft.ready().append.unwrap();
    assert_eq!(job.entries.len(), 3);
    assert_eq!(raft.hard_state().commit, 1);
    finish(&mut raft, job);
    assert_eq!(raft.hard_state().commit, 4);
    let output = raft.ready();
    // The commit index alone need not be synced, but all is ready to be applied.
    assert!(!output.append.unwrap().must_sync);
    assert_eq!(output.apply.unwrap().entries.len(), 3);
}

#[test]
fn a_leader_sends_before_it_has_written_and_a_follower_answers_after() {
    let mut leader = leader_of_three(|_| {});
    acknowledge(&mut leader, 2, 2);
    settle(&mut leader);
    leader.propose(Bytes::from_static(b"x")).unwrap();
    let output = leader.ready();
    assert!(
        output
            .messages
            .iter()
            .any(|m| m.kind == MessageKind::App && m.entries.len() == 1)
    );

    let mut follower = member(1, &[1, 2, 3]);
    follower.step(append(1, (1, 1), &[(2, 1)], 1)).unwrap();
    let output = follower.ready();
    assert!(output.messages.is_empty());
    let others = finish(&mut follower, output.append.unwrap());
    assert_eq!((others[0].kind, others[0].index), (MessageKind::AppResp, 2));
}

/// Entries of an old term come back after others took their places: until the last of the writes
/// is through, the log must not trust what is durable.
#[test]
fn a_write_that_others_overtook_attests_nothing() {
    let mut raft = member(1, &[1, 2, 3]);
    raft.step(append(1, (1, 1), &[(2, 1), (3, 1)], 1)).unwrap();
    let first = raft.ready().append.unwrap();
    raft.step(append(2, (1, 1), &[(2, 2)], 1)).unwrap();
    let second = raft.ready().append.unwrap();
    raft.step(append(3, (1, 1), &[(2, 1), (3, 1), (4, 3)], 1))
        .unwrap();
    let third = raft.ready().append.unwrap();
    let terms = |raft: &Raft<MemoryStorage>| [2, 3, 4].map(|index| raft.term_at(index).ok());
    for job in [first, second, third] {
        finish(&mut raft, job);
        assert_eq!(terms(&raft), [Some(1), Some(1), Some(3)]);
    }
    assert_eq!(raft.storage().last_index(), 4);
    raft.step(append(3, (4, 3), &[], 4)).unwrap();
    assert_eq!(raft.ready().apply.unwrap().entries.len(), 3);
}

#[test]
fn a_conf_change_that_a_snapshot_has_overtaken_changes_nothing() {
    let mut raft = member(1, &[1, 2]);
    let mut change = append(1, (1, 1), &[(2, 1)], 2);
    change.entries[0].kind = EntryKind::ConfChange;
    change.entries[0].data = Bytes::from_static(&[3]);
    raft.step(change).unwrap();
    let outputs = settle(&mut raft);
    let job = outputs.into_iter().find_map(|output| output.apply).unwrap();
    assert!(job.ends_with_conf_change());
    // Before it is applied, a later state arrives, in which 3 has gone again.
    let mut message = from(2, MessageKind::Snap, 1);
    message.snapshot = Some(Box::new(snapshot(9, 1, &[1, 2, 4])));
    raft.step(message).unwrap();
    let state = raft.apply_conf_change(2, &add(3)).unwrap();
    assert_eq!(state.voters, [1, 2, 4]);
    raft.apply_done(job.done);
    settle(&mut raft);
    assert_eq!(raft.basic_status().applied, 9);
    assert_eq!(
        raft.apply_conf_change(10, &add(5)).unwrap().voters,
        [1, 2, 4, 5]
    );
}

/// Else a crash could make it lead the same term twice.
#[test]
fn nobody_leads_before_the_own_vote_is_durable() {
    let mut raft = member(1, &[1, 2, 3]);
    raft.campaign().unwrap();
    let output = raft.ready();
    assert_eq!(output.messages.len(), 2);
    raft.step(from(2, MessageKind::VoteResp, 2)).unwrap();
    raft.step(from(3, MessageKind::VoteResp, 2)).unwrap();
    assert_eq!(raft.soft_state().role, Role::Candidate);
    finish(&mut raft, output.append.unwrap());
    assert_eq!(raft.soft_state().role, Role::Leader);
}

#[test]
fn a_lone_voter_answers_reads_after_its_first_commit() {
    let mut raft = member(1, &[1]);
    raft.campaign().unwrap();
    let vote = raft.ready().append.unwrap();
    finish(&mut raft, vote);
    raft.read_index(Bytes::from_static(b"r"));
    let job = raft.ready();
    assert!(job.read_states.is_empty());
    finish(&mut raft, job.append.unwrap());
    assert_eq!(raft.ready().read_states[0].index, 2);
}

/// Votes would be counted by a configuration that is over.
#[test]
fn nobody_campaigns_before_a_committed_conf_change_is_applied() {
    let mut raft = member(1, &[1, 2]);
    let mut change = append(1, (1, 1), &[(2, 1)], 2);
    change.entries[0].kind = EntryKind::ConfChange;
    change.entries[0].data = Bytes::from_static(&[3]);
    raft.step(change).unwrap();
    let outputs = settle(&mut raft);
    let job = outputs.into_iter().find_map(|output| output.apply).unwrap();
    raft.campaign().unwrap();
    assert_eq!(raft.soft_state().role, Role::Follower);
    raft.apply_conf_change(2, &add(3)).unwrap();
    raft.apply_done(job.done);
    raft.campaign().unwrap();
    assert_eq!(raft.soft_state().role, Role::Candidate);
}

/// Followers whose logs part from the leader's in several terms are found in a few probes.
#[test]
fn a_diverging_log_is_overwritten_term_by_term() {
    let mut raft = member(1, &[1, 2, 3]);
    let old = [(2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 3)];
    raft.step(append(3, (1, 1), &old, 1)).unwrap();
    settle(&mut raft);
    // The leader's log is 1 1 1 1 1 1 1 5: at 7 it knows no term above 1.
    raft.step(append(5, (7, 1), &[(8, 5)], 1)).unwrap();
    let mut answers = Vec::new();
    let job = raft.ready().append.unwrap();
    answers.extend(finish(&mut raft, job));
    assert!(answers[0].reject);
    assert_eq!(
        (
            answers[0].index,
            answers[0].reject_hint,
            answers[0].log_term
        ),
        (7, 2, 1)
    );
    let rest = [(3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 5)];
    raft.step(append(5, (2, 1), &rest, 8)).unwrap();
    settle(&mut raft);
    assert_eq!(raft.term_at(7), Ok(1));
    assert_eq!((raft.last_index(), raft.hard_state().commit), (8, 8));
}

#[test]
fn leadership_goes_to_who_was_asked_or_stays_after_a_timeout() {
    let mut raft = leader_of_three(|config| config.check_quorum = true);
    acknowledge(&mut raft, 2, 2);
    settle(&mut raft);
    // 3 lacks entries: it gets them first, and proposals wait.
    raft.transfer_leader(3);
    assert_eq!(
        raft.propose(Bytes::from_static(b"x")),
        Err(StepError::ProposalDropped)
    );
    let sent = |raft: &mut Raft<MemoryStorage>, kind| {
        let outputs = settle(raft);
        outputs
            .iter()
            .flat_map(|output| &output.messages)
            .filter(|m| m.kind == kind)
            .count()
    };
    assert_eq!(sent(&mut raft, MessageKind::TimeoutNow), 0);
    acknowledge(&mut raft, 3, 2);
    assert_eq!(sent(&mut raft, MessageKind::TimeoutNow), 1);
    for _ in 0..10 {
        raft.tick();
    }
    assert_eq!(raft.soft_state().role, Role::Leader);
    raft.propose(Bytes::from_static(b"x")).unwrap();
}

#[test]
fn one_conf_change_waits_at_a_time() {
    let mut raft = leader_of_three(|_| {});
    acknowledge(&mut raft, 2, 2);
    for output in settle(&mut raft) {
        if let Some(job) = output.apply {
            raft.apply_done(job.done);
        }
    }
    raft.propose_conf_change(EntryKind::ConfChange, Bytes::from_static(&[4]))
        .unwrap();
    raft.propose_conf_change(EntryKind::ConfChange, Bytes::from_static(&[5]))
        .unwrap();
    let unreadable = raft.propose_conf_change(EntryKind::ConfChange, Bytes::new());
    assert_eq!(unreadable, Err(StepError::UnreadableConfChange));
    let entries = raft.ready().append.unwrap().entries;
    let kinds: Vec<EntryKind> = entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::ConfChange, EntryKind::Normal]);
    assert!(entries[1].data.is_empty());
}

#[test]
fn uncommitted_entries_are_bounded() {
    let mut raft = leader_of_three(|config| config.max_uncommitted_size = 10);
    let six = || Bytes::from_static(b"123456");
    // The first always fits, the second does not any more.
    raft.propose(Bytes::from_static(b"more than the limit"))
        .unwrap();
    assert_eq!(raft.propose(six()), Err(StepError::ProposalDropped));
    acknowledge(&mut raft, 2, 3);
    for output in settle(&mut raft) {
        if let Some(job) = output.apply {
            raft.apply_done(job.done);
        }
    }
    acknowledge(&mut raft, 2, 3);
    for output in settle(&mut raft) {
        if let Some(job) = output.apply {
            raft.apply_done(job.done);
        }
    }
    raft.propose(six()).unwrap();
}

#[test]
fn lease_reads_need_no_round_and_safe_reads_do() {
    for is_lease in [false, true] {
        let mut raft = leader_of_three(|config| {
            config.check_quorum = is_lease;
            if is_lease {
                config.read_only = quorate_raft::ReadOnlyOption::LeaseBased;
            }
        });
        let context = Bytes::from_static(b"read");
        // Before the first commit of the term nothing is answered.
        raft.read_index(context.clone());
        assert!(
            settle(&mut raft)
                .iter()
                .all(|output| output.read_states.is_empty())
        );
        acknowledge(&mut raft, 2, 2);
        let outputs = settle(&mut raft);
        let answered = |outputs: &[Output]| {
            let states = outputs.iter().flat_map(|output| &output.read_states);
            states
                .map(|state| (state.index, state.context.clone()))
                .collect::<Vec<_>>()
        };
        if is_lease {
            assert_eq!(answered(&outputs), [(2, context)]);
            continue;
        }
        assert_eq!(answered(&outputs), []);
        let heartbeat = outputs
            .iter()
            .flat_map(|output| &output.messages)
            .find(|message| message.kind == MessageKind::Heartbeat && message.to == 3)
            .unwrap();
        let mut answer = from(3, MessageKind::HeartbeatResp, 2);
        answer.context = heartbeat.context.clone();
        raft.step(answer).unwrap();
        assert_eq!(answered(&settle(&mut raft)), [(2, context)]);
    }
}

#[test]
fn a_new_group_is_bootstrapped_by_conf_change_entries() {
    let mut raft = Raft::new(Config::new(1, decode), MemoryStorage::new()).unwrap();
    let peers = [1u8, 2, 3].map(|id| (u64::from(id), Bytes::from(vec![id])));
    raft.bootstrap(peers.to_vec()).unwrap();
    assert_eq!(raft.membership().voters.incoming.as_slice(), [1, 2, 3]);
    let output = raft.ready();
    let job = output.append.unwrap();
    assert_eq!(job.entries.len(), 3);
    assert_eq!(
        job.hard_state.map(|state| (state.term, state.commit)),
        Some((1, 3))
    );
    finish(&mut raft, job);
    // One by one, each before the next.
    for index in 1..=3 {
        let job = raft.ready().apply.unwrap();
        assert_eq!(job.entries.len(), 1);
        assert!(raft.ready().apply.is_none());
        raft.apply_conf_change(index, &add(index)).unwrap();
        raft.apply_done(job.done);
    }
    assert_eq!(
        raft.membership().conf_state(),
        ConfState {
            voters: vec![1, 2, 3],
            ..ConfState::default()
        }
    );
    raft.campaign().unwrap();
    assert_eq!(raft.soft_state().role, Role::Candidate);
    assert!(raft.bootstrap(peers.to_vec()).is_err());
}

#[test]
fn elections_wait_for_a_random_time_between_one_and_two_timeouts() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut raft = member_with(1, &[1, 2, 3], |config| config.seed = seed);
        let mut ticks = 0;
        while raft.soft_state().role == Role::Follower {
            raft.tick();
            ticks += 1;
        }
        seen.insert(ticks);
    }
    assert!(
        seen.iter().eq((10..20).collect::<Vec<i32>>().iter()),
        "{seen:?}"
    );
}
