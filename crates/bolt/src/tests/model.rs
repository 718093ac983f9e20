//! A plain model of a database, and random work on both.

use crate::db::Db;
use crate::read::{Bucket, ReadTx};
use crate::write::BucketMut;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A seeded source of randomness (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    pub(super) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// What a bucket should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) buckets: BTreeMap<Vec<u8>, Model>,
    pub(super) sequence: u64,
}

/// Reads everything there is.
pub(super) fn contents(tx: &ReadTx) -> Model {
    bucket_contents(&tx.root())
}

pub(super) fn bucket_contents(bucket: &Bucket<'_>) -> Model {
    let mut model = Model {
        sequence: bucket.sequence(),
        ..Model::default()
    };
    let mut cursor = bucket.range(Bound::Unbounded).unwrap();
    let mut last: Option<Vec<u8>> = None;
    while let Some((key, value)) = cursor.next().unwrap() {
        assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
        last = Some(key.to_vec());
        model.entries.insert(key.to_vec(), value.to_vec());
    }
    for name in bucket.buckets().unwrap() {
        let child = bucket
            .bucket(&name)
            .unwrap()
            .expect("a listed bucket is there");
        model.buckets.insert(name, bucket_contents(&child));
    }
    model
}

/// Checks lookups one by one, and ranges from random places.
pub(super) fn assert_same(tx: &ReadTx, model: &Model, random: &mut Random) {
    assert_eq!(&contents(tx), model);
    for (name, model) in &model.buckets {
        let bucket = tx.bucket(name).unwrap().expect("the bucket is there");
        for (key, value) in &model.entries {
            assert_eq!(bucket.get(key).unwrap(), Some(&value[..]));
        }
        let last = model.entries.last_key_value();
        let found = bucket.last().unwrap();
        assert_eq!(found, last.map(|(key, value)| (&key[..], &value[..])));
        for _ in 0..20 {
            let key = random_key(random);
            let wanted = model.entries.get(&key).map(Vec::as_slice);
            assert_eq!(bucket.get(&key).unwrap(), wanted);
            for bound in [Bound::Included(&key[..]), Bound::Excluded(&key[..])] {
                let range = (bound, Bound::Unbounded);
                let mut cursor = bucket.range(bound).unwrap();
                for (key, value) in model.entries.range::<[u8], _>(range).take(5) {
                    assert_eq!(cursor.next().unwrap(), Some((&key[..], &value[..])));
                }
            }
        }
    }
}

/// That the file has no problems at all.
pub(super) fn assert_sound(db: &Db) {
    let check = db.check().unwrap();
    let findings: Vec<String> = check.findings.iter().map(ToString::to_string).collect();
    assert!(check.is_ok(), "{findings:#?}");
}

pub(super) fn random_key(random: &mut Random) -> Vec<u8> {
    // Few enough that keys are met again.
    let len = 1 + random.below(24) as usize;
    let number = random.below(600);
    let mut key = format!("{number:05}").into_bytes();
    key.resize(5 + len, b'k');
    key[5 + len - 1] = (number % 7) as u8;
    key
}

fn random_value(random: &mut Random, page_size: u32) -> Vec<u8> {
    let len = match random.below(40) {
        0 => page_size as u64 * (1 + random.below(4)) + random.below(99),
        1..8 => random.below(u64::from(page_size)),
        8..12 => 0,
        _ => random.below(60),
    };
    random.bytes(len as usize)
}

/// Makes random changes in a bucket and in its model.
pub(super) fn change(
    bucket: &mut BucketMut<'_>,
    model: &mut Model,
    random: &mut Random,
    page_size: u32,
    depth: usize,
) {
    let style = random.below(10);
    for _ in 0..random.below(60) {
        let key = random_key(random);
        if model.buckets.contains_key(&key) {
            continue;
        }
        let deletes = if style < 3 { 8 } else { 3 };
        if random.below(10) < deletes {
            let was = model.entries.remove(&key).is_some();
            assert_eq!(bucket.delete(&key).unwrap(), was);
        } else {
            let value = random_value(random, page_size);
            bucket.put(&key, &value).unwrap();
            model.entries.insert(key.clone(), value);
        }
        let wanted = model.entries.get(&key).map(Vec::as_slice);
        assert_eq!(bucket.get(&key).unwrap(), wanted);
    }
    if style == 0 && random.one_in(4) {
        for key in std::mem::take(&mut model.entries).keys() {
            assert!(bucket.delete(key).unwrap());
        }
    }
    if random.one_in(8) {
        model.sequence = random.next();
        bucket.set_sequence(model.sequence);
    }
    assert_eq!(bucket.sequence(), model.sequence);
    if depth == 0 {
        return;
    }
    for _ in 0..random.below(3) {
        let name = format!("bucket{}", random.below(4)).into_bytes();
        match random.below(6) {
            0 => {
                let was = model.buckets.remove(&name).is_some();
                assert_eq!(bucket.delete_bucket(&name).unwrap(), was);
            }
            1 => assert_eq!(
                bucket.bucket(&name).unwrap().is_some(),
                model.buckets.contains_key(&name)
            ),
            _ => {
                let model = model.buckets.entry(name.clone()).or_default();
                let mut child = bucket.create_bucket_if_missing(&name).unwrap();
                change(&mut child, model, random, page_size, depth - 1);
            }
        }
    }
}

/// One random transaction over a few top-level buckets, committed or dropped.
pub(super) fn transaction(db: &Db, model: &mut Model, random: &mut Random) {
    let mut after = model.clone();
    let mut tx = db.begin_write().unwrap();
    work(&mut tx, &mut after, random, db.page_size());
    if random.one_in(8) {
        drop(tx);
    } else {
        tx.commit().unwrap();
        *model = after;
    }
}

/// The changes of one random transaction.
pub(super) fn work(
    tx: &mut crate::write::WriteTx<'_>,
    model: &mut Model,
    random: &mut Random,
    page_size: u32,
) {
    for _ in 0..1 + random.below(3) {
        let name = format!("top{}", random.below(4)).into_bytes();
        if random.one_in(20) {
            let was = model.buckets.remove(&name).is_some();
            assert_eq!(tx.delete_bucket(&name).unwrap(), was);
            continue;
        }
        let model = model.buckets.entry(name.clone()).or_default();
        let mut bucket = tx.create_bucket_if_missing(&name).unwrap();
        bucket.set_append_only(name.ends_with(b"3"));
        change(&mut bucket, model, random, page_size, 2);
    }
}
