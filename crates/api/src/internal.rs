//! Decoding what an entry of the log carries, without losing what we do not know.
//!
//! Protobuf decoders drop unknown fields silently. In the log that would turn a request of a newer
//! member into a no-op here and an effect there, so the top level of InternalRaftRequest is walked
//! first, and a field that this version does not know is an error.

use crate::etcdserverpb::InternalRaftRequest;
use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

/// Why an entry's data is not a request we can apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A field of the request that this version does not know.
    UnknownField(u32),
    /// Not an encoded InternalRaftRequest.
    Malformed(String),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::UnknownField(tag) => write!(f, "unknown raft request field {tag}"),
            DecodeError::Malformed(why) => write!(f, "malformed raft request: {why}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Fields 2 (etcd's v2 requests, gone since 3.6) and beyond the table are unknown.
fn is_known(tag: u32) -> bool {
    matches!(tag, 1 | 3..=11 | 100 | 1000 | 1011..=1013 | 1100..=1107 | 1200..=1204 | 1300..=1302 | 9900)
}

/// Decodes an entry's data; every top-level field must be known.
pub fn decode(data: &Bytes) -> Result<InternalRaftRequest, DecodeError> {
    let malformed = |e: prost::DecodeError| DecodeError::Malformed(e.to_string());
    let mut rest = &data[..];
    while rest.has_remaining() {
        let (tag, wire) = decode_key(&mut rest).map_err(malformed)?;
        if !is_known(tag) {
            return Err(DecodeError::UnknownField(tag));
        }
        let skip = match wire {
            WireType::Varint => {
                decode_varint(&mut rest).map_err(malformed)?;
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => decode_varint(&mut rest).map_err(malformed)?,
            WireType::StartGroup | WireType::EndGroup => {
                return Err(DecodeError::Malformed(format!("group in field {tag}")));
            }
        };
        if skip > rest.remaining() as u64 {
            return Err(DecodeError::Malformed(format!("field {tag} is cut short")));
        }
        rest.advance(skip as usize);
    }
    InternalRaftRequest::decode(data.clone()).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcdserverpb::PutRequest;

    #[test]
    fn a_known_request_comes_back() {
        let request = InternalRaftRequest {
            id: 7,
            put: Some(PutRequest {
                key: "k".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(decode(&request.encode_to_vec().into()).unwrap(), request);
    }

    #[test]
    fn a_field_of_the_future_is_an_error() {
        let mut data = InternalRaftRequest {
            id: 7,
            ..Default::default()
        }
        .encode_to_vec();
        prost::encoding::bytes::encode(12, &b"x".to_vec(), &mut data);
        assert_eq!(decode(&data.into()), Err(DecodeError::UnknownField(12)));
    }

    #[test]
    fn every_cut_is_an_error_or_a_shorter_request() {
        let data: Bytes = InternalRaftRequest {
            id: 7,
            put: Some(PutRequest {
                key: "key".into(),
                value: "value".into(),
                ..Default::default()
            }),
            ..Default::default()
        }
        .encode_to_vec()
        .into();
        assert!(decode(&data.slice(..data.len() - 1)).is_err());
        for end in 0..data.len() {
            let _ = decode(&data.slice(..end));
        }
    }
}
