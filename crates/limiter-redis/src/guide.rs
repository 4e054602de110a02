//! How to use limiters through Redis.
//!
//! - [`failure`]: what is decided while the server is slow or unreachable.
//! - [`production`]: how to set up, size and read a server; clusters, failovers and deployments.
//! - [`states`](crate::states): what each stored value means.
//!
//! These are chapters of a larger guide. Its table of contents is `docs/guide.md` in the repository. The
//! other chapters are in [`limiter_core::guide`] and `limiter_tower::guide`.

#[doc = include_str!("../docs/guide/failure.md")]
pub mod failure {}

#[doc = include_str!("../docs/guide/production.md")]
pub mod production {}
