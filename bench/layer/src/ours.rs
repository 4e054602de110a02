//! The layer of limiter-tower.

use limiter_core::{MemoryLimiter, Policy, Quota};
use limiter_tower::{
    Answers, ClientIp, RateLimitLayer, Rule,
    headers::Headers,
    key::{FixedKey, MethodKey},
};

/// Returns the layer, with or without decisions in the extensions, which it leaves out by default.
#[must_use]
pub fn layer(quota: Quota, headers: bool, decisions: bool) -> RateLimitLayer {
    let limiter = MemoryLimiter::new(Policy::gcra("default", quota));
    let mut layer = RateLimitLayer::new(limiter, ClientIp::peer());
    if !headers {
        layer = layer.answers(Answers::new().headers(Headers::None));
    }
    if decisions { layer.decisions() } else { layer }
}

/// Returns a layer with three rules: by address, by method, and for all requests. The last two admit everything.
#[must_use]
pub fn three_rules(quota: Quota, headers: bool) -> RateLimitLayer {
    const MOST: Quota = Quota::per_second(5_000_000).with_burst(5_000_000);
    let limiter = |name, quota| MemoryLimiter::new(Policy::gcra(name, quota));
    let layer = RateLimitLayer::all([
        Rule::new(limiter("default", quota), ClientIp::peer()),
        Rule::new(limiter("method", MOST), MethodKey),
        Rule::new(limiter("all", MOST), FixedKey::new("all")),
    ]);
    if headers { layer } else { layer.answers(Answers::new().headers(Headers::None)) }
}
