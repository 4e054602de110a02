//! How to use the layer.
//!
//! - [`programs`]: the eight common cases, each in a few lines.
//! - [`keys`]: who is counted, and what follows without a key.
//! - [`several`]: several limits for a request.
//! - [`operation`]: shadows, samples, live changes, exemptions, failures of the store.
//! - [`metrics`]: names, labels and an alert.
//! - [`testing`]: limits under a manual clock.
//! - [`migration`]: from other crates and scripts; other quotas or algorithms in production.
//!
//! These are chapters of a larger guide. Its table of contents is `docs/guide.md` in the repository. The
//! other chapters are in [`limiter_core::guide`] and `limiter_redis::guide`.

macro_rules! pages {
    ($($name:ident)*) => {$(
        #[cfg_attr(
            any(feature = "axum", not(doctest)),
            doc = include_str!(concat!("../docs/", stringify!($name), ".md"))
        )]
        pub mod $name {}
    )*};
}
pages! { programs keys several operation metrics testing migration }
