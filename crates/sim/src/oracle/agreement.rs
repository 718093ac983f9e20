//! Members that stand at the same place hold the same, and in the end all stand at the same place.

use super::{Violation, ensure};
use crate::network::Slot;
use std::collections::BTreeMap;

/// The checker's name.
pub const NAME: &str = "agreement";

/// Where a member stands, and what it holds there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Index of the last entry it has applied.
    pub applied: u64,
    /// Its newest revision.
    pub revision: i64,
    /// The newest compaction's.
    pub compact_revision: i64,
    /// HashKV at the newest revision. `None` where no key is left: then etcd's definition takes in what
    /// a compaction has yet to remove, and members that agree may differ.
    pub hash: Option<u32>,
    /// The leases.
    pub leases: Vec<i64>,
}

/// What members held, by the entry that they had applied last.
#[derive(Debug, Default)]
pub struct Agreement {
    known: BTreeMap<u64, (Slot, Standing)>,
    compared: u64,
}

impl Agreement {
    /// A member stands here.
    pub fn stands(&mut self, slot: Slot, standing: Standing) -> Result<(), Violation> {
        let (other, known) = self
            .known
            .entry(standing.applied)
            .or_insert_with(|| (slot, standing.clone()));
        ensure!(
            *known == standing,
            NAME,
            "member {slot} holds {standing:?}, and member {other} held {known:?}"
        );
        self.compared += u64::from(*other != slot);
        Ok(())
    }

    /// How often two members were compared.
    pub fn compared(&self) -> u64 {
        self.compared
    }
}
