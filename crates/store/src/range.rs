//! Reads of keys: what Range, RangeStream and the reads inside a transaction have in common.
//!
//! A stored value is already the answer: a RangeResponse is a sequence of stored KeyValues, each
//! behind a field key and a length. So a plain range selects revisions from the index, sums their
//! lengths, and then splices the bytes from the view chunk by chunk ([`Splice`]), as the receiver
//! takes them. What needs decoding: sorts, revision filters, and `keys_only` sorted by VALUE.
//! `keys_only` otherwise is answered from the index alone, hence without a lease, as etcd 3.7 does.
//!
//! `count` ignores limit and filters; with filters or a sort, `limit` applies after them.

use crate::Error;
use crate::index::{KeyRange, Root};
use crate::keyvalue::KeyValueRef;
use crate::revision::Revision;
use crate::view::{Located, RowReader, Source, View};
use bytes::Bytes;
use prost::encoding::{encode_varint, encoded_len_varint};
use quorate_api as api;
use quorate_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use quorate_api::etcdserverpb::{RangeRequest, RangeResponse};
use quorate_bolt::Extent;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The keys that a request's `key` and `range_end` name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys<'a> {
    /// `range_end` is empty.
    One(&'a [u8]),
    /// From `key` on, and below the end where there is one (`range_end` is not `\0`).
    Range(&'a [u8], Option<&'a [u8]>),
}

impl<'a> Keys<'a> {
    /// Reads `key` and `range_end`.
    pub fn new(key: &'a [u8], range_end: &'a [u8]) -> Keys<'a> {
        match range_end {
            [] => Keys::One(key),
            [0] => Keys::Range(key, None),
            end => Keys::Range(key, Some(end)),
        }
    }

    /// Whether `key` is among them.
    pub fn contains(&self, key: &[u8]) -> bool {
        match *self {
            Keys::One(one) => one == key,
            Keys::Range(start, end) => KeyRange { start, end }.contains(key),
        }
    }
}

/// The revision that a read at `asked` (0: newest) works at.
pub fn resolve_revision(asked: i64, current: i64, compacted: i64) -> Result<i64, api::Error> {
    if asked > current {
        return Err(api::Error::FutureRev);
    }
    let at = if asked <= 0 { current } else { asked };
    if at < compacted {
        Err(api::Error::Compacted)
    } else {
        Ok(at)
    }
}

/// Whether the answer comes in the index's own order.
pub fn is_default_order(request: &RangeRequest) -> bool {
    let key = request.sort_target == SortTarget::Key as i32;
    request.sort_order == SortOrder::None as i32
        || (key && request.sort_order == SortOrder::Ascend as i32)
}

/// Whether a revision filter is set.
pub fn has_filters(request: &RangeRequest) -> bool {
    request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0
}

/// An answer without its header's ids.
pub struct RangeAnswer {
    /// Revision of the view it was read from.
    pub revision: i64,
    /// Whether `limit` cut it.
    pub more: bool,
    /// Number of keys of the range, whatever the limit.
    pub count: i64,
    /// Number of key-values in it.
    pub returned: usize,
    /// The key-values.
    pub kvs: Kvs,
}

/// The `kvs` of an answer, each with its field key and length.
pub enum Kvs {
    /// In full.
    Ready(Vec<u8>),
    /// To be taken from the view.
    Spliced(Splice),
}

impl Kvs {
    /// Length in bytes.
    pub fn encoded_len(&self) -> u64 {
        match self {
            Kvs::Ready(bytes) => bytes.len() as u64,
            Kvs::Spliced(splice) => splice.left,
        }
    }
}

/// Stored key-values, taken from their view in bounded chunks.
pub struct Splice {
    view: Arc<View>,
    items: Vec<Item>,
    /// Values that are not in the file yet.
    memory: Vec<Bytes>,
    next: usize,
    left: u64,
}

/// Where a value is: in the file, or (by its place) among those in memory. Sixteen bytes, since there
/// can be very many.
struct Item {
    offset: u64,
    len: u32,
    in_file: bool,
}

/// Field 2 of a RangeResponse, length-delimited.
const KVS_FIELD: u8 = 2 << 3 | 2;

fn kvs_field_len(len: usize) -> u64 {
    (1 + encoded_len_varint(len as u64) + len) as u64
}

