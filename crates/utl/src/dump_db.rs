//! `dump db`: the buckets of a database and what is in them, as etcd-dump-db prints them.

use crate::database::{self, Wait};
use crate::error::Failure;
use crate::{layout, text_format};
use prost::Message;
use quorate_api::{authpb, leasepb};
use quorate_bolt::{Bucket, Entry};
use quorate_cli::Invocation;
use quorate_cli::streams::write_out;
use quorate_go::quote::quote;
use quorate_store::hash::hash_file;
use quorate_store::keyvalue::KeyValueRef;
use quorate_store::revision::RowKey;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Entries gathered before they are written.
const BATCH: usize = 256;

/// The database that a path means: a file, or the one of a data directory.
pub fn database_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        layout::database(path)
    } else {
        path.to_path_buf()
    }
}

/// What is printed.
struct Choice {
    decode: bool,
    ascending: bool,
    /// How many entries; 0 for all.
    limit: u64,
    /// Rows below it are left out.
    start_revision: i64,
}

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let flags = &invocation.given;
    let words = flags.texts();
    let (path, bucket) = match &words[..] {
        [path] => (path, None),
        [path, bucket] => (path, Some(bucket)),
        other => {
            return Err(Failure::Arguments(format!(
                "Must provide 1 or 2 arguments (got {other:?})"
            )));
        }
    };
    let path = database_of(Path::new(path));
    if !path.exists() {
        return Err(Failure::Reason(format!(
            "{} does not exist",
            quote(path.to_string_lossy().as_bytes())
        )));
    }
    let db = database::open_to_read(&path, Wait::from_flag(flags.nanos("timeout")))?;
    let file = db.begin_read();
    if flags.flag("hash") {
        let hash = hash_file(&file)?;
        write_out(format!("db path: {}\nHash: {hash}\n", path.display()).as_bytes())?;
        return Ok(());
    }
    let Some(name) = bucket else {
        for name in file.buckets()? {
            write_out(format!("{}\n", String::from_utf8_lossy(&name)).as_bytes())?;
        }
        return Ok(());
    };
    let Some(bucket) = file.bucket(name.as_bytes())? else {
        return Err(Failure::Reason(format!("got nil bucket for {name}")));
    };
    let choice = Choice {
        decode: flags.flag("decode"),
        ascending: flags.flag("ascending"),
        limit: flags.uint("limit"),
        start_revision: flags.int("start-revision"),
    };
    dump(name, bucket, &choice)
}

fn dump(name: &str, bucket: Bucket<'_>, choice: &Choice) -> Result<(), Failure> {
    let mut forward = bucket.range(Bound::Unbounded)?;
    let mut backward = bucket.backward()?;
    let mut text = String::new();
    let mut count = 0;
    loop {
        let next = if choice.ascending {
            forward.next()?
        } else {
            backward.next()?
        };
        let Some((key, value)) = next else { break };
        if name == "key"
            && let Ok(row) = RowKey::decode(key)
            && row.revision.main < choice.start_revision
        {
            continue;
        }
        text.push_str(&line(name, (key, value), choice.decode));
        text.push('\n');
        count += 1;
        if count % BATCH as u64 == 0 {
            write_out(text.as_bytes())?;
            text.clear();
        }
        if count == choice.limit {
            break;
        }
    }
    write_out(text.as_bytes())?;
    Ok(())
}

fn line(bucket: &str, (key, value): Entry<'_>, decode: bool) -> String {
    let decoded = if decode {
        decoded(bucket, key, value)
    } else {
        None
    };
    decoded.unwrap_or_else(|| format!("key={}, value={}", quote(key), quote(value)))
}

/// An entry decoded; `None` where its bucket, or its bytes, cannot be.
fn decoded(bucket: &str, key: &[u8], value: &[u8]) -> Option<String> {
    let number = || Some(u64::from_be_bytes(value.try_into().ok()?));
    Some(match bucket {
        "key" => {
            let row = RowKey::decode(key).ok()?;
            let kv = KeyValueRef::decode(value)?;
            format!(
                "rev={{Revision:{{Main:{} Sub:{}}} tombstone:{}}}, value=[key {} | val {} | created {} | \
                 mod {} | ver {}]",
                row.revision.main,
                row.revision.sub,
                row.tombstone,
                quote(kv.key),
                quote(kv.value),
                kv.create_revision,
                kv.mod_revision,
                kv.version
            )
        }
        "lease" => {
            let id = u64::from_be_bytes(key.try_into().ok()?);
            let lease = leasepb::Lease::decode(value).ok()?;
            format!(
                "lease ID={id:016x}, TTL={}s, remaining TTL={}s",
                lease.ttl, lease.remaining_ttl
            )
        }
        "auth" if key == b"authRevision" => {
            format!("key={}, value={}", quote(key), number()?)
        }
        "auth" => {
            let bytes: Vec<String> = value.iter().map(u8::to_string).collect();
            format!("key={}, value=[{}]", quote(key), bytes.join(" "))
        }
        "authRoles" => {
            let role = authpb::Role::decode(value).ok()?;
            let permissions: Vec<String> = role
                .key_permission
                .iter()
                .map(|permission| text_format::message("authpb.Permission", permission))
                .collect();
            format!(
                "role={}, keyPermission=[{}]",
                quote(&role.name),
                permissions.join(" ")
            )
        }
        "authUsers" => {
            let user = authpb::User::decode(value).ok()?;
            let roles: Vec<String> = user
                .roles
                .iter()
                .map(|role| quote(role.as_bytes()))
                .collect();
            let no_password = user.options.is_some_and(|options| options.no_password);
            format!(
                "user={}, roles=[{}], option={}",
                quote(&user.name),
                roles.join(" "),
                if no_password { "no_password:true" } else { "" }
            )
        }
        "meta" => match key {
            b"consistent_index" | b"term" => {
                format!("key={}, value={}", quote(key), number()?)
            }
            b"scheduledCompactRev" | b"finishedCompactRev" => {
                let revision = RowKey::decode(value).ok()?.revision;
                format!(
                    "key={}, value={{{} {}}}",
                    quote(key),
                    revision.main,
                    revision.sub
                )
            }
            _ => return None,
        },
        _ => return None,
    })
}
