//! How to use limiters through Redis.
//!
//! - [`failure`]: what is decided while the server is slow or unreachable.
//! - [`fleet`]: how many processes share a limit: a call for each check, leases, or a share each.
//! - [`production`]: for operators: the server, deployments, outages, alerts, capacity, a runbook; clusters.
//! - [`hosting`]: managed servers, Kubernetes and autoscaling.
//! - [`states`](crate::states): what each stored value means.
//!
//! These are chapters of a larger guide. Its table of contents is `docs/guide.md` in the repository. The
//! other chapters are in [`limiter_core::guide`] and `limiter_tower::guide`.

/// [`Builder::observer`]: crate::Builder::observer
/// [`Decision::source`]: limiter_core::Decision::source
/// [`Fallback`]: limiter_core::Fallback
/// [`Fault`]: crate::Fault
/// [`OnStoreFailure`]: limiter_core::OnStoreFailure
/// [`OnStoreFailure::admits`]: limiter_core::OnStoreFailure::admits
/// [`kind`]: limiter_core::ErrorKind
/// [`CallError::of`]: crate::CallError::of
/// [`Connection::is_connected`]: crate::Connection::is_connected
/// [`Connection::ping`]: crate::Connection::ping
/// [`ConnectOptions::with_required_connection`]: crate::ConnectOptions::with_required_connection
/// [`ConnectOptions::with_silence`]: crate::ConnectOptions::with_silence
/// [`RedisInFlightBuilder::local_share`]: crate::RedisInFlightBuilder::local_share
/// [`RedisLimiter::counters`]: crate::RedisLimiter::counters
/// [`RedisLimiter::drain`]: crate::RedisLimiter::drain
/// [`ScriptClient::breaker`]: crate::ScriptClient::breaker
/// [`connect`]: crate::connect
/// [`set_processes`]: limiter_core::Fallback::set_processes
// Above, because the first definition counts: the file's own ones are for its readers outside of rustdoc.
#[doc = include_str!("../docs/guide/failure.md")]
pub mod failure {}

/// [`Builder::lease`]: crate::Builder::lease
/// [`Builder::lease_keys`]: crate::Builder::lease_keys
/// [`Counters`]: crate::Counters
/// [`RedisLimiter`]: crate::RedisLimiter
/// [`RedisLimiter::drain`]: crate::RedisLimiter::drain
/// [`RedisLimiter::lease`]: crate::RedisLimiter::lease
/// [`Source::Lease`]: limiter_core::Source::Lease
/// [guarantees]: https://docs.rs/limiter-core/latest/limiter_core/guide/laws/index.html
/// [share]: crate::guide::failure#the-local-share
// Above, because the first definition counts: the file's own ones are for its readers outside of rustdoc.
#[doc = include_str!("../docs/guide/fleet.md")]
pub mod fleet {}

/// [`ConnectOptions`]: crate::ConnectOptions
/// [`drain`]: crate::RedisLimiter::drain
/// [`hosting`]: crate::guide::hosting
/// [`is_connected`]: crate::Connection::is_connected
/// [`key_secret`]: crate::Builder::key_secret
/// [`Reload`]: https://docs.rs/limiter-tower/latest/limiter_tower/struct.Reload.html
/// [`with_required_connection`]: crate::ConnectOptions::with_required_connection
/// [addresses]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/keys/index.html#addresses
/// [alerts]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/metrics/index.html#alerts
/// [choosing]: https://docs.rs/limiter-core/latest/limiter_core/guide/choosing/index.html
/// [connections]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/several/index.html#connections-to-redis
/// [doctor]: https://docs.rs/crate/limiter-doctor/latest
/// [events]: crate::guide::failure#watch-it
/// [failure]: crate::guide::failure
/// [fleet]: crate::guide::fleet
/// [Guarantees]: https://docs.rs/limiter-core/latest/limiter_core/guide/laws/index.html
/// [hung]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/in_flight/index.html
/// [keys]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/keys/index.html
/// [limits]: crate::states#fields
/// [metrics]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/metrics/index.html
/// [names]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/several/index.html#names
/// [no-key]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/keys/index.html#a-request-without-a-key
/// [observability]: crate::guide
/// [operation]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/operation/index.html
/// [reload]: https://docs.rs/limiter-tower/latest/limiter_tower/struct.Reload.html
/// [several]: https://docs.rs/limiter-tower/latest/limiter_tower/guide/several/index.html
/// [share]: crate::guide::failure#the-local-share
/// [span]: https://docs.rs/limiter-core/latest/limiter_core/struct.Policy.html#method.identities
/// [States]: crate::states#memory
/// [subjects]: https://docs.rs/crate/limiter-doctor/latest
/// [which]: crate::guide::failure#which-one
// Above, because the first definition counts: the file's own ones are for its readers outside of rustdoc.
#[doc = include_str!("../docs/guide/production.md")]
pub mod production {}

/// [`ConnectOptions`]: crate::ConnectOptions
/// [`set_processes`]: limiter_core::Fallback::set_processes
/// [guarantees]: https://docs.rs/limiter-core/latest/limiter_core/guide/laws/index.html
/// [server]: crate::guide::production#2-set-up-the-server
/// [shutdown]: crate::guide::production#1-decide-with-the-developers
// Above, because the first definition counts: the file's own ones are for its readers outside of rustdoc.
#[doc = include_str!("../docs/guide/hosting.md")]
pub mod hosting {}
