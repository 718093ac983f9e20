//! Incoming messages, cut out of a stream's DATA payloads.
//!
//! Invariants:
//! - A message's length is checked before any memory is taken for it, and memory grows with what
//!   arrives, not with what is announced.
//! - A message that came in one payload shares that payload's memory.
//! - A compressed message is unpacked to no more than the limit.
//!
//! The codes and texts are grpc-go's, since clients of etcd have seen no others.

use super::status::{Code, Status};
use bytes::{Buf, Bytes, BytesMut};
use std::io::Read;

/// How a client may have packed its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    /// The encoding that the header `grpc-encoding` names.
    pub fn parse(name: Option<&str>) -> Result<Encoding, Status> {
        match name {
            None | Some("" | "identity") => Ok(Encoding::Identity),
            // etcd's server has this decompressor, if only because a library of its brings it.
            Some("gzip") => Ok(Encoding::Gzip),
            Some(other) => Err(Status::new(
                Code::Unimplemented,
                format!("grpc: Decompressor is not installed for grpc-encoding {other:?}"),
            )),
        }
    }
}

/// Cuts messages out of payloads.
#[derive(Debug)]
pub(super) struct Decoder {
    encoding: Encoding,
    /// Most bytes that a message may have.
    limit: usize,
    /// What came last and is not yet cut up.
    input: Bytes,
    /// The message being put together: prefix and content so far.
    partial: BytesMut,
}

const PREFIX_BYTES: usize = super::body::PREFIX_BYTES;

impl Decoder {
    pub fn new(encoding: Encoding, limit: usize) -> Decoder {
        Decoder {
            encoding,
            limit,
            input: Bytes::new(),
            partial: BytesMut::new(),
        }
    }

    /// Takes a payload. All messages of the one before must have been fetched.
    pub fn push(&mut self, payload: Bytes) {
        assert!(
            self.input.is_empty(),
            "a payload is cut up before the next one comes"
        );
        self.input = payload;
    }

