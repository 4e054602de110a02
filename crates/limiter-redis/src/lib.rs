//! One rate limit for many processes: exact, atomic, on Redis or Valkey.
//!
//! [`RedisLimiter`] takes the place of the limiter in memory, for policies of one limit by GCRA, a
//! token bucket or a leaky bucket, and their checks. Each check is one script call, so it is atomic
//! whatever else runs; the script reads the server's clock, so the clocks of the processes don't
//! matter.
//!
//! ```no_run
//! use limiter_core::{Cost, Policy, Quota};
//! use limiter_redis::{RedisLimiter, connect};
//!
//! # async fn example() -> Result<(), limiter_core::Error> {
//! let client = connect("redis://127.0.0.1:6379").await?;
//! let limiter = RedisLimiter::new(client, Policy::gcra("api", Quota::per_second(100)?)?)?;
//!
//! let decision = limiter.try_acquire("alice", Cost::ONE).await?;
//! println!("{} permits left", decision.remaining());
//! # Ok(())
//! # }
//! ```
//!
//! # When the server is slow or gone
//!
//! A check ends within its deadline, 50 ms unless [`RedisLimiter::with_deadline`] says otherwise,
//! with a decision or an error. Nothing is sent twice that may have been executed once: a lost
//! answer is an error of the kind [`Undetermined`](limiter_core::ErrorKind::Undetermined), never a
//! second charge. What an error means for the request is the caller's choice; `limiter-tower` asks
//! for it.
//!
//! # Servers
//!
//! Redis 6.2 and later, and Valkey. Nothing has to be installed in the server: the script is sent
//! when the server doesn't have it.
//!
//! A limit is as durable as the server's memory. A key that the server loses, in a restart without
//! persistence, a failover before it was replicated, or by eviction, starts afresh; so give the
//! server room for the keys in debt and `maxmemory-policy noeviction`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod breaker;
mod call;
mod client;
mod connection;
mod counters;
mod denials;
mod events;
mod failure;
mod fred_client;
mod keyed;
mod keys;
mod limiter;
mod operations;
mod receipts;
mod script;
mod scripts;
mod shared;
mod sync;
#[cfg(test)]
mod tests;

pub use client::{RunError, ScriptCall, ScriptClient, ScriptName};
pub use connection::{Connection, connect};
pub use counters::Counters;
pub use events::{Event, FallbackKind};
pub use failure::FailurePolicy;
pub use limiter::RedisLimiter;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
