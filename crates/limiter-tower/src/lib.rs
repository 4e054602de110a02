//! Rate limiting for axum, tonic, hyper and any tower stack.
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use axum::{Router, routing::get};
//! use limiter_tower::{ClientIp, MemoryLimiter, Policy, Quota, RateLimitLayer};
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let limiter = MemoryLimiter::new(Policy::gcra("default", Quota::per_minute(100)));
//!     let app = Router::new()
//!         .route("/", get(|| async { "hello" }))
//!         .layer(RateLimitLayer::new(limiter, ClientIp::peer()));
//!
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//!     // The connect info is the peer's address, by which requests are counted.
//!     axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
//! }
//! ```
//!
//! Many people share one IPv4 address behind carrier NAT: a limit by address needs several times the quota of one user.
//!
//! A [`Rule`] is a limiter, the [key] under which it counts requests, and what follows from its decisions. A
//! [`RateLimitLayer`] asks one or several rules about each request; a handler, a WebSocket or a queue consumer can ask a
//! rule itself. An [`InFlightLayer`] limits how many requests are in flight at once. Clones are handles: a clone of a rule
//! changes its policy and its mode while requests are served. The [`guide`] has a short program for each common case, and shows how to test, roll out and observe limits.
//!
//! | module | for |
//! |---|---|
//! | [`key`] | what requests are counted by |
//! | [`rule`] | modes, waits, failures of the store, disclosure |
//! | [`plan`] | tiers, routes, customers |
//! | [`settle`] | charges that depend on the response |
//! | [`in_flight`] | how many requests are in flight at once |
//! | [`ask`] | rules that are asked in handlers, and outside of requests |
//! | [`headers`], [`refusal`] | what clients receive |
//! | [`observe`] | events, decisions, metrics |
//! | [`service`] | the types of the tower traits |
//!
//! | outcome | what the client receives |
//! |---|---|
//! | admitted | the inner service's response, with `RateLimit-Policy` and `RateLimit` |
//! | too many in flight | 429 without `Retry-After`, or 503 by [choice](InFlightRule::unavailable) |
//! | refused | 429 with `Retry-After`, `RateLimit-Policy` and `RateLimit`; the inner service is not called |
//! | no key | what the key's [ending](key::MaybeKey) says: counted under another key, not counted, or 400 |
//! | a key that can't be read | 400, or 500 if the server failed to provide it |
//! | the store failed | what [`OnStoreFailure`](rule::OnStoreFailure) says: forwarded by default, else 503 |
//!
//! All of these are HTTP, also for gRPC clients. With [`grpc`](Answers::grpc), a gRPC client receives HTTP status
//! 200 and a gRPC status instead: `RESOURCE_EXHAUSTED` with `RetryInfo`, `QuotaFailure` and `grpc-retry-pushback-ms`;
//! `INVALID_ARGUMENT` or `INTERNAL` without a key; `UNAVAILABLE` if the store failed. A gRPC-Web client receives the same
//! in header fields. A `POST` with their `Content-Type` is such a request. No refusal may be stored by a cache.
//!
//! # Header fields
//!
//! `Retry-After` (RFC 9110, section 10.2.3) is rounded up to whole seconds, at least one, and is the longest wait of all
//! rules that refuse. A client that returns then is admitted by them, unless others were faster. It is absent if the cost
//! can never be admitted.
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
//! From outside to inside: tracing, CORS, a limit by address, authentication, limits by identity, requests in flight,
//! time-out. A CORS layer must expose [these fields](headers::Headers::exposed). It answers preflights itself, so they do
//! not reach the limit.
//!
//! A layer is always ready, and decides in `call`: so an idle connection holds nothing, and a busy inner service hides no
//! limit. Responses keep the inner service's body and error, as long as a [body](service::FromRefusal) of that type can be
//! a refusal. All clones of a layer share one state: one layer on several routes is one limit. The rules of one layer are
//! one decision: all are charged, or none. With nested layers, the outer one keeps its charge for a request that the inner
//! one refuses. The chapter [`several`](guide::several) has the order of the decision.
//!
//! # Features
//!
//! - `axum` (default): the peer's address from axum's `ConnectInfo` and `MockConnectInfo`, keys by matched route, the
//!   original path inside of `Router::nest`, [`Refused`](refusal::Refused) as a response, and
//!   [`Decisions`](observe::Decisions) as an extractor.
//! - `metrics`: metrics by the facade `metrics`, [listed in the guide](guide::metrics).
//! - `tokio` (default): [delays](Rule::waiting) with a limiter in memory, and refunds to a store.
//!   Without it, refunds to Redis are not sent, only [counted](Rule::unsent).
//! - `tonic`: the peer's address from tonic's `TcpConnectInfo`.
//! - `tracing`: log lines.
//!
//! [draft-ietf-httpapi-ratelimit-headers-11]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/11/

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
pub mod ask;
mod decisions;
mod fields;
pub mod guide;
mod head;
pub mod in_flight;
pub mod key;
pub mod observe;
pub mod plan;
mod reload;
mod request;
pub mod rule;
pub mod settle;
mod wait;

/// Which header fields report the decisions.
pub mod headers {
    pub use crate::answer::{Headers, Reset};
}

/// What clients receive in place of the inner service's response.
pub mod refusal {
    pub use crate::answer::{Reason, Refusal, Refused, problem_json, text};
}

/// The services that the layers make, their futures and bodies.
pub mod service {
    pub use crate::{
        in_flight::{body::HeldBody, gate::InFlightGate},
        request::{
            body::FromRefusal,
            future::ResponseFuture,
            rates::{AnyBody, Rates, SameBody},
            service::Limited,
        },
    };
}

pub use limiter_core;
#[doc(no_inline)]
pub use limiter_core::{Block, Cost, Error, InFlight, Key, MemoryLimiter, Policy, Quota};

pub use self::{
    answer::Answers,
    in_flight::{InFlightLayer, InFlightRule},
    key::ClientIp,
    reload::Reload,
    request::RateLimitLayer,
    rule::Rule,
};

#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;
