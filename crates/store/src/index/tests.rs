//! The index against a model: every revision of every key in a BTreeMap.

use super::*;
use quorate_disk::faulty::Random;
use std::collections::BTreeMap;

#[derive(Default)]
struct Model {
    keys: BTreeMap<Vec<u8>, Vec<(Revision, bool)>>,
}

impl Model {
    fn live_at(&self, key: &[u8], main: i64) -> Option<Revision> {
        let (revision, tombstone) = *self
            .keys
            .get(key)?
            .iter()
            .rev()
            .find(|(revision, _)| revision.main <= main)?;
        (!tombstone).then_some(revision)
    }

    fn range(&self, range: KeyRange<'_>, main: i64) -> Vec<(Vec<u8>, Revision)> {
        self.keys
            .keys()
            .filter(|key| range.contains(key))
            .filter_map(|key| Some((key.clone(), self.live_at(key, main)?)))
            .collect()
    }

    /// What a compaction keeps, told from the rule: all above; at or below, the one in force where
    /// it is a put, and deletions exactly there.
    fn keeps(&self, key: &[u8], revision: Revision, main: i64) -> bool {
        let Some(all) = self.keys.get(key) else {
            return false;
        };
        let Some(&(_, tombstone)) = all.iter().find(|(r, _)| *r == revision) else {
            return false;
        };
        if revision.main > main {
            return true;
        }
        if tombstone {
            return revision.main == main;
        }
        let in_force = all.iter().rev().find(|(r, _)| r.main <= main).unwrap();
        in_force.0 == revision
    }

    fn compact(&mut self, main: i64) {
        let kept: Vec<(Vec<u8>, Revision)> = self
            .keys
            .iter()
            .flat_map(|(key, all)| all.iter().map(move |(r, _)| (key.clone(), *r)))
            .filter(|(key, r)| self.keeps(key, *r, main))
            .collect();
        for (key, all) in &mut self.keys {
            all.retain(|(r, _)| kept.iter().any(|(k, kr)| k == key && kr == r));
        }
        self.keys.retain(|_, all| !all.is_empty());
    }
}

fn key(random: &mut Random, space: u64) -> Vec<u8> {
    let n = random.below(space);
    // Different lengths, shared prefixes, and the empty-suffix neighbours.
    format!(
        "/k/{}{}",
        n % 7,
        "x".repeat((n / 7 % 5) as usize) + &n.to_string()
    )
    .into_bytes()
}

fn compare(root: &Root, model: &Model, main: i64, current: i64, random: &mut Random) {
    let (a, b) = (key(random, 500), key(random, 500));
    for range in [
        KeyRange {
            start: b"",
            end: None,
        },
        KeyRange {
            start: &a,
            end: None,
        },
        KeyRange {
            start: &a,
            end: Some(&b),
        },
    ] {
        let mut got = Vec::new();
        let _ = root.walk::<()>(range, |key, entry| {
            got.extend(entry.live_at(main).map(|revision| (key.to_vec(), revision)));
            ControlFlow::Continue(())
        });
        let want = model.range(range, main);
        assert_eq!(got, want);
        if main == current {
            assert_eq!(root.count(range), want.len() as u64);
        }
    }
}

