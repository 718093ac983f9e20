//! Who is in the cluster, as the members' buckets tell it.
//!
//! Members are stored as JSON, in Go's spelling (field order, `omitempty`, and `<`, `>`, `&`
//! escaped), because hashes over the file and etcd's own reader depend on it. Ids are spelled in
//! hex without leading zeros. A removed id never comes back.

use crate::Error;
use crate::buckets::{BucketId, Edits};
use quorate_api as api;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// Where peers reach it.
    #[serde(rename = "peerURLs", default, deserialize_with = "null_is_empty")]
    pub peer_urls: Vec<String>,
    /// Whether it learns and does not vote.
    #[serde(
        rename = "isLearner",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_learner: bool,
    /// Its name; empty until it has published it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where clients reach it; empty until it has published them.
    #[serde(
        rename = "clientURLs",
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub client_urls: Vec<String>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// What a configuration change says of the member, as JSON in its context.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChangeContext {
    /// The member.
    #[serde(flatten)]
    pub member: Member,
    /// Whether it is a learner's promotion.
    #[serde(rename = "isPromote", default)]
    pub is_promote: bool,
}

/// A value as Go's encoding/json writes it.
pub fn go_json<T: Serialize>(value: &T) -> Vec<u8> {
    let text = serde_json::to_string(value).expect("plain data has a JSON form");
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .into_bytes()
}

/// An id in hex, as etcd spells it.
pub fn spell_id(id: u64) -> String {
    format!("{id:x}")
}

/// The members.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    members: BTreeMap<u64, Member>,
    removed: BTreeSet<u64>,
    /// Cluster version, `major.minor.patch`, once decided.
    pub cluster_version: Option<String>,
    /// The stored downgrade job, as JSON.
    pub downgrade: Option<String>,
}

impl Membership {
    /// Takes in a row of one of the buckets `members`, `members_removed`, `cluster`.
    pub fn restore(&mut self, bucket: BucketId, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let bad = |what: String| Error::corrupt(bucket.name(), key, what);
        let id = || {
            std::str::from_utf8(key)
                .ok()
                .and_then(|text| u64::from_str_radix(text, 16).ok())
                .ok_or_else(|| bad("is no member id".into()))
        };
        let text = || String::from_utf8(value.to_vec()).map_err(|e| bad(e.to_string()));
        match bucket {
            BucketId::Members => {
                let member: Member =
                    serde_json::from_slice(value).map_err(|e| bad(e.to_string()))?;
                let id = id()?;
                if member.id != id {
                    return Err(bad(format!(
                        "the member has the id {}",
                        spell_id(member.id)
                    )));
                }
                self.members.insert(id, member);
            }
            BucketId::MembersRemoved => {
                self.removed.insert(id()?);
            }
            BucketId::Cluster if key == b"clusterVersion" => self.cluster_version = Some(text()?),
            BucketId::Cluster if key == b"downgrade" => self.downgrade = Some(text()?),
            _ => {}
        }
        Ok(())
    }

    /// A member.
    pub fn get(&self, id: u64) -> Option<&Member> {
        self.members.get(&id)
    }

    /// All members, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Ids that were removed.
    pub fn removed(&self) -> impl Iterator<Item = u64> {
        self.removed.iter().copied()
    }

    /// Whether this id was a member once and is none now.
    pub fn is_removed(&self, id: u64) -> bool {
        self.removed.contains(&id)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// All members that vote, by id.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.iter().filter(|member| !member.is_learner)
    }

    /// Whether no other member is reached where this one is.
    pub fn check_urls(&self, member: &Member) -> Result<(), api::Error> {
        let mut others = self.iter().filter(|other| other.id != member.id);
        if others.any(|other| {
            other
                .peer_urls
                .iter()
                .any(|url| member.peer_urls.contains(url))
        }) {
            return Err(api::Error::PeerURLExist);
        }
        Ok(())
    }

    /// Whether a change that adds (or promotes) this member may be applied. `max_learners`: how many
    /// learners there may be, where it is added as one.
    pub fn check_add(
        &self,
        change: &ChangeContext,
        max_learners: Option<usize>,
    ) -> Result<(), api::Error> {
        let id = change.member.id;
        if self.is_removed(id) {
            return Err(api::Error::MemberNotFound);
        }
        if change.is_promote {
            return match self.get(id) {
                None => Err(api::Error::MemberNotFound),
                Some(member) if !member.is_learner => Err(api::Error::MemberNotLearner),
                Some(_) => Ok(()),
            };
        }
        if self.get(id).is_some() {
            return Err(api::Error::MemberExist);
        }
        self.check_urls(&change.member)?;
        let learners = self.iter().filter(|member| member.is_learner).count();
        if change.member.is_learner && max_learners.is_some_and(|most| learners >= most) {
            return Err(api::Error::TooManyLearners);
        }
        Ok(())
    }

