//! Rate limiting for axum, tonic, hyper and any tower stack.
//!
//! ```
//! use axum::{Router, routing::get};
//! use limiter_tower::{ClientIp, MemoryLimiter, OnMissing, Policy, Quota, RateLimitLayer};
//!
//! let limiter = MemoryLimiter::new(Policy::gcra("default", Quota::per_minute(100)));
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject));
//! ```
//!
//! [`RateLimitLayer`] asks a limiter about each request, under a [key](KeyExtractor). It has no type
//! parameters, so a struct can hold it. The [`guide`] has a short program for each common case, and
//! shows how to test, roll out and observe limits.
//!
//! | outcome | what the client receives |
//! |---|---|
//! | admitted | the inner service's response, with `RateLimit-Policy` and `RateLimit` |
//! | refused | 429 with `Retry-After`, `RateLimit-Policy` and `RateLimit`; the inner service is not called |
//! | no key | what [`OnMissing`] says, a required argument: 400 or 500, or forwarded, or counted together |
//! | the store failed | what [`OnStoreFailure`] says: forwarded by default, else 503 |
//!
//! A gRPC client receives HTTP status 200 and a gRPC status instead: `RESOURCE_EXHAUSTED` with
//! `RetryInfo`, `QuotaFailure` and `grpc-retry-pushback-ms`; `INVALID_ARGUMENT` or `INTERNAL` without a
//! key; `UNAVAILABLE` if the store failed. A gRPC-Web client receives the same in header fields. The
//! request's `Content-Type` decides.
//!
//! # Header fields
//!
//! `Retry-After` (RFC 9110, section 10.2.3) is rounded up to whole seconds, at least one: a client that
//! returns then is admitted, unless others were faster. It is absent if the cost can never be admitted.
//!
//! The other fields are those of [draft-ietf-httpapi-ratelimit-headers-11]; [`Headers`] chooses others.
//! `RateLimit-Policy: "api";q=10;w=60;limiter-burst=5` announces 10 permits in 60 seconds, at most 5 at
//! once. In `RateLimit: "api";r=4;t=24`, 4 permits remain, and the quota recovers 4 permits in 24 seconds.
//! If `r` is below the request's cost, `t` is the wait until that cost fits. Under a window, `t` is the
//! time until its end. [`Disclosure`] hides them for a rule.
//!
//! # Where to put the layer
//!
//! From outside to inside: tracing, CORS, authentication, rate limit, time-out. A CORS layer must expose
//! [`EXPOSED_HEADERS`], and preflights are not counted if the layer [skips](RateLimitLayer::skip) them.
//!
//! The layer decides in `call`, so an idle connection that waits in `poll_ready` holds nothing. All
//! clones of a layer share one state: one layer on several routes is one limit. With nested
//! layers, a refusal by the inner layer does not refund the outer one. Rules joined by
//! [`and`](RateLimitLayer::and) are refunded.
//!
//! # Features
//!
//! - `axum` (default): the peer's address from axum's `ConnectInfo` and `MockConnectInfo`, keys and plans
//!   by matched route, and [`Refused`] as a response.
//! - `metrics`: metrics by the facade `metrics`, [listed in the guide](guide::metrics).
//! - `tokio` (default): [delays](RateLimitLayer::waiting) with a limiter in memory, and refunds to a store.
//!   Without it, refunds to Redis are not sent, only [counted](Handle::unsent_refunds).
//! - `tonic`: the peer's address from tonic's `TcpConnectInfo`.
//! - `tracing`: log lines.
//!
//! [draft-ietf-httpapi-ratelimit-headers-11]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/11/

#![cfg_attr(docsrs, feature(doc_cfg))]

mod charge;
mod check;
mod config;
mod decisions;
mod future;
pub mod guide;
mod handle;
mod head;
mod key;
mod layer;
mod observe;
mod plan;
mod request_check;
mod respond;
mod rule;
mod service;
mod wait;

pub use limiter_core;
#[doc(no_inline)]
pub use limiter_core::{
    Cost, Decision, Error, Key, Limiter, ManualClock, MemoryLimiter, Policy, Quota, WaitingLimiter,
};

#[cfg(feature = "axum")]
pub use self::key::MatchedPathKey;
pub use self::{
    charge::{Charge, Keep},
    decisions::{Decisions, PolicyDecision},
    future::ResponseFuture,
    handle::{Handle, Refused, RuleHandle},
    head::Head,
    key::{
        ClientIp, ExtensionKey, FixedKey, HeaderKey, KeyExtractor, KeyFn, MethodKey, MissingKey,
        MissingKind, Networks, Or, PathKey, PeerAddr, Secret, key_fn,
    },
    layer::RateLimitLayer,
    observe::{Event, Outcome},
    plan::{Plan, Plans},
    respond::{
        Draft, EXPOSED_HEADERS, GrpcStatus, Headers, Protocol, Reason, Refusal, Reset,
        ResponseHead, body::ResponseBody, problem_json, text,
    },
    rule::{Disclosure, Mode, OnMissing, OnStoreFailure},
    service::RateLimit,
    wait::Wait,
};

#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;
