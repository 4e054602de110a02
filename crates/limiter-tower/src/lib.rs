//! Rate limiting for axum, hyper and any tower stack: one layer, exact answers.
//!
//! ```
//! use axum::{Router, routing::get};
//! use limiter_core::{MemoryLimiter, Policy, Quota};
//! use limiter_tower::RateLimitLayer;
//!
//! # fn app() -> Result<Router, limiter_core::Error> {
//! let policy = Policy::gcra("default", Quota::per_minute(100));
//! let app = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(MemoryLimiter::new(policy)));
//! # Ok(app)
//! # }
//! # app()?;
//! # Ok::<(), limiter_core::Error>(())
//! ```
//!
//! Each request is counted under its key, by default its peer's address; see [`KeyExtractor`] for
//! others. What happens next is one of these:
//!
//! | outcome | what the client gets |
//! |---|---|
//! | admitted | the inner service's response, with `RateLimit-Policy` and `RateLimit` |
//! | refused | 429 with `Retry-After`, `RateLimit-Policy` and `RateLimit`, and no inner call |
//! | no key | what [`OnMissingKey`] says: by default, all such requests share one key |
//! | the store failed | what [`OnStoreFailure`] says: by default, as if there were no limit |
//!
//! The fields are those of draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After` is that of
//! RFC 9110, section 10.2.3, rounded up to whole seconds: a client that comes back then is admitted.
//! In `RateLimit-Policy`, `q` and `w` are the quota's permits and window; the burst has no parameter
//! of its own, so `r` in `RateLimit` starts from the burst, and `t` is how long the quota takes to
//! give out `r` permits. The [`Decision`](limiter_core::Decision) stands in the extensions of
//! the response, for layers further out, and in those of an admitted request, for handlers. Each
//! request costs one permit.
//!
//! # Where to put the layer
//!
//! From outside to inside: tracing, CORS, authentication, rate limit, time-out. The layer decides
//! in `call`, so an idle connection that waits in `poll_ready` holds nothing. All clones of a layer
//! and of the services that it made share one state, so one layer put on several routes is one
//! limit.
//!
//! Of two layers, one inside the other, the outer one has charged a request that the inner one
//! then refuses, and each may wait for its own store as long as its deadline allows.
//!
//! # The peer's address
//!
//! [`PeerAddress`] reads the address of the socket, which the server has to put into the request:
//! axum does it with the feature `axum` of this crate and
//! `app.into_make_service_with_connect_info::<SocketAddr>()`; other servers insert a
//! [`SocketAddr`](std::net::SocketAddr) into the request's extensions. Behind a proxy that is the
//! proxy's address, so use a key of your own there ([`key_fn`]). No address header is ever trusted
//! by itself.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod fields;
mod future;
mod key;
mod layer;
mod options;
mod responder;
mod service;
mod watch;

pub use body::ResponseBody;
pub use future::ResponseFuture;
pub use key::{FixedKey, HeaderKey, KeyExtractor, KeyFn, MissingKey, PeerAddress, key_fn};
pub use layer::RateLimitLayer;
pub use options::{OnMissingKey, OnStoreFailure};
pub use service::RateLimit;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
