//! The layers that are compared. Adding one is a row in [`CONTENDERS`].

use std::{net::SocketAddr, time::Duration};

use axum::extract::ConnectInfo;
use axum_governor::{extractor::PeerIp, nz};
use tower::Layer;
use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};

use crate::{
    cells::Setup,
    ours,
    send::{Inner, Subject},
};

/// A layer, or the inner service alone.
pub struct Contender {
    pub name: &'static str,
    /// Returns the inner service in the layer, or `None` if the layer has no such setting.
    pub build: fn(Setup) -> Option<Box<dyn Subject>>,
}

pub const BARE: &str = "bare service";
/// As it comes.
pub const OURS: &str = "limiter-tower";
pub const OURS_WITH_DECISIONS: &str = "limiter-tower, with decisions";
/// By address, by method, and for all requests.
pub const OURS_WITH_THREE_RULES: &str = "limiter-tower, three rules";
/// The one that ratios refer to.
pub const REFERENCE: &str = "tower_governor";

/// The bare service is the first one. tower-rate-limit-fred is not here, because its layer waits for a server.
pub const CONTENDERS: [Contender; 7] = [
    Contender { name: BARE, build: |setup| Some(Box::new(setup.inner)) },
    Contender { name: OURS, build: |setup| limiter_tower(setup, false) },
    Contender { name: OURS_WITH_DECISIONS, build: |setup| limiter_tower(setup, true) },
    Contender { name: OURS_WITH_THREE_RULES, build: three_rules },
    Contender { name: REFERENCE, build: tower_governor },
    Contender { name: "axum-governor", build: axum_governor },
    Contender { name: "rate-net", build: rate_net },
];

// Every limiter admits 10,000/s, more than a measurement sends for one address, or 1/h, which the
// requests before a measurement have used up.

fn limiter_tower(setup: Setup, decisions: bool) -> Option<Box<dyn Subject>> {
    Some(Box::new(ours::layer(quota(setup), setup.headers, decisions).layer(setup.inner)))
}

fn three_rules(setup: Setup) -> Option<Box<dyn Subject>> {
    Some(Box::new(ours::three_rules(quota(setup), setup.headers).layer(setup.inner)))
}

fn quota(setup: Setup) -> limiter_core::Quota {
    use limiter_core::Quota;
    if setup.refuses { Quota::per_hour(1) } else { Quota::per_second(10_000) }
}

fn tower_governor(setup: Setup) -> Option<Box<dyn Subject>> {
    let mut config = GovernorConfigBuilder::default();
    if setup.refuses {
        config.period(Duration::from_secs(3_600)).burst_size(1);
    } else {
        config.period(Duration::from_micros(100)).burst_size(10_000);
    }
    Some(if setup.headers {
        Box::new(GovernorLayer::new(config.use_headers().finish()?).layer(setup.inner))
    } else {
        Box::new(GovernorLayer::new(config.finish()?).layer(setup.inner))
    })
}

/// axum-governor always sends header fields.
fn axum_governor(setup: Setup) -> Option<Box<dyn Subject>> {
    use axum_governor::{GovernorConfigBuilder, GovernorLayer, Quota};
    if !setup.headers {
        return None;
    }
    let quota = if setup.refuses {
        Quota::requests_per_hour(nz!(1_u32))
    } else {
        Quota::requests_per_second(nz!(10_000_u32))
    };
    let config = GovernorConfigBuilder::default()
        .with_extractor(PeerIp::default())
        .expect_connect_info()
        .quota_default(quota)
        // Its sweep needs a tokio runtime.
        .gc_disable()
        .finish();
    let layer = GovernorLayer::new(config.ok()?);
    Some(Box::new(Layer::<Inner>::layer(&layer, setup.inner)))
}

/// rate-net sends three header fields. It sends five if its policy has a name.
fn rate_net(setup: Setup) -> Option<Box<dyn Subject>> {
    use rate_net::{
        Key, Quota, RateLimiter,
        tower::{RateLimitLayer, RequestInfo},
    };
    let quota = if setup.refuses {
        Quota::rate(1, Duration::from_secs(3_600)).ok()?
    } else {
        Quota::per_second(10_000)
    };
    // Its `PeerIp` does not read axum's `ConnectInfo`. This is what `PeerIp` does with an address.
    let peer = |request: &RequestInfo<'_>| {
        let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<SocketAddr>>()?;
        Some(Key::ip_prefix(peer.ip(), 32, 64))
    };
    let layer = RateLimitLayer::new(RateLimiter::with_quota(quota), peer)
        .with_headers_on_success(setup.headers);
    Some(Box::new(layer.layer(setup.inner)))
}
