//! The log and the snapshot file of a member that has never run: one configuration change a member,
//! all of them committed, and a snapshot that covers them.

use crate::error::Failure;
use crate::log;
use crate::peer_urls::InitialCluster;
use bytes::Bytes;
use quorate_disk::Disk;
use quorate_store::buckets::Edits;
use quorate_store::ids::{Identity, cluster_id, member_id};
use quorate_store::legacy_tree;
use quorate_store::membership::{Member, Membership, go_json, spell_id};
use quorate_wal::types::{
    ConfChange, ConfChangeKind, ConfState, Entry, EntryKind, HardState, Snapshot, SnapshotMetadata,
};
use quorate_wal::{Options, Wal, raftpb, snap, walpb};
use std::path::Path;
use std::sync::Arc;

/// The term of all that is written.
pub const TERM: u64 = 1;

/// How a change without an id begins.
const NO_ID: &[u8] = &[1 << 3, 0];

/// The members, by id, and which of them is restored.
#[derive(Debug)]
pub struct NewCluster {
    members: Vec<Member>,
    identity: Identity,
}

impl NewCluster {
    /// The cluster of these members, with the local one's name among them.
    pub fn new(initial: &InitialCluster, token: &str, name: &str) -> Result<NewCluster, Failure> {
        let mut members: Vec<Member> = initial
            .members()
            .map(|(name, peer_urls)| Member {
                id: member_id(&peer_urls, token),
                peer_urls,
                name: name.to_owned(),
                ..Member::default()
            })
            .collect();
        members.sort_by_key(|member| member.id);
        if let Some(pair) = members.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(Failure::Reason(format!(
                "member exists with identical ID {}",
                spell_id(pair[0].id)
            )));
        }
        let ids: Vec<u64> = members.iter().map(|member| member.id).collect();
        let own = members.iter().find(|member| member.name == name);
        let own = own.expect("the initial cluster was checked for the name");
        let identity = Identity {
            member_id: own.id,
            cluster_id: cluster_id(&ids),
        };
        Ok(NewCluster { members, identity })
    }

    /// The members, by id.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Index of the last entry.
    pub fn last_index(&self) -> u64 {
        self.members.len() as u64
    }

    /// Writes log and snapshot file; they are durable afterwards, but for the directories' names.
    pub fn write(
        &self,
        disk: &Arc<dyn Disk>,
        wal_dir: &Path,
        snap_dir: &Path,
    ) -> Result<(), Failure> {
        for member in &self.members {
            log::info!(
                "added member",
                "cluster-id" => spell_id(self.identity.cluster_id),
                "local-member-id" => "0",
                "added-peer-id" => spell_id(member.id),
                "added-peer-peer-urls" => member.peer_urls,
                "added-peer-is-learner" => false,
            );
        }
        let conf_state = ConfState {
            voters: self.members.iter().map(|member| member.id).collect(),
            ..ConfState::default()
        };
        let state = HardState {
            term: TERM,
            vote: self.members[0].id,
            commit: self.last_index(),
        };
        let metadata = self.identity.encode();
        let mut wal = Wal::create(disk, wal_dir, &metadata, Options::default())?;
        wal.append(Some(&state), &self.entries())?;
        wal.sync()?;
        let mut members = Membership::default();
        for member in &self.members {
            members.put(member.clone(), &mut Edits::default());
        }
        let snapshot = Snapshot {
            data: legacy_tree::encode(&members).into(),
            metadata: SnapshotMetadata {
                conf_state: conf_state.clone(),
                index: self.last_index(),
                term: TERM,
            },
        };
        snap::save(&**disk, snap_dir, &snapshot)?;
        wal.save_snapshot_record(&walpb::Snapshot {
            index: self.last_index(),
            term: TERM,
            conf_state: Some(conf_state),
        })?;
        wal.close()?;
        Ok(())
    }

    fn entries(&self) -> Vec<Entry> {
        let entry = |(member, index): (&Member, u64)| {
            let change = ConfChange {
                kind: ConfChangeKind::AddNode,
                node_id: member.id,
                context: go_json(member).into(),
                ..ConfChange::default()
            };
            let mut data = Vec::new();
            raftpb::put_conf_change(&mut data, &change);
            // Such a change has no id, and etcdutl leaves the field out.
            let data = match data.strip_prefix(NO_ID) {
                Some(rest) => rest.to_vec(),
                None => data,
            };
            Entry {
                term: TERM,
                index,
                kind: EntryKind::ConfChange,
                data: Bytes::from(data),
            }
        };
        self.members.iter().zip(1..).map(entry).collect()
    }
}
