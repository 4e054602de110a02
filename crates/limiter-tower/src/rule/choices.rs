//! What follows when there is no key or no decision, and what clients may see.

/// What the layer does with a request whose key is absent. There is no default: `Reject` breaks clients,
/// `Allow` disables the limit, and `Shared` lets one client block others.
///
/// A key that is [invalid](crate::key::MissingKey::Invalid), or that the
/// [server](crate::key::MissingKey::Server) failed to provide, is answered as under `Reject` whatever
/// the choice: otherwise a client could skip the limit with a key that can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnMissing {
    /// The layer responds 400 or gRPC `INVALID_ARGUMENT`; or, if the fault is the server's own, 500
    /// or gRPC `INTERNAL`.
    Reject,
    /// The request is forwarded and not counted: only requests with a key are limited.
    Allow,
    /// All requests without a key share one key.
    Shared,
}

/// What follows for a request while the store can't decide.
///
/// A limiter may have a failure policy of its own, which decides first: then the layer sees a
/// decision, and no error. An error that is no failure of the store, such as a secret key without a
/// secret to hide it with, is answered 500 or gRPC `INTERNAL`, and logged once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// The request is forwarded and not counted, so that an outage of the store is not an outage of
    /// the service. The default.
    #[default]
    Allow,
    /// The layer responds 503 or gRPC `UNAVAILABLE`, so that no request is forwarded without being
    /// counted.
    Deny,
}

/// How much of a rule's decisions clients see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Disclosure {
    /// The quota and what remains of it, with each response. The default.
    #[default]
    Full,
    /// Only when to retry, with a refusal.
    RetryAfterOnly,
    /// Nothing but the refusal. For instance, the client of a login route does not learn which limit
    /// it has reached.
    None,
}