fn put_kvs_field(out: &mut Vec<u8>, stored: &[u8]) {
    out.push(KVS_FIELD);
    encode_varint(stored.len() as u64, out);
    out.extend_from_slice(stored);
}

impl Splice {
    /// The live keys at `at`, up to `limit`; whether there are more. `expected`: how many there will
    /// be, about, so that their places are reserved at once.
    fn collect(
        view: &Arc<View>,
        keys: &Keys<'_>,
        at: i64,
        limit: Option<usize>,
        expected: usize,
    ) -> Result<(Splice, bool), Error> {
        let rows = view.rows()?;
        let mut splice = Splice {
            view: view.clone(),
            items: Vec::with_capacity(expected),
            memory: Vec::new(),
            next: 0,
            left: 0,
        };
        let mut more = false;
        visit_live(&view.root, keys, at, |key| {
            if limit == Some(splice.items.len()) {
                more = true;
                return Ok(false);
            }
            splice.push(rows.locate(key.revision)?);
            Ok(true)
        })?;
        Ok((splice, more))
    }

    fn push(&mut self, value: Located<'_>) {
        let item = match value {
            Located::File(extent) => Item {
                offset: extent.offset,
                len: extent.len,
                in_file: true,
            },
            Located::Memory(value) => {
                self.memory.push(value.clone());
                Item {
                    offset: self.memory.len() as u64 - 1,
                    len: u32::try_from(value.len()).expect("a value fits a log entry"),
                    in_file: false,
                }
            }
        };
        self.left += kvs_field_len(item.len as usize);
        self.items.push(item);
    }

    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// About `budget` bytes more (at least one key-value); `None` at the end.
    pub fn next_chunk(&mut self, budget: usize) -> Option<Bytes> {
        if self.next == self.items.len() {
            assert_eq!(self.left, 0, "the lengths were summed over the same rows");
            return None;
        }
        let mut out = Vec::with_capacity(budget.min(self.left as usize));
        while let Some(item) = self.items.get(self.next) {
            let len = item.len as usize;
            if !out.is_empty() && out.len() + len + 11 > budget {
                break;
            }
            let stored = if item.in_file {
                let (offset, len) = (item.offset, item.len);
                self.view.file.value_at(Extent { offset, len })
            } else {
                &self.memory[item.offset as usize][..]
            };
            put_kvs_field(&mut out, stored);
            self.next += 1;
        }
        self.left -= out.len() as u64;
        Some(out.into())
    }
}

/// How much an answer may hold to be given at once, on the caller's thread.
#[derive(Clone, Copy, Debug)]
pub struct Inline {
    /// Most keys to look at.
    pub keys: u64,
    /// Most bytes to copy.
    pub bytes: usize,
}

/// Answers a range; `None` where it is larger than `inline` allows. With `inline` absent, always.
/// `counted` is a root of the asked revision, where one was kept.
pub fn range(
    view: &Arc<View>,
    request: &RangeRequest,
    counted: Option<&Root>,
    inline: Option<Inline>,
) -> Result<Option<RangeAnswer>, Error> {
    let source = view.source()?;
    let at = resolve_revision(request.revision, source.revision, source.compact_revision)?;
    if let (Some(inline), Keys::Range(start, end)) =
        (inline, Keys::new(&request.key, &request.range_end))
    {
        let spread = source.root.count(KeyRange { start, end });
        let counts_cheaply = at == source.revision || counted.is_some();
        let limited = is_default_order(request) && !has_filters(request) && counts_cheaply;
        let visited = match request.limit {
            _ if limited && request.count_only => 0,
            1.. if limited => spread.min(request.limit as u64),
            _ => spread,
        };
        if visited > inline.keys {
            return Ok(None);
        }
    }
    if inline.is_none() && is_plain(request) && !request.keys_only && !request.count_only {
        return long_range(view, request, at, counted).map(Some);
    }
    let selection = select(&source, request, at, counted, true)?;
    let returned = selection.kept();
    let kvs = match selection.found {
        Found::Encoded { fields, .. } => Kvs::Ready(fields),
        Found::Revisions(revisions) => {
            let most = inline.map_or(usize::MAX, |inline| inline.bytes);
            let mut bytes = Vec::new();
            for revision in revisions {
                put_kvs_field(&mut bytes, source.rows.put(revision)?);
                if bytes.len() > most {
                    return Ok(None);
                }
            }
            Kvs::Ready(bytes)
        }
        Found::Decoded(kvs) => {
            let mut bytes = Vec::new();
            for kv in &kvs {
                bytes.push(KVS_FIELD);
                encode_varint(kv.encoded_len() as u64, &mut bytes);
                kv.encode(&mut bytes);
            }
            Kvs::Ready(bytes)
        }
    };
    Ok(Some(RangeAnswer {
        revision: source.revision,
        more: selection.more,
        count: selection.count,
        returned,
        kvs,
    }))
}

