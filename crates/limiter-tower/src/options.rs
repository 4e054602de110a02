//! What to do where there is no decision.

/// What to do with a request whose key can't be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnMissingKey {
    /// Count all of them together, under one key of their own: none slips past the limit.
    #[default]
    Share,
    /// Let it through, uncounted.
    Allow,
    /// Answer 400 Bad Request, or 500 Internal Server Error where the fault is the server's own.
    Reject,
}

/// What to do with a request while the store can't decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// Let it through, uncounted, so that an outage of the store is not an outage of the service.
    #[default]
    Allow,
    /// Answer 503 Service Unavailable, with a `Retry-After` of one second: no request goes
    /// uncounted.
    Deny,
}
