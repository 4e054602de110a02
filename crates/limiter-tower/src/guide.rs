//! How to use the layer.
//!
//! - [`start`]: one program with users, addresses behind a proxy, routes and metrics. Begin here.
//! - [`programs`]: API keys, tiers, delays and tonic, each in a few lines.
//! - [`recipes`]: logins and lockouts, language models, tenants, WebSockets, GraphQL, queues.
//! - [`keys`]: who is counted, and what follows without a key.
//! - [`several`]: several limits for a request, and the order of the decision.
//! - [`in_flight`]: how many requests are in flight at once: streams, upgrades, work after the response.
//! - [`refusals`]: what clients receive: bodies, header fields, gRPC.
//! - [`operation`]: shadows, samples, live changes, exemptions, failures of the store, blocks.
//! - [`metrics`]: names, labels and an alert.
//! - [`testing`]: limits under a manual clock.
//! - [`migration`]: from other crates and scripts; other quotas or algorithms in production.
//!
//! These are chapters of a larger guide. Its table of contents is `docs/guide.md` in the repository. The
//! other chapters are in [`limiter_core::guide`] and `limiter_redis::guide`.

/// Pages from files, with the items that they link to. These definitions are above, because the first one counts: the
/// files' own ones are for their readers outside of rustdoc.
macro_rules! pages {
    ($($name:ident)*) => {$(
        /// [`Admission::strike`]: crate::ask::Admission::strike
        /// [`Answers`]: crate::Answers
        /// [`behind`]: crate::ClientIp::behind
        /// [`Blocks`]: limiter_core::Blocks
        /// [`Charge`]: crate::settle::Charge
        /// [`Charge::keep`]: crate::settle::Charge::keep
        /// [`ClientIp`]: crate::ClientIp
        /// [`ClientIp::peer`]: crate::ClientIp::peer
        /// [choosing]: limiter_core::guide::choosing
        /// [`Decision`]: limiter_core::Decision
        /// [doctor]: https://docs.rs/crate/limiter-doctor/latest
        /// [`decisions`]: crate::RateLimitLayer::decisions
        /// [`Disclosure`]: crate::rule::Disclosure
        /// [`ExtensionKey`]: crate::key::ExtensionKey
        /// [`FixedKey`]: crate::key::FixedKey
        /// [`forwarded`]: crate::ClientIp::forwarded
        /// [`grpc`]: crate::Answers::grpc
        /// [`grpc_unavailable`]: crate::Answers::grpc_unavailable
        /// [`header`]: crate::ClientIp::header
        /// [`HeaderKey`]: crate::key::HeaderKey
        /// [`Headers`]: crate::headers::Headers
        /// [`HoldGuard`]: crate::in_flight::HoldGuard
        /// [`HoldGuard::lost`]: crate::in_flight::HoldGuard::lost
        /// [`hops`]: crate::ClientIp::hops
        /// [`in_flight`]: crate::guide::in_flight
        /// [in flight]: crate::guide::in_flight
        /// [`InFlight`]: limiter_core::InFlight
        /// [`InFlightLayer`]: crate::InFlightLayer
        /// [`InFlightRule`]: crate::InFlightRule
        /// [`ipv6_prefix`]: crate::ClientIp::ipv6_prefix
        /// [`key_fn`]: crate::key::key_fn
        /// [`KeyExtractor`]: crate::key::KeyExtractor
        /// [`keys`]: crate::guide::keys
        /// [`KeySource`]: crate::key::KeySource
        /// [`ManualClock`]: limiter_core::ManualClock
        /// [`MatchedPathKey`]: crate::key::MatchedPathKey
        /// [measured]: limiter_core::guide::in_flight
        /// [metrics]: crate::guide::metrics
        /// [`Mode::sample`]: crate::rule::Mode::sample
        /// [`Mode::SHADOW`]: crate::rule::Mode::SHADOW
        /// [`next_wake`]: limiter_core::ManualClock::next_wake
        /// [`observe`]: crate::RateLimitLayer::observe
        /// [`operation`]: crate::guide::operation
        /// [`Outcome::PermitLost`]: crate::observe::Outcome::PermitLost
        /// [`PermitLost`]: crate::in_flight::PermitLost
        /// [`Plan`]: crate::plan::Plan
        /// [`Plans`]: crate::plan::Plans
        /// [`Plans::by_extension`]: crate::plan::Plans::by_extension
        /// [`Plans::replace`]: crate::plan::Plans::replace
        /// [`Policy::all_of`]: crate::Policy::all_of
        /// [`problem_json`]: crate::refusal::problem_json
        /// [production]: https://docs.rs/limiter-redis/latest/limiter_redis/guide/production/
        /// [`programs`]: crate::guide::programs
        /// [`RateLimitLayer::all`]: crate::RateLimitLayer::all
        /// [`Reason`]: crate::refusal::Reason
        /// [`recipes`]: crate::guide::recipes
        /// [refusals]: crate::guide::refusals
        /// [`Refused`]: crate::refusal::Refused
        /// [`Reload`]: crate::Reload
        /// [`RequestPermit`]: crate::in_flight::RequestPermit
        /// [`RequestPermit::hold`]: crate::in_flight::RequestPermit::hold
        /// [`Rule`]: crate::Rule
        /// [`Rule::ask`]: crate::Rule::ask
        /// [`Rule::block`]: crate::Rule::block
        /// [`Rule::block_by_response`]: crate::Rule::block_by_response
        /// [`Rule::peek`]: crate::Rule::peek
        /// [`Rule::reset`]: crate::Rule::reset
        /// [`Rule::set_policy`]: crate::Rule::set_policy
        /// [`several`]: crate::guide::several
        /// [`skip`]: crate::RateLimitLayer::skip
        /// [span]: crate::Policy::identities
        /// [`start`]: crate::guide::start
        /// [`switch_off`]: crate::RateLimitLayer::switch_off
        /// [testing]: crate::guide::testing
        /// [`text`]: crate::refusal::text
        #[cfg_attr(
            any(feature = "axum", not(doctest)),
            doc = include_str!(concat!("../docs/guide/", stringify!($name), ".md"))
        )]
        pub mod $name {}
    )*};
}
pages! { start programs recipes keys several in_flight refusals operation metrics testing migration }
