//! Why a request was not sent.

use std::{error::Error as StdError, fmt, time::Duration};

use limiter_core::Error;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// What follows if the limiter's store fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// The request is sent without a permit, so that an outage of the store is not an outage of the
    /// client. The default.
    #[default]
    Allow,
    /// The request fails with [`ThrottleError::Store`].
    Deny,
}

/// The error of [`Throttle`](crate::Throttle).
///
/// A refusal by the server is not an error. Its response is returned unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum ThrottleError {
    /// The request was not sent, because it would have to wait longer than
    /// [`within`](crate::ThrottleLayer::within).
    WaitTooLong {
        /// How long the host's pause or the next permit was away, if that is known.
        retry_after: Option<Duration>,
        /// The error that the last request to the host failed with, if no response has arrived since. It
        /// has the text of that error and of its sources, and is the [`source`](StdError::source) of
        /// this one.
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

impl fmt::Display for ThrottleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitTooLong { retry_after: Some(wait), .. } => {
                write!(
                    f,
                    "the request was not sent: its host can be asked in {wait:?}, which is longer than \
                     the layer lets it wait"
                )
            }
            Self::WaitTooLong { retry_after: None, .. } => {
                f.write_str("the request was not sent within the time that the layer lets it wait")
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

/// Returns the text of an error and of its sources.
pub(crate) fn text_of(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
