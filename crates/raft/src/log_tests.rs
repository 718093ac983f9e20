//! The log against a plain vector of terms.

use bytes::Bytes;

use super::*;
use crate::journal::Level;
use crate::memory_storage::MemoryStorage;
use crate::random::Random;
use crate::types::{EntryKind, NO_LIMIT};

const RULE: ApplyRule = ApplyRule {
    allow_unstable: false,
    end_at_conf_change: true,
};

fn entry(index: u64, term: u64) -> Entry {
    Entry {
        term,
        index,
        kind: EntryKind::Normal,
        data: Bytes::from(vec![b'x'; (index % 5) as usize]),
    }
}

/// What the log should be: `terms[i]` is the term of index i, compacted up to `before`.
struct Model {
    terms: Vec<u64>,
    before: u64,
    committed: u64,
}

impl Model {
    fn last(&self) -> u64 {
        self.terms.len() as u64 - 1
    }

    fn check(&self, log: &Log<MemoryStorage>, random: &mut Random) {
        assert_eq!(log.last_index(), self.last());
        assert_eq!(log.first_index(), self.before + 1);
        assert_eq!(log.committed, self.committed);
        for index in 0..self.last() + 3 {
            let expected = match index {
                _ if index < self.before => Err(StorageError::Compacted),
                _ if index > self.last() => Err(StorageError::Unavailable),
                _ => Ok(self.terms[index as usize]),
            };
            assert_eq!(log.term(index), expected, "term of {index}");
        }
        let span = (self.last() - self.before) as u32;
        let lo = self.before + 1 + u64::from(random.below(span + 1));
        let hi = lo + u64::from(random.below((self.last() + 2 - lo) as u32));
        let all: Vec<Entry> = (lo..hi)
            .map(|index| entry(index, self.terms[index as usize]))
            .collect();
        assert_eq!(log.slice(lo, hi, NO_LIMIT).unwrap(), all);
        let limit = u64::from(random.below(60));
        assert_eq!(log.slice(lo, hi, limit).unwrap(), limit_size(&all, limit));
        if self.before > 0 {
            assert_eq!(log.slice(self.before, hi, 9), Err(StorageError::Compacted));
        }
    }
}

/// Random appends, overwrites, writes that complete late, commits, applies and compactions.
#[test]
fn behaves_like_a_vector() {
    let mut random = Random::new(11);
    for _ in 0..150 {
        let mut journal = Journal::new(Level::Error);
        let mut log = Log::new(MemoryStorage::new(), NO_LIMIT);
        let mut model = Model {
            terms: vec![0],
            before: 0,
            committed: 0,
        };
        let mut term = 1;
        let mut leader = vec![0];
        // Writes on their way, and what the answer will attest, with the term it was begun in.
        let mut writes: Vec<(Vec<Entry>, EntryId, u64)> = Vec::new();
        for _ in 0..120 {
            match random.below(7) {
                0 | 1 => {
                    // A leader of this or a newer term, whose log holds all that is committed,
                    // sends a piece of it.
                    if random.below(3) == 0 {
                        term += 1;
                        let kept = random.below((model.last() - model.committed + 1) as u32);
                        leader = model.terms.clone();
                        leader.truncate((model.committed + u64::from(kept)) as usize + 1);
                    }
                    leader.extend((0..random.below(3)).map(|_| term));
                    let leader_last = leader.len() as u64 - 1;
                    let ahead = random.below((leader_last - model.committed + 1) as u32);
                    let prev = EntryId {
                        index: model.committed + u64::from(ahead),
                        term: leader[(model.committed + u64::from(ahead)) as usize],
                    };
                    let count = u64::from(random.below(4)).min(leader_last - prev.index);
                    let end = prev.index + count;
                    let sent: Vec<Entry> = (prev.index + 1..=end)
                        .map(|index| entry(index, leader[index as usize]))
                        .collect();
                    let commit = model.committed + u64::from(random.below(3));
                    let matches = model.terms.get(prev.index as usize) == Some(&prev.term);
                    let appended = log.maybe_append(prev, sent, commit, &mut journal);
                    assert_eq!(appended, Ok(matches.then_some(end)));
                    if matches {
                        let piece = leader.iter().enumerate().take(end as usize + 1);
                        for (index, term) in piece.skip(prev.index as usize + 1) {
                            if model.terms.get(index) != Some(term) {
                                model.terms.truncate(index);
                                model.terms.push(*term);
                            }
                        }
                        model.committed = model.committed.max(commit.min(end));
                    }
                }
                2 => {
                    // The unstable part is handed out to be written.
                    let entries = log.unstable.next_entries().to_vec();
                    log.unstable.accept_in_progress();
                    assert!(log.unstable.next_entries().is_empty());
                    writes.push((entries, log.last_id(), term));
                }
                3 | 4 if !writes.is_empty() => {
                    // The oldest write completes.
                    let (entries, id, begun) = writes.remove(0);
                    log.storage.append(&entries);
                    if begun == term {
                        log.unstable.stable_to(id, &mut journal);
                    }
                }
                5 => {
                    let entries = log.next_committed(RULE);
                    log.accept_applying(&entries, RULE);
                    if let Some(last) = entries.last() {
                        assert!(last.index <= log.storage.last_index());
                        log.applied_to(last.index, encoded_len(&entries));
                    }
                }
                6 if log.applied > model.before => {
                    let room = (log.applied - model.before) as u32;
                    let at = model.before + 1 + u64::from(random.below(room));
                    log.storage.compact(at).unwrap();
                    model.before = at;
                }
                _ => {}
            }
            model.check(&log, &mut random);
        }
    }
}