/// A plain range of any length: places first, bytes as the receiver takes them.
fn long_range(
    view: &Arc<View>,
    request: &RangeRequest,
    at: i64,
    counted: Option<&Root>,
) -> Result<RangeAnswer, Error> {
    let keys = Keys::new(&request.key, &request.range_end);
    let limit = limit_of(request);
    let total = || count(&view.root, &keys, at, view.revision, counted);
    let expected = match limit {
        _ if at != view.revision => 0,
        Some(limit) => limit.min(total() as usize),
        None => total() as usize,
    };
    let (splice, more) = Splice::collect(view, &keys, at, limit, expected)?;
    let returned = splice.items.len();
    Ok(RangeAnswer {
        revision: view.revision,
        more,
        count: if more { total() } else { returned as i64 },
        returned,
        kvs: Kvs::Spliced(splice),
    })
}

fn limit_of(request: &RangeRequest) -> Option<usize> {
    usize::try_from(request.limit)
        .ok()
        .filter(|limit| *limit > 0)
}

/// Whether stored key-values are the answer as they are, in the index's order.
fn is_plain(request: &RangeRequest) -> bool {
    !needs_sort(request) && !has_filters(request)
}

/// Answers a range as a message, header with the revision alone; for transactions.
pub fn range_message(source: &Source<'_>, request: &RangeRequest) -> Result<RangeResponse, Error> {
    let at = resolve_revision(request.revision, source.revision, source.compact_revision)?;
    let selection = select(source, request, at, None, true)?;
    let kvs = match selection.found {
        Found::Encoded { decoded, .. } => decoded.iter().map(|kv| kv.to_kv()).collect(),
        Found::Revisions(revisions) => revisions
            .into_iter()
            .map(|revision| Ok(source.rows.key_value(revision)?.to_owned()))
            .collect::<Result<_, Error>>()?,
        Found::Decoded(kvs) => kvs.iter().map(|kv| kv.to_owned()).collect(),
    };
    Ok(RangeResponse {
        header: Some(api::etcdserverpb::ResponseHeader {
            revision: source.revision,
            ..Default::default()
        }),
        kvs,
        more: selection.more,
        count: selection.count,
    })
}

/// One chunk of a RangeStream: up to `limit` plain or keys-only key-values at `at` from `start` on.
pub struct StreamChunk {
    /// Field-encoded kvs.
    pub fields: Vec<u8>,
    /// How many.
    pub returned: usize,
    /// The last key of the chunk, where keys are left behind it.
    pub more_after: Option<Vec<u8>>,
}

/// Reads the next chunk of a RangeStream: at most `limit` keys, and about `bytes` bytes.
pub fn stream_chunk(
    view: &View,
    keys: &Keys<'_>,
    keys_only: bool,
    at: i64,
    limit: u64,
    bytes: usize,
) -> Result<StreamChunk, Error> {
    let rows = view.rows()?;
    let mut chunk = StreamChunk {
        fields: Vec::new(),
        returned: 0,
        more_after: None,
    };
    let mut last = Vec::new();
    let found = visit_live(&view.root, keys, at, |key| {
        if chunk.returned as u64 == limit || (chunk.returned > 0 && chunk.fields.len() >= bytes) {
            chunk.more_after = Some(std::mem::take(&mut last));
            return Ok(false);
        }
        if keys_only {
            put_index_kv(&mut chunk.fields, &key.index_kv(&rows)?);
        } else {
            put_kvs_field(&mut chunk.fields, rows.put(key.revision)?);
        }
        chunk.returned += 1;
        last.clear();
        last.extend_from_slice(key.key);
        Ok(true)
    });
    found?;
    Ok(chunk)
}

