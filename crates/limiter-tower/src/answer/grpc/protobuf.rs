//! An encoder for the few [protobuf] fields of an error's details.
//!
//! [protobuf]: https://protobuf.dev/programming-guides/encoding/

/// An encoded message. As proto3 does, integers of zero and empty strings are left out.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

/// The wire types, which share a byte with the field's number.
const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    /// Appends an integer that is not negative, of any width.
    pub(super) fn integer(mut self, field: u64, value: u64) -> Self {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
        self
    }

    /// Appends a string.
    pub(super) fn string(self, field: u64, text: &str) -> Self {
        if text.is_empty() { self } else { self.delimited(field, text.as_bytes()) }
    }

    /// Appends an embedded message, or one that is the value of a field of bytes.
    pub(super) fn message(self, field: u64, message: &Self) -> Self {
        self.delimited(field, &message.0)
    }

    /// Returns the encoding.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn delimited(mut self, field: u64, content: &[u8]) -> Self {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(content.len() as u64);
        self.0.extend_from_slice(content);
        self
    }

    /// Appends a variable-length integer: seven bits a byte, the lowest first. The top bit of each
    /// byte but the last is set.
    fn varint(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
        }
    }
}
