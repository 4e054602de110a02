//! Rate limiting for axum, tonic, hyper and any tower stack.
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use axum::{Router, routing::get};
//! use limiter_tower::{ClientIp, MemoryLimiter, OnMissing, Policy, Quota, RateLimitLayer};
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let limiter = MemoryLimiter::new(Policy::gcra("default", Quota::per_minute(100)));
//!     let app = Router::new()
//!         .route("/", get(|| async { "hello" }))
//!         .layer(RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject));
//!
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//!     // The connect info is the peer's address, by which requests are counted.
//!     axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
//! }
//! ```
//!
//! Many people share one IPv4 address behind carrier NAT: a limit by address needs several times the
//! quota of one user.
//!
//! [`RateLimitLayer`] asks a limiter about each request, under a [key]. It has no type parameters, so a
//! struct can hold it. The [`guide`] has a short program for each common case, and shows how to test,
//! roll out and observe limits.
//!
//! | module | for |
//! |---|---|
//! | [`key`] | what requests are counted by |
//! | [`rule`] | modes, waits, failures of the store, disclosure |
//! | [`plan`] | tiers, routes, customers |
//! | [`settle`] | charges that depend on the response |
//! | [`headers`], [`refusal`] | what clients receive |
//! | [`observe`] | what a service learns |
//! | [`handle`] | changes while requests are served |
//! | [`service`] | the types of the tower traits |
//!
//! | outcome | what the client receives |
//! |---|---|
//! | admitted | the inner service's response, with `RateLimit-Policy` and `RateLimit` |
//! | refused | 429 with `Retry-After`, `RateLimit-Policy` and `RateLimit`; the inner service is not called |
//! | no key | what [`OnMissing`] says, a required argument: 400, or forwarded, or counted together |
//! | a key that can't be read | 400, or 500 if the server failed to provide it |
//! | the store failed | what [`OnStoreFailure`](rule::OnStoreFailure) says: forwarded by default, else 503 |
//!
//! A gRPC client receives HTTP status 200 and a gRPC status instead: `RESOURCE_EXHAUSTED` with
//! `RetryInfo`, `QuotaFailure` and `grpc-retry-pushback-ms`; `INVALID_ARGUMENT` or `INTERNAL` without a
//! key; `UNAVAILABLE` if the store failed. A gRPC-Web client receives the same in header fields. A `POST`
//! with their `Content-Type` is such a request. No refusal may be stored by a cache.
//!
//! # Header fields
//!
//! `Retry-After` (RFC 9110, section 10.2.3) is rounded up to whole seconds, at least one: a client that
//! returns then is admitted, unless others were faster. It is absent if the cost can never be admitted.
//!
//! The other fields are those of [draft-ietf-httpapi-ratelimit-headers-11];
//! [`Headers`](headers::Headers) chooses others.
//! `RateLimit-Policy: "api";q=10;w=60;limiter-burst=5` announces 10 permits in 60 seconds, at most 5 at
//! once. In `RateLimit: "api";r=4;t=24`, 4 permits remain, and the quota recovers 4 permits in 24 seconds.
//! If `r` is below the request's cost, `t` is the wait until that cost fits. Under a window, `t` is the
//! time until its end. [`Disclosure`](rule::Disclosure) hides them for a rule.
//!
//! # Where to put the layer
//!
//! From outside to inside: tracing, CORS, authentication, rate limit, time-out. A CORS layer must expose
//! [these fields](headers::Headers::exposed), and preflights are not counted if the layer
//! [skips](RateLimitLayer::skip) them.
//!
//! The layer decides in `call`, so an idle connection that waits in `poll_ready` holds nothing. All
//! clones of a layer share one state: one layer on several routes is one limit. With nested
//! layers, a refusal by the inner layer does not refund the outer one. Rules joined by
//! [`and`](RateLimitLayer::and) are refunded.
//!
//! # Features
//!
//! - `axum` (default): the peer's address from axum's `ConnectInfo` and `MockConnectInfo`, keys and plans
//!   by matched route, [`Refused`](handle::Refused) as a response, and
//!   [`Decisions`](observe::Decisions) as an extractor.
//! - `metrics`: metrics by the facade `metrics`, [listed in the guide](guide::metrics).
//! - `tokio` (default): [delays](RateLimitLayer::waiting) with a limiter in memory, and refunds to a store.
//!   Without it, refunds to Redis are not sent, only [counted](handle::Handle::unsent_refunds).
//! - `tonic`: the peer's address from tonic's `TcpConnectInfo`.
//! - `tracing`: log lines.
//!
//! [draft-ietf-httpapi-ratelimit-headers-11]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/11/

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod config;
mod decisions;
mod future;
pub mod guide;
pub mod handle;
mod head;
pub mod key;
mod layer;
pub mod observe;
pub mod plan;
mod request_check;
mod respond;
pub mod rule;
pub mod service;
pub mod settle;
mod wait;

/// Which header fields report the decisions.
pub mod headers {
    pub use crate::respond::{Headers, Reset};
}

/// What clients receive in place of the inner service's response.
pub mod refusal {
    pub use crate::respond::{GrpcStatus, Protocol, Reason, Refusal, problem_json, text};
}

pub use limiter_core;
#[doc(no_inline)]
pub use limiter_core::{MemoryLimiter, Policy, Quota};

pub use self::{key::ClientIp, layer::RateLimitLayer, rule::OnMissing};

#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;
