//! What the member has to say to an operator, in etcd's words where etcd has some.

use crate::driver::Shared;
use crate::logging::list;
use crate::metrics::METRICS;
use quorate_go::duration;
use quorate_node::api::Error;
use quorate_node::{MemberChange, Note};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn hex(id: u64) -> String {
    format!("{id:x}")
}

/// What is said of a change that was refused; nothing where another member is to be asked, or the
/// caller's error says it all.
fn refusal(change: &MemberChange, error: Error) -> Option<&'static str> {
    Some(match (change, error) {
        (MemberChange::Add(_), Error::MemberNotEnoughStarted) => {
            "rejecting member add request; not enough healthy members"
        }
        (MemberChange::Add(_), Error::Unhealthy) => {
            "rejecting member add request; local member has not been connected to majority peers, \
             reconfigure breaks active quorum"
        }
        (MemberChange::Remove(_), Error::MemberNotEnoughStarted) => {
            "rejecting member remove request; not enough healthy members"
        }
        (MemberChange::Remove(_), Error::Unhealthy) => {
            "rejecting member remove request; local member has not been connected to all peers, \
             reconfigure breaks active quorum"
        }
        (MemberChange::Promote(_), Error::MemberNotEnoughStarted) => {
            "rejecting member promote request; not enough healthy members"
        }
        (MemberChange::Promote(_), Error::LearnerNotReady) => {
            "rejecting promote learner: learner is not ready"
        }
        _ => return None,
    })
}

/// Writes a note to the log.
pub fn write(note: &Note, shared: &Shared, data_dir: &str) {
    let (cluster, member) = (hex(shared.cluster_id()), hex(shared.member_id()));
    match note {
        Note::Raft(line) => match line.level {
            quorate_node::Level::Debug => tracing::debug!("logger" = "raft", "{}", line.text),
            quorate_node::Level::Info => tracing::info!("logger" = "raft", "{}", line.text),
            quorate_node::Level::Warn => tracing::warn!("logger" = "raft", "{}", line.text),
            quorate_node::Level::Error => tracing::error!("logger" = "raft", "{}", line.text),
        },
        Note::MemberAdded {
            id,
            peer_urls,
            is_learner,
        } => tracing::info!(
            "cluster-id" = cluster,
            "local-member-id" = member,
            "added-peer-id" = hex(*id),
            "added-peer-peer-urls" = list(peer_urls),
            "added-peer-is-learner" = is_learner,
            "added member"
        ),
        Note::MemberRemoved { id } => tracing::info!(
            "cluster-id" = cluster,
            "local-member-id" = member,
            "removed-remote-peer-id" = hex(*id),
            "removed member"
        ),
        Note::ClusterVersion {
            version,
            before,
            lowered,
        } => {
            let short = |version: &str| {
                version
                    .rsplit_once('.')
                    .map_or(version, |(short, _)| short)
                    .to_owned()
            };
            let after = short(version);
            match before {
                None => tracing::info!(
                    "cluster-id" = cluster,
                    "local-member-id" = member,
                    "cluster-version" = after.as_str(),
                    "set initial cluster version"
                ),
                Some(before) => tracing::info!(
                    "cluster-id" = cluster,
                    "local-member-id" = member,
                    "from" = short(before),
                    "to" = after.as_str(),
                    "updated cluster version"
                ),
            }
            if *lowered {
                tracing::info!(
                    "prev-cluster-version" = before.as_deref().unwrap_or_default(),
                    "new-cluster-version" = version.as_str(),
                    "Cluster version downgrade detected, forcing snapshot"
                );
            }
            let short = after;
            tracing::info!(
                "cluster-version" = short.as_str(),
                "enabled capabilities for version"
            );
            tracing::info!("cluster-version" = short, "cluster version is updated");
        }
        Note::StorageVersion { version } => tracing::info!(
            "new-storage-version" = version.as_str(),
            "updated storage version"
        ),
        Note::Adopted {
            index,
            term,
            applied,
        } => {
            tracing::info!("applySnapshot: opened snapshot backend");
            tracing::info!(
                "current-applied-index" = applied,
                "incoming-leader-snapshot-index" = index,
                "incoming-leader-snapshot-term" = term,
                "applied snapshot"
            );
        }
        Note::MemberPromoted { id } => tracing::info!(
            "cluster-id" = cluster,
            "local-member-id" = member,
            "promoted-member-id" = hex(*id),
            "promote member"
        ),
        Note::MemberUpdated { id, peer_urls } => tracing::info!(
            "cluster-id" = cluster,
            "local-member-id" = member,
            "updated-remote-peer-id" = hex(*id),
            "updated-remote-peer-urls" = list(peer_urls),
            "updated member"
        ),
        Note::ChangeRefused { change, error } => {
            if let Some(refusal) = refusal(change, *error) {
                tracing::warn!(
                    "local-member-id" = member,
                    "requested-member-id" = hex(change.id()),
                    "error" = error.text(),
                    "{refusal}"
                );
            }
        }
        Note::ChangeInvalid { id, error } => tracing::error!(
            "local-member-id" = member,
            "requested-member-id" = hex(*id),
            "error" = error.text(),
            "Validation on configuration change failed"
        ),
        Note::Published => tracing::info!(
            "local-member-id" = member,
            "cluster-id" = cluster,
            "published local member to cluster through raft"
        ),
        Note::Ready => {}
        Note::Snapshot { index } => {
            tracing::info!("snapshot-index" = index, "saved snapshot to disk");
        }
        Note::Purged(paths) => {
            for path in paths {
                tracing::info!("path" = %path.display(), "purged");
            }
        }
        Note::DiskFull(what) => tracing::warn!(
            "data-dir" = data_dir,
            "error" = what.as_str(),
            "no space for the log; proposals are refused until there is"
        ),
        Note::QuotaExceeded => {
            tracing::warn!("message exceeded backend quota; raising alarm");
        }
        Note::VacuumWaits => tracing::warn!(
            "the defragmentation waits for reads that began before it, or for space on the disk"
        ),
        Note::DiskHasSpace => tracing::info!("the log has space again"),
        Note::Compacted {
            revision,
            removed,
            hash,
            took_ms,
        } => {
            let took = Duration::from_millis(*took_ms);
            METRICS.compaction_total.observe(took);
            METRICS.compaction_rows.add(*removed);
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now_s = now.map_or(0, |now| now.as_secs() as i64);
            METRICS.compaction_last_s.store(now_s, Ordering::Relaxed);
            tracing::info!(
                "compact-revision" = revision,
                "took" = %duration::format(took),
                "number-of-keys-compacted" = removed,
                "hash" = hash,
                "finished scheduled compaction"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_that_protect_the_quorum_have_etcd_s_words_and_others_none() {
        let (add, remove) = (
            MemberChange::Add(Default::default()),
            MemberChange::Remove(1),
        );
        let said = |change, error| refusal(change, error).unwrap_or_default();
        assert!(
            said(&add, Error::Unhealthy)
                .ends_with("majority peers, reconfigure breaks active quorum")
        );
        assert!(
            said(&remove, Error::Unhealthy)
                .ends_with("all peers, reconfigure breaks active quorum")
        );
        // A follower passes the request on to the leader.
        assert_eq!(refusal(&MemberChange::Promote(1), Error::NotLeader), None);
    }
}
