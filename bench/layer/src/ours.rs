//! The layer of limiter-tower.

use limiter_core::{MemoryLimiter, Policy, Quota};
use limiter_tower::{ClientIp, OnMissing, RateLimitLayer, headers::Headers};

/// Returns the layer, with or without decisions in the extensions, which it leaves out by default.
#[must_use]
pub fn layer(quota: Quota, headers: bool, decisions: bool) -> RateLimitLayer {
    let limiter = MemoryLimiter::new(Policy::gcra("default", quota));
    let mut layer = RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject);
    if !headers {
        layer = layer.headers(Headers::None);
    }
    if decisions { layer.decisions() } else { layer }
}
