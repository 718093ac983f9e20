//! Protobuf's wire format, as far as raft's structs need it.
//!
//! Writing follows proto2 as gogoproto did it for etcd up to 3.6 and as 3.7 reads it: scalars are
//! written even when zero, empty byte fields are left out, repeated numbers are not packed.
//! Reading takes absent scalars as zero (3.7 omits what was never set) and packed numbers too.
//! Groups do not exist in these messages and are an error.
//!
//! Source: protobuf's encoding reference.

use bytes::Bytes;
use std::ops::Range;

/// Bytes that are not the message they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} cannot be decoded at byte {at}: {fault}")]
pub struct DecodeError {
    /// Name of the message.
    pub message: &'static str,
    /// Offset in bytes within the outermost message.
    pub at: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with an encoded message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes end inside a field.
    #[error("it ends inside a field")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("a number has more than 64 bits")]
    Overlong,
    /// Field number zero or beyond 29 bits.
    #[error("an impossible field number")]
    FieldNumber,
    /// A wire type that the format does not have, or has no more.
    #[error("wire type {0} of field {1}")]
    WireType(u8, u32),
    /// A field that this version does not know, in a message where dropping it would change state.
    #[error("unknown field {0}")]
    UnknownField(u32),
    /// A value that this version does not know.
    #[error("field {0} has the unknown value {1}")]
    UnknownValue(u32, u64),
    /// Messages within messages, deeper than any that raft sends.
    #[error("nested too deeply")]
    Depth,
}

/// Bytes that `value` takes as a varint.
pub(crate) const fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends `value` as a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number field. Field numbers here are below 16: their tags take one byte.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u8, value: u64) {
    debug_assert!(0 < field && field < 16);
    out.push(field << 3);
    put_varint(out, value);
}

/// Bytes that [`put_number`] appends.
pub(crate) const fn number_len(value: u64) -> usize {
    1 + varint_len(value)
}

/// Appends the tag and length of a bytes or message field; its content follows.
pub(crate) fn put_len(out: &mut Vec<u8>, field: u8, len: usize) {
    debug_assert!(0 < field && field < 16);
    out.push(field << 3 | 2);
    put_varint(out, len as u64);
}

/// Appends a bytes field, nothing if it is empty.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        put_len(out, field, bytes.len());
        out.extend_from_slice(bytes);
    }
}

/// Bytes that a bytes or message field with this content takes.
pub(crate) const fn len_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

/// Bytes that [`put_bytes`] appends.
pub(crate) const fn bytes_len(len: usize) -> usize {
    if len == 0 { 0 } else { len_len(len) }
}

/// A field's value as it stands in the input.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(u64),
    /// Where the content of a bytes or message field lies.
    Span(Range<usize>),
    /// Fixed-width numbers, which no message here has.
    Fixed(u8),
}

/// Walks the fields of one message.
pub(crate) struct Fields<'a> {
    message: &'static str,
    input: &'a Bytes,
    at: usize,
    end: usize,
    /// Where the current field began.
    field_at: usize,
}

