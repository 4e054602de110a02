//! Errors of this crate and of stores.

use alloc::{borrow::Cow, boxed::Box, format, sync::Arc};
use core::{error::Error as StdError, fmt};

use crate::LimiterId;

/// An invalid value, or a failure of a store. A refusal is not an error.
///
/// Programs act on [`Error::kind`]. The message quotes the invalid value, and states what is wrong and
/// what to do.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{ErrorKind, Quota};
///
/// let error = Quota::new(0, Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidQuota);
/// assert_eq!(error.to_string(), "invalid quota \"0 per 1s\": permits must be at least 1");
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    /// In one allocation, because the results of limiters in memory have room for an error.
    cause: Option<Arc<Cause>>,
}

/// What most errors do not have.
#[derive(Clone, Debug, Default)]
struct Cause {
    source: Option<Arc<dyn StdError + Send + Sync>>,
    limiter: Option<LimiterId>,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A quota that can't be read, or that the algorithm can't serve.
    InvalidQuota,
    /// A cost of zero permits.
    InvalidCost,
    /// The name of a policy or a limit that a header field can't carry, or a duplicate name.
    InvalidName,
    /// Any other invalid setting, such as a horizon, an algorithm or a store's address.
    InvalidSetting,
    /// The store did not execute the operation: nothing was charged.
    Unavailable,
    /// The store did not reply in time: the operation may have been executed.
    Undetermined,
    /// The store holds or replied something that this library never writes: a foreign value at one
    /// of its keys, or a bug.
    Unexpected,
}

impl Error {
    /// Returns an error of `kind` with `message`.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), cause: None }
    }

    /// Returns the error about an invalid text. The fault includes the remedy.
    pub(crate) fn invalid(
        kind: ErrorKind,
        what: &str,
        text: &str,
        fault: impl fmt::Display,
    ) -> Self {
        Self::new(kind, format!("invalid {what} {:?}: {fault}", excerpt(text)))
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause_mut().source = Some(Arc::from(source.into()));
        self
    }

    /// Adds the limiter that has failed.
    pub(crate) fn of_limiter(mut self, limiter: LimiterId) -> Self {
        self.cause_mut().limiter = Some(limiter);
        self
    }

    fn cause_mut(&mut self) -> &mut Cause {
        Arc::make_mut(self.cause.get_or_insert_default())
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the store has failed, and not the operation or a setting.
    pub(crate) const fn is_of_store(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Unavailable | ErrorKind::Undetermined | ErrorKind::Unexpected
        )
    }

    /// Returns a limiter of the store that has failed, after a [`decide`](crate::decide) over several. `None` means that at
    /// most one store was called.
    #[must_use]
    pub fn limiter(&self) -> Option<LimiterId> {
        self.cause.as_ref()?.limiter
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_ref()?.source.as_deref().map(|source| source as _)
    }
}

/// Returns `text`, or the first 80 characters of a longer one, to be quoted in a message.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
