//! What follows while a limiter's store can't decide.

use crate::Error;

/// What the caller of a limiter does while the limiter's store can't decide. The caller is a rule of a layer, or a client.
///
/// A limiter with a [fallback](crate::Fallback) decides in memory in its place: then its caller sees a decision, and no
/// error.
///
/// ```
/// use limiter_core::{Decision, Error, OnStoreFailure};
///
/// /// Returns whether a request proceeds.
/// fn proceeds(answer: Result<Decision, Error>, choice: OnStoreFailure) -> bool {
///     match answer {
///         Ok(decision) => decision.is_admitted(),
///         Err(error) => choice.admits(&error),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// The request proceeds, so that an outage of the store is not an outage of the service. The default.
    #[default]
    Allow,
    /// The request does not proceed, so that none proceeds without being counted.
    Deny,
}

impl OnStoreFailure {
    /// Returns whether a request proceeds after `error`. Only a failure of the store admits: after another error, such as
    /// [`InvalidSetting`](crate::ErrorKind::InvalidSetting), the limiter would never limit anything.
    #[must_use]
    pub const fn admits(self, error: &Error) -> bool {
        matches!(self, Self::Allow) && error.is_of_store()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn only_a_failure_of_the_store_admits_and_only_if_that_is_chosen() {
        for (kind, is_of_store) in [
            (ErrorKind::Unavailable, true),
            (ErrorKind::Undetermined, true),
            (ErrorKind::Unexpected, true),
            (ErrorKind::InvalidSetting, false),
        ] {
            let error = Error::new(kind, "it broke");
            assert_eq!(OnStoreFailure::Allow.admits(&error), is_of_store, "{kind:?}");
            assert!(!OnStoreFailure::Deny.admits(&error), "{kind:?}");
        }
    }
}
