//! Catching up: what a class of watchers missed, read from a view in bounded steps.
//!
//! A step is a function of its view and position alone, so any thread may run it. A class of one
//! key follows that key's revisions in the index and reads nothing else; a range is scanned.

use super::class::{Class, WatchedKeys};
use super::events::Events;
use crate::Error;
use crate::index::Point;
use crate::revision::{Revision, RowKey};
use crate::view::{View, decode};
use std::sync::Arc;

/// Bounds of one step.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most rows to look at.
    pub rows: usize,
    /// Most events, beyond which only the rest of a revision is taken.
    pub events: usize,
    /// Most bytes of events, likewise.
    pub bytes: usize,
}

/// A step to be run.
#[derive(Clone)]
pub struct Step {
    /// Whose.
    pub cohort: u64,
    /// What they want.
    pub class: Arc<Class>,
    /// The first main revision that they were not told of.
    pub from: i64,
    /// Where it is read.
    pub view: Arc<View>,
}

/// What a step found.
pub struct Found {
    /// Whose.
    pub cohort: u64,
    /// The events.
    pub events: Events,
    /// The first main revision beyond them.
    pub next: i64,
    /// Set where `from` was compacted away: the compact revision.
    pub compacted: Option<i64>,
}

/// Runs a step.
pub fn run(step: &Step, bounds: Bounds) -> Result<Found, Error> {
    let Step {
        cohort,
        class,
        from,
        view,
    } = step;
    let mut found = Found {
        cohort: *cohort,
        events: Events::default(),
        next: *from,
        compacted: None,
    };
    if *from < view.compact_revision {
        found.compacted = Some(view.compact_revision);
        return Ok(found);
    }
    let rows = view.rows()?;
    let before = class.prev_kv.then_some(&**view);
    // A revision's events stay together: a step ends between two main revisions.
    let full = |events: &Events, next: i64, main: i64| {
        main > next && (events.len() >= bounds.events || events.bytes().len() >= bounds.bytes)
    };
    match class.keys {
        WatchedKeys::One => {
            let points = match view.root.get(&class.start) {
                Some(entry) => points_from(entry, *from),
                None => Vec::new(),
            };
            let mut last = 0;
            for point in points {
                let main = point.revision.main;
                if full(&found.events, last, main) {
                    found.next = main;
                    return Ok(found);
                }
                last = main;
                if class.wants(point.tombstone) {
                    let key = RowKey {
                        revision: point.revision,
                        tombstone: point.tombstone,
                    };
                    push_row(&rows, key, &mut found.events, before)?;
                }
            }
            found.next = view.revision + 1;
        }
        WatchedKeys::Below(_) | WatchedKeys::All => {
            let (mut looked_at, mut last) = (0, 0);
            found.next = view.revision + 1;
            let next = &mut found.next;
            let events = &mut found.events;
            rows.scan(Revision::new(*from, 0), view.revision + 1, |row, value| {
                let main = row.revision.main;
                if full(events, last, main) || (looked_at >= bounds.rows && main > last) {
                    *next = main;
                    return Ok(false);
                }
                looked_at += 1;
                last = main;
                if class.wants(row.tombstone) && class.contains(decode(row, value)?.key) {
                    events.push(row, value, before)?;
                }
                Ok(true)
            })?;
        }
    }
    Ok(found)
}

fn push_row(
    rows: &crate::view::RowReader<'_>,
    key: RowKey,
    events: &mut Events,
    before: Option<&View>,
) -> Result<(), Error> {
    if !key.tombstone {
        return events.push(key, rows.put(key.revision)?, before);
    }
    let mut result = Ok(());
    rows.scan(key.revision, key.revision.main + 1, |row, value| {
        if row == key {
            result = events.push(row, value, before);
        }
        Ok(false)
    })?;
    result
}

/// The key's revisions with main ≥ `from`, ascending.
fn points_from(entry: &crate::index::Entry, from: i64) -> Vec<Point> {
    let mut points = entry.points_from(from);
    points.reverse();
    points
}
