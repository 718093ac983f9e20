//! The members, and endpoints that follow them.

use crate::{Client, Error, Result};
use quorate_api::Method;
use quorate_api::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse,
};
use std::convert::Infallible;
use std::time::Duration;

impl Client {
    /// The members; linearizable, or as the member that answers knows them.
    pub async fn member_list(&self, linearizable: bool) -> Result<MemberListResponse> {
        let request = MemberListRequest { linearizable };
        self.call(Method::ClusterMemberList, request).await
    }

    /// Adds a member that will be reached at these peer URLs; a learner does not vote. The answer has
    /// its id, and all members.
    pub async fn member_add(
        &self,
        peer_urls: &[&str],
        is_learner: bool,
    ) -> Result<MemberAddResponse> {
        let request = MemberAddRequest {
            peer_ur_ls: owned(peer_urls),
            is_learner,
        };
        self.call(Method::ClusterMemberAdd, request).await
    }

    /// Removes a member for good: its id never comes back.
    pub async fn member_remove(&self, id: u64) -> Result<MemberRemoveResponse> {
        let request = MemberRemoveRequest { id };
        self.call(Method::ClusterMemberRemove, request).await
    }

    /// Tells all members that one is reached at these peer URLs.
    pub async fn member_update(&self, id: u64, peer_urls: &[&str]) -> Result<MemberUpdateResponse> {
        let peer_ur_ls = owned(peer_urls);
        let request = MemberUpdateRequest { id, peer_ur_ls };
        self.call(Method::ClusterMemberUpdate, request).await
    }

    /// Lets a learner vote; refused until its log has caught up with the leader's.
    pub async fn member_promote(&self, id: u64) -> Result<MemberPromoteResponse> {
        let request = MemberPromoteRequest { id };
        self.call(Method::ClusterMemberPromote, request).await
    }

    /// Takes the client URLs of all voting members that have started as the endpoints. Where one of
    /// those in use is encrypted, one that is not is an error, and changes nothing: what the members
    /// say of themselves does not send tokens and passwords in the clear.
    pub async fn sync(&self) -> Result<()> {
        let members = self.member_list(true).await?.members;
        let endpoints = endpoints(&members);
        let is_secure = |endpoint: &str| Ok(self.dialer(endpoint)?.is_secure());
        let in_use: Result<Vec<bool>> = self.endpoints().iter().map(|e| is_secure(e)).collect();
        if in_use?.contains(&true) {
            for endpoint in &endpoints {
                if !is_secure(endpoint)? {
                    return Err(Error::Endpoint {
                        endpoint: (*endpoint).to_owned(),
                        reason: "it is not encrypted, and those in use are".to_owned(),
                    });
                }
            }
        }
        self.set_endpoints(&endpoints)
    }

    /// Syncs each time `interval` has passed, for as long as it is waited for. What fails is tried
    /// again the next time.
    pub async fn keep_in_sync(&self, interval: Duration) -> Infallible {
        loop {
            tokio::time::sleep(interval).await;
            // The endpoints there are stay in use.
            let _ = self.sync().await;
        }
    }
}

fn owned(urls: &[&str]) -> Vec<String> {
    urls.iter().map(|&url| url.to_owned()).collect()
}

/// Where calls may go. A member without a name has not started.
fn endpoints(members: &[Member]) -> Vec<&str> {
    members
        .iter()
        .filter(|member| !member.name.is_empty() && !member.is_learner)
        .flat_map(|member| &member.client_ur_ls)
        .map(String::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_to_members_that_vote_and_have_started() {
        let member = |name: &str, is_learner, urls: &[&str]| Member {
            name: name.to_owned(),
            is_learner,
            client_ur_ls: urls.iter().map(|&url| url.to_owned()).collect(),
            ..Member::default()
        };
        let members = [
            member("a", false, &["http://a:1", "http://a:2"]),
            member("", false, &["http://b:1"]),
            member("c", true, &["http://c:1"]),
            member("d", false, &["https://d:1"]),
        ];
        assert_eq!(
            endpoints(&members),
            ["http://a:1", "http://a:2", "https://d:1"]
        );
    }
}
