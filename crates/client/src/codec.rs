//! Messages to bytes and back, for tonic's framing.
//!
//! A request is encoded before it is handed over, so that one that is sent again is not encoded
//! again.

use bytes::{BufMut, Bytes};
use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Takes encoded requests, decodes `A`.
pub(crate) struct Answers<A>(PhantomData<fn() -> A>);

impl<A> Answers<A> {
    pub(crate) fn new() -> Answers<A> {
        Answers(PhantomData)
    }
}

impl<A: Message + Default + 'static> Codec for Answers<A> {
    type Encode = Bytes;
    type Decode = A;
    type Encoder = Encoded;
    type Decoder = Decode<A>;

    fn encoder(&mut self) -> Encoded {
        Encoded
    }

    fn decoder(&mut self) -> Decode<A> {
        Decode(PhantomData)
    }
}

pub(crate) struct Encoded;

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

pub(crate) struct Decode<A>(PhantomData<fn() -> A>);

impl<A: Message + Default> Decoder for Decode<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        A::decode(buffer)
            .map(Some)
            .map_err(|error| Status::internal(format!("cannot decode the answer: {error}")))
    }
}
