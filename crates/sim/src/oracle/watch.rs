//! What a watcher is promised: the events of its keys in the order of history, none left out, none
//! twice, those of a revision together, also across a break after which it went on elsewhere.
//!
//! Only what was compacted before it could be told may be missing, and only where the watcher was told
//! so.

use super::{Violation, ensure};
use crate::model::{Event, Keys, Model};

/// The checker's name.
pub const NAME: &str = "watch";

/// What a watcher has seen, over all its streams.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Whose events it wants.
    pub keys: Keys,
    /// Whether it wants to know what was there before.
    pub with_before: bool,
    /// The first revision that it was not told of.
    pub next: i64,
    told: Vec<Told>,
}

#[derive(Clone, Debug)]
enum Told {
    /// It wants everything from here on.
    From(i64),
    /// Events that came together.
    Events(Vec<Event>),
    /// Everything up to this revision was told.
    Progress(i64),
}

impl Watched {
    /// Nothing was told yet; it wants everything from `next` on.
    pub fn new(keys: Keys, with_before: bool, next: i64) -> Watched {
        Watched {
            keys,
            with_before,
            next,
            told: vec![Told::From(next)],
        }
    }

    /// Events came.
    pub fn events(&mut self, events: Vec<Event>) {
        if let Some(last) = events.last() {
            self.next = last.revision + 1;
        }
        self.told.push(Told::Events(events));
    }

    /// It was told that there is nothing more up to a revision.
    pub fn progress(&mut self, revision: i64) {
        self.next = self.next.max(revision + 1);
        self.told.push(Told::Progress(revision));
    }

    /// It was canceled, since what it wants is gone before a revision, and goes on from there.
    pub fn compacted(&mut self, revision: i64) {
        self.next = revision;
        self.told.push(Told::From(revision));
    }

    /// How many events it was told.
    pub fn count(&self) -> usize {
        let counts = self.told.iter().map(|told| match told {
            Told::Events(events) => events.len(),
            Told::From(_) | Told::Progress(_) => 0,
        });
        counts.sum()
    }

    /// Judges it against what happened.
    pub fn check(&self, model: &Model) -> Result<(), Violation> {
        let mut next = 0;
        let wanted = |from: i64| {
            let all = model.events().iter();
            all.filter(move |event| event.revision >= from && self.keys.contains(&event.key))
        };
        for told in &self.told {
            match told {
                Told::From(from) => {
                    ensure!(
                        next == 0 || (next < *from && *from <= model.compacted()),
                        NAME,
                        "at revision {next} it was told that everything before {from} is gone"
                    );
                    next = *from;
                }
                Told::Progress(revision) => {
                    let missing = wanted(next).find(|event| event.revision <= *revision);
                    ensure!(
                        missing.is_none(),
                        NAME,
                        "it was told that nothing is left up to {revision}, and not of {missing:?}"
                    );
                    next = next.max(revision + 1);
                }
                Told::Events(events) => {
                    let mut expected = wanted(next);
                    for event in events {
                        let expected = expected.next();
                        ensure!(
                            expected.is_some_and(|expected| self.same(event, expected, model)),
                            NAME,
                            "it was told of {event:?}, not of {expected:?}"
                        );
                    }
                    let Some(last) = events.last() else {
                        return Err(Violation {
                            oracle: NAME,
                            what: "it was told of no events".to_owned(),
                        });
                    };
                    let rest = expected.next();
                    ensure!(
                        rest.is_none_or(|rest| rest.revision > last.revision),
                        NAME,
                        "of revision {} it was told a part",
                        last.revision
                    );
                    next = last.revision + 1;
                }
            }
        }
        Ok(())
    }

    fn same(&self, told: &Event, expected: &Event, model: &Model) -> bool {
        let before = match &told.before {
            None if !self.with_before => true,
            // What was compacted when it was told cannot be told.
            None => expected.before.is_none() || expected.revision <= model.compacted(),
            before => *before == expected.before,
        };
        let now = match (&told.now, &expected.now) {
            (Some(now), Some(expected)) => now == expected,
            (now, expected) => now.is_none() && expected.is_none(),
        };
        before && now && told.revision == expected.revision && told.key == expected.key
    }
}
