//! Ids of members and clusters.
//!
//! A member's id is the first eight bytes of the SHA-1 of its peer URLs (sorted, side by side) and
//! the cluster's token; a cluster's, of its members' ids (sorted, big-endian). So members that are
//! started with the same flags agree without talking. Source: etcd's membership package.

use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};
use sha1::{Digest, Sha1};

fn first_eight(digest: Sha1) -> u64 {
    let digest = digest.finalize();
    u64::from_be_bytes(digest[..8].try_into().expect("a SHA-1 has twenty bytes"))
}

/// The id of a member that the cluster began with.
pub fn member_id(peer_urls: &[String], token: &str) -> u64 {
    let mut urls = peer_urls.to_vec();
    urls.sort();
    let mut digest = Sha1::new();
    for url in &urls {
        digest.update(url.as_bytes());
    }
    digest.update(token.as_bytes());
    first_eight(digest)
}

/// The id of a cluster that began with these members.
pub fn cluster_id(member_ids: &[u64]) -> u64 {
    let mut ids = member_ids.to_vec();
    ids.sort_unstable();
    let mut digest = Sha1::new();
    for id in ids {
        digest.update(id.to_be_bytes());
    }
    first_eight(digest)
}

/// Whose log it is: the bytes that head each of its segments (etcdserverpb.Metadata).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The member's id.
    pub member_id: u64,
    /// Its cluster's.
    pub cluster_id: u64,
}

impl Identity {
    /// As it stands in the log.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        for (field, id) in [(1, self.member_id), (2, self.cluster_id)] {
            encode_key(field, WireType::Varint, &mut out);
            encode_varint(id, &mut out);
        }
        out
    }

    /// Reads it; `None` where the bytes are something else, or name no member.
    pub fn decode(mut bytes: &[u8]) -> Option<Identity> {
        let mut identity = Identity {
            member_id: 0,
            cluster_id: 0,
        };
        while !bytes.is_empty() {
            let (field, wire) = decode_key(&mut bytes).ok()?;
            if wire != WireType::Varint {
                return None;
            }
            let value = decode_varint(&mut bytes).ok()?;
            match field {
                1 => identity.member_id = value,
                2 => identity.cluster_id = value,
                _ => return None,
            }
        }
        (identity.member_id != 0).then_some(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_etcds() {
        let id = member_id(&["http://localhost:2380".into()], "etcd-cluster");
        assert_eq!(id, 0x8e9e05c52164694d);
        assert_eq!(cluster_id(&[id]), 0xcdf818194e3a8c32);
    }

    #[test]
    fn identities_come_back_and_others_are_none() {
        let identity = Identity {
            member_id: 0x8e9e05c52164694d,
            cluster_id: 7,
        };
        assert_eq!(Identity::decode(&identity.encode()), Some(identity));
        for bad in [
            &b""[..],
            b"\x08",
            b"\x0a\x01a",
            b"\x18\x01",
            b"\x08\x00\x10\x01",
        ] {
            assert_eq!(Identity::decode(bad), None, "{bad:?}");
        }
    }
}
