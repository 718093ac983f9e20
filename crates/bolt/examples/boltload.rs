//! A database of random contents under a seed, and a digest of a database's contents.
//!
//! ```text
//! boltload make FILE SEED ROUNDS [PAGE_SIZE]   add ROUNDS random transactions, print the digest
//! boltload digest FILE                         print the digest of what is there
//! boltload check FILE                          look for problems
//! boltload vacuum FILE                         compact it until nothing is left to gain
//! ```
//! The digest covers every bucket, key and value in order, so that another implementation can
//! compute it, too: FNV-1a 64 over, for each entry, its depth (1 byte), its kind (1 byte: 0 value,
//! 1 bucket), key length (4 bytes, little-endian), key, and then the value's length and the value,
//! or the bucket's sequence (8 bytes) followed by its entries.

use quorate_bolt::{Bucket, BucketMut, Db, Error, Options, VacuumNext};
use quorate_disk::real::RealDisk;
use std::io::{self, Write};
use std::ops::Bound;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

struct Digest {
    hash: u64,
    entries: u64,
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn bucket(&mut self, bucket: &Bucket<'_>, depth: u8) -> Result<(), Error> {
        // Values and buckets share the order of their keys.
        let mut buckets = bucket.buckets()?.into_iter().peekable();
        let mut cursor = bucket.range(Bound::Unbounded)?;
        let mut next = cursor.next()?;
        loop {
            match (next, buckets.peek()) {
                (None, None) => return Ok(()),
                (Some((key, value)), name) if name.is_none_or(|name| key < &name[..]) => {
                    self.head(depth, 0, key);
                    self.add(&(value.len() as u32).to_le_bytes());
                    self.add(value);
                    next = cursor.next()?;
                }
                _ => {
                    let name = buckets.next().expect("seen above");
                    let child = bucket.bucket(&name)?.ok_or(Error::BucketMissing)?;
                    self.head(depth, 1, &name);
                    self.add(&child.sequence().to_le_bytes());
                    self.bucket(&child, depth + 1)?;
                }
            }
        }
    }

    fn head(&mut self, depth: u8, kind: u8, key: &[u8]) {
        self.entries += 1;
        self.add(&[depth, kind]);
        self.add(&(key.len() as u32).to_le_bytes());
        self.add(key);
    }
}

fn digest(db: &Db) -> Result<String, Error> {
    let read = db.begin_read();
    let mut digest = Digest {
        hash: 0xcbf2_9ce4_8422_2325,
        entries: 0,
    };
    for name in read.buckets()? {
        let bucket = read.bucket(&name)?.ok_or(Error::BucketMissing)?;
        digest.head(0, 1, &name);
        digest.add(&bucket.sequence().to_le_bytes());
        digest.bucket(&bucket, 1)?;
    }
    Ok(format!("{:016x} entries={}", digest.hash, digest.entries))
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(200) {
        0 => random.below(200_000),
        1..20 => random.below(5_000),
        _ => random.below(300),
    };
    let byte = random.below(256) as u8;
    vec![byte; len as usize]
}

fn change(bucket: &mut BucketMut<'_>, random: &mut Random, depth: u64) -> Result<(), Error> {
    let deletes = random.below(10);
    for _ in 0..random.below(200) {
        let key = format!("key{:06}", random.below(20_000));
        if random.below(12) < deletes {
            bucket.delete(key.as_bytes())?;
        } else {
            bucket.put(key.as_bytes(), &value(random))?;
        }
    }
    if random.below(4) == 0 {
        bucket.set_sequence(random.below(1 << 40));
    }
    for _ in 0..random.below(depth + 1) {
        let name = format!("bucket{}", random.below(6));
        if random.below(12) == 0 {
            bucket.delete_bucket(name.as_bytes())?;
        } else {
            change(
                &mut bucket.create_bucket_if_missing(name.as_bytes())?,
                random,
                depth - 1,
            )?;
        }
    }
    Ok(())
}

fn make(db: &Db, seed: u64, rounds: u64) -> Result<(), Error> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut revision = db.txid() << 20;
    for _ in 0..rounds {
        let mut tx = db.begin_write()?;
        for _ in 0..random.below(4) {
            let name = format!("top{}", random.below(5));
            if random.below(30) == 0 {
                tx.delete_bucket(name.as_bytes())?;
            } else {
                change(
                    &mut tx.create_bucket_if_missing(name.as_bytes())?,
                    &mut random,
                    2,
                )?;
            }
        }
        // As etcd uses it: ascending keys, and now and then old ones removed.
        let mut key = tx.create_bucket_if_missing(b"key")?;
        key.set_append_only(true);
        for _ in 0..random.below(300) {
            revision += 1;
            let mut name = [0; 17];
            name[..8].copy_from_slice(&revision.to_be_bytes());
            name[8] = b'_';
            key.put(&name, &value(&mut random))?;
        }
        if random.below(20) == 0 {
            let read = db.begin_read();
            if let Some(bucket) = read.bucket(b"key")? {
                let mut cursor = bucket.range(Bound::Unbounded)?;
                while let Some((name, _)) = cursor.next()? {
                    if random.below(10) < 6 {
                        key.delete(name)?;
                    }
                }
            }
        }
        tx.commit()?;
    }
    Ok(())
}

fn run(arguments: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let disk = Arc::new(RealDisk);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["make", file, seed, rounds, ref page_size @ ..] => {
            let page_size = page_size.first().map(|size| size.parse()).transpose()?;
            let options = Options {
                page_size,
                ..Options::default()
            };
            let db = Db::open(disk, Path::new(file), &options)?;
            make(&db, seed.parse()?, rounds.parse()?)?;
            Ok(format!(
                "{} size={} in_use={}",
                digest(&db)?,
                db.size(),
                db.size_in_use()
            ))
        }
        ["digest", file] => {
            let options = Options {
                read_only: true,
                ..Options::default()
            };
            Ok(digest(&Db::open(disk, Path::new(file), &options)?)?)
        }
        ["check", file] => {
            let options = Options {
                read_only: true,
                ..Options::default()
            };
            let check = Db::open(disk, Path::new(file), &options)?.check()?;
            for finding in &check.findings {
                writeln!(io::stdout(), "{finding}")?;
            }
            if !check.is_ok() {
                return Err("problems were found".into());
            }
            Ok(format!(
                "ok, {} pages, {} of them without checksum",
                check.pages, check.unverified_pages
            ))
        }
        ["vacuum", file] => {
            let db = Db::open(disk, Path::new(file), &Options::default())?;
            let (before, mut moved, mut cut, mut steps) = (db.size(), 0, 0, 0);
            loop {
                let step = db.vacuum_step(1 << 20)?;
                moved += step.moved_bytes;
                cut += step.cut_bytes;
                steps += 1;
                if step.next == VacuumNext::Done {
                    break;
                }
            }
            let (after, used) = (db.size(), db.size_in_use());
            Ok(format!(
                "size {before} -> {after} in_use={used} moved={moved} cut={cut} steps={steps}"
            ))
        }
        _ => Err(
            "usage: boltload make FILE SEED ROUNDS [PAGE_SIZE] | digest|check|vacuum FILE".into(),
        ),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(answer) => match writeln!(io::stdout(), "{answer}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_closed) => ExitCode::FAILURE,
        },
        Err(error) => {
            let _nobody_listens = writeln!(io::stderr(), "boltload: {error}");
            ExitCode::FAILURE
        }
    }
}
