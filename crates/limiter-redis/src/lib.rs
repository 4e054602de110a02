//! One rate limit for many processes: exact, atomic, on Redis or Valkey.
//!
//! [`RedisLimiter`] takes the place of the limiter in memory: the same policies, by every algorithm,
//! several limits at once and with tiers, and the same operations, by the traits
//! [`Limiter`](limiter_core::Limiter) and [`WaitingLimiter`](limiter_core::WaitingLimiter). Each
//! operation is one script on one key, so it is atomic whatever else runs; the script reads the
//! server's clock, so the clocks of the processes don't matter. Checks that are made at the same moment
//! are sent in one call, where there is one server: the more there are, the less each costs. A task
//! on the Tokio runtime that is current sends them, so that has to be driven while one waits.
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
//! # Waiting
//!
//! [`acquire`](RedisLimiter::acquire) waits for permits: the server decides the order, among all
//! processes, and who waits asks it once and sleeps until its turn.
//! [`reserve`](RedisLimiter::reserve) tells the delay instead.
//!
//! # When the server is slow or gone
//!
//! An answer is there within its deadline, 50 ms unless [`RedisLimiter::with_deadline`] says
//! otherwise. What it is then, a [`FailurePolicy`] says: the error, an admission, a refusal, or the
//! decision of a limiter in memory that has its share of the quotas. After a few failures, or when most
//! answers are slow, the server is left alone for up to 200 ms, and those who ask meanwhile don't wait
//! for it; then one call at a time tries whether it is back. So an outage costs few requests even the
//! deadline, and so does an outage from the start: [`connect`] doesn't fail for it.
//!
//! Nothing is sent twice that may have been executed once: a lost answer is an error of the kind
//! [`Undetermined`](limiter_core::ErrorKind::Undetermined), never a second charge. What the server
//! has said that it did not execute is sent once more, within the deadline.
//!
//! What happens is counted, in [`RedisLimiter::counters`], told to an
//! [observer](RedisLimiter::with_observer), and logged where it changes, not for each request.
//!
//! # Keys
//!
//! `limiter:api:salice` is the key of `alice` by the policy `api`. Each has an expiry, soon
//! after the moment at which it has recovered; for sub-windows and logs after half as long again, and
//! with permits that are promised, or receipts that are void, when these don't matter any more.
//!
//! | algorithm | value | bytes a key on Redis 7.0 |
//! |---|---|---|
//! | GCRA and the buckets | when the debt is drained, and the interval | 72 if the interval is an even number of microseconds that divides a day, else 104 |
//! | fixed window | when the window ends, and the count | 72; 104 for counts above 999 |
//! | sliding counter | the end, two counts, the window | 120 |
//! | sub-windows, exact log | a head, and dated counts | 232 up to 14 slots or entries, 10 to 14 each for more |
//! | several limits, tiers | all their states | about 100, and 20 each |
//!
//! `cargo xtask bench redis-memory` prints them. A state that is found to be no such value counts as
//! used up, and is gone after one recovery at the latest; a foreign type of value is an error. The kind
//! of a policy can't be changed under its name, since a key's state can't serve both; its quotas can.
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
//! server room for the keys in debt and `maxmemory-policy noeviction`. [`doctor`] looks at a server,
//! and says what to change.
//!
//! # Features
//!
//! `tls`: encrypted connections, by `rustls` with `ring`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod address;
mod batch;
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

pub use client::{RunError, ScriptCall, ScriptClient, ScriptName, ScriptReply};
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
