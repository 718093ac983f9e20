//! Messages to bytes and back, for tonic's framing.

use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes `Q`, decodes `A`.
pub(crate) struct Messages<Q, A>(PhantomData<fn(Q) -> A>);

impl<Q, A> Messages<Q, A> {
    pub(crate) fn new() -> Messages<Q, A> {
        Messages(PhantomData)
    }
}

impl<Q, A> Codec for Messages<Q, A>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    type Encode = Q;
    type Decode = A;
    type Encoder = Encode<Q>;
    type Decoder = Decode<A>;

    fn encoder(&mut self) -> Encode<Q> {
        Encode(PhantomData)
    }

    fn decoder(&mut self) -> Decode<A> {
        Decode(PhantomData)
    }
}

pub(crate) struct Encode<Q>(PhantomData<fn(Q)>);

impl<Q: Message> Encoder for Encode<Q> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, message: Q, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message
            .encode(buffer)
            .map_err(|error| Status::internal(format!("cannot encode the request: {error}")))
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