#[test]
fn equals_the_model_at_every_kept_revision() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut index, mut model) = (Index::new(), Model::default());
        let mut old: Vec<(Root, i64)> = Vec::new();
        let (mut main, mut compacted) = (1, 0);
        for _ in 0..1500 {
            main += 1;
            for sub in 0..1 + random.below(3) as u32 {
                let key = key(&mut random, 500);
                let revision = Revision::new(main, sub);
                let live = model.live_at(&key, main).is_some();
                if live && random.below(3) == 0 {
                    index.delete(&key, revision);
                    model.keys.entry(key).or_default().push((revision, true));
                } else {
                    let changed = index.put(&key, revision);
                    assert_eq!(changed.existed, live);
                    model.keys.entry(key).or_default().push((revision, false));
                }
            }
            if random.below(40) == 0 {
                compare(&index.root(), &model, main, main, &mut random);
                let at = compacted.max(main - random.below(200) as i64);
                compare(&index.root(), &model, at, main, &mut random);
                old.push((index.root(), main));
            }
            if random.below(300) == 0 {
                for (root, at) in old.drain(..) {
                    compare(&root, &model, at, at, &mut random);
                }
                compacted = main - random.below(50) as i64;
                let root = index.root();
                let _ = root.walk::<()>(
                    KeyRange {
                        start: b"",
                        end: None,
                    },
                    |key, entry| {
                        for (revision, _) in &model.keys[key] {
                            assert_eq!(
                                entry.keeps(*revision, compacted),
                                model.keeps(key, *revision, compacted)
                            );
                        }
                        index.compact(key, compacted);
                        ControlFlow::Continue(())
                    },
                );
                model.compact(compacted);
                assert_eq!(index.len(), model.keys.len() as u64);
                compare(&index.root(), &model, main, main, &mut random);
                compare(&index.root(), &model, compacted, main, &mut random);
            }
        }
    }
}

#[test]
fn emptied_by_compaction_and_filled_again() {
    let mut index = Index::new();
    for round in 0..3 {
        for i in 0..10_000i64 {
            index.put(
                format!("{i:05}").as_bytes(),
                Revision::new(round * 30_000 + i + 1, 0),
            );
        }
        assert_eq!(index.root().live(), 10_000);
        for i in 0..10_000i64 {
            index.delete(
                format!("{i:05}").as_bytes(),
                Revision::new(round * 30_000 + 10_001 + i, 0),
            );
        }
        assert_eq!(
            index.root().count(KeyRange {
                start: b"",
                end: None
            }),
            0
        );
        for i in 0..10_000i64 {
            index.compact(format!("{i:05}").as_bytes(), round * 30_000 + 29_000);
        }
        assert!(index.is_empty());
    }
}

#[test]
fn version_and_create_restart_with_the_key() {
    let mut index = Index::new();
    index.put(b"k", Revision::new(2, 0));
    assert_eq!(
        index.put(b"k", Revision::new(3, 0)),
        Changed {
            create: 2,
            version: 2,
            existed: true
        }
    );
    index.delete(b"k", Revision::new(4, 0));
    assert_eq!(
        index.put(b"k", Revision::new(5, 0)),
        Changed {
            create: 5,
            version: 1,
            existed: false
        }
    );
}

#[test]
fn a_put_behind_a_deletion_in_one_transaction_survives_a_compaction_there() {
    let mut index = Index::new();
    index.put(b"k", Revision::new(2, 0));
    index.delete(b"k", Revision::new(3, 0));
    index.put(b"k", Revision::new(3, 1));
    let entry = index.root().get(b"k").cloned().unwrap();
    assert!(entry.keeps(Revision::new(3, 1), 3));
    assert!(entry.keeps(Revision::new(3, 0), 3));
    assert!(!entry.keeps(Revision::new(2, 0), 3));
    index.compact(b"k", 3);
    assert_eq!(
        index.root().get(b"k").unwrap().live_at(3),
        Some(Revision::new(3, 1))
    );
}

#[test]
fn sequential_keys_cost_little_beyond_themselves() {
    let mut index = Index::new();
    for i in 0..100_000i64 {
        index.put(
            format!("/registry/pods/{i:017}").as_bytes(),
            Revision::new(i + 2, 0),
        );
    }
    index.shrink();
    let per_key = index.root().heap_bytes() / 100_000 - 32;
    assert!(per_key < 60, "{per_key} bytes beyond the key");
}

#[test]
fn an_old_root_lists_its_own_revisions_once() {
    let mut index = Index::new();
    index.put(b"k", Revision::new(2, 0));
    index.put(b"k", Revision::new(3, 0));
    let old = index.root();
    index.put(b"k", Revision::new(4, 0));
    index.put(b"k", Revision::new(5, 0));
    let mains: Vec<i64> = old
        .get(b"k")
        .unwrap()
        .points_from(2)
        .iter()
        .map(|point| point.revision.main)
        .collect();
    assert_eq!(mains, [3, 2]);
}
