//! A jump of the history: a database received from another member takes the store's place, and with
//! it come revisions that were never told row by row.
//!
//! What holds afterwards: nobody is synced who was told less than the new newest revision; everybody
//! catches up from where they were, on views of the new file. A watcher whose next revision was
//! compacted meanwhile finds that out there, as one that lagged does.

use super::ring::Ring;
use super::{Hub, State, StreamId};
use crate::view::View;
use std::sync::Arc;

impl Hub {
    /// The newest view is `view`, and the rows between the last one told and it were not seen.
    pub fn jumped(&mut self, view: &Arc<View>) {
        if view.revision <= self.told {
            return;
        }
        let from = self.told + 1;
        let synced: Vec<(StreamId, i64)> = self
            .streams
            .iter()
            .flat_map(|(id, stream)| {
                let synced = stream
                    .watchers
                    .iter()
                    .filter(|(_, watcher)| watcher.state == State::Synced);
                synced.map(|(watch_id, _)| (*id, *watch_id))
            })
            .collect();
        self.told = view.revision;
        self.ring = Ring::new(view.revision + 1);
        for (stream, watch_id) in synced {
            let watcher = self.watcher((stream, watch_id));
            let class = watcher.expect("it was listed just now").class.clone();
            self.leave_group(&class, stream, Some(watch_id));
            self.make_cohort(class, from, vec![(stream, watch_id)]);
        }
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= view.revision
        {
            let (from, members) = entry.remove_entry();
            for member in members {
                if let Some(watcher) = self.watcher(member) {
                    let class = watcher.class.clone();
                    self.make_cohort(class, from, vec![member]);
                }
            }
        }
    }
}
