//! How to use the layer.
//!
//! - [`programs`]: the eight common cases, each in a few lines.
//! - [`keys`]: who is counted, and what follows without a key.
//! - [`several`]: several limits for a request.
//! - [`refusals`]: what clients receive: bodies, header fields, gRPC.
//! - [`operation`]: shadows, samples, live changes, exemptions, failures of the store.
//! - [`metrics`]: names, labels and an alert.
//! - [`testing`]: limits under a manual clock.
//! - [`migration`]: from other crates and scripts; other quotas or algorithms in production.
//!
//! These are chapters of a larger guide. Its table of contents is `docs/guide.md` in the repository. The
//! other chapters are in [`limiter_core::guide`] and `limiter_redis::guide`.

/// Pages from files, with the items that they link to. A file can't define them itself, because what
/// shows it outside of rustdoc would show dead links.
macro_rules! pages {
    ($($name:ident)*) => {$(
        #[cfg_attr(
            any(feature = "axum", not(doctest)),
            doc = include_str!(concat!("../docs/", stringify!($name), ".md"))
        )]
        ///
        /// [`and`]: crate::RateLimitLayer::and
        /// [`behind`]: crate::ClientIp::behind
        /// [`build`]: crate::RateLimitLayer::build
        /// [`Charge`]: crate::Charge
        /// [`ClientIp`]: crate::ClientIp
        /// [`ClientIp::peer`]: crate::ClientIp::peer
        /// [`Decision`]: crate::Decision
        /// [`Disclosure`]: crate::Disclosure
        /// [`EXPOSED_HEADERS`]: crate::EXPOSED_HEADERS
        /// [`ExtensionKey`]: crate::ExtensionKey
        /// [`FixedKey`]: crate::FixedKey
        /// [`forwarded`]: crate::ClientIp::forwarded
        /// [`grpc_status`]: crate::RateLimitLayer::grpc_status
        /// [`Handle`]: crate::Handle
        /// [`Handle::switch_off`]: crate::Handle::switch_off
        /// [`header`]: crate::ClientIp::header
        /// [`HeaderKey`]: crate::HeaderKey
        /// [`Headers`]: crate::Headers
        /// [`hops`]: crate::ClientIp::hops
        /// [`ipv6_prefix`]: crate::ClientIp::ipv6_prefix
        /// [`keep`]: crate::Charge::keep
        /// [`key_fn`]: crate::key_fn
        /// [`KeyExtractor`]: crate::KeyExtractor
        /// [`ManualClock`]: crate::ManualClock
        /// [`MatchedPathKey`]: crate::MatchedPathKey
        /// [`Mode::sample`]: crate::Mode::sample
        /// [`Mode::SHADOW`]: crate::Mode::SHADOW
        /// [`next_wake`]: crate::ManualClock::next_wake
        /// [`observe`]: crate::RateLimitLayer::observe
        /// [`on_store_failure`]: crate::RateLimitLayer::on_store_failure
        /// [`OnMissing`]: crate::OnMissing
        /// [`Plan`]: crate::Plan
        /// [`Plans`]: crate::Plans
        /// [`Plans::by_extension`]: crate::Plans::by_extension
        /// [`Plans::by_method`]: crate::Plans::by_method
        /// [`Plans::replace`]: crate::Plans::replace
        /// [`Policy::several`]: crate::Policy::several
        /// [`problem_json`]: crate::problem_json
        /// [`programs`]: crate::guide::programs
        /// [`RuleHandle::check`]: crate::RuleHandle::check
        /// [`RuleHandle::set_policy`]: crate::RuleHandle::set_policy
        /// [`skip`]: crate::RateLimitLayer::skip
        /// [`text`]: crate::text
        pub mod $name {}
    )*};
}
pages! { programs keys several refusals operation metrics testing migration }
