//! How the permits are spent that a server announces.

/// How the permits of an announced limit are spent until its reset.
///
/// A limit of at most 60 seconds, as `RateLimit-Policy` announces its window, is spent evenly in any case:
/// 10 requests a second are one in 100 ms, and not ten at the second's start. What a longer window, or one
/// of unknown length as of `X-RateLimit-*`, has left is spent as this says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Spend {
    /// As fast as the layer's own policy, until nothing remains. Then requests wait for the reset, or
    /// fail if that is too far away. No more are in flight than remain.
    ///
    /// The default, because a user of 5,000/h who sends 20 requests expects them to be sent, and not one
    /// in 720 ms; and because with 60/h, the second request would otherwise wait for a minute.
    #[default]
    Freely,
    /// At even intervals until the reset: of 5,000/h, one request in 720 ms. For a job that runs all
    /// the time, which would otherwise use an hour's permits up in its first minutes.
    Evenly,
}
