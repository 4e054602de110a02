//! One rate limit for many processes: exact, atomic, on Redis or Valkey.
//!
//! [`RedisLimiter`] applies the same policies as the limiter in memory, with every algorithm and several
//! limits at once, and has the same operations, also behind the traits
//! [`Limiter`](limiter_core::Limiter) and [`WaitingLimiter`](limiter_core::WaitingLimiter). Each
//! operation is one script call on the keys of one subject, so it is atomic. The script reads the server's
//! clock, so the clocks of the processes don't matter.
//!
//! ```no_run
//! use limiter_core::{Policy, Quota};
//! use limiter_redis::RedisLimiter;
//!
//! # async fn example() -> Result<(), limiter_core::Error> {
//! let policy = Policy::gcra("api", Quota::per_second(100));
//! let limiter = RedisLimiter::builder(policy).connect("redis://127.0.0.1:6379").await?;
//!
//! let decision = limiter.check("alice").await?;
//! println!("{} permits left", decision.remaining());
//! # Ok(())
//! # }
//! ```
//!
//! The [`guide`] has chapters on failures of the server and on Redis in production.
//!
//! [`RedisLimiter::builder`] sets the prefix of the keys, the deadline and more.
//! [`RedisLimiter::with_policy`] returns a handle on the same states under another policy, for tiers,
//! for customers' own quotas and for reloads.
//!
//! Checks by limiters on one connection that are made at the same moment are sent in one call, if there is one server.
//! Limiters share a connection by its clones, or as siblings of one. Answers can be awaited on any runtime, or none, and are
//! there by their deadline: a process with limiters has a thread for their timers, besides the thread of each connection.
//!
//! # Slow and unreachable servers
//!
//! An answer takes at most its deadline, 50 ms by default. Then it is an error, and the caller decides what follows; or
//! this process decides in memory, by its share of the quotas, with a
//! [`Fallback`](limiter_core::Fallback). After a few failures a circuit breaker opens, and requests don't wait any more: see
//! [`guide::failure`].
//!
//! A call is never sent again if it may have been executed: a lost reply is an error of the kind
//! [`Undetermined`](limiter_core::ErrorKind::Undetermined), never a second charge. [`Fault`] is the
//! table of what each failure means.
//!
//! [`RedisLimiter::counters`] counts the outcomes, and an [observer](Builder::observer) receives
//! [events](Event). Outages are logged once when they begin and once when they end, not for each
//! request.
//!
//! # Keys
//!
//! `limiter:{salice}:api` is the key of `alice` under the policy `api`: a hash with a field for each limit, such as
//! `gcra.60s` or `hourly/gcra.3600s`. Sliding logs and sub-windows are lists beside it. The braces make the subject the
//! hash tag of a cluster.
//! [Secret subjects](limiter_core::Key::secret), such as API keys, are stored as a digest keyed with
//! [`Builder::key_secret`], and are refused without one. A limit with another algorithm or span has another field, so it
//! starts fresh; limits can be added, and quotas can change, at any time.
//!
//! [`states`] shows what is stored, and what it means. A value that is not a state counts as used up, for
//! one recovery; a value of another type is an error.
//!
//! # Servers
//!
//! Redis 6.2 and later, and Valkey, on 64 bits: one server, the primary that sentinels name, or a cluster.
//! [`connect`] distinguishes them by the address. Scripts need no installation: they are sent when the
//! server does not have them. The chapter [on production](guide::production#2-set-up-the-server) has the permissions of a user.
//!
//! Limits are as durable as the server's memory. A key that the server loses, by a restart without
//! persistence, a failover before it was replicated, or eviction, is fresh. So give the server memory
//! for all keys in use, and set `maxmemory-policy noeviction`. The command `limiter-doctor` checks a
//! server, and reports what to change.
//!
//! # Features and clients
//!
//! - `fred-client`: limiters over a client or pool of the library `fred` that the program has already, by `FredClient`.
//! - `serde`: settings from a configuration file, by `RedisSettings`.
//! - `tls`: encrypted connections, by `rustls` with `ring`.
//! - `unix-sockets`: servers on the same machine, by `redis+unix://`.
//!
//! [`connect`] makes a connection. A client library that the program has already can be used through [`ScriptClient`]:
//! the example `redis-client` does that for `redis`.

#![cfg_attr(docsrs, feature(doc_cfg))]

/// For the client of an example, which tests use.
#[cfg(test)]
extern crate self as limiter_redis;

mod builder;
mod call;
mod client;
mod context;
mod counters;
mod denials;
mod events;
#[cfg(any(doc, doctest))]
pub mod guide;
mod in_flight;
mod joint;
mod keys;
mod lease;
mod leased;
mod limiter;
mod operations;
mod outage_log;
mod same_names;
#[doc(hidden)]
pub mod scripts;
#[cfg(feature = "serde")]
mod settings;
mod sync;
#[cfg(test)]
mod tests;
mod waiting;

pub use builder::Builder;
#[cfg(feature = "fred-client")]
pub use client::fred::brought::FredClient;
#[doc(hidden)]
pub use client::slot;
pub use client::{
    ScriptCall, ScriptClient, ScriptReply,
    circuit_breaker::CircuitBreaker,
    connection::{Connection, Server, connect, connect_with},
    faults::{CallError, Fault},
    options::ConnectOptions,
};
pub use counters::Counters;
pub use events::{Event, EventKind};
#[cfg(feature = "fred-client")]
pub use fred;
pub use in_flight::{RedisInFlight, builder::RedisInFlightBuilder};
#[doc(hidden)]
pub use keys::{IN_FLIGHT, LEASES};
pub use limiter::RedisLimiter;
#[cfg(feature = "tls")]
pub use rustls;
#[cfg(feature = "serde")]
pub use settings::RedisSettings;

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/states.md")]
pub mod states {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
