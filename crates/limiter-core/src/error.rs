//! What can break. A refusal is not an error, it is a [`Decision`](crate::Decision).

use alloc::{borrow::Cow, boxed::Box};
use core::{error::Error as StdError, fmt};

/// Something broke: a value that can't be served, or a store that could not answer.
///
/// The message quotes the offending value; [`Error::kind`] is what a program acts on, and
/// [`source`](StdError::source) is the underlying error where there is one.
///
/// ```
/// use limiter_core::{ErrorKind, Quota};
///
/// let error = Quota::per_second(0).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidQuota);
/// assert_eq!(error.to_string(), "a quota of 0 permits per 1s: allow at least 1");
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What an [`Error`] means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A quota that no limiter, or not this one, can hold.
    InvalidQuota,
    /// A cost of zero permits.
    InvalidCost,
    /// A policy name that a header or a store's key can't carry.
    InvalidName,
    /// Any other setting, for example a store's address.
    InvalidSetting,
    /// The store did not run the check: nothing was charged.
    Unavailable,
    /// No answer came in time: whether the check was charged can't be known.
    Undetermined,
    /// The store answered with something that this library never writes or sends: a foreign value
    /// at one of its keys, or a bug.
    Unexpected,
}

impl Error {
    /// Returns an error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns what the error means to the caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}
