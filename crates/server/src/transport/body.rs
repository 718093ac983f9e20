//! An outgoing message: bytes at hand, or a source that is asked for them as the peer takes them.
//!
//! On the wire a message is one byte of flags (always 0: nothing is compressed), four of length,
//! and its content.

use bytes::{Buf, Bytes};
use std::io::IoSlice;

/// A message to be sent.
pub enum Body {
    /// All of it.
    Whole(Bytes),
    /// Its parts, in order.
    Parts(Vec<Bytes>),
    /// Bytes that are fetched when the peer's flow control lets them leave.
    Source {
        /// Length in bytes of all that the source will give.
        len: usize,
        /// Where they come from.
        source: Box<dyn BodySource>,
    },
}

/// Gives a message piece by piece.
pub trait BodySource: Send {
    /// The next bytes, at least one and at most `budget` (which is at least one). `None` when the
    /// announced length was given; earlier it says that the source failed, and ends the call with
    /// a reset, since the peer has part of the message already.
    fn next_chunk(&mut self, budget: usize) -> Option<Bytes>;
}

impl Body {
    /// Length in bytes of the message.
    pub fn len(&self) -> usize {
        match self {
            Body::Whole(bytes) => bytes.len(),
            Body::Parts(parts) => parts.iter().map(Bytes::len).sum(),
            Body::Source { len, .. } => *len,
        }
    }

    /// Whether the message has no bytes, which is a message all the same.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it holds until it is sent.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Body::Source { .. } => size_of::<Body>(),
            held => held.len(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::Whole(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body::Whole(bytes.into())
    }
}

/// Bytes in front of a message.
pub(super) const PREFIX_BYTES: usize = 5;

/// What goes to HTTP/2 as one DATA payload: some of a message's prefix, then some of its bytes.
#[derive(Debug, Default)]
pub(super) struct Piece {
    prefix: [u8; PREFIX_BYTES],
    /// Which part of the prefix belongs to this piece.
    from: u8,
    to: u8,
    bytes: Bytes,
}

impl Piece {
    /// A whole message at once.
    pub fn whole(bytes: Bytes) -> Piece {
        Piece {
            prefix: prefix(bytes.len()),
            from: 0,
            to: PREFIX_BYTES as u8,
            bytes,
        }
    }

    /// Bytes without a prefix.
    pub fn plain(bytes: Bytes) -> Piece {
        Piece {
            bytes,
            ..Piece::default()
        }
    }
}

/// The prefix of a message of `len` bytes.
fn prefix(len: usize) -> [u8; PREFIX_BYTES] {
    let len = u32::try_from(len).expect("a message is checked against the send limit before");
    let mut prefix = [0; PREFIX_BYTES];
    prefix[1..].copy_from_slice(&len.to_be_bytes());
    prefix
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        usize::from(self.to - self.from) + self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        if self.from < self.to {
            &self.prefix[usize::from(self.from)..usize::from(self.to)]
        } else {
            &self.bytes
        }
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for part in [
            &self.prefix[usize::from(self.from)..usize::from(self.to)],
            &self.bytes,
        ] {
            if !part.is_empty() && filled < into.len() {
                into[filled] = IoSlice::new(part);
                filled += 1;
            }
        }
        filled
    }

    fn advance(&mut self, count: usize) {
        let of_prefix = count.min(usize::from(self.to - self.from));
        self.from += of_prefix as u8;
        self.bytes.advance(count - of_prefix);
    }
}

/// A message on its way out.
pub(super) struct Sending {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix that are sent.
    prefix_sent: usize,
    body: Body,
    /// Next of [`Body::Parts`].
    part: usize,
    /// Bytes of the message that are not sent.
    remaining: usize,
}

/// The source ended before its announced length, or gave what it must not.
#[derive(Debug)]
pub(super) struct SourceFailed;

