//! Which entries are printed: the types of etcd-dump-logs.

use crate::log;
use prost::Message as _;
use quorate_api::etcdserverpb::InternalRaftRequest;
use quorate_wal::types::{Entry, EntryKind};

/// A type of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryType {
    ConfigChange,
    Normal,
    /// What is no request of the API v3.
    Request,
    InternalRaftRequest,
    Range,
    Put,
    DeleteRange,
    Txn,
    Compaction,
    LeaseGrant,
    LeaseRevoke,
    LeaseCheckpoint,
}

impl EntryType {
    fn parse(name: &str) -> Option<EntryType> {
        Some(match name {
            "ConfigChange" => EntryType::ConfigChange,
            "Normal" => EntryType::Normal,
            "Request" => EntryType::Request,
            "InternalRaftRequest" => EntryType::InternalRaftRequest,
            "IRRRange" => EntryType::Range,
            "IRRPut" => EntryType::Put,
            "IRRDeleteRange" => EntryType::DeleteRange,
            "IRRTxn" => EntryType::Txn,
            "IRRCompaction" => EntryType::Compaction,
            "IRRLeaseGrant" => EntryType::LeaseGrant,
            "IRRLeaseRevoke" => EntryType::LeaseRevoke,
            "IRRLeaseCheckpoint" => EntryType::LeaseCheckpoint,
            _ => return None,
        })
    }

    fn pass(self, entry: &Entry, request: Option<&InternalRaftRequest>) -> bool {
        let normal = entry.kind == EntryKind::Normal;
        match (self, request) {
            (EntryType::ConfigChange, _) => entry.kind.is_conf_change(),
            (EntryType::Normal, _) => normal,
            (EntryType::Request, request) => normal && request.is_none(),
            (_, None) => false,
            (EntryType::InternalRaftRequest, Some(_)) => true,
            (EntryType::Range, Some(request)) => request.range.is_some(),
            (EntryType::Put, Some(request)) => request.put.is_some(),
            (EntryType::DeleteRange, Some(request)) => request.delete_range.is_some(),
            (EntryType::Txn, Some(request)) => request.txn.is_some(),
            (EntryType::Compaction, Some(request)) => request.compaction.is_some(),
            (EntryType::LeaseGrant, Some(request)) => request.lease_grant.is_some(),
            (EntryType::LeaseRevoke, Some(request)) => request.lease_revoke.is_some(),
            (EntryType::LeaseCheckpoint, Some(request)) => request.lease_checkpoint.is_some(),
        }
    }
}

/// The types that are asked for.
#[derive(Debug)]
pub struct Filters {
    text: String,
    types: Vec<EntryType>,
}

impl Filters {
    /// Reads a list of names; what is none is warned of and left out.
    pub fn parse(text: &str) -> Filters {
        let mut types = Vec::new();
        for name in text.split(',').filter(|name| !name.is_empty()) {
            match EntryType::parse(name) {
                Some(known) => types.push(known),
                None => log::warning!("not an entry type, ignored", "entry-type" => name),
            }
        }
        Filters {
            text: text.to_owned(),
            types,
        }
    }

    /// As they were asked for.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether an entry is printed.
    pub fn pass(&self, entry: &Entry) -> bool {
        let request = match entry.kind {
            EntryKind::Normal => InternalRaftRequest::decode(&entry.data[..]).ok(),
            EntryKind::ConfChange | EntryKind::ConfChangeV2 => None,
        };
        self.types
            .iter()
            .any(|wanted| wanted.pass(entry, request.as_ref()))
    }
}