    /// Whether a change of a member that is there may be applied.
    pub fn check_exists(&self, id: u64) -> Result<(), api::Error> {
        if self.is_removed(id) || self.get(id).is_none() {
            return Err(api::Error::MemberNotFound);
        }
        Ok(())
    }

    /// Adds a member or replaces what is known of it.
    pub fn put(&mut self, member: Member, edits: &mut Edits) {
        let key = spell_id(member.id);
        edits.put(BucketId::Members, key.as_bytes(), &go_json(&member));
        self.members.insert(member.id, member);
    }

    /// Removes a member for good.
    pub fn remove(&mut self, id: u64, edits: &mut Edits) {
        let key = spell_id(id);
        self.members.remove(&id);
        self.removed.insert(id);
        edits.delete(BucketId::Members, key.as_bytes());
        edits.put(BucketId::MembersRemoved, key.as_bytes(), b"removed");
    }

    /// Records what a member published of itself; ignored for one that is not there.
    pub fn set_attributes(
        &mut self,
        id: u64,
        name: &str,
        client_urls: &[String],
        edits: &mut Edits,
    ) {
        if let Some(member) = self.members.get(&id) {
            let member = Member {
                name: name.to_owned(),
                client_urls: client_urls.to_vec(),
                ..member.clone()
            };
            self.put(member, edits);
        }
    }

    /// Records the cluster version.
    pub fn set_cluster_version(&mut self, version: &str, edits: &mut Edits) {
        edits.put(BucketId::Cluster, b"clusterVersion", version.as_bytes());
        self.cluster_version = Some(version.to_owned());
    }

    /// The target of the downgrade job, where one is enabled.
    pub fn downgrade_job(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Job {
            #[serde(rename = "target-version", default)]
            target_version: String,
            #[serde(default)]
            enabled: bool,
        }
        let job: Job = serde_json::from_str(self.downgrade.as_deref()?).ok()?;
        job.enabled.then_some(job.target_version)
    }

    /// Records a downgrade job, or that there is none.
    pub fn set_downgrade(&mut self, enabled: bool, version: &str, edits: &mut Edits) {
        #[derive(Serialize)]
        struct Downgrade<'a> {
            #[serde(rename = "target-version")]
            target_version: &'a str,
            enabled: bool,
        }
        let target_version = if enabled { version } else { "" };
        let json = go_json(&Downgrade {
            target_version,
            enabled,
        });
        edits.put(BucketId::Cluster, b"downgrade", &json);
        self.downgrade = Some(String::from_utf8(json).expect("JSON is UTF-8"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_as_etcd_stores_it() {
        let member = Member {
            id: 10276657743932975437,
            peer_urls: vec!["http://localhost:2380".into()],
            name: "default".into(),
            client_urls: vec!["http://localhost:2379".into()],
            ..Default::default()
        };
        let json = r#"{"id":10276657743932975437,"peerURLs":["http://localhost:2380"],"name":"default","clientURLs":["http://localhost:2379"]}"#;
        assert_eq!(go_json(&member), json.as_bytes());
        let mut membership = Membership::default();
        membership
            .restore(BucketId::Members, b"8e9e05c52164694d", json.as_bytes())
            .unwrap();
        assert_eq!(membership.get(member.id), Some(&member));
        assert!(
            membership
                .restore(BucketId::Members, b"8e9e05c52164694e", json.as_bytes())
                .is_err()
        );
        assert!(
            membership
                .restore(BucketId::Members, b"x", json.as_bytes())
                .is_err()
        );
        assert!(
            membership
                .restore(BucketId::Members, b"8e9e05c52164694d", b"{")
                .is_err()
        );
    }

    #[test]
    fn go_escapes_what_html_would_eat() {
        assert_eq!(
            go_json(&"http://h/?a&b<c>"),
            br#""http://h/?a\u0026b\u003cc\u003e""#
        );
    }

    #[test]
    fn a_removed_member_does_not_come_back() {
        let mut edits = Edits::default();
        let mut membership = Membership::default();
        let member = |id: u64, url: &str| ChangeContext {
            member: Member {
                id,
                peer_urls: vec![url.into()],
                ..Default::default()
            },
            is_promote: false,
        };
        membership.put(member(1, "http://a").member, &mut edits);
        assert_eq!(
            membership.check_add(&member(1, "http://b"), None),
            Err(api::Error::MemberExist)
        );
        assert_eq!(
            membership.check_add(&member(2, "http://a"), None),
            Err(api::Error::PeerURLExist)
        );
        assert_eq!(membership.check_add(&member(2, "http://b"), None), Ok(()));
        membership.remove(1, &mut edits);
        assert_eq!(
            membership.check_add(&member(1, "http://a"), None),
            Err(api::Error::MemberNotFound)
        );
        assert_eq!(membership.check_exists(1), Err(api::Error::MemberNotFound));
    }
}
