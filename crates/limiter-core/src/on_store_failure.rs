//! What follows while a store can't decide.

/// What follows while a limiter's store can't decide: for what asks limiters, such as a layer or a client.
///
/// A limiter may have a failure policy of its own, which decides first: then its caller sees a decision, and no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// The request proceeds, so that an outage of the store is not an outage of the service. The default.
    #[default]
    Allow,
    /// The request does not proceed, so that none proceeds without being counted.
    Deny,
}