/// Number of live keys at `at`.
pub fn count(root: &Root, keys: &Keys<'_>, at: i64, current: i64, counted: Option<&Root>) -> i64 {
    match *keys {
        Keys::One(key) => i64::from(
            root.get(key)
                .is_some_and(|entry| entry.live_at(at).is_some()),
        ),
        Keys::Range(start, end) => {
            let range = KeyRange { start, end };
            if at == current {
                return root.count(range) as i64;
            }
            if let Some(counted) = counted {
                return counted.count(range) as i64;
            }
            let mut n = 0;
            let _ = root.walk::<()>(range, |_, entry| {
                n += i64::from(entry.live_at(at).is_some());
                ControlFlow::Continue(())
            });
            n
        }
    }
}

/// A key-value as the index alone tells it.
struct IndexKv {
    key: Bytes,
    create: i64,
    modified: i64,
    version: i64,
}

impl IndexKv {
    fn as_ref(&self) -> KeyValueRef<'_> {
        KeyValueRef {
            key: &self.key,
            create_revision: self.create,
            mod_revision: self.modified,
            version: self.version,
            value: b"",
            lease: 0,
        }
    }

    fn to_kv(&self) -> api::mvccpb::KeyValue {
        self.as_ref().to_owned()
    }
}

fn put_index_kv(out: &mut Vec<u8>, kv: &KeyValueRef<'_>) {
    out.push(KVS_FIELD);
    encode_varint(kv.encoded_len() as u64, out);
    kv.encode(out);
}

/// A live key met by [`visit_live`].
struct LiveKey<'e> {
    key: &'e [u8],
    entry: &'e crate::index::Entry,
    revision: Revision,
}

impl LiveKey<'_> {
    /// From the index where the newest revision is meant; an older one's create revision and
    /// version are in its row.
    fn index_kv(&self, rows: &RowReader<'_>) -> Result<KeyValueRef<'_>, Error> {
        let (create_revision, version) = if self.entry.newest().revision == self.revision {
            (self.entry.create(), self.entry.version())
        } else {
            let kv = rows.key_value(self.revision)?;
            (kv.create_revision, kv.version)
        };
        Ok(KeyValueRef {
            key: self.key,
            create_revision,
            mod_revision: self.revision.main,
            version,
            value: b"",
            lease: 0,
        })
    }
}

/// Calls `visit` with each key that is live at `at`, in order, until it says false or fails.
fn visit_live(
    root: &Root,
    keys: &Keys<'_>,
    at: i64,
    mut visit: impl FnMut(LiveKey<'_>) -> Result<bool, Error>,
) -> Result<(), Error> {
    match *keys {
        Keys::One(key) => {
            if let Some(entry) = root.get(key)
                && let Some(revision) = entry.live_at(at)
            {
                visit(LiveKey {
                    key,
                    entry,
                    revision,
                })?;
            }
            Ok(())
        }
        Keys::Range(start, end) => {
            let stopped = root.walk(KeyRange { start, end }, |key, entry| {
                let Some(revision) = entry.live_at(at) else {
                    return ControlFlow::Continue(());
                };
                match visit(LiveKey {
                    key,
                    entry,
                    revision,
                }) {
                    Ok(true) => ControlFlow::Continue(()),
                    Ok(false) => ControlFlow::Break(Ok(())),
                    Err(e) => ControlFlow::Break(Err(e)),
                }
            });
            match stopped {
                ControlFlow::Break(result) => result,
                ControlFlow::Continue(()) => Ok(()),
            }
        }
    }
}

enum Found<'a> {
    /// From the index alone: encoded with field keys, and as values.
    Encoded {
        fields: Vec<u8>,
        decoded: Vec<IndexKv>,
    },
    /// Stored as they are to be sent.
    Revisions(Vec<Revision>),
    /// Filtered, sorted, or stripped of their values.
    Decoded(Vec<KeyValueRef<'a>>),
}

struct Selection<'a> {
    found: Found<'a>,
    more: bool,
    count: i64,
}

impl Selection<'_> {
    fn kept(&self) -> usize {
        match &self.found {
            Found::Encoded { decoded, .. } => decoded.len(),
            Found::Revisions(revisions) => revisions.len(),
            Found::Decoded(kvs) => kvs.len(),
        }
    }
}