impl Sending {
    pub fn new(body: Body) -> Sending {
        let remaining = body.len();
        Sending {
            prefix: prefix(remaining),
            prefix_sent: 0,
            body,
            part: 0,
            remaining,
        }
    }

    /// Bytes yet to be sent, prefix included.
    pub fn remaining(&self) -> usize {
        PREFIX_BYTES - self.prefix_sent + self.remaining
    }

    /// The next piece, of at most `budget` bytes (which is at least one).
    pub fn next(&mut self, budget: usize) -> Result<Piece, SourceFailed> {
        assert!(budget > 0 && self.remaining() > 0);
        let from = self.prefix_sent;
        self.prefix_sent = PREFIX_BYTES.min(from + budget);
        let budget = budget - (self.prefix_sent - from);
        let bytes = if budget > 0 && self.remaining > 0 {
            self.take(budget)?
        } else {
            Bytes::new()
        };
        Ok(Piece {
            prefix: self.prefix,
            from: from as u8,
            to: self.prefix_sent as u8,
            bytes,
        })
    }

    fn take(&mut self, budget: usize) -> Result<Bytes, SourceFailed> {
        let bytes = match &mut self.body {
            Body::Whole(bytes) => bytes.split_to(budget.min(bytes.len())),
            Body::Parts(parts) => {
                while parts[self.part].is_empty() {
                    self.part += 1;
                }
                let part = &mut parts[self.part];
                part.split_to(budget.min(part.len()))
            }
            Body::Source { source, .. } => source.next_chunk(budget).ok_or(SourceFailed)?,
        };
        if bytes.is_empty() || bytes.len() > budget.min(self.remaining) {
            return Err(SourceFailed);
        }
        self.remaining -= bytes.len();
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting {
        left: usize,
        most: usize,
    }

    impl BodySource for Counting {
        fn next_chunk(&mut self, budget: usize) -> Option<Bytes> {
            let len = budget.min(self.left).min(self.most);
            self.left -= len;
            (len > 0).then(|| Bytes::from(vec![7; len]))
        }
    }

    fn drain(body: Body, budget: usize) -> Result<Vec<u8>, SourceFailed> {
        let mut sending = Sending::new(body);
        let mut out = Vec::new();
        while sending.remaining() > 0 {
            let mut piece = sending.next(budget)?;
            assert!(piece.has_remaining() && piece.remaining() <= budget);
            while piece.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 4];
                let filled = piece.chunks_vectored(&mut slices);
                let vectored: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
                assert_eq!(vectored, piece.remaining());
                out.push(piece.get_u8());
            }
        }
        Ok(out)
    }

    #[test]
    fn any_budget_gives_the_same_bytes() {
        let expected = [&[0, 0, 0, 0, 20][..], &[7; 20]].concat();
        for budget in 1..30 {
            let parts = vec![
                Bytes::new(),
                vec![7; 3].into(),
                Bytes::new(),
                vec![7; 17].into(),
            ];
            assert_eq!(drain(Body::Parts(parts), budget).unwrap(), expected);
            assert_eq!(
                drain(Body::Whole(vec![7; 20].into()), budget).unwrap(),
                expected
            );
            let source = Box::new(Counting { left: 20, most: 6 });
            assert_eq!(
                drain(Body::Source { len: 20, source }, budget).unwrap(),
                expected
            );
            assert_eq!(drain(Body::Whole(Bytes::new()), budget).unwrap(), [0; 5]);
        }
        assert_eq!(Piece::whole(vec![7; 20].into()).copy_to_bytes(25), expected);
    }

    #[test]
    fn a_source_that_gives_too_little_or_too_much_fails() {
        let short = Box::new(Counting { left: 19, most: 6 });
        assert!(
            drain(
                Body::Source {
                    len: 20,
                    source: short
                },
                8
            )
            .is_err()
        );
        let long = Box::new(Counting { left: 90, most: 60 });
        assert!(
            drain(
                Body::Source {
                    len: 20,
                    source: long
                },
                64
            )
            .is_err()
        );
    }
}
