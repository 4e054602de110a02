//! Why a request has no response.

use std::{error::Error as StdError, fmt, time::Duration};

use limiter_core::Error;

use crate::redact::text_of;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The error of [`Throttle`](crate::Throttle), over an inner service with the error `E`.
///
/// A refusal by the server is not an error. Its response is returned unchanged.
///
/// `Debug` prints the inner service's error by its text, in which URIs have only their host and path, so that no
/// credentials are logged. `Display` prints its whole text.
#[non_exhaustive]
pub enum ThrottleError<E> {
    /// The request was not sent.
    NotSent(NotSent),
    /// The inner service failed, with this error.
    Inner(E),
}

/// Why a request was not sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotSent {
    /// It would have to wait longer than [`within`](crate::ThrottleLayer::within).
    WaitTooLong {
        /// How long it has waited already.
        waited: Duration,
        /// How long the host's pause or the next permit was away, if that is known.
        retry_after: Option<Duration>,
        /// The error that the last request to the host failed with, if no response has arrived since. It
        /// has the text of that error, at most 1,000 bytes, in which URIs have only their host and path, and is the
        /// [`source`](StdError::source) of this one.
        cause: Option<BoxError>,
    },
    /// The [queue](crate::ThrottleLayer::queue) of this host is full.
    QueueFull,
    /// The limiter's store failed, and the layer has [`OnStoreFailure::Deny`](crate::OnStoreFailure::Deny).
    Store(Error),
}

impl<E: Into<BoxError>> ThrottleError<E> {
    /// Returns the error in a box, for an inner service whose own error is a boxed one: that does not implement
    /// [`Error`](StdError), and neither does this one then.
    #[must_use]
    pub fn into_boxed(self) -> BoxError {
        match self {
            Self::NotSent(error) => error.into(),
            Self::Inner(error) => error.into(),
        }
    }
}

impl<E> From<NotSent> for ThrottleError<E> {
    fn from(error: NotSent) -> Self {
        Self::NotSent(error)
    }
}

impl<E: fmt::Display> fmt::Debug for ThrottleError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(error) => f.debug_tuple("NotSent").field(error).finish(),
            Self::Inner(error) => f.debug_tuple("Inner").field(&text_of(error)).finish(),
        }
    }
}

impl<E: fmt::Display> fmt::Display for ThrottleError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(error) => error.fmt(f),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: StdError + 'static> StdError for ThrottleError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::NotSent(error) => error.source(),
            Self::Inner(error) => error.source(),
        }
    }
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was not sent: ")?;
        match self {
            Self::WaitTooLong { waited, retry_after: Some(wait), .. } => write!(
                f,
                "it has waited for {waited:?}, and its host can be asked in {wait:?}, which is longer than the layer \
                 lets it wait"
            ),
            Self::WaitTooLong { waited, retry_after: None, .. } => {
                write!(f, "it has waited for {waited:?}, as long as the layer lets it")
            }
            Self::QueueFull => f.write_str("the queue of its host is full"),
            Self::Store(error) => write!(f, "the store of the rate limit failed: {error}"),
        }
    }
}

impl StdError for NotSent {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::WaitTooLong { cause, .. } => cause.as_deref().map(|cause| cause as _),
            Self::QueueFull => None,
        }
    }
}
