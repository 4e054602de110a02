//! What a server replies.

/// A reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A whole number.
    Integer(i64),
    /// A status, such as `OK`.
    Status(String),
    /// A text.
    Bulk(Vec<u8>),
    /// Several replies.
    Array(Vec<Self>),
    /// No value.
    Nil,
    /// Why the command failed: a word such as `WRONGTYPE`, and a sentence.
    Error(String),
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(crate) fn count(number: usize) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(crate) fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(text.as_ref().to_vec())
    }

    /// Returns a text, or `Nil` for none.
    pub(crate) fn optional(text: Option<impl AsRef<[u8]>>) -> Self {
        text.map_or(Self::Nil, Self::bulk)
    }
}

impl<T: Into<Reply>> From<Result<T, WrongType>> for Reply {
    fn from(result: Result<T, WrongType>) -> Self {
        match result {
            Ok(reply) => reply.into(),
            Err(WrongType) => {
                Self::error("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
        }
    }
}

/// A key has a value of another type than the command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongType;