impl<'a> Fields<'a> {
    /// The whole input is one message.
    pub fn new(message: &'static str, input: &'a Bytes) -> Fields<'a> {
        Fields::within(message, input, 0..input.len())
    }

    /// A part of the input is one message; the range comes from [`Value::Span`].
    pub fn within(message: &'static str, input: &'a Bytes, range: Range<usize>) -> Fields<'a> {
        assert!(range.end <= input.len());
        Fields {
            message,
            input,
            at: range.start,
            end: range.end,
            field_at: range.start,
        }
    }

    /// The next field's number and value; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u32, Value)>, DecodeError> {
        if self.at == self.end {
            return Ok(None);
        }
        self.field_at = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(self.error(Fault::FieldNumber));
        }
        let number = number as u32;
        let value = match tag as u8 & 7 {
            0 => Value::Number(self.varint()?),
            1 => {
                self.skip(8)?;
                Value::Fixed(1)
            }
            2 => {
                let len = self.varint()?;
                let start = self.at;
                self.skip(len)?;
                Value::Span(start..self.at)
            }
            5 => {
                self.skip(4)?;
                Value::Fixed(5)
            }
            other => return Err(self.error(Fault::WireType(other, number))),
        };
        Ok(Some((number, value)))
    }

    /// The current field as a number.
    pub fn number(&self, field: u32, value: Value) -> Result<u64, DecodeError> {
        match value {
            Value::Number(number) => Ok(number),
            Value::Span(_) => Err(self.error(Fault::WireType(2, field))),
            Value::Fixed(wire) => Err(self.error(Fault::WireType(wire, field))),
        }
    }

    /// The current field as the place of its content.
    pub fn span(&self, field: u32, value: Value) -> Result<Range<usize>, DecodeError> {
        match value {
            Value::Span(range) => Ok(range),
            Value::Number(_) => Err(self.error(Fault::WireType(0, field))),
            Value::Fixed(wire) => Err(self.error(Fault::WireType(wire, field))),
        }
    }

    /// The current field as bytes that share the input's memory.
    pub fn bytes(&self, field: u32, value: Value) -> Result<Bytes, DecodeError> {
        Ok(self.input.slice(self.span(field, value)?))
    }

    /// Appends a repeated number, packed or not.
    pub fn numbers(
        &self,
        value: Value,
        field: u32,
        into: &mut Vec<u64>,
    ) -> Result<(), DecodeError> {
        match value {
            Value::Number(number) => into.push(number),
            Value::Span(range) => {
                let mut packed = Fields::within(self.message, self.input, range);
                while packed.at < packed.end {
                    packed.field_at = packed.at;
                    into.push(packed.varint()?);
                }
            }
            Value::Fixed(wire) => return Err(self.error(Fault::WireType(wire, field))),
        }
        Ok(())
    }

    /// An error at the current field.
    pub fn error(&self, fault: Fault) -> DecodeError {
        DecodeError {
            message: self.message,
            at: self.field_at,
            fault,
        }
    }

    fn skip(&mut self, len: u64) -> Result<(), DecodeError> {
        if len > (self.end - self.at) as u64 {
            return Err(self.error(Fault::Truncated));
        }
        self.at += len as usize;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        match read_varint(&self.input[self.at..self.end]) {
            Ok((value, len)) => {
                self.at += len;
                Ok(value)
            }
            Err(fault) => Err(self.error(fault)),
        }
    }
}

/// The varint at the start of `input`, and its length in bytes.
pub(crate) fn read_varint(input: &[u8]) -> Result<(u64, usize), Fault> {
    let mut value = 0u64;
    for (i, &byte) in input.iter().enumerate() {
        if i == 9 && byte > 1 || i > 9 {
            return Err(Fault::Overlong);
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((value, i + 1));
        }
    }
    Err(Fault::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_as_long_as_announced_and_come_back() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
                assert_eq!(read_varint(&out), Ok((value, out.len())));
                out.pop();
                assert_eq!(read_varint(&out), Err(Fault::Truncated));
            }
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        let mut long = vec![0xff; 9];
        long.push(2);
        assert_eq!(read_varint(&long), Err(Fault::Overlong));
        long[9] = 0x80;
        long.push(0);
        assert_eq!(read_varint(&long), Err(Fault::Overlong));
    }

    #[test]
    fn faults_name_the_field_and_its_place() {
        let fault = |bytes: &'static [u8]| {
            let input = Bytes::from_static(bytes);
            let mut fields = Fields::new("m", &input);
            loop {
                match fields.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(error) => return Some((error.at, error.fault)),
                }
            }
        };
        assert_eq!(fault(b"\x08\x01\x12\x01a"), None);
        assert_eq!(fault(b"\x08\x01\x12\x02a"), Some((2, Fault::Truncated)));
        assert_eq!(fault(b"\x08\x01\x13"), Some((2, Fault::WireType(3, 2))));
        assert_eq!(fault(b"\x00\x01"), Some((0, Fault::FieldNumber)));
        assert_eq!(fault(b"\x0d\x01\x01\x01"), Some((0, Fault::Truncated)));
    }
}