    /// The next message, if it is complete.
    pub fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if self.partial.is_empty() {
            if self.input.len() >= PREFIX_BYTES {
                let (packed, len) = self.head(&self.input[..PREFIX_BYTES])?;
                if self.input.len() - PREFIX_BYTES >= len {
                    self.input.advance(PREFIX_BYTES);
                    let message = self.input.split_to(len);
                    return self.unpack(packed, message).map(Some);
                }
            }
        } else {
            if self.partial.len() < PREFIX_BYTES {
                self.fill(PREFIX_BYTES);
                if self.partial.len() < PREFIX_BYTES {
                    return Ok(None);
                }
            }
            let (packed, len) = self.head(&self.partial[..PREFIX_BYTES])?;
            self.fill(PREFIX_BYTES + len);
            if self.partial.len() < PREFIX_BYTES + len {
                return Ok(None);
            }
            let mut message = std::mem::take(&mut self.partial).freeze();
            message.advance(PREFIX_BYTES);
            return self.unpack(packed, message).map(Some);
        }
        self.partial.extend_from_slice(&self.input);
        self.input.clear();
        Ok(None)
    }

    /// Bytes of an incomplete message that are held.
    pub fn held_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Whether something of the last payload is not cut up yet.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Drops what it holds.
    pub fn forget(&mut self) {
        self.input = Bytes::new();
        self.partial = BytesMut::new();
    }

    /// Whether it stands between two messages.
    pub fn is_between(&self) -> bool {
        self.partial.is_empty() && self.input.is_empty()
    }

    /// Moves input over until the incomplete message has `len` bytes.
    fn fill(&mut self, len: usize) {
        let missing = len - self.partial.len();
        let part = self.input.split_to(missing.min(self.input.len()));
        self.partial.extend_from_slice(&part);
    }

    /// Whether a message is packed, and its length.
    fn head(&self, prefix: &[u8]) -> Result<(bool, usize), Status> {
        let len = u32::from_be_bytes(prefix[1..].try_into().expect("five bytes"));
        let len = usize::try_from(len).expect("32 bits fit");
        if len > self.limit {
            return Err(Status::new(
                Code::ResourceExhausted,
                format!(
                    "grpc: received message larger than max ({len} vs. {})",
                    self.limit
                ),
            ));
        }
        match prefix[0] {
            0 => Ok((false, len)),
            1 => Ok((true, len)),
            other => Err(Status::new(
                Code::Internal,
                format!("grpc: received unexpected payload format {other}"),
            )),
        }
    }

    fn unpack(&self, packed: bool, message: Bytes) -> Result<Bytes, Status> {
        if !packed {
            return Ok(message);
        }
        if self.encoding == Encoding::Identity {
            return Err(Status::new(
                Code::Internal,
                "grpc: compressed flag set with identity or empty encoding",
            ));
        }
        let mut plain = Vec::new();
        // One byte beyond the limit tells a message at the limit from one above it.
        let mut unpacker =
            flate2::read::MultiGzDecoder::new(&message[..]).take(self.limit as u64 + 1);
        unpacker.read_to_end(&mut plain).map_err(|error| {
            Status::new(
                Code::Internal,
                format!("grpc: failed to decompress the received message: {error}"),
            )
        })?;
        if plain.len() > self.limit {
            return Err(Status::new(
                Code::ResourceExhausted,
                format!(
                    "grpc: received message after decompression larger than max {}",
                    self.limit
                ),
            ));
        }
        Ok(plain.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn framed(flag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![flag];
        out.extend((content.len() as u32).to_be_bytes());
        out.extend(content);
        out
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(content).unwrap();
        packer.finish().unwrap()
    }

    fn decode(encoding: Encoding, input: &[u8]) -> Result<Option<Bytes>, Status> {
        let mut decoder = Decoder::new(encoding, 1000);
        decoder.push(Bytes::copy_from_slice(input));
        decoder.next()
    }

    #[test]
    fn any_cut_of_the_stream_gives_the_same_messages() {
        let messages: [&[u8]; 5] = [b"first", b"", b"the third one", &[9; 1000], b"x"];
        let stream: Vec<u8> = messages
            .iter()
            .flat_map(|message| framed(0, message))
            .collect();
        for step in 1..stream.len() {
            let mut decoder = Decoder::new(Encoding::Identity, 1000);
            let mut found = Vec::new();
            for payload in stream.chunks(step) {
                decoder.push(Bytes::copy_from_slice(payload));
                while let Some(message) = decoder.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, messages);
            assert!(decoder.is_between() && decoder.held_bytes() == 0);
        }
    }

    #[test]
    fn a_message_in_one_payload_is_not_copied() {
        let payload = Bytes::from(framed(0, b"hello"));
        let mut decoder = Decoder::new(Encoding::Identity, 1000);
        decoder.push(payload.clone());
        assert_eq!(
            decoder.next().unwrap().unwrap().as_ptr(),
            payload[5..].as_ptr()
        );
    }

    #[test]
    fn a_message_above_the_limit_is_refused_by_its_prefix() {
        let error = decode(Encoding::Identity, &[0, 0, 0, 3, 233]).unwrap_err();
        assert_eq!(error.code, Code::ResourceExhausted);
        assert_eq!(
            error.message,
            "grpc: received message larger than max (1001 vs. 1000)"
        );
        assert_eq!(decode(Encoding::Identity, &[0, 0, 0, 3, 232]), Ok(None));
    }

    #[test]
    fn gzip_is_unpacked_up_to_the_limit() {
        let packed = framed(1, &gzip(b"hello hello hello"));
        assert_eq!(
            decode(Encoding::Gzip, &packed).unwrap().unwrap(),
            "hello hello hello"
        );
        // Not every message of such a stream is packed.
        assert_eq!(
            decode(Encoding::Gzip, &framed(0, b"plain"))
                .unwrap()
                .unwrap(),
            "plain"
        );
        let bomb = decode(Encoding::Gzip, &framed(1, &gzip(&[0; 100_000]))).unwrap_err();
        assert_eq!(
            bomb.message,
            "grpc: received message after decompression larger than max 1000"
        );
        let garbage = decode(Encoding::Gzip, &framed(1, b"garbage")).unwrap_err();
        assert_eq!(garbage.code, Code::Internal);
    }

    #[test]
    fn what_is_not_understood_is_refused_in_grpc_gos_words() {
        let error = decode(Encoding::Identity, &framed(1, b"x")).unwrap_err();
        assert_eq!(
            error.message,
            "grpc: compressed flag set with identity or empty encoding"
        );
        let error = decode(Encoding::Identity, &framed(5, b"x")).unwrap_err();
        assert_eq!(error.message, "grpc: received unexpected payload format 5");
        let error = Encoding::parse(Some("foo")).unwrap_err();
        assert_eq!(
            error.message,
            "grpc: Decompressor is not installed for grpc-encoding \"foo\""
        );
        assert_eq!(error.code, Code::Unimplemented);
        assert_eq!(Encoding::parse(Some("identity")), Ok(Encoding::Identity));
    }
}
