//! What a server replies.

/// A reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A whole number.
    Integer(i64),
    /// A text or a status, such as `OK`.
    Text(Vec<u8>),
    /// Several replies.
    Array(Vec<Self>),
    /// Nothing, also for `false` of a script.
    Nil,
    /// Why the command failed.
    Error(String),
}

impl Reply {
    pub(crate) fn integers(numbers: impl IntoIterator<Item = i64>) -> Self {
        Self::Array(numbers.into_iter().map(Self::Integer).collect())
    }

    /// Returns the replies to several requests, or the reply to the only one.
    pub(crate) fn all(mut replies: Vec<Self>) -> Self {
        match replies.pop() {
            Some(only) if replies.is_empty() => only,
            last => Self::Array(replies.into_iter().chain(last).collect()),
        }
    }

    pub(crate) fn ok() -> Self {
        Self::Text(b"OK".to_vec())
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }
}
