//! What clients may see, and what responses mean.

/// How much of a rule's decisions clients see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Disclosure {
    /// The quota and what remains of it, with each response. The default.
    #[default]
    Full,
    /// Only when to retry, with a refusal.
    RetryAfterOnly,
    /// Nothing but the refusal. For instance, the client of a login route does not learn which limit it has reached.
    None,
}

/// How much of a charge is kept when a response is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// All of it.
    All,
    /// None of it: the request was free.
    None,
    /// So many permits, at most the charge. The rest is refunded.
    Only(u64),
}

/// What a response means to the block of its key: see [`Rule::block_by_response`](crate::Rule::block_by_response).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strike {
    /// It is a strike.
    Count,
    /// It means nothing.
    Ignore,
    /// It forgets the key's strikes, if the block [clears on success](limiter_core::Block::clear_on_success).
    Success,
}
