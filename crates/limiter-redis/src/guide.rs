//! How to use limiters through Redis.
//!
//! - [`failure`]: what is decided while the server is slow or unreachable.
//! - [`fleet`]: how many processes share a limit: a call for each check, leases, or a share each.
//! - [`production`]: how to set up, size and read a server; clusters, failovers and deployments.
//! - [`states`](crate::states): what each stored value means.
//!
//! These are chapters of a larger guide. Its table of contents is `docs/guide.md` in the repository. The
//! other chapters are in [`limiter_core::guide`] and `limiter_tower::guide`.

#[doc = include_str!("../docs/guide/failure.md")]
///
/// [`Builder::observer`]: crate::Builder::observer
/// [`Decision::source`]: limiter_core::Decision::source
/// [`FailurePolicy`]: crate::FailurePolicy
/// [`Fault`]: crate::Fault
/// [`kind`]: limiter_core::ErrorKind
/// [`CallError::of`]: crate::CallError::of
/// [`Connection::is_connected`]: crate::Connection::is_connected
/// [`Connection::ping`]: crate::Connection::ping
/// [`ConnectOptions::with_required_connection`]: crate::ConnectOptions::with_required_connection
/// [`RedisLimiter::counters`]: crate::RedisLimiter::counters
/// [`RedisLimiter::drain`]: crate::RedisLimiter::drain
/// [`connect`]: crate::connect
/// [`set_processes`]: crate::RedisLimiter::set_processes
pub mod failure {}

#[doc = include_str!("../docs/guide/fleet.md")]
///
/// [`Builder::lease`]: crate::Builder::lease
/// [`Builder::lease_keys`]: crate::Builder::lease_keys
/// [`Counters`]: crate::Counters
/// [`FailurePolicy::Local`]: crate::FailurePolicy::Local
/// [`RedisLimiter`]: crate::RedisLimiter
/// [`RedisLimiter::drain`]: crate::RedisLimiter::drain
/// [`RedisLimiter::lease`]: crate::RedisLimiter::lease
/// [`Source::Lease`]: limiter_core::Source::Lease
/// [`failure`]: crate::guide::failure
pub mod fleet {}

#[doc = include_str!("../docs/guide/production.md")]
///
/// [`Builder::key_secret`]: crate::Builder::key_secret
/// [`Builder::prefix`]: crate::Builder::prefix
/// [`failure`]: crate::guide::failure
/// [`limiter_redis`]: crate#servers
/// [`states`]: crate::states
/// [`with_runtime`]: crate::ConnectOptions::with_runtime
pub mod production {}
