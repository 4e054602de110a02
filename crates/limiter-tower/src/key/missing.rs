//! Why a request has no key.

use std::{borrow::Cow, error, fmt};

/// Why a rule has no key for a request, and whose fault that is. Prints as the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// The rule does not count the request: see [`MaybeKey::or_skip`](super::MaybeKey::or_skip).
    Skipped,
    /// The client has not sent what the key is made of. An ending of [`MaybeKey`](super::MaybeKey) decides what then;
    /// without one, the request is rejected with 400.
    Absent(Cow<'static, str>),
    /// The client has sent something that can't be a key. The request is rejected with 400 and this reason.
    Invalid(Cow<'static, str>),
    /// The server is not set up so that requests have this key. The request is rejected with 500. The reason says what
    /// to change; it is logged, and sent to clients only by debug builds.
    Server(Cow<'static, str>),
}

impl MissingKey {
    /// Returns the error that the client has not sent what the key is made of.
    pub fn absent(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Absent(reason.into())
    }

    /// Returns the error that the client has sent something that can't be a key.
    pub fn invalid(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(reason.into())
    }

    /// Returns the error that the server is not set up so that requests have this key.
    pub fn server(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Server(reason.into())
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped => f.write_str("the request is not counted"),
            Self::Absent(reason) | Self::Invalid(reason) | Self::Server(reason) => {
                f.write_str(reason)
            }
        }
    }
}

impl error::Error for MissingKey {}
