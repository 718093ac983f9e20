//! The rows of members and endpoints that the simple form and the table share.

use super::{Answer, Health};
use quorate_client::api::etcdserverpb as pb;
use quorate_go::duration;
use quorate_go::size::human_bytes;

/// Column titles and rows.
pub struct Rows {
    /// One for each column.
    pub titles: &'static [&'static str],
    /// As many cells each as there are titles.
    pub rows: Vec<Vec<String>>,
}

/// The rows of an answer, where it has some.
pub fn of(answer: &Answer) -> Option<Rows> {
    Some(match answer {
        Answer::MemberList(list) => members(&list.members),
        Answer::EndpointHealth(list) => health(list),
        Answer::EndpointStatus(list) => status(list),
        Answer::EndpointHashKv(list) => hashes(list),
        _ => return None,
    })
}

/// The members.
pub fn members(members: &[pb::Member]) -> Rows {
    let row = |member: &pb::Member| {
        let started = match member.name.is_empty() {
            true => "unstarted",
            false => "started",
        };
        vec![
            format!("{:x}", member.id),
            started.to_owned(),
            member.name.clone(),
            member.peer_ur_ls.join(","),
            member.client_ur_ls.join(","),
            member.is_learner.to_string(),
        ]
    };
    Rows {
        titles: &[
            "ID",
            "Status",
            "Name",
            "Peer Addrs",
            "Client Addrs",
            "Is Learner",
        ],
        rows: members.iter().map(row).collect(),
    }
}

/// Who is well.
pub fn health(list: &[Health]) -> Rows {
    let row = |health: &Health| {
        vec![
            health.endpoint.clone(),
            health.healthy.to_string(),
            health.took.map(duration::format).unwrap_or_default(),
            health.error.clone(),
        ]
    };
    Rows {
        titles: &["endpoint", "health", "took", "error"],
        rows: list.iter().map(row).collect(),
    }
}

/// The state of the endpoints.
pub fn status(list: &[(String, pb::StatusResponse)]) -> Rows {
    let row = |(endpoint, status): &(String, pb::StatusResponse)| {
        let member_id = status.header.as_ref().map_or(0, |header| header.member_id);
        let downgrade = status.downgrade_info.clone().unwrap_or_default();
        vec![
            endpoint.clone(),
            format!("{member_id:x}"),
            status.version.clone(),
            status.storage_version.clone(),
            human_bytes(status.db_size.cast_unsigned()),
            human_bytes(status.db_size_in_use.cast_unsigned()),
            format!("{}%", percent_unused(status)),
            human_bytes(status.db_size_quota.cast_unsigned()),
            (status.leader == member_id).to_string(),
            status.is_learner.to_string(),
            status.raft_term.to_string(),
            status.raft_index.to_string(),
            status.raft_applied_index.to_string(),
            status.errors.join(", "),
            downgrade.target_version,
            downgrade.enabled.to_string(),
        ]
    };
    Rows {
        titles: &[
            "endpoint",
            "ID",
            "version",
            "storage version",
            "db size",
            "in use",
            "percentage not in use",
            "quota",
            "is leader",
            "is learner",
            "raft term",
            "raft index",
            "raft applied index",
            "errors",
            "downgrade target version",
            "downgrade enabled",
        ],
        rows: list.iter().map(row).collect(),
    }
}

/// The hashes of the endpoints.
pub fn hashes(list: &[(String, pb::HashKvResponse)]) -> Rows {
    let row = |(endpoint, hash): &(String, pb::HashKvResponse)| {
        vec![
            endpoint.clone(),
            hash.hash.to_string(),
            hash.hash_revision.to_string(),
        ]
    };
    Rows {
        titles: &["endpoint", "hash", "hash_revision"],
        rows: list.iter().map(row).collect(),
    }
}

/// The part of the file that is free, in whole percent; nothing of an empty file.
fn percent_unused(status: &pb::StatusResponse) -> i64 {
    status
        .db_size_in_use
        .saturating_mul(100)
        .checked_div(status.db_size)
        .map_or(0, |used| 100 - used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_has_no_free_part() {
        assert_eq!(percent_unused(&pb::StatusResponse::default()), 0);
    }
}
