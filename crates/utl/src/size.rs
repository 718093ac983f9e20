//! `size`: which keys take the space, now and in history.
//!
//! A prefix is a key's first parts, up to and with a separator. What is counted is the stored rows:
//! key, value and their wrapping, without the pages' own share.

use crate::database::{self, Wait};
use crate::dump_db::database_of;
use crate::error::Failure;
use crate::output;
use quorate_bolt::ReadTx;
use quorate_cli::Invocation;
use quorate_cli::format::Format;
use quorate_cli::streams::write_out;
use quorate_cli::table;
use quorate_go::quote::quote;
use quorate_go::size::human_bytes;
use quorate_store::keyvalue::KeyValueRef;
use quorate_store::revision::RowKey;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::Path;

/// What the rows of a prefix take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Space {
    /// Keys that are not deleted.
    keys: u64,
    /// Bytes of their newest rows.
    bytes: u64,
    /// All rows.
    rows: u64,
    /// Bytes of all rows.
    history_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Prefix {
    prefix: String,
    #[serde(flatten)]
    space: Space,
}

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let flags = &invocation.given;
    let [path] = &invocation.given.texts()[..] else {
        return Err(Failure::Arguments(
            "size requires exactly one argument".into(),
        ));
    };
    let format = output::form(invocation)?;
    let path = database_of(Path::new(path));
    database::stat(&path)?;
    let wait = Wait::from_flag(flags.nanos("timeout"));
    let db = database::open_to_read(&path, wait)?;
    let separator = flags.text("separator");
    let depth = usize::try_from(flags.uint("depth")).unwrap_or(usize::MAX);
    let spaces = measure(&db.begin_read(), separator.as_bytes(), depth)?;
    let limit = match flags.uint("limit") {
        0 => usize::MAX,
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let shown = largest(spaces, limit);
    write_out(text(&shown, format)?.as_bytes())?;
    Ok(())
}

/// The first `depth` parts of a key.
fn prefix<'k>(key: &'k [u8], separator: &[u8], depth: usize) -> &'k [u8] {
    if separator.is_empty() {
        return &key[..depth.min(key.len())];
    }
    let mut end = 0;
    for _ in 0..depth {
        let rest = &key[end..];
        match rest
            .windows(separator.len())
            .position(|part| part == separator)
        {
            Some(at) => end += at + separator.len(),
            None => break,
        }
    }
    &key[..end]
}

fn measure(
    file: &ReadTx,
    separator: &[u8],
    depth: usize,
) -> Result<BTreeMap<Vec<u8>, Space>, Failure> {
    let mut spaces: BTreeMap<Vec<u8>, Space> = BTreeMap::new();
    // Bytes of each live key's newest row.
    let mut live: HashMap<Box<[u8]>, u64> = HashMap::new();
    let Some(rows) = file.bucket(quorate_store::view::KEY_BUCKET)? else {
        return Ok(spaces);
    };
    let mut cursor = rows.range(Bound::Unbounded)?;
    while let Some((key, value)) = cursor.next()? {
        let row = RowKey::decode(key)?;
        let kv = KeyValueRef::decode(value)
            .ok_or_else(|| quorate_store::Error::corrupt("key", key, "the value is no KeyValue"))?;
        let bytes = (key.len() + value.len()) as u64;
        let name = prefix(kv.key, separator, depth);
        let space = match spaces.get_mut(name) {
            Some(space) => space,
            None => spaces.entry(name.to_vec()).or_default(),
        };
        space.rows += 1;
        space.history_bytes += bytes;
        if row.tombstone {
            live.remove(kv.key);
        } else if let Some(newest) = live.get_mut(kv.key) {
            *newest = bytes;
        } else {
            live.insert(kv.key.into(), bytes);
        }
    }
    for (key, bytes) in &live {
        let name = prefix(key, separator, depth);
        let space = spaces.get_mut(name).expect("its rows were counted");
        space.keys += 1;
        space.bytes += bytes;
    }
    Ok(spaces)
}

/// The prefixes that take the most, history included, and the sum of all.
fn largest(spaces: BTreeMap<Vec<u8>, Space>, limit: usize) -> Vec<Prefix> {
    let mut total = Space::default();
    let mut all: Vec<(Vec<u8>, Space)> = spaces.into_iter().collect();
    for (_, space) in &all {
        total.keys += space.keys;
        total.bytes += space.bytes;
        total.rows += space.rows;
        total.history_bytes += space.history_bytes;
    }
    all.sort_by_key(|(_, space)| std::cmp::Reverse(space.history_bytes));
    all.truncate(limit);
    let named = all.into_iter().map(|(name, space)| Prefix {
        prefix: quote(&name),
        space,
    });
    let sum = Prefix {
        prefix: "total".into(),
        space: total,
    };
    named.chain([sum]).collect()
}

fn text(prefixes: &[Prefix], format: Format) -> Result<String, Failure> {
    let cells = |prefix: &Prefix| {
        vec![
            prefix.prefix.clone(),
            prefix.space.keys.to_string(),
            human_bytes(prefix.space.bytes),
            prefix.space.rows.to_string(),
            human_bytes(prefix.space.history_bytes),
        ]
    };
    match format {
        Format::Simple => Ok(prefixes
            .iter()
            .map(|prefix| format!("{}\n", cells(prefix).join(", ")))
            .collect()),
        Format::Json => {
            let json = serde_json::to_string(prefixes).expect("plain data has a JSON form");
            Ok(format!("{json}\n"))
        }
        Format::Table => {
            let names = ["prefix", "keys", "now", "rows", "history"];
            let rows: Vec<Vec<String>> = prefixes.iter().map(cells).collect();
            Ok(table::draw(&names, &rows))
        }
        Format::Fields | Format::Protobuf => Err(Failure::Format(
            "size is written simply, as json or as a table only".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_with_a_separator() {
        let of = |key: &str, depth| prefix(key.as_bytes(), b"/", depth).to_vec();
        assert_eq!(of("/registry/pods/a", 2), b"/registry/");
        assert_eq!(of("/registry/pods/a", 3), b"/registry/pods/");
        assert_eq!(of("/registry/pods/a", 9), b"/registry/pods/");
        assert_eq!(of("plain", 2), b"");
        assert_eq!(of("a/b", 0), b"");
        assert_eq!(prefix(b"abc", b"", 2), b"ab");
    }
}
