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
//! Redis 6.2 and later, and Valkey: one server, one that sentinels name, or a cluster. [`connect`]
//! tells by the address which it is, and [`connect_with`] adds what an address can't say. Nothing
//! has to be installed in the server: the script is sent when the server doesn't have it. A user
//! of the server needs `EVALSHA`, `EVAL` and what the scripts call, on the limiter's keys, and
//! `CLUSTER SLOTS` in a cluster; `SCRIPT` is not needed.
//!
//! In a cluster each key is a slot's by itself, so keys spread over the nodes. A slot can be moved
//! while it is in use: a call that a node sends on was not executed, and is sent on. A node that
//! dies or hangs is missed by its own keys until a replica is in its place.
//!
//! A limit is as durable as the server's memory. A key that the server loses, in a restart without
//! persistence, a failover before it was replicated, or by eviction, starts afresh; so give the
//! server room for the keys in debt and `maxmemory-policy noeviction`.
//!
//! # Features
//!
//! `tls`: encrypted connections, by `rustls` with `ring`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod address;
mod breaker;
mod call;
mod client;
mod cluster;
mod command;
mod connection;
mod counters;
mod denials;
mod doctor;
mod events;
mod failure;
mod fred_client;
mod keyed;
mod keys;
mod limiter;
mod log;
mod member;
mod no_reply;
mod node;
mod operations;
mod options;
mod receipts;
mod script;
mod scripts;
mod shared;
mod slots;
mod sync;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;

pub use client::{RunError, ScriptCall, ScriptClient, ScriptName};
pub use connection::{Connection, connect, connect_with};
pub use counters::Counters;
pub use doctor::{Finding, Report, Severity, doctor, doctor_under};
pub use events::{Event, FallbackKind};
pub use failure::FailurePolicy;
#[cfg(feature = "tls")]
pub use fred::rustls;
pub use limiter::RedisLimiter;
pub use options::ConnectOptions;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