fn log_with(terms: &[u64]) -> Log<MemoryStorage> {
    let mut log = Log::new(MemoryStorage::new(), NO_LIMIT);
    let entries = terms
        .iter()
        .zip(1..)
        .map(|(term, index)| entry(index, *term))
        .collect();
    log.append(entries, &mut Journal::new(Level::Error));
    log
}

#[test]
fn a_refused_append_hints_behind_the_diverging_tail() {
    let log = log_with(&[1, 3, 3, 4, 4, 5, 5, 5, 6]);
    assert_eq!(
        log.find_conflict_by_term(8, 3),
        EntryId { term: 3, index: 3 }
    );
    assert_eq!(
        log.find_conflict_by_term(9, 6),
        EntryId { term: 6, index: 9 }
    );
    assert_eq!(
        log.find_conflict_by_term(9, 0),
        EntryId { term: 0, index: 0 }
    );
    assert_eq!(
        log.find_conflict_by_term(12, 3),
        EntryId { term: 0, index: 12 }
    );
}

#[test]
fn a_conflict_with_a_committed_entry_changes_nothing() {
    let mut journal = Journal::new(Level::Error);
    let mut log = log_with(&[1, 1, 1]);
    log.commit_to(2);
    let prev = EntryId { term: 1, index: 1 };
    let refused = log.maybe_append(prev, vec![entry(2, 7)], 9, &mut journal);
    assert_eq!(refused, Err(2));
    assert_eq!((log.last_index(), log.committed), (3, 2));
    let unknown = EntryId { term: 2, index: 3 };
    assert_eq!(log.maybe_append(unknown, vec![], 9, &mut journal), Ok(None));
}

#[test]
fn a_batch_ends_at_a_conf_change_and_the_next_waits_for_it() {
    let mut log = log_with(&[1, 1, 1, 1]);
    log.unstable.entries[1].kind = EntryKind::ConfChange;
    let rule = ApplyRule {
        allow_unstable: true,
        ..RULE
    };
    log.commit_to(4);
    assert!(log.has_unapplied_conf_change());
    let first = log.next_committed(rule);
    assert_eq!(first.last().unwrap().index, 2);
    log.accept_applying(&first, rule);
    assert!(!log.has_next_committed(rule));
    // An earlier batch's end does not lift the barrier.
    log.applied_to(1, 0);
    assert!(!log.has_next_committed(rule));
    log.applied_to(2, encoded_len(&first));
    assert!(!log.has_unapplied_conf_change());
    assert_eq!(log.next_committed(rule).len(), 2);
}

#[test]
fn what_is_being_applied_is_bounded() {
    let mut log = log_with(&[1, 1, 1, 1, 1, 1]);
    log.commit_to(6);
    let rule = ApplyRule {
        allow_unstable: true,
        ..RULE
    };
    let two = encoded_len(&log.slice(1, 3, NO_LIMIT).unwrap());
    log.max_applying_size = two + 1;
    let first = log.next_committed(rule);
    assert_eq!(first.len(), 2);
    log.accept_applying(&first, rule);
    assert!(log.next_committed(rule).is_empty());
    log.applied_to(2, two);
    assert_eq!(log.next_committed(rule)[0].index, 3);
}
