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
        /// [`Charge`]: crate::settle::Charge
        /// [`ClientIp`]: crate::ClientIp
        /// [`ClientIp::peer`]: crate::ClientIp::peer
        /// [`Decision`]: limiter_core::Decision
        /// [`Disclosure`]: crate::rule::Disclosure
        /// [`ExtensionKey`]: crate::key::ExtensionKey
        /// [`FixedKey`]: crate::key::FixedKey
        /// [`forwarded`]: crate::ClientIp::forwarded
        /// [`grpc_status`]: crate::RateLimitLayer::grpc_status
        /// [`Handle`]: crate::handle::Handle
        /// [`Handle::switch_off`]: crate::handle::Handle::switch_off
        /// [`header`]: crate::ClientIp::header
        /// [`HeaderKey`]: crate::key::HeaderKey
        /// [`Headers`]: crate::headers::Headers
        /// [`hops`]: crate::ClientIp::hops
        /// [`ipv6_prefix`]: crate::ClientIp::ipv6_prefix
        /// [`keep`]: crate::settle::Charge::keep
        /// [`key_fn`]: crate::key::key_fn
        /// [`KeyExtractor`]: crate::key::KeyExtractor
        /// [`ManualClock`]: limiter_core::ManualClock
        /// [`MatchedPathKey`]: crate::key::MatchedPathKey
        /// [`Mode::sample`]: crate::rule::Mode::sample
        /// [`Mode::SHADOW`]: crate::rule::Mode::SHADOW
        /// [`next_wake`]: limiter_core::ManualClock::next_wake
        /// [`observe`]: crate::RateLimitLayer::observe
        /// [`on_store_failure`]: crate::RateLimitLayer::on_store_failure
        /// [`OnMissing`]: crate::OnMissing
        /// [`Plan`]: crate::plan::Plan
        /// [`Plans`]: crate::plan::Plans
        /// [`Plans::by_extension`]: crate::plan::Plans::by_extension
        /// [`Plans::by_method`]: crate::plan::Plans::by_method
        /// [`Plans::replace`]: crate::plan::Plans::replace
        /// [`Policy::all_of`]: crate::Policy::all_of
        /// [`problem_json`]: crate::refusal::problem_json
        /// [`programs`]: crate::guide::programs
        /// [`RuleHandle::check`]: crate::handle::RuleHandle::check
        /// [`RuleHandle::set_policy`]: crate::handle::RuleHandle::set_policy
        /// [`skip`]: crate::RateLimitLayer::skip
        /// [`text`]: crate::refusal::text
        pub mod $name {}
    )*};
}
pages! { programs keys several refusals operation metrics testing migration }
