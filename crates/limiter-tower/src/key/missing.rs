//! Why a request has no key.

use std::{borrow::Cow, error, fmt};

/// A request has no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKey {
    kind: MissingKind,
    reason: Cow<'static, str>,
}

/// Whose fault it is that a request has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingKind {
    /// The client has not sent what the key is made of.
    Absent,
    /// The client has sent something that can't be a key.
    Invalid,
    /// The server is not set up so that requests have this key.
    Server,
}

impl MissingKey {
    /// Returns the error that the client has not sent what the key is made of.
    pub fn absent(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: MissingKind::Absent, reason: reason.into() }
    }

    /// Returns the error that the client has sent something that can't be a key.
    pub fn invalid(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: MissingKind::Invalid, reason: reason.into() }
    }

    /// Returns the error that the server is not set up so that requests have this key. The reason
    /// states what to change. It is logged, and not sent to clients.
    pub fn server(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: MissingKind::Server, reason: reason.into() }
    }

    /// Returns whose fault it is.
    #[must_use]
    pub const fn kind(&self) -> MissingKind {
        self.kind
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl error::Error for MissingKey {}