fn select<'a>(
    source: &Source<'a>,
    request: &RangeRequest,
    at: i64,
    counted: Option<&Root>,
    encode: bool,
) -> Result<Selection<'a>, Error> {
    let keys = Keys::new(&request.key, &request.range_end);
    let total = || count(source.root, &keys, at, source.revision, counted);
    if request.count_only {
        return Ok(Selection {
            found: Found::Revisions(Vec::new()),
            more: false,
            count: total(),
        });
    }
    let limit = limit_of(request);
    let by_value = request.sort_target == SortTarget::Value as i32;
    let index_only = request.keys_only && !by_value;
    let plain = is_plain(request);
    if plain && !request.keys_only {
        let mut revisions = Vec::new();
        let mut more = false;
        visit_live(source.root, &keys, at, |key| {
            if limit == Some(revisions.len()) {
                more = true;
                return Ok(false);
            }
            revisions.push(key.revision);
            Ok(true)
        })?;
        let count = if more {
            total()
        } else {
            revisions.len() as i64
        };
        return Ok(Selection {
            found: Found::Revisions(revisions),
            more,
            count,
        });
    }
    if plain && index_only {
        let (mut fields, mut decoded, mut more) = (Vec::new(), Vec::new(), false);
        visit_live(source.root, &keys, at, |key| {
            if limit == Some(decoded.len()) {
                more = true;
                return Ok(false);
            }
            let kv = key.index_kv(&source.rows)?;
            if encode {
                put_index_kv(&mut fields, &kv);
            }
            decoded.push(IndexKv {
                key: Bytes::copy_from_slice(kv.key),
                create: kv.create_revision,
                modified: kv.mod_revision,
                version: kv.version,
            });
            Ok(true)
        })?;
        let count = if more { total() } else { decoded.len() as i64 };
        return Ok(Selection {
            found: Found::Encoded { fields, decoded },
            more,
            count,
        });
    }

    // Read, then filtered, sorted and cut. A sort without an order (ascending) is of the first
    // `limit + 1` keys alone, as in etcd; any other is of all. With `keys_only` the lease is not
    // told, unless the sort is by value: then etcd reads the stored key-values.
    let early = is_default_order(request) && !has_filters(request);
    let most = limit
        .filter(|_| early)
        .map_or(usize::MAX, |limit| limit.saturating_add(1));
    let mut kvs = Vec::new();
    visit_live(source.root, &keys, at, |key| {
        kvs.push(source.rows.key_value(key.revision)?);
        Ok(kvs.len() < most)
    })?;
    let count = if kvs.len() == most {
        total()
    } else {
        kvs.len() as i64
    };
    kvs.retain(|kv| passes_filters(kv, request));
    sort(&mut kvs, request);
    let more = limit.is_some_and(|limit| kvs.len() > limit);
    kvs.truncate(limit.unwrap_or(usize::MAX));
    if request.keys_only {
        for kv in &mut kvs {
            kv.value = b"";
            if index_only {
                kv.lease = 0;
            }
        }
    }
    Ok(Selection {
        found: Found::Decoded(kvs),
        more,
        count,
    })
}

fn passes_filters(kv: &KeyValueRef<'_>, request: &RangeRequest) -> bool {
    let within =
        |value: i64, min: i64, max: i64| (max == 0 || value <= max) && (min == 0 || value >= min);
    within(
        kv.mod_revision,
        request.min_mod_revision,
        request.max_mod_revision,
    ) && within(
        kv.create_revision,
        request.min_create_revision,
        request.max_create_revision,
    )
}

fn needs_sort(request: &RangeRequest) -> bool {
    request.sort_target != SortTarget::Key as i32 || request.sort_order == SortOrder::Descend as i32
}

/// Sorts as asked; equal ones stay in the order of their keys.
fn sort(kvs: &mut [KeyValueRef<'_>], request: &RangeRequest) {
    if !needs_sort(request) {
        return;
    }
    let descending = request.sort_order == SortOrder::Descend as i32;
    let target = SortTarget::try_from(request.sort_target).unwrap_or(SortTarget::Key);
    kvs.sort_by(|a, b| {
        let order = match target {
            SortTarget::Key => a.key.cmp(b.key),
            SortTarget::Version => a.version.cmp(&b.version),
            SortTarget::Create => a.create_revision.cmp(&b.create_revision),
            SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
            SortTarget::Value => a.value.cmp(b.value),
        };
        if descending { order.reverse() } else { order }
    });
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
