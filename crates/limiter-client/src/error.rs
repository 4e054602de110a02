//! Why a request was not sent.

use std::{error::Error as StdError, fmt, time::Duration};

use limiter_core::Error;

use crate::redact::text_of;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The error of [`Throttle`](crate::Throttle).
///
/// A refusal by the server is not an error. Its response is returned unchanged.
///
/// `Debug` prints errors of the inner service by their text, in which URIs have only their host and path, so that no
/// credentials are logged. `Display` prints the whole text of [`Self::Inner`].
#[non_exhaustive]
pub enum ThrottleError {
    /// The request was not sent, because it would have to wait longer than
    /// [`within`](crate::ThrottleLayer::within).
    WaitTooLong {
        /// How long it has waited already.
        waited: Duration,
        /// How long the host's pause or the next permit was away, if that is known.
        retry_after: Option<Duration>,
        /// The error that the last request to the host failed with, if no response has arrived since. It
        /// has the text of that error and of its sources, at most 1,000 bytes, in which URIs have only their
        /// host and path, and is the [`source`](StdError::source) of this one.
        cause: Option<BoxError>,
    },
    /// The request was not sent, because [as many as may wait](crate::ThrottleLayer::queue) for this
    /// host do so already.
    QueueFull,
    /// The request was not sent, because the limiter's store failed and the layer has
    /// [`OnStoreFailure::Deny`](crate::OnStoreFailure::Deny).
    Store(Error),
    /// The inner service failed, with this error.
    Inner(BoxError),
}

impl fmt::Debug for ThrottleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitTooLong { waited, retry_after, cause } => f
                .debug_struct("WaitTooLong")
                .field("waited", waited)
                .field("retry_after", retry_after)
                .field("cause", &cause.as_deref().map(|cause| text_of(cause)))
                .finish(),
            Self::QueueFull => f.write_str("QueueFull"),
            Self::Store(error) => f.debug_tuple("Store").field(error).finish(),
            Self::Inner(error) => f.debug_tuple("Inner").field(&text_of(&**error)).finish(),
        }
    }
}

impl fmt::Display for ThrottleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitTooLong { waited, retry_after: Some(wait), .. } => {
                write!(
                    f,
                    "the request was not sent: it has waited for {waited:?}, and its host can be asked in {wait:?}, \
                     which is longer than the layer lets it wait"
                )
            }
            Self::WaitTooLong { waited, retry_after: None, .. } => {
                write!(
                    f,
                    "the request was not sent: it has waited for {waited:?}, as long as the layer lets it"
                )
            }
            Self::QueueFull => {
                f.write_str("the request was not sent: the queue of its host is full")
            }
            Self::Store(error) => {
                write!(f, "the request was not sent: the store of the rate limit failed: {error}")
            }
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl StdError for ThrottleError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Inner(error) => error.source(),
            Self::WaitTooLong { cause, .. } => cause.as_deref().map(|cause| cause as _),
            Self::QueueFull => None,
        }
    }
}
